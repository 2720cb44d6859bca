//! QR codes.

use fumehood_guest::{Content, ToolError, tool};
use qrcode::render::{svg, unicode};
use qrcode::types::QrError;
use qrcode::{EcLevel, QrCode};
use schemars::JsonSchema;
use serde::Deserialize;

/// How much of the code may be damaged or covered.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Correction {
    Low,
    #[default]
    Medium,
    High,
}

fn encode(text: &str, correction: Correction) -> Result<QrCode, ToolError> {
    let level = match correction {
        Correction::Low => EcLevel::L,
        Correction::Medium => EcLevel::M,
        Correction::High => EcLevel::H,
    };
    QrCode::with_error_correction_level(text, level).map_err(|error| match error {
        QrError::DataTooLong => ToolError::invalid_arguments(format!(
            "a text of {} bytes is too long for a QR code; shorten it, or choose a lower correction",
            text.len()
        )),
        other => ToolError::failed(other.to_string()),
    })
}

/// Returns a QR code as a picture (SVG).
#[tool(title = "QR code as a picture", read_only, idempotent, destructive = false, open_world = false)]
pub fn picture(
    /// The text or the address in the code.
    #[schemars(length(min = 1))]
    text: String,
    #[default] correction: Correction,
    /// The width and height, in pixels.
    #[default(256)]
    #[schemars(range(min = 32, max = 2048))]
    size: u32,
) -> Result<Content, ToolError> {
    let code = encode(&text, correction)?;
    let image = code.render::<svg::Color>().min_dimensions(size, size).build();
    Ok(Content::blob("image/svg+xml", image))
}

/// Returns a QR code as text, for a terminal.
#[tool(title = "QR code as text", read_only, idempotent, destructive = false, open_world = false)]
pub fn blocks(#[schemars(length(min = 1, max = 500))] text: String) -> Result<String, ToolError> {
    Ok(encode(&text, Correction::Low)?.render::<unicode::Dense1x2>().build())
}

fumehood_guest::export!(picture, blocks);
