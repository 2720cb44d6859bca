//! The `log` and `progress` interfaces: messages of a running call, up to a cap.

use std::borrow::Cow;
use std::iter::once;
use std::sync::Arc;

use fumehood_core::call::Observer;
use fumehood_core::call::content::Content as Part;
use fumehood_core::call::event::{Level, Progress};
use fumehood_core::policy::redact::Redactor;
use fumehood_core::text::sanitize::{count_hidden, printable};
use fumehood_core::text::untrusted::PrintableText;

use super::CallState;
use super::bindings::fumehood::tool::types::Content;
use super::bindings::fumehood::tool::{log, progress};
use super::guest_output::to_content;

/// Forwards the messages of one call to its observer, within a cap on their total size. Messages beyond it are dropped
/// and counted.
///
/// A message is charged as it is forwarded, with its hidden characters escaped: [`message_bytes`] and [`update_bytes`]. The host of
/// a worker process charges the same sizes against the same cap.
pub(crate) struct Journal {
    remaining: usize,
    dropped: u64,
    hidden: u64,
    observer: Option<Arc<dyn Observer>>,
    redactor: Option<Arc<Redactor>>,
}

impl Journal {
    pub(crate) fn new(cap: usize, observer: Option<Arc<dyn Observer>>, redactor: Option<Arc<Redactor>>) -> Self {
        Self { remaining: cap, dropped: 0, hidden: 0, observer, redactor }
    }

    /// Redacts secrets in a message and makes it printable.
    fn sanitize(&mut self, message: &str) -> String {
        let message = match &self.redactor {
            Some(redactor) => redactor.redact(message),
            None => Cow::Borrowed(message),
        };
        self.hidden = self.hidden.saturating_add(count_hidden(&message));
        printable(&message).into_owned()
    }

    /// Converts a part of a result and redacts secrets in it.
    fn convert_part(&self, part: Content) -> Option<Part> {
        // A part that is not well-formed is left out here. The result of the call is checked separately.
        let mut part = to_content(part).ok()?;
        if let Some(redactor) = &self.redactor {
            redactor.redact_content(&mut part);
        }
        Some(part)
    }

    /// Sends a part of the result to the observer before the call has ended, if it fits. A part that does not fit is not counted
    /// as dropped, because the result has it.
    pub(crate) fn show_part(&mut self, part: &Content) {
        if self.observer.is_none() || update_bytes(None, once(part_size(part))) > self.remaining {
            return;
        }
        let Some(part) = self.convert_part(part.clone()) else { return };
        let remaining = self.remaining.checked_sub(update_bytes(None, once(part.bytes())));
        if let (Some(remaining), Some(observer)) = (remaining, &self.observer) {
            self.remaining = remaining;
            observer.progress(Progress { fraction: None, message: None, partial: vec![part] });
        }
    }

    /// Returns the number of bytes that were not forwarded.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the number of characters that a reader would not see or that a terminal would act on.
    pub(crate) fn hidden_chars(&self) -> u64 {
        self.hidden
    }

    /// Sends a warning of the host to the observer, within the same cap.
    pub(crate) fn warn(&mut self, message: &str) {
        self.forward(Level::Warn, &printable(message));
    }

    /// Sends a printable log line to the observer, if it fits.
    fn forward(&mut self, level: Level, message: &str) {
        if self.admit(message_bytes(message))
            && let Some(observer) = &self.observer
        {
            observer.log(level, message);
        }
    }

    /// Returns whether `bytes` more fit, and counts them as dropped otherwise.
    fn fits(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.remaining;
        if !fits {
            self.dropped = self.dropped.saturating_add(bytes as u64);
        }
        fits
    }

    /// Charges `bytes` if they fit, and returns whether they did.
    fn admit(&mut self, bytes: usize) -> bool {
        let fits = self.fits(bytes);
        if fits {
            self.remaining = self.remaining.saturating_sub(bytes);
        }
        fits
    }
}

