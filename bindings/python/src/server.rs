//! An MCP server that was added to a host, as Python sees it.

use fumehood::settings::AddedServer;
use pyo3::prelude::*;

/// An MCP server that was added to a host.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct Server {
    /// The name, which the full names of its tools begin with.
    name: String,
    /// The full names of its tools.
    tools: Vec<String>,
    /// The tools that are left out, with the reasons.
    ignored: Vec<String>,
}

impl From<AddedServer> for Server {
    fn from(server: AddedServer) -> Self {
        let AddedServer { name, tools, ignored } = server;
        Self { name, tools, ignored }
    }
}

#[pymethods]
impl Server {
    fn __repr__(&self) -> String {
        format!("Server(name={:?}, tools={:?})", self.name, self.tools)
    }
}
