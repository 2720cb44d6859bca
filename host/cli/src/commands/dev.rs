//! `fumehood dev`: builds, tests and serves a project whenever its files change. `fumehood test --watch` does not serve it.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use fumehood::CallResult;
use fumehood::listener::{CallSink, EndedCall};
use fumehood_author::build::has_interpreter;
use fumehood_author::{Language, Project};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::build::{self, BuildKind};
use super::serve::server::{self, Faces};
use super::test;
use super::test::TestSubject;
use crate::args::{Arguments, Dev, Http, ServeOptions};
use crate::exit::{self, Exit, UsageError};
use crate::user_folders::interpreters;
use crate::{render, signals};

/// Interval at which the files of the project are looked at. Every file system has times, and some tell of no changes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time without a change after which an edit counts as complete: editors write in several steps.
const QUIET_PERIOD: Duration = Duration::from_millis(100);
/// The folder of this command in a project whose component is not the one for users.
const OWN_FOLDER: &str = ".fumehood/dev";
/// Maximum number of ended calls that wait to be printed. More are not printed.
const MAX_WAITING_CALLS: usize = 256;
/// Time after Ctrl-C in which the server ends by itself.
const END_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) async fn run(arguments: &Arguments, dev: &Dev) -> Result<Exit> {
    let project = Project::open(&dev.project)?;
    for (option, address) in [("--listen", dev.listen), ("--dashboard", dev.dashboard)] {
        if !address.ip().is_loopback() {
            let message = format!(
                "`{option} {address}` is reachable from other machines, and clients of `dev` need no token; use a \
                 loopback address such as 127.0.0.1:8080"
            );
            return Err(UsageError(message).into());
        }
    }
    let mut stop = signals::listen_for_stop()?;
    let (sender, ended) = channel(MAX_WAITING_CALLS);
    let failure = Failure::default();
    let mut development = Development::new(arguments, project, failure.clone(), dev.full);
    development.is_served = true;
    tokio::select! {
        () = development.build_until_loadable() => {}
        () = stop.received() => return Ok(Exit::Ok),
    }
    let options = serve_options(dev, &development.component, development.form.program());
    let faces = Faces::Development { listen: dev.listen, calls: Arc::new(CallReporter(sender)) };
    let interrupted = async {
        stop.received().await;
        tokio::time::sleep(END_TIMEOUT).await;
    };
    tokio::select! {
        served = server::run(arguments, &options, faces) => served,
        never = development.follow() => match never {},
        () = print_calls(ended, failure) => Ok(Exit::Ok),
        // The server may still be loading a component, which takes no signals.
        () = interrupted => Ok(Exit::Ok),
    }
}

/// Builds a project and runs those of its cases whose names contain one of `names`, whenever its files change. Ends with
/// Ctrl-C.
///
/// # Errors
/// If signals cannot be received.
pub(crate) async fn run_cases_on_change(arguments: &Arguments, project: Project, names: &[String]) -> Result<Exit> {
    let mut stop = signals::listen_for_stop()?;
    let mut development = Development::new(arguments, project, Failure::default(), false);
    development.names = names;
    let work = async {
        development.build_until_loadable().await;
        development.follow().await
    };
    tokio::select! {
        never = work => match never {},
        () = stop.received() => Ok(Exit::Ok),
    }
}

/// Returns the options of a server for one component of this machine's user.
fn serve_options(dev: &Dev, component: &Path, program: Option<&Path>) -> ServeOptions {
    ServeOptions {
        wishes_from_env: false,
        components: vec![component.to_owned()],
        servers: false,
        #[cfg(feature = "cell")]
        cell: false,
        actor: None,
        short_names: false,
        portable_names: false,
        code: None,
        calls: None,
        waiting: None,
        allow_slow_compile: true,
        watch: true,
        dashboard: Some(dev.dashboard),
        program: program.map(Path::to_owned),
        http: Http { token_file: None, no_auth: true, allow_host: Vec::new(), allow_origin: Vec::new() },
        limits: dev.limits.clone(),
        powers: dev.powers.clone(),
        recording: dev.recording.clone(),
    }
}

