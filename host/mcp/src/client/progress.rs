//! Notifications of a server about a running call: progress and log lines.
#![allow(deprecated, reason = "logging is on its way out of the protocol, and servers of older revisions have it")]

use std::sync::Arc;

use fumehood_core::call::Observer;
use fumehood_core::call::event::{Level, Progress};
use fumehood_core::policy::redact::Redactor;
use fumehood_core::text::untrusted::PrintableText;
use rmcp::model::{LoggingMessageNotificationParam, ProgressNotificationParam};
use serde_json::Value;

/// An observer that redacts secrets from progress and log lines before it forwards them.
struct RedactingObserver {
    redactor: Redactor,
    observer: Arc<dyn Observer>,
}

/// Wraps an observer so that secrets are redacted from messages, if there are secrets.
pub(super) fn redact(redactor: Option<&Redactor>, observer: Arc<dyn Observer>) -> Arc<dyn Observer> {
    match redactor.cloned() {
        Some(redactor) => Arc::new(RedactingObserver { redactor, observer }),
        None => observer,
    }
}

impl Observer for RedactingObserver {
    fn progress(&self, mut progress: Progress) {
        if let Some(message) = &mut progress.message {
            self.redactor.redact_printable(message);
        }
        self.observer.progress(progress);
    }

    fn log(&self, level: Level, message: &str) {
        self.observer.log(level, &self.redactor.redact(message));
    }
}

/// Maximum length of a message of progress or of a log line, in characters.
const MAX_MESSAGE_CHARS: usize = 1000;

/// Converts a notification. Numbers that do not make a fraction are left out.
pub(crate) fn from_notification(notification: &ProgressNotificationParam) -> Progress {
    let fraction =
        notification.total.map(|total| notification.progress / total).filter(|fraction| fraction.is_finite());
    let message = notification.message.as_deref().map(|text| {
        let beginning: String = text.chars().take(MAX_MESSAGE_CHARS).collect();
        PrintableText::from(beginning)
    });
    Progress { fraction: fraction.map(|fraction| fraction.clamp(0.0, 1.0)), message, partial: Vec::new() }
}

/// Converts a log message to a line: its logger, and its data as text.
pub(crate) fn to_log_line(message: &LoggingMessageNotificationParam) -> PrintableText {
    let data = match &message.data {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let whole = match &message.logger {
        Some(logger) => format!("{logger}: {data}"),
        None => data,
    };
    whole.chars().take(MAX_MESSAGE_CHARS).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check_conversion(reported: Value, fraction: Option<f64>, message: Option<&str>) {
        let mut whole = json!({"progressToken": 1});
        whole.as_object_mut().unwrap().extend(reported.as_object().unwrap().clone());
        let found = from_notification(&serde_json::from_value(whole).unwrap());
        assert_eq!((found.fraction, found.message.as_deref()), (fraction, message));
    }

    #[test]
    fn converts_valid_fractions_only() {
        check_conversion(json!({"progress": 1, "total": 4, "message": "a\u{1b}"}), Some(0.25), Some("a\\u{1b}"));
        check_conversion(json!({"progress": 1}), None, None);
        check_conversion(json!({"progress": 5, "total": 4}), Some(1.0), None);
        check_conversion(json!({"progress": -5, "total": 4}), Some(0.0), None);
        check_conversion(json!({"progress": 1, "total": 0}), None, None);
        let long = "x".repeat(2000);
        check_conversion(json!({"progress": 1, "message": long}), None, Some(&long[..1000]));
    }
}
