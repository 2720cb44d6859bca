//! The public interface of the sandbox.

mod component;
mod load;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fumehood_core::policy::permission::files::FileRole;
use wasmtime::Engine;

use crate::call::shared::Shared;
use crate::config::SandboxConfig;
use crate::engine::SandboxError;
use crate::engine::guest_runtime::FirstSlice;
use crate::interpreter::{self, Interpreter};
use crate::load::LoadOptions;
use crate::load::error::LoadError;

pub use component::Component;

/// An engine with the threads that run guests: compiles components and runs their calls.
///
/// Cheap to clone; all clones share the same sandbox.
///
/// A call takes arguments that passed the gate:
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood_core::call::CallContext;
/// use fumehood_core::call::limits::Limits;
/// use fumehood_core::schema::gate::{Gate, GateLimits};
/// use fumehood_core::tool::Tool;
/// use fumehood_runtime::{LoadOptions, Sandbox, SandboxConfig};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
/// let sandbox = Sandbox::new(SandboxConfig::default())?;
/// let component = sandbox.load(std::fs::read(path)?, LoadOptions::default()).await?;
/// let index = component.definitions().iter().position(|tool| tool.name.as_str() == "add").ok_or("no such tool")?;
///
/// let schema = json!({"properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]});
/// let gate = Gate::for_arguments(&schema, GateLimits::default())?;
/// let tool = Arc::new(Tool::new(component.definitions()[index].clone(), gate));
/// let call = tool.validate(json!({"a": 3, "b": 5}).into())?;
/// let execution = component.call(index, call, Limits::default(), CallContext::default()).await;
/// assert!(execution.outcome.is_ok());
/// # sandbox.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

impl Sandbox {
    /// Sets up the engine, the thread that advances its epoch, and the threads for guests.
    ///
    /// # Errors
    /// If a setting is zero, or the system refuses the address space or the threads.
    pub fn new(config: SandboxConfig) -> Result<Self, SandboxError> {
        Ok(Self { shared: Arc::new(Shared::new(config)?) })
    }

    /// Protects a file of the host from all tools, including those that are already loaded. Reads the file system.
    pub fn protect(&self, file: &Path, role: FileRole) {
        self.shared.protected.add(file, role);
    }

    /// Loads a component and makes its tools callable.
    ///
    /// Takes its compiled code from the cache or compiles it, then has it describe its tools. Guest code runs at most
    /// once, for that description, and within `options.limits`.
    ///
    /// # Errors
    /// See [`LoadError`]: problems of the bytes, of their imports, or of the definitions.
    pub async fn load(&self, bytes: Vec<u8>, options: LoadOptions) -> Result<Component, LoadError> {
        load::load(&self.shared, bytes, options).await
    }

    /// Makes a component that this sandbox has loaded callable once more, with the powers of `options`. Its compiled code is shared, and
    /// no guest code runs: the definitions of its tools are those of the first load. Microseconds, unless folders are granted.
    ///
    /// # Errors
    /// If it belongs to another sandbox or runs in a worker process, or a grant is not possible.
    pub async fn load_again(&self, component: &Component, options: &LoadOptions) -> Result<Component, LoadError> {
        load::load_again(&self.shared, component, options).await
    }

    /// Loads an interpreter of code mode: a component of the world `fumehood:code/code`. It has no powers, and none can
    /// be granted to it. No guest code runs.
    ///
    /// # Errors
    /// See [`LoadError`]: problems of the bytes, or a component that does not fit the world.
    pub async fn load_interpreter(&self, bytes: Vec<u8>) -> Result<Interpreter, LoadError> {
        interpreter::load(&self.shared, bytes).await
    }

    /// Returns the engine, for benches that measure against wasmtime itself.
    #[doc(hidden)]
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// Runs work that takes long, such as compiling a schema, on a thread for blocking work. Returns `None` if the
    /// sandbox is shut down or the work panicked.
    pub async fn off_thread<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Option<R> {
        self.shared.runtime.block(work).await.ok()
    }

    /// Completes `future`: up to the first time that it waits on the caller's thread, and the rest on the threads that run
    /// guests. Returns `None` if the sandbox is shut down or the future panicked. Dropping the returned future drops it.
    ///
    /// For work around guests, such as programs with all their calls, that would keep the caller's thread from others.
    pub async fn drive<F>(&self, future: F) -> Option<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.shared.runtime.run(FirstSlice::Here, Box::pin(future)).await.ok()
    }

    /// Returns the maximum memory limit of a call, in bytes.
    #[must_use]
    pub fn memory_ceiling(&self) -> usize {
        self.shared.memory_ceiling
    }

    /// Returns the number of calls that are running guest code.
    #[must_use]
    pub fn running(&self) -> usize {
        self.shared.ticker.running() + self.shared.isolated.load(Ordering::Relaxed)
    }

    /// Refuses new and queued calls, waits at most `grace` for the running ones, and ends the rest.
    ///
    /// A call that is ended this way fails with the kind `cancelled`. This returns within `grace` and a few
    /// milliseconds, even if guests do not stop, and within 200 ms more if scratch spaces are still being removed.
    pub async fn shutdown(&self, grace: Duration) {
        const POLL: Duration = Duration::from_millis(2);
        const REMOVAL_PATIENCE: Duration = Duration::from_millis(200);
        self.shared.admission.close();
        self.shared.program_admission.close();
        let until = Instant::now() + grace;
        while self.running() > 0 && Instant::now() < until {
            if self.shared.runtime.sleep(POLL).await.is_err() {
                return;
            }
        }
        self.shared.runtime.shutdown();
        let closed = self.shared.scratch_root.close();
        // What is left then stays in a folder that only this user may enter, and the next start removes it.
        let _ended = self.shared.files.run(move || closed.wait_until_removed(REMOVAL_PATIENCE)).await;
        self.shared.files.shutdown();
    }
}
