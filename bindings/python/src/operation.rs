//! A call or a load that is under way on a thread of the host's runtime, and the way of its outcome to Python.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fumehood::agent::agent::RunError;
use fumehood::event_log::Report;
use fumehood::settings::{AddedServer, AgentReport, ServerError, SettingsError};
use fumehood::{CallResult, ErrorKind, Observed};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::agent_result::AgentResult;
use crate::component::Component;
use crate::error::{HostError, host_error, load_error, server_error, settings_error};
use crate::event::observed;
use crate::interpreter;
use crate::log_report::LogReport;
use crate::owner_process::OwnerProcess;
use crate::result::Result;
use crate::server::Server;

/// Interval at which a thread that waits looks for signals, such as that of Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The outcome of an operation.
pub(crate) enum Outcome {
    Called(Box<CallResult>),
    Loaded(std::result::Result<Component, fumehood::LoadError>),
    Ran(std::result::Result<AgentReport, RunError>),
    Verified(std::result::Result<Report, SettingsError>),
    AddedServer(std::result::Result<AddedServer, ServerError>),
    RemovedServer(bool),
    /// Events of the host; `None` after the last one.
    Observed(Option<Vec<Observed>>),
    ShutDown,
}

impl Outcome {
    /// Converts the outcome. Failures of tools are values; those of the host are exceptions.
    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Called(result) => match result.error().filter(|error| error.kind == ErrorKind::Host) {
                Some(error) => Err(HostError::new_err(error.message.to_string())),
                None => Result::from(*result).into_py_any(py),
            },
            Self::Loaded(Ok(component)) => component.into_py_any(py),
            Self::Loaded(Err(error)) => Err(load_error(&error)),
            Self::Ran(Ok(report)) => AgentResult::new(py, report)?.into_py_any(py),
            Self::Ran(Err(error)) => Err(host_error(&error)),
            Self::Verified(Ok(report)) => Ok(LogReport::from(report).into_py_any(py)?),
            Self::Verified(Err(error)) => Err(settings_error(&error)),
            Self::AddedServer(Ok(server)) => Server::from(server).into_py_any(py),
            Self::AddedServer(Err(error)) => Err(server_error(&error)),
            Self::RemovedServer(was_there) => was_there.into_py_any(py),
            Self::Observed(None) | Self::ShutDown => Ok(py.None()),
            Self::Observed(Some(events)) => {
                let objects = events.into_iter().filter_map(|event| observed(py, event).transpose());
                objects.collect::<PyResult<Vec<_>>>()?.into_py_any(py)
            }
        }
    }
}

/// An operation that is under way. Dropping or cancelling it stops the guest.
#[pyclass(frozen, module = "fumehood")]
pub(crate) struct Operation {
    shared: Arc<OperationState>,
    task: AbortHandle,
    owner: OwnerProcess,
}

#[derive(Default)]
struct OperationState {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    progress: Step,
    /// Called once the operation has ended.
    callback: Option<Py<PyAny>>,
}

#[derive(Default)]
enum Step {
    #[default]
    Running,
    /// It was cancelled, or its task panicked.
    Stopped,
    Ended(Outcome),
    Taken,
}

impl OperationState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, step: Step) {
        let mut state = self.lock();
        state.progress = step;
        let callback = state.callback.take();
        drop(state);
        self.ended.notify_all();
        if let Some(callback) = callback {
            // A loop that was closed takes no more callbacks, and nobody waits for the outcome.
            let _ = interpreter::attach(|py| callback.call0(py).map(drop));
        }
    }
}

/// Ends the operation as stopped if its task ends before it has an outcome.
struct StopGuard(Arc<OperationState>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        if matches!(self.0.lock().progress, Step::Running) {
            self.0.end(Step::Stopped);
        }
    }
}

impl Operation {
    /// Runs a future on the runtime.
    pub(crate) fn spawn(runtime: &Handle, future: impl Future<Output = Outcome> + Send + 'static) -> Self {
        let shared = Arc::new(OperationState::default());
        let ending = StopGuard(Arc::clone(&shared));
        let task = runtime.spawn(async move {
            let outcome = future.await;
            ending.0.end(Step::Ended(outcome));
        });
        Self { shared, task: task.abort_handle(), owner: OwnerProcess::this() }
    }

    /// Waits for the end with the interpreter released.
    ///
    /// # Errors
    /// If a signal handler raised an exception, after which the operation is dropped; and in a forked process.
    pub(crate) fn wait(&self, py: Python<'_>) -> PyResult<()> {
        loop {
            // Looked at each time: a handler of a signal may have forked.
            self.owner.check()?;
            let is_running = py.detach(|| {
                let is_running = |state: &mut State| matches!(state.progress, Step::Running);
                let waited = self.shared.ended.wait_timeout_while(self.shared.lock(), SIGNAL_INTERVAL, is_running);
                waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
            });
            if !is_running {
                return Ok(());
            }
            py.check_signals()?;
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.cancel();
    }
}

#[pymethods]
impl Operation {
    /// Calls `callback` once, from any thread, when the operation has ended.
    pub(crate) fn on_end(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        self.owner.check()?;
        let mut state = self.shared.lock();
        if matches!(state.progress, Step::Running) {
            state.callback = Some(callback);
            return Ok(());
        }
        drop(state);
        callback.call0(py).map(drop)
    }

    /// Stops the operation; a guest stops within milliseconds. A forked process has nothing to stop.
    fn cancel(&self) {
        if self.owner.is_this() {
            self.task.abort();
        }
    }

    fn is_done(&self) -> PyResult<bool> {
        self.owner.check()?;
        Ok(!matches!(self.shared.lock().progress, Step::Running))
    }

    /// Returns the outcome, once.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.owner.check()?;
        let step = std::mem::replace(&mut self.shared.lock().progress, Step::Taken);
        match step {
            Step::Ended(outcome) => outcome.into_object(py),
            Step::Running | Step::Taken => Err(HostError::new_err("the outcome was requested too early, or twice")),
            Step::Stopped => Err(HostError::new_err("the operation was stopped before it had an outcome")),
        }
    }
}