/// The first line of the error of the last build; `None` if it succeeded. Cheap to clone; clones share it.
#[derive(Debug, Clone, Default)]
struct Failure(Arc<Mutex<Option<String>>>);

impl Failure {
    fn set(&self, line: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }

    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The times of the files that matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Snapshot {
    /// Those of the component.
    sources: Vec<(SystemTime, PathBuf)>,
    /// Those of the cases.
    cases: Vec<(SystemTime, PathBuf)>,
}

impl Snapshot {
    fn read(project: &Project) -> Self {
        let mut sources = project.sources();
        sources.sort();
        let entries = std::fs::read_dir(project.cases()).into_iter().flatten().flatten();
        let stamped = entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())));
        let mut cases: Vec<_> = stamped.collect();
        cases.sort();
        Self { sources, cases }
    }
}

/// The form of the component that is served.
enum DevelopmentForm {
    /// The one that `fumehood build` makes, in the same place.
    Final,
    /// A component that is built fast.
    Draft,
    /// An interpreter.
    Interpreter(InterpreterFolders),
}

/// The folders of a project whose program an interpreter reads.
struct InterpreterFolders {
    interpreters: PathBuf,
    /// The folder of the program that is served.
    program: PathBuf,
    /// The folder of a program that is not known to load yet.
    candidate: PathBuf,
}

impl DevelopmentForm {
    /// Returns the form that is ready soonest after an edit. An interpreter needs a place where it is kept.
    fn choose(arguments: &Arguments, project: &Project) -> Self {
        let own = project.folder.join(OWN_FOLDER);
        match interpreters() {
            Some(interpreters) if !arguments.no_cache && has_interpreter(project) => {
                let program = own.join("program");
                Self::Interpreter(InterpreterFolders { interpreters, program, candidate: own.join("candidate") })
            }
            _ if project.language == Language::Rust => Self::Draft,
            _ => Self::Final,
        }
    }

    /// Returns the folder of the program that is served.
    fn program(&self) -> Option<&Path> {
        match self {
            Self::Interpreter(folders) => Some(&folders.program),
            Self::Final | Self::Draft => None,
        }
    }
}

/// Creates the folder of this command in a project, which version control ignores.
fn create_own_folder(project: &Project) -> Result<()> {
    let folder = project.folder.join(OWN_FOLDER);
    let ignored = folder.join(".gitignore");
    let created = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&ignored, "*\n"));
    created.with_context(|| format!("cannot write {}", ignored.display()))
}

/// A project that is built again and again.
struct Development<'a> {
    arguments: &'a Arguments,
    /// The project as it could be read last.
    project: Project,
    /// The file that is served.
    component: PathBuf,
    form: DevelopmentForm,
    /// The files as they were built and tested.
    seen: Snapshot,
    failure: Failure,
    /// True if clients can call the last good component.
    is_served: bool,
    /// Parts of the names of the cases that run; all if there are none.
    names: &'a [String],
}

impl<'a> Development<'a> {
    fn new(arguments: &'a Arguments, project: Project, failure: Failure, is_full: bool) -> Self {
        let form = if is_full { DevelopmentForm::Final } else { DevelopmentForm::choose(arguments, &project) };
        let component = match &form {
            DevelopmentForm::Final => project.component(),
            DevelopmentForm::Draft | DevelopmentForm::Interpreter(_) => {
                project.folder.join(OWN_FOLDER).join(format!("{}.wasm", project.name))
            }
        };
        let seen = Snapshot::read(&project);
        Self { arguments, project, component, form, seen, failure, is_served: false, names: &[] }
    }

    /// Builds until there is a component to serve, be it of an earlier build.
    async fn build_until_loadable(&mut self) {
        match &self.form {
            DevelopmentForm::Final if self.project.built_component().is_ok() => return self.run_cases().await,
            DevelopmentForm::Interpreter(_) if !self.component.is_file() => {
                render::note("the first build compiles the interpreter, which takes up to two minutes");
            }
            _ => render::note(&format!("building `{}`", self.project.name)),
        }
        while !self.build().await && !self.component.is_file() {
            self.wait_for_change().await;
        }
    }

