//! Conversions between the host's log levels and those of the protocol.
#![allow(deprecated, reason = "logging is on its way out of the protocol, and clients of older revisions have it")]

use fumehood_core::call::event::Level;
use rmcp::model::LoggingLevel;

/// All levels in ascending order.
const LEVELS: [Level; 5] = [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error];

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
