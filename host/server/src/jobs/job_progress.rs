//! The observer of a job, which keeps the last report of its tool.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fumehood_core::call::event::{Level, Progress};
use fumehood_core::call::result::RequestReport;
use fumehood_core::call::{Observer, Usage};
use fumehood_core::text::sanitize::truncate_str;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;

use fumehood_layers::now;

/// Maximum length of a report, in bytes.
const MAX_MESSAGE_BYTES: usize = 512;

/// The last report of the tool of a job, as text. Reports go on to the observer of the call.
pub(super) struct JobProgress {
    latest: Mutex<Option<(PrintableText, Timestamp)>>,
    next: Option<Arc<dyn Observer>>,
}

impl JobProgress {
    pub(super) fn new(next: Option<Arc<dyn Observer>>) -> Self {
        Self { latest: Mutex::default(), next }
    }

    /// Returns the last report, and its time.
    pub(super) fn latest(&self) -> Option<(PrintableText, Timestamp)> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns a report as text, such as `40 %: reading`; `None` if it says nothing.
fn describe(progress: &Progress) -> Option<PrintableText> {
    let percent = progress.fraction.filter(|fraction| (0.0..=1.0).contains(fraction));
    let percent = percent.map(|fraction| format!("{:.0} %", fraction * 100.0));
    let message = progress.message.as_ref().map(|message| truncate_str(message, MAX_MESSAGE_BYTES));
    match (percent, message) {
        (Some(percent), Some(message)) => Some(format!("{percent}: {message}").into()),
        (Some(percent), None) => Some(percent.into()),
        (None, Some(message)) => Some(message.into()),
        (None, None) => None,
    }
}

impl Observer for JobProgress {
    fn log(&self, level: Level, message: &str) {
        self.next.iter().for_each(|next| next.log(level, message));
    }

    fn progress(&self, progress: Progress) {
        if let Some(text) = describe(&progress) {
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some((text, now()));
        }
        self.next.iter().for_each(|next| next.progress(progress.clone()));
    }

    fn admitted(&self, deadline: Duration) {
        self.next.iter().for_each(|next| next.admitted(deadline));
    }

    fn usage(&self, usage: Usage) {
        self.next.iter().for_each(|next| next.usage(usage));
    }

    fn request(&self, request: RequestReport) {
        self.next.iter().for_each(|next| next.request(request.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_line(fraction: Option<f64>, message: Option<&str>, expected: Option<&str>) {
        let progress = Progress { fraction, message: message.map(PrintableText::from), partial: Vec::new() };
        assert_eq!(describe(&progress).as_deref(), expected);
    }

    #[test]
    fn a_report_is_described_in_one_line() {
        check_line(Some(0.4), Some("reading"), Some("40 %: reading"));
        check_line(Some(1.0), None, Some("100 %"));
        check_line(Some(f64::NAN), Some("reading"), Some("reading"));
        check_line(Some(7.0), None, None);
        check_line(None, None, None);
    }
}
