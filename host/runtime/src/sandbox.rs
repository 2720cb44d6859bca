//! The sandbox as its users see it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fumehood_core::permission::files::FileRole;
use serde_json::Value;
use wasmtime::Engine;

use crate::component::Component;
use crate::config::SandboxConfig;
use crate::engine::SandboxError;
use crate::guest_runtime::Elapsed;
use crate::invocation::{Invocation, Terms};
use crate::load;
use crate::load_error::LoadError;
use crate::load_options::LoadOptions;
use crate::outcome::Execution;
use crate::shared::Shared;

/// Compiles components and runs their calls. Cheap to clone; all clones are the same sandbox.
#[derive(Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

impl Sandbox {
    /// Sets up the engine, the thread that watches deadlines, and the threads for guests.
    ///
    /// # Errors
    /// If a setting is zero, or the machine does not give the address space or the threads.
    pub fn new(config: SandboxConfig) -> Result<Self, SandboxError> {
        Ok(Self { shared: Arc::new(Shared::new(config)?) })
    }

    /// Protects a file of the host from all tools, those that are loaded already among them. Looks at the file system.
    pub fn protect(&self, file: &Path, role: FileRole) {
        self.shared.protected.add(file, role);
    }

    /// Compiles a component, or finds its compiled code in the cache, and asks it for its tools.
    ///
    /// Guest code runs at most once, for that question, and within `options.limits`.
    ///
    /// # Errors
    /// See [`LoadError`]: whatever is wrong with the bytes, with what they import, or with what they say.
    pub async fn load(&self, bytes: Vec<u8>, options: LoadOptions) -> Result<Component, LoadError> {
        load::load(&self.shared, bytes, options).await
    }

    /// Runs one of a component's tools in a fresh instance. Dropping the future stops the guest.
    ///
    /// `tool` is a position in [`Component::definitions`]. `arguments` must have passed the tool's schema; what does
    /// not fit the tool's types all the same is refused before any guest code runs.
    pub async fn call(
        &self,
        component: &Component,
        tool: usize,
        arguments: &Value,
        invocation: Invocation,
        terms: Terms,
    ) -> Execution {
        component.call(tool, arguments, invocation, terms).await
    }

    /// The engine, for benches that measure against wasmtime itself.
    #[doc(hidden)]
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// Runs work that takes long, such as compiling a schema, on a thread where it holds up nobody. `None` if the
    /// sandbox is shut down or the work panicked.
    pub async fn off_thread<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Option<R> {
        self.shared.runtime.block(work).await.ok()
    }

    /// The same within a time: `Ok(None)` as above.
    ///
    /// # Errors
    /// If the time is over. The work goes on to its end, and nobody waits for it.
    pub async fn off_thread_within<R: Send + 'static>(
        &self,
        time: Duration,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Option<R>, Elapsed> {
        self.shared.runtime.block_within(time, work).await.map(Result::ok)
    }

    /// The largest memory limit that a call may have, in bytes.
    #[must_use]
    pub fn memory_ceiling(&self) -> usize {
        self.shared.memory_ceiling
    }

    /// How many calls are running guest code right now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.shared.ticker.running() + self.shared.isolated.load(Ordering::Relaxed)
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
        self.shared.scratch_root.close();
        self.shared.files.shut_down();
    }
}
