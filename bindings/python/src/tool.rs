//! The definition of a tool, as Python sees it. All texts are sanitized: they are shown to models.

use std::sync::Arc;

use fumehood::ToolAliases;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// A tool that can be called.
#[pyclass(frozen, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct Tool {
    tool: Arc<fumehood::Tool>,
    alias: String,
}

impl Tool {
    pub(crate) fn new(tool: Arc<fumehood::Tool>, aliases: &ToolAliases) -> Self {
        Self { alias: aliases.alias(tool.full_name()).to_owned(), tool }
    }
}

/// Parses JSON text into Python objects.
pub(crate) fn parse_json(py: Python<'_>, json: &str) -> PyResult<Py<PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    Ok(LOADS.import(py, "json", "loads")?.call1((json,))?.unbind())
}

#[pymethods]
impl Tool {
    /// Returns the full name, `component__tool`.
    #[getter]
    fn name(&self) -> &str {
        self.tool.full_name()
    }

    /// Returns the name for models: the full name, or a similar one if not every provider accepts it.
    #[getter]
    fn alias(&self) -> &str {
        &self.alias
    }

    #[getter]
    fn title(&self) -> Option<String> {
        self.tool.definition().title.as_ref().map(|title| title.to_sanitized().into_owned())
    }

    #[getter]
    fn description(&self) -> String {
        self.tool.definition().description.to_sanitized().into_owned()
    }

    #[getter]
    fn input_schema(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        parse_json(py, &self.tool.definition().input_schema.to_sanitized().to_string())
    }

    #[getter]
    fn output_schema(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let schema = self.tool.definition().output_schema.as_ref();
        schema.map(|schema| parse_json(py, &schema.to_sanitized().to_string())).transpose()
    }

    /// Returns what the tool says of its effects, as a dictionary.
    #[getter]
    fn annotations(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        parse_json(py, &serde_json::to_string(&self.tool.definition().annotations).unwrap_or_default())
    }

    /// Returns its powers beyond computing, one phrase for each.
    #[getter]
    fn powers(&self) -> Vec<String> {
        self.tool.powers().to_vec()
    }

    fn __repr__(&self) -> String {
        format!("Tool(name={:?})", self.tool.full_name())
    }
}
