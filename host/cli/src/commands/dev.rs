//! `fumehood dev`: builds, tests and serves a project whenever its files change.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use fumehood::CallResult;
use fumehood::listener::{CallSink, EndedCall};
use fumehood_author::Project;
use fumehood_author::build::has_interpreter;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::serve::server::{self, Faces};
use super::test::TestSubject;
use super::{build, test};
use crate::args::{Arguments, Dev, Http, ServeOptions};
use crate::exit::{self, Exit, UsageError};
use crate::user_folders::interpreters;
use crate::{render, signals};

/// Interval at which the files of the project are looked at. Every file system has times, and some tell of no changes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time without a change after which an edit counts as complete: editors write in several steps.
const QUIET_PERIOD: Duration = Duration::from_millis(100);
/// The folder of this command in a project with an interpreter.
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
    tokio::select! {
        () = development.build_until_loadable() => {}
        () = stop.received() => return Ok(Exit::Ok),
    }
    let options = serve_options(dev, &development.component, development.interpreter.as_ref());
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

/// Returns the options of a server for one component of this machine's user.
fn serve_options(dev: &Dev, component: &Path, interpreter: Option<&InterpreterFolders>) -> ServeOptions {
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
        program: interpreter.map(|interpreter| interpreter.program.clone()),
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

/// The folders of a project whose program an interpreter reads.
struct InterpreterFolders {
    interpreters: PathBuf,
    /// The folder of the program that is served.
    program: PathBuf,
    /// The folder of a program that is not known to load yet.
    candidate: PathBuf,
}

impl InterpreterFolders {
    /// Returns the folders, if there is an interpreter for the project and a place to keep it.
    fn new(arguments: &Arguments, project: &Project) -> Option<Self> {
        if arguments.no_cache || !has_interpreter(project) {
            return None;
        }
        let own = project.folder.join(OWN_FOLDER);
        Some(Self { interpreters: interpreters()?, program: own.join("program"), candidate: own.join("candidate") })
    }
}

/// A project that is built again and again.
struct Development<'a> {
    arguments: &'a Arguments,
    /// The project as it could be read last.
    project: Project,
    /// The file that is served.
    component: PathBuf,
    /// `None` if each build makes a whole component.
    interpreter: Option<InterpreterFolders>,
    /// The files as they were built and tested.
    seen: Snapshot,
    failure: Failure,
}

impl<'a> Development<'a> {
    fn new(arguments: &'a Arguments, project: Project, failure: Failure, is_full: bool) -> Self {
        let interpreter = if is_full { None } else { InterpreterFolders::new(arguments, &project) };
        let component = match &interpreter {
            Some(_) => project.folder.join(OWN_FOLDER).join(format!("{}.wasm", project.name)),
            None => project.component(),
        };
        let seen = Snapshot::read(&project);
        Self { arguments, project, component, interpreter, seen, failure }
    }

    /// Builds until there is a component to serve, be it of an earlier build.
    async fn build_until_loadable(&mut self) {
        if self.interpreter.is_none() && self.project.built_component().is_ok() {
            return self.run_cases().await;
        }
        if self.interpreter.is_some() && !self.component.is_file() {
            render::note("the first build compiles the interpreter, which takes up to two minutes");
        } else {
            render::note(&format!("building `{}`", self.project.name));
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
            } else if !self.build().await {
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
        match &self.interpreter {
            Some(InterpreterFolders { interpreters, program, candidate }) => {
                let built = build::make_program(self.arguments, &project, interpreters, candidate).await?;
                built.write_program(program)?;
                built.write_interpreter(&self.component)?;
            }
            None => build::make(self.arguments, &project, &self.component, false).await?.write(&self.component)?,
        }
        self.project = project;
        Ok(())
    }

    async fn run_cases(&self) {
        let program = self.interpreter.as_ref().map(|interpreter| interpreter.program.as_path());
        let subject = TestSubject { project: &self.project, component: &self.component, program };
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
