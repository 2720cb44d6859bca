//! Capabilities whose functions are written in Python: the way of a call to its function, and of the outcome back.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood::boxed::BoxFuture;
use fumehood::settings::{FunctionCaller, FunctionCapability, FunctionError, PlainValue, SettingsError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::interpreter;
use crate::owner_process::OwnerProcess;
use crate::plain::{from_object, to_object};
use crate::tool::parse_json;

/// A capability as Python describes it: name, description, WIT, and the names of its functions.
pub(crate) type Description = (String, String, String, Vec<String>);

/// Creates the capabilities of a host. `start` is called with each [`FunctionCall`].
///
/// # Errors
/// If one cannot be used.
pub(crate) fn capabilities(
    descriptions: Vec<Description>,
    start: Option<Py<PyAny>>,
    runtime: &Handle,
) -> Result<Vec<FunctionCapability>, SettingsError> {
    let start = Arc::new(start);
    let create = |(number, (name, description, wit, functions)): (usize, Description)| {
        let caller = Caller { runtime: runtime.clone(), number, start: Arc::clone(&start) };
        FunctionCapability::new(&name, &description, &wit, &functions, Arc::new(caller))
    };
    descriptions.into_iter().enumerate().map(create).collect()
}

/// Calls the functions of one capability.
struct Caller {
    runtime: Handle,
    /// The position of the capability in the host.
    number: usize,
    start: Arc<Option<Py<PyAny>>>,
}

impl FunctionCaller for Caller {
    fn call(&self, call: fumehood::settings::FunctionCall) -> BoxFuture<'static, Result<PlainValue, FunctionError>> {
        let (sender, outcome) = oneshot::channel();
        let shared = Arc::new(Shared::default());
        let fumehood::settings::FunctionCall { function, arguments, grant, context } = call;
        *shared.lock() = State { sender: Some(sender), arguments: Some(arguments), on_stop: None };
        let guard = StopGuard { shared: Arc::clone(&shared), runtime: self.runtime.clone() };
        let function = FunctionCall {
            capability: self.number,
            function,
            context: context.into(),
            grant,
            shared,
            owner: OwnerProcess::this(),
        };
        let start = Arc::clone(&self.start);
        // On a thread of the runtime, because that of the guest must not wait for the interpreter.
        self.runtime.spawn(async move {
            let shared = Arc::clone(&function.shared);
            let started = interpreter::attach(|py| match &*start {
                Some(start) => start.call1(py, (function,)).map(drop).map_err(|error| error.to_string()),
                None => Ok(()),
            });
            if let Some(Err(message)) = started {
                shared.finish(Err(FunctionError::Unavailable(message)));
            }
        });
        Box::pin(async move {
            let guard = guard;
            let ended = outcome.await;
            drop(guard);
            ended.unwrap_or_else(|_| Err(FunctionError::Unavailable("it was dropped without an outcome".to_owned())))
        })
    }
}

/// What a call of a function and its tool share.
#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    /// Set until the function has ended or the tool has stopped.
    sender: Option<oneshot::Sender<Result<PlainValue, FunctionError>>>,
    /// Set until the function begins.
    arguments: Option<Vec<PlainValue>>,
    /// Called when the tool stops before the function has ended.
    on_stop: Option<Py<PyAny>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, outcome: Result<PlainValue, FunctionError>) {
        let state = std::mem::take(&mut *self.lock());
        if let Some(sender) = state.sender {
            // It fails if the tool has just stopped.
            let _ = sender.send(outcome);
        }
    }
}

/// Tells the function that its tool has stopped, when the future of the call is dropped.
struct StopGuard {
    shared: Arc<Shared>,
    runtime: Handle,
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        let state = std::mem::take(&mut *self.shared.lock());
        let Some(on_stop) = state.on_stop else { return };
        self.runtime.spawn(async move {
            // A loop that was closed takes no more callbacks, and its coroutines have ended.
            let _ = interpreter::attach(|py| on_stop.call0(py).map(drop));
        });
    }
}

