//! A loaded component, as Python sees it.

use pyo3::prelude::*;

/// A loaded component.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct Component {
    /// The name, which the full names of its tools begin with.
    name: String,
    /// The digest of its bytes, `sha256:…`.
    digest: String,
    /// True if its calls run in a worker process.
    isolated: bool,
    /// The full names of its tools.
    tools: Vec<String>,
}

impl Component {
    pub(crate) fn new(host: &fumehood::Host, name: String, component: &fumehood::Component) -> Self {
        let loaded = host.component(&name);
        let tools = loaded.iter().flat_map(|loaded| loaded.tools());
        Self {
            digest: component.digest().to_string(),
            isolated: component.is_isolated(),
            tools: tools.map(|tool| tool.full_name().to_owned()).collect(),
            name,
        }
    }
}

#[pymethods]
impl Component {
    fn __repr__(&self) -> String {
        format!("Component(name={:?}, tools={:?})", self.name, self.tools)
    }
}
