//! The tools that the MCP conformance suite calls.

pub mod contact;
pub mod tasks;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fumehood_guest::{Content, ToolError, log, progress, tool};

use contact::json_schema_2020_12_tool;
use tasks::{failing_job, greet, protocol_error_job, slow_compute};

/// A PNG image of one red pixel, in Base64.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A WAV file with one sample, in Base64.
const SAMPLE: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

/// Returns a text.
#[tool]
pub fn test_simple_text() -> &'static str {
    "This is a simple text response for testing."
}

/// Returns a picture.
#[tool]
pub fn test_image_content() -> Result<Content, ToolError> {
    bytes("image/png", PIXEL)
}

/// Returns a sound.
#[tool]
pub fn test_audio_content() -> Result<Content, ToolError> {
    bytes("audio/wav", SAMPLE)
}

/// Returns a text file.
#[tool]
pub fn test_embedded_resource() -> Content {
    Content::blob("text/plain", "This is an embedded resource content.")
}

/// Returns text, a picture and JSON.
#[tool]
pub fn test_multiple_content_types() -> Result<Vec<Content>, ToolError> {
    let text = Content::text("Multiple content types test:");
    Ok(vec![text, bytes("image/png", PIXEL)?, Content::blob("application/json", r#"{"test":"data","value":123}"#)])
}

/// Writes three lines to the log.
#[tool]
pub fn test_tool_with_logging() -> &'static str {
    for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        log::info(line);
    }
    "Tool with logging executed successfully"
}

/// Writes three lines to the log, which only clients that ask for them see.
#[tool]
pub fn test_logging_tool() -> &'static str {
    test_tool_with_logging()
}

/// Reports progress three times.
#[tool]
pub fn test_tool_with_progress() -> &'static str {
    for step in [0_u8, 50, 100] {
        progress::report(f64::from(step) / 100.0).message(format!("Completed step {step} of 100")).send();
    }
    "Tool with progress executed successfully"
}

/// Reports progress, and asks nobody anything.
#[tool]
pub fn test_streaming_elicitation() -> &'static str {
    test_tool_with_progress()
}

/// Always fails.
#[tool]
pub fn test_error_handling() -> Result<String, ToolError> {
    Err(ToolError::failed("This tool intentionally returns an error for testing"))
}

/// Says what it was given.
#[tool(read_only)]
pub fn test_header_parameters(
    /// The region of the call. Clients over HTTP repeat it in the header `Mcp-Param-Region`.
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
) -> String {
    format!("The region is {region}.")
}

fn bytes(mime_type: &str, encoded: &str) -> Result<Content, ToolError> {
    let data = BASE64_STANDARD.decode(encoded).map_err(ToolError::failed)?;
    Ok(Content::blob(mime_type, data))
}

fumehood_guest::export!(
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_tool_with_logging,
    test_logging_tool,
    test_tool_with_progress,
    test_streaming_elicitation,
    test_error_handling,
    test_header_parameters,
    json_schema_2020_12_tool,
    greet,
    slow_compute,
    failing_job,
    protocol_error_job,
);

#[cfg(test)]
mod tests {
    use fumehood_guest::testing;

    use super::*;

    #[test]
    fn reports_progress_in_three_steps() {
        let run = testing::Call::new().run(test_tool_with_progress);
        let told: Vec<_> = run.updates.iter().map(|update| update.fraction).collect();
        assert_eq!(told, [Some(0.0), Some(0.5), Some(1.0)]);
    }

    #[test]
    fn image_is_a_png() {
        let Ok(Content::Blob(picture)) = test_image_content() else { panic!("it is no picture") };
        assert!(picture.data.starts_with(b"\x89PNG"), "{picture:?}");
    }
}
