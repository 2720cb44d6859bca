//! The result of an agent's run, as Python sees it.

use fumehood::settings::{AgentReport, CallReport};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::result::Result;

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
