//! The compiler: this process, or a separate process that can be stopped.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use fumehood_core::call::limits::display_bytes;
use tokio::sync::Semaphore;
use wasmtime::Engine;

use super::limits::{Allowance, CompileBudget};
use super::process::{self, KillHandle, ProcessError, Program};
use super::wire::{self, CompileFailure};
use crate::engine::guest_runtime::GuestRuntime;
use crate::load::cache::FreshCode;
use crate::load::error::{CompileLimit, LoadError};

/// Maximum number of concurrent compiler processes; more components wait. Each may use the memory of its budget.
const MAX_PROCESSES: usize = 2;

/// The process that compiles components.
#[derive(Debug, Clone, Default)]
pub enum Compiler {
    /// This process, limited only by what is counted beforehand. Compiling cannot be stopped, and a malicious component
    /// can use gigabytes. For components that you trust, and for programs that have no compiler program.
    #[default]
    InProcess,
    /// A separate process for each component, which limits itself to its budget and is killed when its time is over or
    /// the caller stops waiting. A crash does not affect this process.
    Child {
        /// The absolute path of a program that calls [`crate::serve_compiler`] first, given these arguments. It must be
        /// of the same build as this one; the code that it returns is run.
        program: PathBuf,
        /// The arguments of the program.
        args: Vec<OsString>,
        /// The budget for compiling one component.
        budget: CompileBudget,
    },
}

impl Compiler {
    /// Uses this program, which must call [`crate::serve_compiler`] first when it is given these arguments.
    ///
    /// This is the program that is running, through `/proc/self/exe`, even if the file at its path has been replaced
    /// since.
    pub fn this_program(args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self::Child {
            program: PathBuf::from("/proc/self/exe"),
            args: args.into_iter().map(Into::into).collect(),
            budget: CompileBudget::default(),
        }
    }
}

/// A service that compiles components, a limited number at once.
pub(crate) struct CompileService {
    child: Option<(Program, CompileBudget)>,
    permits: Semaphore,
}

/// A component to be compiled in a separate process.
pub(crate) struct CompileJob<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) bytes: Arc<Vec<u8>>,
    /// The factor by which its budget is multiplied.
    pub(crate) factor: u32,
}

/// Ends the process when the future that waits for it is dropped.
struct KillOnDrop(Arc<KillHandle>);

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
        Self { child, permits: Semaphore::new(MAX_PROCESSES) }
    }

    /// Compiles a component in a separate process. Returns `None` if it is to be compiled in this one.
    ///
    /// # Errors
    /// If it does not compile, or not within its budget. Dropping the future ends the process.
    pub(crate) async fn compile(
        &self,
        runtime: &GuestRuntime,
        job: CompileJob<'_>,
    ) -> Result<Option<FreshCode>, LoadError> {
        let Some((program, budget)) = &self.child else { return Ok(None) };
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await.map_err(|_| LoadError::Host("it is shutting down".to_owned()))?;
        let allowance = budget.times(job.factor).for_size(job.bytes.len());
        let handle = KillOnDrop(Arc::default());
        let on_thread = (program.clone(), Arc::clone(&handle.0), wire::engine_id(job.engine), job.bytes);
        let work = move || {
            let (program, handle, engine, bytes) = on_thread;
            process::compile(&program, engine, &bytes, &allowance, &handle)
        };
        match runtime.block_within(allowance.time, work).await {
            Ok(result) => result?.map(Some).map_err(|error| to_load_error(error, program, &allowance)),
            Err(_late) => Err(stopped_error(CompileLimit::Time, &allowance)),
        }
    }
}

fn to_load_error(error: ProcessError, program: &Program, allowance: &Allowance) -> LoadError {
    match error {
        ProcessError::NotStarted(source) => LoadError::NoCompiler { program: program.path.clone(), source },
        ProcessError::Reported(CompileFailure::Malformed(reason)) => {
            LoadError::Malformed(wire::describe_parser_error(&reason))
        }
        ProcessError::Reported(CompileFailure::Memory) | ProcessError::Memory => {
            stopped_error(CompileLimit::Memory, allowance)
        }
        ProcessError::Reported(CompileFailure::Unfit(reason)) => {
            LoadError::Compiler(crate::wasi::guest_output::cut(&reason))
        }
        ProcessError::Cpu => stopped_error(CompileLimit::Cpu, allowance),
        ProcessError::Output(bytes) => {
            let found = display_bytes(bytes);
            let limit = display_bytes(allowance.output);
            LoadError::CompileStopped { limit: CompileLimit::Output, allowed: format!("{limit}, not {found}") }
        }
        ProcessError::Unwritable(error) => LoadError::Host(error.to_string()),
        ProcessError::Killed => LoadError::Compiler("it was stopped".to_owned()),
        ProcessError::Panicked(text) => LoadError::CompilerPanicked(text),
        ProcessError::Broken(how) => LoadError::Compiler(how),
    }
}

fn stopped_error(limit: CompileLimit, allowance: &Allowance) -> LoadError {
    let allowed = match limit {
        CompileLimit::Time => display_seconds(allowance.time),
        CompileLimit::Cpu => display_seconds(allowance.cpu),
        CompileLimit::Memory => display_bytes(allowance.memory),
        CompileLimit::Output => display_bytes(allowance.output),
    };
    LoadError::CompileStopped { limit, allowed }
}

fn display_seconds(time: std::time::Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
