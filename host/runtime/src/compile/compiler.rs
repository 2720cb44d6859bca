//! Who compiles: this process, or a process of its own that can be stopped.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use fumehood_core::limits::display_bytes;
use tokio::sync::Semaphore;
use wasmtime::Engine;

use super::failure;
use super::limits::{Allowance, CompileBudget};
use super::process::{self, Ended, Leash, Program};
use super::wire::{self, Said};
use crate::cache::FreshCode;
use crate::guest_runtime::GuestRuntime;
use crate::load_error::{CompileLimit, LoadError};

/// Processes that compile at once; more components wait. Each may use the memory of its budget.
const PLACES: usize = 2;

/// Who compiles components.
#[derive(Debug, Clone, Default)]
pub enum Compiler {
    /// This process, without limits but for what is counted beforehand. Compiling cannot be stopped, and a component that
    /// is made for it can cost gigabytes. For components that you trust, and for programs that have no compiler at hand.
    #[default]
    InProcess,
    /// A process of its own for each component, which limits itself to its budget and is killed when its time is over or
    /// nobody waits for it any more. What goes wrong there goes wrong there only.
    Child {
        /// A program that calls [`crate::serve_compiler`] first thing, given these arguments. It must be of the same build
        /// as this one; what it returns is run. A path that counts from the root.
        program: PathBuf,
        /// Its arguments.
        args: Vec<OsString>,
        /// What compiling one component may cost.
        budget: CompileBudget,
    },
}

impl Compiler {
    /// This very program, which must call [`crate::serve_compiler`] first thing when it is given these arguments.
    ///
    /// The program that is running is meant, not what its path stands for by now, so that it can be replaced meanwhile.
    pub fn this_program(args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self::Child {
            program: PathBuf::from("/proc/self/exe"),
            args: args.into_iter().map(Into::into).collect(),
            budget: CompileBudget::default(),
        }
    }
}

/// The place where components are compiled.
pub(crate) struct CompileService {
    child: Option<(Program, CompileBudget)>,
    places: Semaphore,
}

/// A component to be compiled in a process of its own.
pub(crate) struct CompileJob<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) bytes: Arc<Vec<u8>>,
    /// How many times its budget it may use.
    pub(crate) factor: u32,
}

/// Ends the process when nobody waits for it any more.
struct KillOnDrop(Arc<Leash>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl CompileService {
    pub(crate) fn new(compiler: Compiler) -> Self {
        let child = match compiler {
            Compiler::InProcess => None,
            Compiler::Child { program, args, budget } => Some((Program { path: program, args }, budget)),
        };
        Self { child, places: Semaphore::new(PLACES) }
    }

    /// Compiles it in a process of its own. `None` if it is to be compiled in this one.
    ///
    /// # Errors
    /// If it does not compile, or not within its budget. Dropping the future ends the process.
    pub(crate) async fn compile(
        &self,
        runtime: &GuestRuntime,
        order: CompileJob<'_>,
    ) -> Result<Option<FreshCode>, LoadError> {
        let Some((program, budget)) = &self.child else { return Ok(None) };
        // It is never closed.
        let _place = self.places.acquire().await.map_err(|_| LoadError::Host("it is shutting down".to_owned()))?;
        let allowance = budget.times(order.factor).for_size(order.bytes.len());
        let leash = KillOnDrop(Arc::default());
        let on_thread = (program.clone(), Arc::clone(&leash.0), wire::engine_id(order.engine), order.bytes);
        let work = move || {
            let (program, leash, engine, bytes) = on_thread;
            process::compile(&program, engine, &bytes, &allowance, &leash)
        };
        match runtime.block_within(allowance.time, work).await {
            Ok(ended) => ended?.map(Some).map_err(|ended| refusal(ended, program, &allowance)),
            Err(_late) => Err(stopped(CompileLimit::Time, &allowance)),
        }
    }
}

fn refusal(ended: Ended, program: &Program, allowance: &Allowance) -> LoadError {
    match ended {
        Ended::NotStarted(source) => LoadError::NoCompiler { program: program.path.clone(), source },
        Ended::Said(Said::Malformed(reason)) => LoadError::Malformed(failure::in_words(&reason)),
        Ended::Said(Said::Memory) | Ended::Memory => stopped(CompileLimit::Memory, allowance),
        Ended::Said(Said::Unfit(reason)) => LoadError::Compiler(crate::outcome::cut(&reason)),
        Ended::Cpu => stopped(CompileLimit::Cpu, allowance),
        Ended::Output(bytes) => {
            let (found, limit) = (display_bytes(bytes), display_bytes(allowance.output));
            LoadError::CompileStopped { limit: CompileLimit::Output, allowed: format!("{limit}, not {found}") }
        }
        Ended::Unwritable(error) => LoadError::Host(error.to_string()),
        Ended::Killed => LoadError::Compiler("it was stopped".to_owned()),
        Ended::Broken(how) => LoadError::Compiler(how),
    }
}

fn stopped(limit: CompileLimit, allowance: &Allowance) -> LoadError {
    let seconds = |time: std::time::Duration| format!("{:.1} s", time.as_secs_f64());
    let allowed = match limit {
        CompileLimit::Time => seconds(allowance.time),
        CompileLimit::Cpu => seconds(allowance.cpu),
        CompileLimit::Memory => display_bytes(allowance.memory),
        CompileLimit::Output => display_bytes(allowance.output),
    };
    LoadError::CompileStopped { limit, allowed }
}
