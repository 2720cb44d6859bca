//! An agent, its runs and their results, as Python sees them.

use std::sync::Arc;

use fumehood::settings::{AgentReport, CallReport, EmbeddedAgent, Questions};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::error::{HostError, settings_error};
use crate::interpreter;
use crate::operation::{Operation, Outcome};
use crate::owner_process::OwnerProcess;
use crate::result::Result;

/// A conversation of a model of the program with the tools of a host.
#[pyclass(frozen, module = "fumehood")]
pub(crate) struct NativeAgent {
    /// Always there until the agent is dropped.
    agent: Option<EmbeddedAgent>,
    runtime: Handle,
    owner: OwnerProcess,
}

impl NativeAgent {
    pub(crate) fn new(agent: EmbeddedAgent, runtime: Handle) -> Self {
        Self { agent: Some(agent), runtime, owner: OwnerProcess::this() }
    }
}

impl Drop for NativeAgent {
    fn drop(&mut self) {
        if !self.owner.is_this() {
            // Its end would be recorded by a thread that was not forked.
            std::mem::forget(self.agent.take());
        }
    }
}

#[pymethods]
impl NativeAgent {
    /// Starts a run. `callback` is called, from any thread, when there are questions.
    fn run(&self, message: String, callback: Py<PyAny>) -> PyResult<AgentRun> {
        self.owner.check()?;
        let agent = self.agent.as_ref().ok_or_else(|| HostError::new_err("the agent was closed"))?;
        let changed = Arc::new(Notify::new());
        let wake = Arc::clone(&changed);
        let questions = Questions::new(move || wake.notify_one());
        let running = agent.run(message, Arc::clone(&questions));
        // The threads that carry out the run never wait for the interpreter.
        let notifier = self.runtime.spawn(async move {
            loop {
                changed.notified().await;
                // A loop that was closed takes no more callbacks, and nobody answers.
                if interpreter::attach(|py| callback.call0(py).is_ok()) != Some(true) {
                    return;
                }
            }
        });
        let operation = Operation::spawn(&self.runtime, async move { Outcome::Ran(running.await) });
        let operation = Python::attach(|py| Py::new(py, operation))?;
        Ok(AgentRun { questions, operation, notifier: notifier.abort_handle(), owner: OwnerProcess::this() })
    }
}

/// A run that is under way, with its questions.
#[pyclass(frozen, module = "fumehood")]
pub(crate) struct AgentRun {
    questions: Arc<Questions>,
    operation: Py<Operation>,
    notifier: AbortHandle,
    owner: OwnerProcess,
}

impl Drop for AgentRun {
    fn drop(&mut self) {
        if self.owner.is_this() {
            self.notifier.abort();
        }
    }
}

#[pymethods]
impl AgentRun {
    /// Returns the operation, whose outcome is the result of the run.
    #[getter]
    fn operation(&self, py: Python<'_>) -> Py<Operation> {
        self.operation.clone_ref(py)
    }

    /// Returns the questions since the last time, each as JSON.
    fn drain(&self) -> PyResult<Vec<String>> {
        self.owner.check()?;
        Ok(self.questions.drain())
    }

    /// Answers a question, as JSON.
    fn answer(&self, id: u32, json: &str) -> PyResult<()> {
        self.owner.check()?;
        self.questions.answer(id, json).map_err(|error| settings_error(&error.into()))
    }

    /// Ends a question without an answer, and returns whether it was open.
    fn fail(&self, id: u32, reason: &str) -> PyResult<bool> {
        self.owner.check()?;
        Ok(self.questions.fail(id, reason))
    }
}

/// The result of a run.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct AgentResult {
    /// The answer, or the last text of the model; empty if there is none.
    text: String,
    /// The way the run ended, such as `answered`.
    status: &'static str,
    /// The reason why there is no answer.
    reason: Option<String>,
    /// The number of requests to the model.
    turns: usize,
    /// The tokens of these requests.
    usage: Py<PyDict>,
    /// The calls that the model requested.
    calls: Py<PyTuple>,
}

/// A call that the model requested.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct AgentCall {
    /// The id that the model gave the call.
    id: String,
    /// The full name of the tool.
    tool: String,
    /// The arguments as the model wrote them.
    arguments: String,
    /// The status, such as `ok` or `rejected_schema`.
    status: &'static str,
    /// The result.
    result: Py<Result>,
}

impl AgentResult {
    pub(crate) fn new(py: Python<'_>, report: AgentReport) -> PyResult<Self> {
        let AgentReport { text, status, reason, turns, usage, calls } = report;
        let tokens = PyDict::new(py);
        tokens.set_item("input", usage.input)?;
        tokens.set_item("output", usage.output)?;
        tokens.set_item("cache_read", usage.cache_read)?;
        tokens.set_item("cache_creation", usage.cache_creation)?;
        let calls: PyResult<Vec<_>> = calls.into_iter().map(|call| AgentCall::new(py, call)).collect();
        let calls = PyTuple::new(py, calls?)?.unbind();
        Ok(Self { text, status, reason, turns, usage: tokens.unbind(), calls })
    }
}

impl AgentCall {
    fn new(py: Python<'_>, call: CallReport) -> PyResult<Self> {
        let CallReport { id, tool, arguments, status, result } = call;
        let result = Py::new(py, Result::from(result))?;
        Ok(Self { id, tool, arguments, status: status.as_str(), result })
    }
}

#[pymethods]
impl AgentResult {
    /// Returns whether the model answered.
    #[getter]
    fn ok(&self) -> bool {
        self.reason.is_none()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let calls = self.calls.bind(py).len();
        format!("AgentResult(status={:?}, text={:?}, calls={calls})", self.status, self.text)
    }
}

#[pymethods]
impl AgentCall {
    fn __repr__(&self) -> String {
        format!("AgentCall(tool={:?}, arguments={:?}, status={:?})", self.tool, self.arguments, self.status)
    }
}
