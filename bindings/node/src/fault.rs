//! Errors that JavaScript throws, each with a code.

use std::error::Error;

use fumehood::settings::SettingsError;

/// The code of an error, its property `code` in JavaScript.
#[derive(Debug, Clone, Copy)]
pub enum Code {
    /// The host itself failed.
    Host,
    /// A component cannot be loaded.
    Load,
    /// A setting is misspelt or not possible.
    Setting,
}

impl Code {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "ERR_FUMEHOOD_HOST",
            Self::Load => "ERR_FUMEHOOD_LOAD",
            Self::Setting => "ERR_FUMEHOOD_SETTING",
        }
    }
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

/// The napi library creates errors of its own with a status.
impl From<napi::Status> for Code {
    fn from(_: napi::Status) -> Self {
        Self::Host
    }
}

/// An error that JavaScript throws.
pub(crate) type Fault = napi::Error<Code>;

/// Returns the message of an error with those of its causes.
pub(crate) fn error_chain(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", error_chain(cause)),
        None => error.to_string(),
    }
}

/// Creates the error of settings that cannot be used, or of a host that they cannot make.
pub(crate) fn settings_fault(error: &SettingsError) -> Fault {
    let code = if matches!(error, SettingsError::Setting(_)) { Code::Setting } else { Code::Host };
    Fault::new(code, error_chain(error))
}

/// Creates the error of a host that failed.
pub(crate) fn host_fault(message: impl ToString) -> Fault {
    Fault::new(Code::Host, message)
}
