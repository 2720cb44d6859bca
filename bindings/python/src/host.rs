//! The host, as Python sees it.

use std::sync::Arc;
use std::time::Duration;

use fumehood::settings::{
    AgentSettings, CallSettings, Calling, EmbeddedHost, HostEvents, HostSettings, LoadSettings, McpServerSection,
    TimeUnit, read_options,
};
use fumehood::{Call, CallResult};
use pyo3::prelude::*;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use crate::agent::NativeAgent;
use crate::capability::{self, Description};
use crate::component::Component;
use crate::error::{HostError, host_error, load_error, settings_error, value_error};
use crate::event::Events;
use crate::operation::{Operation, Outcome};
use crate::owner_process::OwnerProcess;
use crate::tool::Tool;

/// Number of threads that carry outcomes to Python. Guests run elsewhere.
const RUNTIME_THREADS: usize = 2;

/// The unit of times that are numbers.
const UNIT: TimeUnit = TimeUnit::Seconds;

/// A host and the runtime of its operations.
#[pyclass(frozen, module = "fumehood")]
pub(crate) struct NativeHost {
    /// Always there until the host is dropped.
    state: Option<Box<State>>,
    owner: OwnerProcess,
}

struct State {
    embedded: EmbeddedHost,
    runtime: Runtime,
}

impl NativeHost {
    /// Returns the host.
    ///
    /// # Errors
    /// In a process that was forked from that of the host, where no thread would ever answer.
    fn state(&self) -> PyResult<&State> {
        self.owner.check()?;
        self.state.as_deref().ok_or_else(|| HostError::new_err("the host was closed"))
    }

    /// Begins a call with the interpreter released. Returns its result, or the operation if it has not ended.
    fn begin(
        &self,
        py: Python<'_>,
        call: Call,
        begin: fn(&EmbeddedHost, Call) -> Result<CallResult, Calling>,
    ) -> PyResult<Result<CallResult, Operation>> {
        let state = self.state()?;
        let begun = py.detach(|| {
            let _entered = state.runtime.enter();
            begin(&state.embedded, call)
        });
        match begun {
            Ok(result) => Ok(Ok(result)),
            Err(calling) => self.spawn(outcome_of(calling)).map(Err),
        }
    }

    fn make_call(&self, name: String, arguments: String, options: Option<&str>) -> PyResult<Call> {
        let read = |json| read_options::<CallSettings>(json, UNIT).map_err(|error| settings_error(&error.into()));
        let options = options.map(read).transpose()?;
        self.state()?.embedded.call(name, arguments, options).map_err(|error| settings_error(&error))
    }

    fn spawn(&self, future: impl Future<Output = Outcome> + Send + 'static) -> PyResult<Operation> {
        Ok(Operation::spawn(self.state()?.runtime.handle(), future))
    }
}

/// A subscription to the events of a host.
#[pyclass(frozen, module = "fumehood")]
pub(crate) struct Subscription {
    /// Always there until it is dropped.
    events: Option<Arc<Mutex<HostEvents>>>,
    owner: OwnerProcess,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if !self.owner.is_this() {
            // A thread that was not forked may hold the lock of its queue.
            std::mem::forget(self.events.take());
        }
    }
}

impl Drop for NativeHost {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else { return };
        if !self.owner.is_this() {
            // Dropping it would wait for threads that were not forked.
            std::mem::forget(state);
            return;
        }
        let State { embedded, runtime } = *state;
        runtime.shutdown_background();
        drop(embedded);
    }
}

async fn outcome_of(calling: Calling) -> Outcome {
    Outcome::Called(Box::new(calling.await))
}

