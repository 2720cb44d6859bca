//! The result of a call, as Python sees it. It is converted once, when a part of it is first asked for.

use fumehood::settings::has_run;
use fumehood::{CallResult, Content};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::tool::parse_json;

/// The outcome of one call: parts of a result, or an error.
#[pyclass(frozen, module = "fumehood")]
pub(crate) struct Result {
    result: CallResult,
    content: PyOnceLock<Py<PyTuple>>,
    structured: PyOnceLock<Py<PyAny>>,
    metadata: PyOnceLock<Py<PyAny>>,
}

/// A failed call.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct CallError {
    /// The kind, such as `invalid_arguments`.
    kind: String,
    /// A description of the failure.
    message: String,
    /// A suggested remedy.
    hint: Option<String>,
    /// The delay after which the same call may be retried, in seconds.
    retry_after: Option<f64>,
    /// The backtrace of a crashed guest, innermost frame first.
    backtrace: Vec<String>,
}

impl From<CallResult> for Result {
    fn from(result: CallResult) -> Self {
        let content = PyOnceLock::new();
        let structured = PyOnceLock::new();
        let metadata = PyOnceLock::new();
        Self { result, content, structured, metadata }
    }
}

/// Converts a part of a result, as the tool wrote it.
pub(crate) fn part<'py>(py: Python<'py>, part: &Content) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    match part {
        Content::Text { text } => {
            dict.set_item("type", "text")?;
            dict.set_item("text", text.expose_raw())?;
        }
        Content::Json { value } => {
            dict.set_item("type", "json")?;
            dict.set_item("value", parse_json(py, value.expose_raw())?)?;
        }
        Content::Blob { mime_type, data } => {
            dict.set_item("type", "blob")?;
            dict.set_item("mime_type", mime_type.to_sanitized())?;
            dict.set_item("data", PyBytes::new(py, data))?;
        }
        Content::Link { uri, title, mime_type } => {
            dict.set_item("type", "link")?;
            dict.set_item("uri", uri.to_sanitized_uri())?;
            dict.set_item("title", title.as_ref().map(|text| text.to_sanitized()))?;
            dict.set_item("mime_type", mime_type.as_ref().map(|text| text.to_sanitized()))?;
        }
    }
    Ok(dict)
}

#[pymethods]
impl Result {
    #[getter]
    fn id(&self) -> &str {
        &self.result.id
    }

    #[getter]
    fn tool(&self) -> &str {
        &self.result.tool
    }

    #[getter]
    fn ok(&self) -> bool {
        self.result.is_ok()
    }

    /// Returns whether any code of the tool ran.
    #[getter]
    fn ran(&self) -> bool {
        has_run(&self.result)
    }

    /// Returns the parts of the result as the tool wrote them; none if the call failed.
    #[getter]
    fn content(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let convert = || {
            let parts: PyResult<Vec<_>> = self.result.content().iter().map(|content| part(py, content)).collect();
            Ok::<_, PyErr>(PyTuple::new(py, parts?)?.unbind())
        };
        self.content.get_or_try_init(py, convert).map(|content| content.clone_ref(py))
    }

    /// Returns the value of the first JSON part; `None` if there is none.
    #[getter]
    fn structured(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let find = || {
            let parts = self.content(py)?;
            let value = parts.bind(py).iter().find_map(|part| part.get_item("value").ok());
            Ok::<_, PyErr>(value.map_or_else(|| py.None(), Bound::unbind))
        };
        self.structured.get_or_try_init(py, find).map(|value| value.clone_ref(py))
    }

    /// Returns the first text or JSON part for a model, with hidden characters escaped; `None` if there is none.
    #[getter]
    fn text(&self) -> Option<String> {
        self.result.text().map(|text| text.into_owned())
    }

    /// Returns all that a model should read: each part as text with hidden characters escaped, or the error.
    #[getter]
    fn model_text(&self) -> String {
        fumehood::model_text(&self.result)
    }

    #[getter]
    fn error(&self) -> Option<CallError> {
        self.result.error().map(|error| CallError {
            kind: error.kind.as_str().to_owned(),
            message: error.message.to_string(),
            hint: error.hint.as_ref().map(ToString::to_string),
            retry_after: error.retry_after.map(|after| after.as_secs_f64()),
            backtrace: error.backtrace.iter().map(ToString::to_string).collect(),
        })
    }

    /// Returns resource usage and observations, as a dictionary.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let convert = || parse_json(py, &serde_json::to_string(&self.result.metadata).unwrap_or_default());
        self.metadata.get_or_try_init(py, convert).map(|metadata| metadata.clone_ref(py))
    }

    /// Returns the result as one line of JSON, the same as that of `fumehood call --json`.
    fn to_json(&self) -> String {
        serde_json::to_string(&self.result).unwrap_or_default()
    }

    /// Creates a result from the text of `to_json`.
    #[staticmethod]
    fn from_json(json: &str) -> PyResult<Self> {
        let result: CallResult = serde_json::from_str(json)
            .map_err(|error| PyValueError::new_err(format!("invalid JSON of a result: {error}")))?;
        Ok(result.into())
    }

    /// Returns the value of the first JSON part, or else of the first text part, which has to be JSON.
    fn json(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if self.result.content().iter().any(|part| matches!(part, Content::Json { .. })) {
            return self.structured(py);
        }
        // Checked here, because Python would accept more than JSON, and any depth of it.
        let value: serde_json::Value = self.result.json().map_err(|error| PyValueError::new_err(error.to_string()))?;
        parse_json(py, &value.to_string())
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (String,))> {
        Ok((slf.get_type().getattr("from_json")?.unbind(), (slf.get().to_json(),)))
    }

    fn __repr__(&self) -> String {
        match self.result.error() {
            None => format!("Result(tool={:?}, ok=True)", self.result.tool),
            Some(error) => format!("Result(tool={:?}, ok=False, error={:?})", self.result.tool, error.kind.as_str()),
        }
    }
}

/// The members of a [`CallError`], in their order.
type Members = (String, String, Option<String>, Option<f64>, Vec<String>);

#[pymethods]
impl CallError {
    /// Creates an error from the members that `__reduce__` gave.
    #[staticmethod]
    fn _restore(
        kind: String,
        message: String,
        hint: Option<String>,
        retry_after: Option<f64>,
        backtrace: Vec<String>,
    ) -> Self {
        Self { kind, message, hint, retry_after, backtrace }
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, Members)> {
        let Self { kind, message, hint, retry_after, backtrace } = slf.get();
        let members = (kind.clone(), message.clone(), hint.clone(), *retry_after, backtrace.clone());
        Ok((slf.get_type().getattr("_restore")?.unbind(), members))
    }

    fn __str__(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{}: {}{hint}", self.kind, self.message)
    }

    fn __repr__(&self) -> String {
        format!("CallError(kind={:?}, message={:?})", self.kind, self.message)
    }
}
