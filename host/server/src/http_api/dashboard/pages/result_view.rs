//! The result of a call that was made from a page.

use std::sync::{Mutex, PoisonError};

use fumehood_core::call::Observer;
use fumehood_core::call::content::Content;
use fumehood_core::call::event::{Level, Progress};
use fumehood_core::call::limits::{display_bytes, display_count};
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::text::sanitize::truncate_str;
use fumehood_core::text::untrusted::PrintableText;
use serde_json::Value;

use super::super::charts::format_ms;
use super::pretty;

/// Maximum length of a part that is shown, in bytes.
const MAX_PART_BYTES: usize = 64 << 10;
/// Maximum number of log lines that are kept.
const MAX_LINES: usize = 200;

/// The log lines and progress reports of one call.
#[derive(Default)]
pub(super) struct CapturedLines(Mutex<Vec<(&'static str, PrintableText)>>);

impl CapturedLines {
    fn push(&self, level: &'static str, line: &str) {
        // No code that holds the lock can panic half-way.
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MAX_LINES {
            lines.push((level, line.into()));
        }
    }

    fn take(&self) -> Vec<(&'static str, PrintableText)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for CapturedLines {
    fn log(&self, level: Level, message: &str) {
        self.push(level.as_str(), message);
    }

    fn progress(&self, progress: Progress) {
        progress.message.iter().for_each(|message| self.push("progress", message));
    }
}

/// A result, as a page shows it.
pub(super) struct ResultView {
    pub(super) is_ok: bool,
    pub(super) status: &'static str,
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) error: Option<CallError>,
    pub(super) parts: Vec<PartView>,
    pub(super) lines: Vec<(&'static str, PrintableText)>,
    /// Number of characters that are written out because a reader would not see them.
    pub(super) hidden: u64,
}

/// One part of a result.
pub(super) struct PartView {
    pub(super) kind: PrintableText,
    pub(super) text: PrintableText,
}

impl ResultView {
    pub(super) fn new(result: &CallResult, lines: &CapturedLines) -> Self {
        let metadata = &result.metadata;
        Self {
            is_ok: result.is_ok(),
            status: result.error().map_or("ok", |error| error.kind.as_str()),
            facts: vec![
                ("took", format_ms(metadata.duration.as_secs_f64() * 1e3)),
                ("fuel", display_count(metadata.fuel_used)),
                ("memory", display_bytes(metadata.peak_memory as u64)),
            ],
            error: result.error().cloned(),
            parts: result.content().iter().map(PartView::new).collect(),
            lines: lines.take(),
            hidden: metadata.sanitized,
        }
    }
}

impl PartView {
    fn new(part: &Content) -> Self {
        match part {
            Content::Text { text } => Self::cut("text".into(), &text.to_sanitized()),
            Content::Json { value } => {
                // Parsed before hidden characters are written out, because they may be escapes of JSON.
                let text = match value.read::<Value>() {
                    Ok(value) => pretty(&fumehood_core::text::sanitize::printable_value(&value).0),
                    Err(_) => value.to_sanitized().into(),
                };
                Self::cut("JSON".into(), &text)
            }
            Content::Blob { mime_type, data } => {
                let kind = format!("{}, {}", mime_type.to_sanitized(), display_bytes(data.len() as u64)).into();
                let start: Vec<String> = data.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
                let more = if data.len() > 64 { " …" } else { "" };
                Self { kind, text: format!("{}{more}", start.join(" ")).into() }
            }
            Content::Link { uri, title, .. } => {
                let title = title.as_ref().map(|title| format!("{}\n", title.to_sanitized())).unwrap_or_default();
                Self::cut("link, not opened".into(), &format!("{title}{}", uri.to_sanitized_uri()))
            }
        }
    }

    fn cut(kind: PrintableText, text: &str) -> Self {
        let shown = truncate_str(text, MAX_PART_BYTES);
        let left_out = text.len() - shown.len();
        let kind = match left_out {
            0 => kind,
            _ => format!("{kind}, without its last {}", display_bytes(left_out as u64)).into(),
        };
        Self { kind, text: shown.into() }
    }
}