/// Size charged for a message or a part besides its text: about what the host holds for it, so that empty ones are not
/// free.
const OVERHEAD_BYTES: usize = 96;

/// Returns the bytes that a log line is charged.
pub(crate) fn message_bytes(message: &str) -> usize {
    message.len().saturating_add(OVERHEAD_BYTES)
}

/// Returns the bytes that a progress update is charged, from its message and the sizes of its parts.
pub(crate) fn update_bytes(message: Option<&str>, parts: impl Iterator<Item = usize>) -> usize {
    parts
        .map(|bytes| bytes.saturating_add(OVERHEAD_BYTES))
        .fold(message_bytes(message.unwrap_or_default()), usize::saturating_add)
}

impl log::Host for CallState {
    fn log(&mut self, level: log::Level, message: String) {
        // Compared before it is converted: what cannot fit costs the host nothing more.
        if self.journal.fits(message_bytes(&message)) {
            // Counted with and without an observer, so that the metadata of a call does not depend on one.
            let message = self.journal.sanitize(&message);
            self.journal.forward(to_level(level), &message);
        }
    }
}

impl progress::Host for CallState {
    fn report(&mut self, update: progress::Update) {
        // Compared before it is converted, and charged afterwards.
        if !self.journal.fits(update_bytes(update.message.as_deref(), update.partial.iter().map(part_size))) {
            return;
        }
        let journal = &mut self.journal;
        let partial: Vec<_> = update.partial.into_iter().filter_map(|part| journal.convert_part(part)).collect();
        let hidden = partial.iter().map(Part::hidden_chars).fold(0, u64::saturating_add);
        journal.hidden = journal.hidden.saturating_add(hidden);
        let fraction = update.fraction.filter(|fraction| !fraction.is_nan()).map(|fraction| fraction.clamp(0.0, 1.0));
        let message = update.message.map(|message| self.journal.sanitize(&message).into());
        let progress = Progress { fraction, message, partial };
        let text = progress.message.as_ref().map(PrintableText::as_str);
        if self.journal.admit(update_bytes(text, progress.partial.iter().map(Part::bytes)))
            && let Some(observer) = &self.journal.observer
        {
            observer.progress(progress);
        }
    }
}

/// Returns the size of a part before it is converted, which need not be well-formed.
fn part_size(part: &Content) -> usize {
    match part {
        Content::Text(text) | Content::Json(text) => text.len(),
        Content::Blob(blob) => blob.mime_type.len() + blob.data.len(),
        Content::Link(link) => {
            let optional = [&link.title, &link.mime_type];
            link.uri.len() + optional.into_iter().flatten().map(String::len).sum::<usize>()
        }
    }
}

fn to_level(level: log::Level) -> Level {
    match level {
        log::Level::Trace => Level::Trace,
        log::Level::Debug => Level::Debug,
        log::Level::Info => Level::Info,
        log::Level::Warn => Level::Warn,
        log::Level::Error => Level::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fumehood_core::policy::permission::{Injection, Secret, SecretValue};

    #[test]
    fn redacts_secrets_and_escapes_terminal_controls() {
        let into = Injection::header("authorization", "{secret}").unwrap();
        let secret = Secret::new("api", SecretValue::new("s3cr3t").unwrap(), "https://a.example/**", into).unwrap();
        let redactor = Redactor::new(&[secret]).unwrap().map(Arc::new);
        let mut journal = Journal::new(100, None, redactor);
        assert_eq!(journal.sanitize("\u{1b}[1m s3cr3t, czNjcjN0"), "\\u{1b}[1m [secret api], [secret api]");
        let part = journal.convert_part(Content::Text("it is s3cr3t".to_owned())).unwrap();
        assert_eq!(journal.hidden_chars(), 1);
        assert_eq!(format!("{part:?}"), r#"Text { text: "it is [secret api]" }"#);
    }
}
