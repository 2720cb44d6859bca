//! Levels of log lines: the one that clients asked for, and conversions between those of the host and of the protocol.
#![allow(deprecated, reason = "logging is on its way out of the protocol, and clients of older revisions have it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use fumehood_core::call::event::Level;
use rmcp::model::LoggingLevel;

/// All levels in ascending order.
const LEVELS: [Level; 5] = [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error];

/// The most verbose level of log lines that any client asked for: that of the servers behind a gateway. Cheap to clone;
/// clones share it.
#[derive(Debug, Clone)]
pub struct LogLevel(Arc<AtomicU8>);

impl Default for LogLevel {
    /// Creates the level of a gateway whose clients have asked for none.
    fn default() -> Self {
        Self(Arc::new(AtomicU8::new(u8::MAX)))
    }
}

impl LogLevel {
    /// Notes the level that a client asked for.
    pub(crate) fn request(&self, level: Level) {
        self.0.fetch_min(level as u8, Ordering::Relaxed);
    }

    /// Returns the level; `None` if no client asked for one.
    pub(crate) fn requested(&self) -> Option<Level> {
        from_rank(self.0.load(Ordering::Relaxed))
    }
}

/// Returns the level with this rank, which is `level as u8`.
pub(crate) fn from_rank(rank: u8) -> Option<Level> {
    LEVELS.get(usize::from(rank)).copied()
}

/// Returns the lowest level of log lines for a client that requested this level with `logging/setLevel` or in `_meta`.
pub(crate) fn from_logging_level(name: LoggingLevel) -> Level {
    match name {
        LoggingLevel::Debug => Level::Trace,
        LoggingLevel::Info | LoggingLevel::Notice => Level::Info,
        LoggingLevel::Warning => Level::Warn,
        LoggingLevel::Error | LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency => Level::Error,
    }
}

/// Returns the protocol's level for one of the host's.
pub(crate) fn to_logging_level(level: Level) -> LoggingLevel {
    match level {
        Level::Trace | Level::Debug => LoggingLevel::Debug,
        Level::Info => LoggingLevel::Info,
        Level::Warn => LoggingLevel::Warning,
        Level::Error => LoggingLevel::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_order_of_the_levels() {
        for (rank, level) in LEVELS.into_iter().enumerate() {
            assert_eq!((level as usize, from_rank(level as u8)), (rank, Some(level)));
        }
        assert_eq!(from_rank(5), None);
        assert!(LEVELS.is_sorted());
    }
}