#[pymethods]
impl NativeHost {
    /// Creates a host; `settings` is JSON, and `start` begins each call of a function of the capabilities.
    #[new]
    fn new(py: Python<'_>, settings: &str, capabilities: Vec<Description>, start: Option<Py<PyAny>>) -> PyResult<Self> {
        let settings: HostSettings = read_options(settings, UNIT).map_err(|error| settings_error(&error.into()))?;
        let (embedded, runtime) = py.detach(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(RUNTIME_THREADS)
                .thread_name("fumehood-python")
                .enable_all()
                .build()
                .map_err(|error| host_error(&error))?;
            let embedded = capability::capabilities(capabilities, start, runtime.handle())
                .and_then(|capabilities| EmbeddedHost::with_capabilities(&settings, capabilities))
                .map_err(|error| settings_error(&error))?;
            Ok::<_, PyErr>((embedded, runtime))
        })?;
        Ok(Self { state: Some(Box::new(State { embedded, runtime })), owner: OwnerProcess::this() })
    }

    /// Loads a component from the file in `settings`, or from `bytes`.
    fn load(&self, settings: &str, bytes: Option<Vec<u8>>) -> PyResult<Operation> {
        let state = self.state()?;
        let settings: LoadSettings = read_options(settings, UNIT).map_err(|error| settings_error(&error.into()))?;
        let load = state.embedded.prepare(&settings, bytes).map_err(|error| settings_error(&error))?;
        let name = load.name().map_err(|error| load_error(&error))?.to_string();
        let embedded = state.embedded.clone();
        self.spawn(async move {
            let loaded = embedded.load(load, settings.replace).await;
            Outcome::Loaded(loaded.map(|component| Component::new(embedded.host(), name, &component)))
        })
    }

    /// Waits for an operation with the interpreter released, and returns its outcome.
    #[staticmethod]
    fn wait(py: Python<'_>, operation: &Operation) -> PyResult<Py<PyAny>> {
        operation.wait(py)?;
        operation.take(py)
    }

    /// Starts a call on the thread of an event loop. Returns its result if it ends at once, and otherwise the operation.
    fn start(&self, py: Python<'_>, name: String, arguments: String, options: Option<&str>) -> PyResult<Py<PyAny>> {
        match self.begin(py, self.make_call(name, arguments, options)?, EmbeddedHost::begin)? {
            Ok(result) => Outcome::Called(Box::new(result)).into_object(py),
            Err(operation) => Ok(Py::new(py, operation)?.into_any()),
        }
    }

    /// Starts a call whose events are queued; `callback` is called when there are some.
    fn start_observed(
        &self,
        call: (String, String, Option<String>),
        events: &Events,
        callback: Py<PyAny>,
    ) -> PyResult<Operation> {
        let state = self.state()?;
        let (name, arguments, options) = call;
        let call = self.make_call(name, arguments, options.as_deref())?.observer(events.observer());
        events.notify(state.runtime.handle(), callback);
        self.spawn(outcome_of(state.embedded.calling(call)))
    }

    /// Calls a tool and waits for the result.
    fn call_sync(&self, py: Python<'_>, name: String, arguments: String, options: Option<&str>) -> PyResult<Py<PyAny>> {
        match self.begin(py, self.make_call(name, arguments, options)?, EmbeddedHost::begin_here)? {
            Ok(result) => Outcome::Called(Box::new(result)).into_object(py),
            Err(operation) => {
                operation.wait(py)?;
                operation.take(py)
            }
        }
    }

    /// Subscribes to the events of all calls from now on.
    fn subscribe(&self) -> PyResult<Subscription> {
        let events = self.state()?.embedded.subscribe();
        Ok(Subscription { events: Some(Arc::new(Mutex::new(events))), owner: self.owner })
    }

    /// Waits for events of a subscription: a list of them, or `None` once the host was shut down.
    fn next_events(&self, subscription: &Subscription) -> PyResult<Operation> {
        let events = subscription.events.clone();
        self.spawn(async move {
            let Some(events) = events else { return Outcome::Observed(None) };
            let mut events = events.lock().await;
            Outcome::Observed(events.next().await)
        })
    }

    fn unload(&self, name: &str) -> PyResult<bool> {
        Ok(self.state()?.embedded.unload(name))
    }

    fn tools(&self) -> PyResult<Vec<Tool>> {
        let embedded = &self.state()?.embedded;
        let aliases = embedded.aliases();
        Ok(embedded.tools().into_iter().map(|tool| Tool::new(tool, &aliases)).collect())
    }

    fn tool(&self, name: &str) -> PyResult<Option<Tool>> {
        let embedded = &self.state()?.embedded;
        Ok(embedded.tool(name).map(|tool| Tool::new(tool, &embedded.aliases())))
    }

    /// Returns the number of calls that are running guest code right now.
    fn running(&self) -> PyResult<usize> {
        Ok(self.state()?.embedded.host().running())
    }

    /// Adds an MCP server.
    fn add_server(&self, name: String, settings: &str) -> PyResult<Operation> {
        let section: McpServerSection = read_options(settings, UNIT).map_err(|error| settings_error(&error.into()))?;
        let embedded = self.state()?.embedded.clone();
        self.spawn(async move { Outcome::AddedServer(embedded.add_server(&name, &section).await) })
    }

    /// Removes an MCP server, and tells whether it was there.
    fn remove_server(&self, name: String) -> PyResult<Operation> {
        let embedded = self.state()?.embedded.clone();
        self.spawn(async move { Outcome::RemovedServer(embedded.remove_server(&name).await) })
    }

    /// Creates an agent; with `can_ask`, the program is asked about calls.
    fn agent(&self, settings: &str, can_ask: bool) -> PyResult<NativeAgent> {
        let state = self.state()?;
        let settings: AgentSettings = read_options(settings, UNIT).map_err(|error| settings_error(&error.into()))?;
        let agent = state.embedded.agent(settings, can_ask).map_err(|error| settings_error(&error))?;
        Ok(NativeAgent::new(agent, state.runtime.handle().clone()))
    }

    /// Verifies the event log.
    fn verify_log(&self) -> PyResult<Operation> {
        let embedded = self.state()?.embedded.clone();
        self.spawn(async move {
            let verified = tokio::task::spawn_blocking(move || embedded.verify_log()).await;
            verified.map_or(Outcome::ShutDown, Outcome::Verified)
        })
    }

    /// Accepts no more calls, and stops those that run after `grace` seconds.
    fn shutdown(&self, grace: f64) -> PyResult<Operation> {
        let grace = Duration::try_from_secs_f64(grace).map_err(|error| value_error("grace", &error))?;
        let embedded = self.state()?.embedded.clone();
        self.spawn(async move {
            embedded.shutdown(grace).await;
            Outcome::ShutDown
        })
    }
}
