//! The extension module of the Python package `fumehood`: a host, its calls and their results. The package itself, in `../python`,
//! adds what is easier to say in Python: coroutines and adapters.
#![cfg(feature = "extension-module")]

use pyo3::prelude::*;

mod agent;
mod agent_result;
mod capability;
mod component;
mod error;
mod event;
mod host;
mod interpreter;
mod log_report;
mod operation;
mod owner_process;
mod plain;
mod result;
mod server;
mod tool;

/// Defines the module.
#[pymodule]
fn _fumehood(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(interpreter::close, module)?,))?;
    module.add("FumehoodError", py.get_type::<error::FumehoodError>())?;
    module.add("HostError", py.get_type::<error::HostError>())?;
    module.add("LoadError", py.get_type::<error::LoadError>())?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<agent_result::AgentCall>()?;
    module.add_class::<agent_result::AgentResult>()?;
    module.add_class::<agent::AgentRun>()?;
    module.add_class::<agent::NativeAgent>()?;
    module.add_class::<capability::CapabilityContext>()?;
    module.add_class::<capability::FunctionCall>()?;
    module.add_class::<component::Component>()?;
    module.add_class::<event::CallEvent>()?;
    module.add_class::<event::Events>()?;
    module.add_class::<event::Loaded>()?;
    module.add_class::<event::LogLine>()?;
    module.add_class::<event::Lost>()?;
    module.add_class::<log_report::LogReport>()?;
    module.add_class::<event::Progress>()?;
    module.add_class::<event::Request>()?;
    module.add_class::<event::Started>()?;
    module.add_class::<host::NativeHost>()?;
    module.add_class::<host::Subscription>()?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<result::CallError>()?;
    module.add_class::<result::Result>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<tool::Tool>()
}
