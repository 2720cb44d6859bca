//! Conversion of values between JSON and a component. The JSON forms are those of [`fumehood_core::schema::typed::schema`].

mod from_json;
#[cfg(test)]
mod tests;
mod to_json;

pub(super) use from_json::read_record;
pub(super) use to_json::to_json;

/// Errors of converting a value. They never occur for arguments that fit the tool's schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    /// An argument that does not fit its type.
    #[error("{} must be {expected}", format_path(path))]
    Argument {
        /// The position of the argument, as a JSON pointer (RFC 6901).
        path: String,
        /// The accepted form.
        expected: String,
    },
    /// A returned value that does not fit the type of the export.
    #[error("the component's answer does not fit the type of its export: {0}")]
    Answer(String),
}

/// Converts a JSON value to type `ty` and back to JSON. For fuzz targets.
///
/// # Errors
/// If it does not fit the type; the text names the accepted form.
#[doc(hidden)]
pub fn convert_typed(value: &serde_json::Value, ty: &fumehood_core::schema::typed::Ty) -> Result<String, String> {
    let read = from_json::from_json(value, ty).map_err(|error| error.to_string())?;
    to_json(&read, ty).map_err(|error| error.to_string())
}

fn format_path(path: &str) -> String {
    if path.is_empty() { "the arguments".to_owned() } else { format!("the argument at `{path}`") }
}

impl ValueError {
    /// Creates an error of the value itself.
    pub(super) fn expected(expected: impl Into<String>) -> Self {
        Self::Argument { path: String::new(), expected: expected.into() }
    }

    /// Prepends a step to the path, for the value that contains this one.
    pub(super) fn within(self, step: impl std::fmt::Display) -> Self {
        match self {
            Self::Argument { path, expected } => Self::Argument { path: format!("/{step}{path}"), expected },
            answer @ Self::Answer(_) => answer,
        }
    }
}
