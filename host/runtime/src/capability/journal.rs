//! What a call says while it runs: log lines and progress, up to a cap.

use std::sync::Arc;

use fumehood_core::content::Content;
use fumehood_core::event::{Level, Progress};
use fumehood_core::sanitize::printable;

use super::CallState;
use crate::bindings::fumehood::tool::{log, progress};
use crate::invocation::Observer;
use crate::outcome::to_content;

/// Counts what a call says and passes it on as long as it stays within the cap.
pub(crate) struct Journal {
    left: usize,
    dropped: u64,
    observer: Option<Arc<dyn Observer>>,
}

impl Journal {
    pub(crate) fn new(cap: usize, observer: Option<Arc<dyn Observer>>) -> Self {
        Self { left: cap, dropped: 0, observer }
    }

    /// Bytes that were not passed on.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether so many more bytes fit. They count either way.
    fn admit(&mut self, bytes: usize) -> bool {
        if let Some(left) = self.left.checked_sub(bytes) {
            self.left = left;
            return true;
        }
        self.dropped = self.dropped.saturating_add(bytes as u64);
        false
    }
}

/// What a line costs besides its text, so that empty lines are not free.
const LINE_BYTES: usize = 16;

impl log::Host for CallState {
    fn log(&mut self, level: log::Level, message: String) {
        if self.journal.admit(message.len() + LINE_BYTES)
            && let Some(observer) = &self.journal.observer
        {
            observer.log(&self.call, to_level(level), &printable(&message));
        }
    }
}

impl progress::Host for CallState {
    fn report(&mut self, update: progress::Update) {
        let partial: Result<Vec<Content>, _> = update.partial.into_iter().map(to_content).collect();
        // A part that is not well-formed is left out; the result, where it counts, is checked by itself.
        let partial = partial.unwrap_or_default();
        let text = update.message.as_ref().map_or(0, String::len);
        let bytes = partial.iter().map(Content::bytes).sum::<usize>() + text + LINE_BYTES;
        if self.journal.admit(bytes)
            && let Some(observer) = &self.journal.observer
        {
            let fraction =
                update.fraction.filter(|fraction| !fraction.is_nan()).map(|fraction| fraction.clamp(0.0, 1.0));
            let message = update.message.map(|message| printable(&message).into_owned());
            observer.progress(&self.call, Progress { fraction, message, partial });
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
