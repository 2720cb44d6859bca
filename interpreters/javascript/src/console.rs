//! The output of a program, within its limit.

use std::cell::Cell;

use crate::bindings::fumehood::code::console::{Level, log};

thread_local! {
    static REMAINING_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Sets the limit of the program, in bytes.
pub(crate) fn set_limit(bytes: usize) {
    REMAINING_BYTES.set(bytes);
}

/// Writes one message, cut off at the limit. Nothing is written after the limit was reached.
pub(crate) fn write(level: u8, message: &str) {
    let remaining = REMAINING_BYTES.get();
    if remaining == 0 {
        return;
    }
    let level = match level {
        0 => Level::Debug,
        2 => Level::Warn,
        3 => Level::Error,
        _ => Level::Info,
    };
    let written = message.get(..message.floor_char_boundary(remaining)).unwrap_or_default();
    // An empty message costs something as well, or they would be without a limit.
    REMAINING_BYTES.set(remaining.saturating_sub(written.len().max(1)));
    if written.len() < message.len() {
        REMAINING_BYTES.set(0);
        log(level, &format!("{written}… (the rest of the output was dropped)"));
    } else {
        log(level, written);
    }
}
