//! Parsers of options of the command line that are settings too.

use fumehood_core::call::limits::{LimitError, parse_count, parse_duration};

use crate::amount::{Bytes, Count, Time, parse_size};

pub(crate) fn time(text: &str) -> Result<Time, LimitError> {
    parse_duration(text).map(Time)
}

pub(crate) fn size(text: &str) -> Result<Bytes, String> {
    parse_size(text).map(Bytes)
}

pub(crate) fn count(text: &str) -> Result<Count, LimitError> {
    parse_count(text).map(Count)
}
