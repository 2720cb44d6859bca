//! An agent and its runs, as Python sees them.

use std::sync::Arc;

use fumehood::settings::{EmbeddedAgent, Questions};
use pyo3::prelude::*;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::error::{HostError, settings_error};
use crate::interpreter;
use crate::operation::{Operation, Outcome};
use crate::owner_process::OwnerProcess;

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