    /// Builds and tests whenever files change, for ever.
    async fn follow(&mut self) -> Infallible {
        loop {
            let before = self.seen.clone();
            self.wait_for_change().await;
            if before.sources == self.seen.sources {
                self.run_cases().await;
            } else if !self.build().await && self.is_served {
                render::note("the last good component stays served");
            }
        }
    }

    /// Waits until files differ from what was seen last, and are complete.
    async fn wait_for_change(&mut self) {
        let mut found = self.seen.clone();
        while found == self.seen {
            tokio::time::sleep(POLL_INTERVAL).await;
            found = Snapshot::read(&self.project);
        }
        loop {
            tokio::time::sleep(QUIET_PERIOD).await;
            let later = Snapshot::read(&self.project);
            if later == found {
                break;
            }
            found = later;
        }
        self.seen = found;
    }

    /// Builds and tests the project. Returns whether there is a new component.
    async fn build(&mut self) -> bool {
        let began = Instant::now();
        match self.try_build().await {
            Ok(()) => {
                self.failure.set(None);
                render::note(&format!("built `{}` in {:.1?}", self.project.name, began.elapsed()));
                self.run_cases().await;
                true
            }
            Err(error) => {
                self.report(&error);
                let text = format!("{error:#}");
                self.failure.set(Some(text.lines().next().unwrap_or_default().to_owned()));
                false
            }
        }
    }

    async fn try_build(&mut self) -> Result<()> {
        let project = Project::open(&self.project.folder)?;
        if project.name != self.project.name {
            let message = format!("the project is now called `{}`; start `fumehood dev` again", project.name);
            return Err(UsageError(message).into());
        }
        if !matches!(self.form, DevelopmentForm::Final) {
            create_own_folder(&project)?;
        }
        match &self.form {
            DevelopmentForm::Interpreter(InterpreterFolders { interpreters, program, candidate }) => {
                let built = build::make_program(self.arguments, &project, interpreters, candidate).await?;
                built.write_program(program)?;
                built.write_interpreter(&self.component)?;
            }
            DevelopmentForm::Draft => self.write_component(&project, BuildKind::Draft).await?,
            DevelopmentForm::Final => self.write_component(&project, BuildKind::Ordinary).await?,
        }
        self.project = project;
        Ok(())
    }

    async fn write_component(&self, project: &Project, kind: BuildKind) -> Result<()> {
        build::make(self.arguments, project, &self.component, kind).await?.write(&self.component)?;
        Ok(())
    }

    async fn run_cases(&self) {
        let subject = TestSubject {
            project: &self.project,
            component: &self.component,
            program: self.form.program(),
            has_final_cost: matches!(self.form, DevelopmentForm::Final),
            names: self.names,
        };
        if let Err(error) = test::run_all(self.arguments, &subject).await {
            self.report(&error);
        }
    }

    fn report(&self, error: &anyhow::Error) {
        // The exit code is that of a command that ends, and this one goes on.
        let _goes_on = render::failure(error, self.arguments.failure_form(), exit::from_error(error));
    }
}

/// A call that has ended, to be printed.
struct PrintedCall {
    elapsed: Duration,
    /// The result, without its content.
    result: CallResult,
}

/// Passes the ends of calls on.
struct CallReporter(Sender<PrintedCall>);

impl CallSink for CallReporter {
    fn record(&self, call: &EndedCall<'_>) {
        let outcome = call.result.outcome.as_ref().map(|_| Vec::new()).map_err(Clone::clone);
        let result = CallResult {
            id: call.execution.to_owned(),
            tool: call.tool.unwrap_or("unknown tool").to_owned(),
            outcome,
            metadata: call.result.metadata.clone(),
        };
        // A call that finds the queue full is not printed: the caller must not wait for a terminal.
        let _full = self.0.try_send(PrintedCall { elapsed: call.elapsed, result });
    }
}

/// Prints each call, and while a build fails that it was answered by an older one.
async fn print_calls(mut ended: Receiver<PrintedCall>, failure: Failure) {
    while let Some(PrintedCall { elapsed, result }) = ended.recv().await {
        render::ended_call(&result, elapsed);
        if let Some(line) = failure.get() {
            render::warning(&format!("that was the last good component, because the build fails: {line}"));
        }
    }
}
