//! Values on their way between JSON and a component. The forms are those of [`fumehood_core::typed::schema`].

mod from_json;
#[cfg(test)]
mod tests;
mod to_json;

pub(super) use from_json::record;
pub(super) use to_json::to_json;

/// Why a value cannot be handed over. Arguments that fit the tool's schema never meet it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    /// An argument does not fit its type.
    #[error("{} must be {expected}", place(path))]
    Argument {
        /// Where, as a JSON pointer.
        path: String,
        /// What would fit.
        expected: String,
    },
    /// The component returned something that its own type does not have.
    #[error("the component's answer does not fit the type of its export: {0}")]
    Answer(String),
}

/// Reads a JSON value as one of type `ty`, and writes that as JSON again. For fuzz targets.
///
/// # Errors
/// If it does not fit the type; the text says what would.
#[doc(hidden)]
pub fn convert_typed(value: &serde_json::Value, ty: &fumehood_core::typed::Ty) -> Result<String, String> {
    let read = from_json::from_json(value, ty).map_err(|error| error.to_string())?;
    to_json(&read, ty).map_err(|error| error.to_string())
}

fn place(path: &str) -> String {
    if path.is_empty() { "the arguments".to_owned() } else { format!("the argument at `{path}`") }
}

impl ValueError {
    pub(super) fn expected(expected: impl Into<String>) -> Self {
        Self::Argument { path: String::new(), expected: expected.into() }
    }

    /// The same, seen from the value around it.
    pub(super) fn within(self, step: impl std::fmt::Display) -> Self {
        match self {
            Self::Argument { path, expected } => Self::Argument { path: format!("/{step}{path}"), expected },
            answer @ Self::Answer(_) => answer,
        }
    }
}
