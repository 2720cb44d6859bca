//! The stages of loading a component: adapting a program for WASI preview 1, its surface, its imports, compiling, the cache of compiled code, and its calling
//! convention. `sandbox/load.rs` runs them in order.

pub(crate) mod cache;
pub(crate) mod compile;
pub(crate) mod dialect;
mod embed_docs;
pub(crate) mod engine_kind;
pub(crate) mod error;
pub(crate) mod imports;
pub(crate) mod preview1;
pub(crate) mod statements;
pub(crate) mod surface;

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::call::limits::Limits;
use fumehood_core::policy::permission::Grant;
use fumehood_core::tool::command_template::CommandTemplate;
use fumehood_core::tool::definition::DefinitionLimits;
use fumehood_core::tool::name::Namespace;

use crate::engine::EngineKind;
use cache::CacheReport;
pub use embed_docs::embed_docs;
use error::LoadError;
pub use statements::read_wishes;

/// Options for loading one component.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Limits of the call that asks the component for its tools.
    pub limits: Limits,
    /// Limits on the component's definitions of its tools.
    pub definitions: DefinitionLimits,
    /// The name of the component in its host. Its keys and values are stored under this name; without one it has no
    /// store.
    pub name: Option<Namespace>,
    /// The powers that calls of its tools have.
    pub grant: Grant,
    /// True if a component that imports a power which is not granted is refused, even if it never uses it.
    pub strict_imports: bool,
    /// True if the component has its powers while it describes itself, too: an interpreter whose program is in a granted folder.
    /// Its author must be the operator, because a component describes itself before it was approved.
    pub describe_with_grant: bool,
    /// True if a component that takes long to compile is compiled nevertheless.
    pub allow_slow_compile: bool,
    /// The content of a `package-docs` section that documents the functions and types of a component, in place of the
    /// component's own section. A component that describes its tools itself is refused with
    /// [`LoadError::DescribesItself`](crate::LoadError::DescribesItself).
    pub docs: Option<Arc<[u8]>>,
    /// The named arguments of a program, in place of its command line. A component that is no program is refused with
    /// [`LoadError::NoProgram`](crate::LoadError::NoProgram).
    pub command: Option<Arc<CommandTemplate>>,
    /// The process that runs its calls. [`Isolation::Process`] needs [`crate::SandboxConfig::workers`].
    pub isolation: Isolation,
}

/// The process that runs the calls of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Threads of this process. The engine is the only layer of isolation.
    ///
    /// A component with asynchronous functions, or with interfaces of WASI 0.3, is refused with [`LoadError::NeedsWorker`](crate::LoadError::NeedsWorker).
    #[default]
    InProcess,
    /// Like [`Self::InProcess`], but a component with asynchronous functions, or with interfaces of WASI 0.3, runs as in
    /// [`Self::Process`].
    InProcessIfSynchronous,
    /// A worker process of its own, without files, network or privileges except those that the component was granted.
    /// [`Workers`](crate::Workers) names its program.
    ///
    /// Actors share it. Those whose calls were in a worker that died have one of their own, until they have not called for a minute.
    Process,
    /// A worker process for each actor, at most eight for each component: the one that was not used for longest is ended for another.
    ///
    /// A component with a folder that it may write to has one worker all the same, because the quota of the folder is counted there.
    ProcessPerActor,
}

impl Isolation {
    /// Returns whether calls run in a worker process.
    #[must_use]
    pub fn is_process(self) -> bool {
        matches!(self, Self::Process | Self::ProcessPerActor)
    }

    /// Returns where a component of this engine runs.
    ///
    /// # Errors
    /// If it may not run in this process, and nothing else was asked for.
    pub(crate) fn resolve(self, engine: EngineKind) -> Result<Self, LoadError> {
        match (self, engine) {
            (Self::InProcess, EngineKind::Asynchronous) => Err(LoadError::NeedsWorker),
            (Self::InProcessIfSynchronous, EngineKind::Asynchronous) => Ok(Self::Process),
            (Self::InProcessIfSynchronous, EngineKind::Synchronous) => Ok(Self::InProcess),
            (chosen, _) => Ok(chosen),
        }
    }
}

/// The duration of loading a component, and its use of the code cache.
///
/// ```
/// use fumehood_runtime::{CacheReport, LoadOptions, Sandbox, SandboxConfig};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
/// let sandbox = Sandbox::new(SandboxConfig::default())?;
/// let component = sandbox.load(std::fs::read(path)?, LoadOptions::default()).await?;
/// let report = component.report();
/// println!("{} bytes in {:?}", component.size(), report.time);
/// assert_eq!(report.cache, CacheReport::Off);
/// # sandbox.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadReport {
    /// The use of the code cache.
    pub cache: CacheReport,
    /// The time from the first byte to the last check.
    pub time: Duration,
}
