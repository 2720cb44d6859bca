//! Exceptions of the module, and the errors of the host that become them.

use std::error::Error;

use fumehood::settings::{ServerError, SettingsError};
use pyo3::PyErr;
use pyo3::exceptions::{PyException, PyValueError};

pyo3::create_exception!(fumehood, FumehoodError, PyException, "The base class of the errors of a host.");
pyo3::create_exception!(fumehood, HostError, FumehoodError, "The host failed, not a tool.");
pyo3::create_exception!(
    fumehood,
    LoadError,
    FumehoodError,
    "A component cannot be loaded, or a server cannot be used."
);

/// Returns the message of an error with those of its causes.
fn chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    message
}

/// Creates the exception of a host that failed.
pub(crate) fn host_error(error: &dyn Error) -> PyErr {
    HostError::new_err(chain(error))
}

/// Creates the exception of a component that cannot be loaded.
pub(crate) fn load_error(error: &fumehood::LoadError) -> PyErr {
    match error {
        fumehood::LoadError::Different { .. } => LoadError::new_err(format!("{error} with `replace=True`")),
        _ => LoadError::new_err(chain(error)),
    }
}

/// Creates the exception of a server that cannot be added.
pub(crate) fn server_error(error: &ServerError) -> PyErr {
    match error {
        ServerError::Settings(error) => settings_error(error),
        ServerError::Closed => host_error(error),
        _ => LoadError::new_err(chain(error)),
    }
}

/// Creates the exception of settings that cannot be used, or of a host that they cannot make.
pub(crate) fn settings_error(error: &SettingsError) -> PyErr {
    match error {
        SettingsError::Setting(_) => PyValueError::new_err(error.to_string()),
        _ => host_error(error),
    }
}

/// Creates the exception of a setting that cannot be used; `name` is that of the parameter.
pub(crate) fn value_error(name: &str, message: &dyn std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("`{name}`: {message}"))
}
