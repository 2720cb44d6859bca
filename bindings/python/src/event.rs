//! Progress, log lines and requests of one running call, queued for Python.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood::{CallResult, Level, Observed, Observer, RequestReport};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::interpreter;
use crate::owner_process::OwnerProcess;
use crate::result::{Result, part};

/// A progress report of a running call.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct Progress {
    /// The completed fraction, 0.0 to 1.0.
    fraction: Option<f64>,
    /// A description of the current activity.
    message: Option<String>,
    /// Parts of the result that are ready.
    partial: Py<PyTuple>,
}

/// A log line of a running call.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct LogLine {
    /// The severity, such as `info`.
    level: &'static str,
    /// The text of the line.
    message: String,
}

/// An HTTP request of a running call that ended or was refused.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct Request {
    method: String,
    host: String,
    status: Option<u16>,
    reason: Option<String>,
    bytes_out: u64,
    bytes_in: u64,
}

/// The events of one call that Python has not taken yet. Their number is bounded by the call's own limits.
#[pyclass(frozen, module = "fumehood")]
#[derive(Default)]
pub(crate) struct Events {
    queue: Arc<Queue>,
    task: Mutex<Option<AbortHandle>>,
    owner: OwnerProcess,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<VecDeque<Event>>,
    changed: Notify,
}

enum Event {
    Log(Level, String),
    Progress(fumehood::Progress),
    Request(RequestReport),
}

impl Queue {
    fn push(&self, event: Event) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
        self.changed.notify_one();
    }
}

impl Observer for Queue {
    fn log(&self, level: Level, message: &str) {
        self.push(Event::Log(level, message.to_owned()));
    }

    fn progress(&self, progress: fumehood::Progress) {
        self.push(Event::Progress(progress));
    }

    fn request(&self, request: RequestReport) {
        self.push(Event::Request(request));
    }
}

impl Events {
    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.queue) as Arc<dyn Observer>
    }

    /// Calls `callback` from a thread of the runtime whenever there are new events: the threads that run tools never wait
    /// for the interpreter.
    pub(crate) fn notify(&self, runtime: &Handle, callback: Py<PyAny>) {
        let queue = Arc::clone(&self.queue);
        let task = runtime.spawn(async move {
            loop {
                queue.changed.notified().await;
                // A loop that was closed takes no more callbacks, and nobody waits for the events.
                if interpreter::attach(|py| callback.call0(py).is_ok()) != Some(true) {
                    return;
                }
            }
        });
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task.filter(|_| self.owner.is_this()) {
            task.abort();
        }
    }
}

#[pymethods]
impl Events {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Returns the events that came since the last time.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.owner.check()?;
        let events = std::mem::take(&mut *self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        events.into_iter().map(|event| event.into_object(py)).collect()
    }
}

impl Event {
    fn into_object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::Log(level, message) => LogLine { level: level.as_str(), message }.into_bound_py_any(py),
            Self::Progress(fumehood::Progress { fraction, message, partial }) => {
                let parts: PyResult<Vec<_>> = partial.iter().map(|content| part(py, content)).collect();
                let message = message.map(|message| message.to_string());
                Progress { fraction, message, partial: PyTuple::new(py, parts?)?.unbind() }.into_bound_py_any(py)
            }
            Self::Request(RequestReport { method, host, status, reason, bytes_out, bytes_in }) => {
                Request { method, host, status, reason, bytes_out, bytes_in }.into_bound_py_any(py)
            }
        }
    }
}

/// A component was loaded and its tools can be called.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct Loaded {
    component: String,
    digest: String,
    /// The full names of its tools.
    tools: Vec<String>,
}

/// A call passed the gate and is sent to the sandbox.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct Started {
    /// The id of the call.
    id: String,
    tool: String,
    actor: Option<String>,
}

/// An event of one of the running calls.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct CallEvent {
    /// The id of the call.
    id: String,
    event: Py<PyAny>,
}

/// A subscriber was too slow, and missed events.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct Lost {
    /// The number of the events.
    count: u64,
}

fn event_of_call(py: Python<'_>, id: String, event: Event) -> PyResult<Py<PyAny>> {
    let event = event.into_object(py)?.unbind();
    CallEvent { id, event }.into_py_any(py)
}

/// Converts an event of a host; `None` for one that this version does not know.
pub(crate) fn observed(py: Python<'_>, observed: Observed) -> PyResult<Option<Py<PyAny>>> {
    let object = match observed {
        Observed::Lost(count) => Lost { count }.into_py_any(py),
        Observed::Event(event) => match event {
            fumehood::Event::Loaded { component, digest, tools } => {
                Loaded { component, digest: digest.to_string(), tools }.into_py_any(py)
            }
            fumehood::Event::Started { id, tool, actor } => {
                Started { id, tool, actor: actor.map(|actor| actor.to_string()) }.into_py_any(py)
            }
            fumehood::Event::Log { id, level, message } => {
                event_of_call(py, id, Event::Log(level, message.to_string()))
            }
            fumehood::Event::Progress { id, progress } => event_of_call(py, id, Event::Progress(progress)),
            fumehood::Event::Request { id, request } => event_of_call(py, id, Event::Request(request)),
            fumehood::Event::Finished { result } => Result::from(CallResult::clone(&result)).into_py_any(py),
            _ => return Ok(None),
        },
    };
    object.map(Some)
}

/// Formats a value that may be missing as Python does.
fn repr(value: Option<&impl std::fmt::Debug>) -> String {
    value.map_or_else(|| "None".to_owned(), |value| format!("{value:?}"))
}

#[pymethods]
impl Loaded {
    fn __repr__(&self) -> String {
        format!("Loaded(component={:?}, tools={:?})", self.component, self.tools)
    }
}

#[pymethods]
impl Started {
    fn __repr__(&self) -> String {
        format!("Started(id={:?}, tool={:?})", self.id, self.tool)
    }
}

#[pymethods]
impl CallEvent {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("CallEvent(id={:?}, event={})", self.id, self.event.bind(py).repr()?))
    }
}

#[pymethods]
impl Lost {
    fn __repr__(&self) -> String {
        format!("Lost(count={})", self.count)
    }
}

#[pymethods]
impl Progress {
    fn __repr__(&self) -> String {
        format!("Progress(fraction={}, message={})", repr(self.fraction.as_ref()), repr(self.message.as_ref()))
    }
}

#[pymethods]
impl LogLine {
    fn __repr__(&self) -> String {
        format!("LogLine(level={:?}, message={:?})", self.level, self.message)
    }
}

#[pymethods]
impl Request {
    fn __repr__(&self) -> String {
        format!("Request(method={:?}, host={:?}, status={})", self.method, self.host, repr(self.status.as_ref()))
    }
}
