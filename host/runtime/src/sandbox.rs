//! The sandbox as its users see it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood_core::event::{Level, Progress};
use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::admission::Admission;
use crate::cache::CodeCache;
use crate::component::Component;
use crate::engine::{self, SandboxConfig, SandboxError};
use crate::guest_runtime::GuestRuntime;
use crate::load::{self, LoadError, LoadOptions};
use crate::state::CallState;
use crate::ticker::Ticker;

/// Compiles components and runs their calls. Cheap to clone; all clones are the same sandbox.
#[derive(Clone)]
pub struct Sandbox {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) runtime: GuestRuntime,
    pub(crate) ticker: Ticker,
    pub(crate) admission: Admission,
    pub(crate) linker: Linker<CallState>,
    pub(crate) engine: Engine,
    pub(crate) cache: Option<CodeCache>,
    memory_ceiling: usize,
}

/// What a guest is told about the call that it serves. All of it comes from the host.
#[derive(Debug, Clone, Default)]
pub struct Invocation {
    /// The id of the call.
    pub id: String,
    /// The tool's name within its component.
    pub tool: String,
    /// On whose behalf.
    pub actor: Option<Arc<str>>,
    /// A snapshot of the agent's state, as JSON text. It is shown only to a tool that was granted it.
    pub state: Option<Arc<str>>,
}

/// Hears what a running call says.
///
/// Both methods run on the thread that runs the guest, while the guest waits: they must return at once and never block.
pub trait Observer: Send + Sync {
    /// A log line, already within the call's cap and printable.
    fn log(&self, call: &Invocation, level: Level, message: &str);
    /// News of the call, already within its cap.
    fn progress(&self, call: &Invocation, progress: Progress);
}

impl Sandbox {
    /// Sets up the engine, the thread that watches deadlines, and the threads for guests.
    ///
    /// # Errors
    /// If a setting is zero, or the machine does not give the address space or the threads.
    pub fn new(config: SandboxConfig) -> Result<Self, SandboxError> {
        if config.concurrency == 0 {
            return Err(SandboxError::Zero("call at a time"));
        }
        if config.guest_threads == 0 {
            return Err(SandboxError::Zero("thread for guests"));
        }
        let engine = engine::build(&config)?;
        let mut linker = Linker::new(&engine);
        crate::capability::link(&mut linker).map_err(SandboxError::Engine)?;
        let shared = Shared {
            runtime: GuestRuntime::start(config.guest_threads).map_err(SandboxError::Threads)?,
            ticker: Ticker::start(&engine).map_err(SandboxError::Threads)?,
            admission: Admission::new(config.concurrency, config.queue),
            linker,
            engine,
            cache: config.cache,
            memory_ceiling: config.memory_ceiling,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Compiles a component, or finds its compiled code in the cache, and asks it for its tools.
    ///
    /// Guest code runs at most once, for that question, and within `options.limits`.
    ///
    /// # Errors
    /// See [`LoadError`]: whatever is wrong with the bytes, with what they import, or with what they say.
    pub async fn load(&self, bytes: Vec<u8>, options: LoadOptions) -> Result<Component, LoadError> {
        load::load(self, bytes, options).await
    }

    /// The engine, for benches that measure against wasmtime itself.
    #[doc(hidden)]
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// The largest memory limit that a call may have, in bytes.
    #[must_use]
    pub fn memory_ceiling(&self) -> usize {
        self.shared.memory_ceiling
    }

    /// How many calls are running guest code right now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.shared.ticker.running()
    }

    /// Takes no more calls, waits at most `grace` for those that run, and ends the rest.
    ///
    /// A call that is ended this way fails with the kind `cancelled`. This returns after `grace` and a few
    /// milliseconds at the latest, whatever the guests do.
    pub async fn shut_down(&self, grace: Duration) {
        const POLL: Duration = Duration::from_millis(2);
        self.shared.admission.close();
        let until = Instant::now() + grace;
        while self.running() > 0 && Instant::now() < until {
            if self.shared.runtime.sleep(POLL).await.is_err() {
                return;
            }
        }
        self.shared.runtime.shut_down();
    }
}