/// The call of a function that a component imports.
#[pyclass(frozen, module = "fumehood")]
pub(crate) struct FunctionCall {
    /// The position of the capability in its host.
    #[pyo3(get)]
    capability: usize,
    /// The position of the function in its capability.
    #[pyo3(get)]
    function: usize,
    context: ContextParts,
    grant: Arc<str>,
    shared: Arc<Shared>,
    owner: OwnerProcess,
}

#[pymethods]
impl FunctionCall {
    /// Returns the arguments, once.
    fn take_arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.owner.check()?;
        let arguments = self.shared.lock().arguments.take().unwrap_or_default();
        let objects = arguments.into_iter().map(|argument| to_object(py, argument));
        PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)
    }

    fn context(&self, py: Python<'_>) -> PyResult<CapabilityContext> {
        let parts = self.context.clone();
        let grant = parse_json(py, &self.grant)?;
        Ok(CapabilityContext { parts, grant, shared: Arc::clone(&self.shared), owner: self.owner })
    }

    /// Ends the call with the value that the function returned.
    fn finish(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.owner.check()?;
        self.shared.finish(Ok(from_object(value)));
        Ok(())
    }

    /// Ends the call with a failure: an `err` with its payload, or `denied`, `unavailable` or `failed` with a message.
    fn fail(&self, kind: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.owner.check()?;
        let message = || value.str().map_or_else(|_| "it has no message".to_owned(), |text| text.to_string());
        let error = match kind {
            "err" => FunctionError::Err(from_object(value)),
            "denied" => FunctionError::Denied(message()),
            "unavailable" => FunctionError::Unavailable(message()),
            "failed" => FunctionError::Failed(message()),
            _ => return Err(PyValueError::new_err("expected `err`, `denied`, `unavailable` or `failed`")),
        };
        self.shared.finish(Err(error));
        Ok(())
    }

    /// Calls `callback` once, from any thread, if the tool stops before the function has ended.
    fn on_stop(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        self.owner.check()?;
        let mut state = self.shared.lock();
        if state.sender.is_some() {
            state.on_stop = Some(callback);
            return Ok(());
        }
        drop(state);
        callback.call0(py).map(drop)
    }

    /// Returns whether the tool has stopped or the function has ended.
    fn is_done(&self) -> PyResult<bool> {
        self.owner.check()?;
        Ok(self.shared.lock().sender.is_none())
    }
}

/// The call of a tool that uses a capability.
#[pyclass(frozen, module = "fumehood")]
pub(crate) struct CapabilityContext {
    parts: ContextParts,
    /// What the component was granted.
    #[pyo3(get)]
    grant: Py<PyAny>,
    shared: Arc<Shared>,
    owner: OwnerProcess,
}

/// The context as the host gives it.
#[derive(Clone)]
struct ContextParts(Arc<fumehood::capability::CapabilityContext>);

impl From<fumehood::capability::CapabilityContext> for ContextParts {
    fn from(context: fumehood::capability::CapabilityContext) -> Self {
        Self(Arc::new(context))
    }
}

impl fmt::Debug for ContextParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[pymethods]
impl CapabilityContext {
    /// Returns the name of the component.
    #[getter]
    fn component(&self) -> Option<String> {
        self.parts.0.component.as_ref().map(ToString::to_string)
    }

    /// Returns the name of the tool within its component.
    #[getter]
    fn tool(&self) -> &str {
        &self.parts.0.tool
    }

    #[getter]
    fn call_id(&self) -> &str {
        &self.parts.0.call_id
    }

    #[getter]
    fn actor(&self) -> Option<&str> {
        self.parts.0.actor.as_deref()
    }

    /// Returns the time until the deadline of the call, in seconds.
    #[getter]
    fn time_left(&self) -> f64 {
        (self.parts.0.time_left)().as_secs_f64()
    }

    /// Returns whether the call of the tool has ended: its deadline has passed, or it was cancelled.
    #[getter]
    fn cancelled(&self) -> PyResult<bool> {
        self.owner.check()?;
        Ok(self.shared.lock().sender.is_none())
    }

    /// Records that the tool tried something that its grant does not cover.
    fn refuse(&self, tried: String, because: String) {
        self.parts.0.refuse(tried, because);
    }

    fn __repr__(&self) -> String {
        format!("CapabilityContext(tool={:?}, call_id={:?})", self.tool(), self.call_id())
    }
}
