//! The settings of a sandbox.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use fumehood_core::capability::CapabilityDefinition;
use fumehood_core::key_value::KeyValueStore;
use fumehood_core::policy::permission::files::FileRole;

use crate::engine::{EngineKind, EngineProfile, EngineSettings};
use crate::load::cache::CodeCache;
use crate::load::compile::{CompileLimits, Compiler};
use crate::network::Network;

/// Configuration of a [`Sandbox`](crate::Sandbox).
///
/// ```
/// use fumehood_runtime::{Sandbox, SandboxConfig};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = SandboxConfig { concurrency: 8, memory_ceiling: 64 << 20, ..SandboxConfig::default() };
/// let sandbox = Sandbox::new(config)?;
/// assert_eq!(sandbox.memory_ceiling(), 64 << 20);
/// assert_eq!(sandbox.running(), 0);
/// # sandbox.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// Strategy for allocating instances.
    pub profile: EngineProfile,
    /// Maximum number of calls that run at once; more are queued. At least 1.
    pub concurrency: u32,
    /// Maximum number of programs of code mode that run at once; more are queued. They have places of their own, because
    /// a program waits for the calls that it makes.
    pub programs: u32,
    /// Maximum number of queued calls; more are refused at once.
    pub queue: u32,
    /// Maximum memory limit that a call may ask for, in bytes.
    pub memory_ceiling: usize,
    /// Number of threads for guests that run longer than a slice. They are never used for anything else. At least 1.
    pub guest_threads: usize,
    /// The cache that keeps compiled code between processes. No code is kept if `None`.
    pub cache: Option<CodeCache>,
    /// The store of the tools' keys and values, which outlive their calls. If `None`, it is in memory and ends with the
    /// sandbox.
    pub key_value: Option<Arc<dyn KeyValueStore>>,
    /// Folders of the host's own files: settings, state, secrets. No tool is ever granted one of them, a path below
    /// one, or a folder that contains one. The folder of `cache` is always among them.
    pub own_folders: Vec<PathBuf>,
    /// Files of the host, existing or not, that no tool may change, and some of them not read, even in a folder that it
    /// was granted. The [`FileRole`] decides which.
    pub protected_files: Vec<(PathBuf, FileRole)>,
    /// Network access for the HTTP requests of guests.
    pub network: Network,
    /// The compiler of components: this process, or a program.
    pub compiler: Compiler,
    /// Limits on the components that are compiled.
    pub compile_limits: CompileLimits,
    /// The program of worker processes. Without one no component can be isolated in a process.
    pub workers: Option<Workers>,
    /// Host interfaces of the embedder.
    pub capabilities: Vec<CapabilityDefinition>,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            profile: EngineProfile::Automatic,
            concurrency: 128,
            programs: 128,
            queue: 16_384,
            memory_ceiling: 256 << 20,
            guest_threads: std::thread::available_parallelism().map_or(2, NonZeroUsize::get).max(2),
            cache: None,
            key_value: None,
            own_folders: Vec::new(),
            protected_files: Vec::new(),
            network: Network::default(),
            compiler: Compiler::InProcess,
            compile_limits: CompileLimits::default(),
            workers: None,
            capabilities: Vec::new(),
        }
    }
}

impl SandboxConfig {
    pub(crate) fn engine(&self) -> EngineSettings {
        let Self { profile, concurrency, programs, memory_ceiling, .. } = *self;
        EngineSettings { kind: EngineKind::Synchronous, profile, concurrency, programs, memory_ceiling }
    }
}

/// The program of worker processes.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use fumehood_runtime::{Sandbox, SandboxConfig, Workers, serve_worker};
///
/// fn main() -> ExitCode {
///     if std::env::args().nth(1).as_deref() == Some("run-worker") {
///         return serve_worker();
///     }
///     let workers = Workers::this_program(["run-worker"]).require_jail();
///     match Sandbox::new(SandboxConfig { workers: Some(workers), ..SandboxConfig::default() }) {
///         Ok(_sandbox) => ExitCode::SUCCESS,
///         Err(_) => ExitCode::FAILURE,
///     }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Workers {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) is_jail_required: bool,
}

impl Workers {
    /// Uses a program of the same build as this one that calls [`crate::serve_worker`] first thing when it is given
    /// these arguments. The path must be absolute.
    pub fn program(path: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { program: path.into(), args: args.into_iter().map(Into::into).collect(), is_jail_required: false }
    }

    /// Uses the running program, which must call [`crate::serve_worker`] first thing when it is given these arguments.
    ///
    /// Workers run the same program even if its file is replaced meanwhile.
    pub fn this_program(args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self::program("/proc/self/exe", args)
    }

    /// Refuses to load components into workers where the kernel lacks Landlock or seccomp filters. By default, such
    /// workers are processes of their own with the layers that exist: see [`crate::Component::jail`].
    #[must_use]
    pub fn require_jail(mut self) -> Self {
        self.is_jail_required = true;
        self
    }
}
