//! Conversion of values between JSON and a component. The JSON forms are those of [`fumehood_core::schema::typed::schema`].

mod from_json;
mod shape;
#[cfg(test)]
mod tests;
mod to_json;

pub(crate) use from_json::JsonReader;
pub(crate) use shape::{Shape, lift_factor};
pub(crate) use to_json::JsonWriter;

/// Errors of converting a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    /// An argument that does not fit its type.
    ///
    /// Never occurs for arguments that fit the tool's schema.
    #[error("{} must be {expected}", format_path(path))]
    Argument {
        /// The position of the argument, as a JSON pointer (RFC 6901).
        path: String,
        /// The accepted form.
        expected: String,
    },
    /// A returned value that does not fit the type of the export.
    #[error("the component's answer does not match the type of its export: {0}")]
    Answer(String),
    /// A result whose JSON text is larger than its limit.
    #[error("the JSON text of the result is larger than its limit")]
    TooLarge,
    /// The deadline passed before the conversion was over.
    #[error("the deadline passed while the value was converted")]
    Deadline,
}

/// Converts a JSON value to type `ty` and back to JSON. For fuzz targets.
///
/// # Errors
/// If it does not fit the type; the text names the accepted form.
#[doc(hidden)]
pub fn convert_typed(value: &serde_json::Value, ty: &fumehood_core::schema::typed::Ty) -> Result<String, String> {
    let shape = Shape::from(ty);
    let read = JsonReader::new(None).read(value, &shape).map_err(|error| error.to_string())?;
    let mut writer = JsonWriter::new(&read, &shape, usize::MAX);
    while writer.advance(usize::MAX).map_err(|error| error.to_string())?.is_some() {}
    Ok(writer.into_text())
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
            other => other,
        }
    }
}
