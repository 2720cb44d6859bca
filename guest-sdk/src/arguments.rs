//! From JSON text to the function's own types.

use serde::de::DeserializeOwned;

use crate::ToolError;

/// Reads a tool's arguments. The host has already checked them against the schema; what it lets through and the types
/// refuse is told to the model as invalid arguments, in serde's words.
///
/// # Errors
///
/// If the text is not JSON or does not fit `T`.
pub fn arguments<T: DeserializeOwned>(json: &str) -> Result<T, ToolError> {
    serde_json::from_str(json).map_err(ToolError::invalid_arguments)
}
