//! Systems on which neither is polled.

use super::{Input, Output};

pub(super) fn open_input() -> Option<Input> {
    None
}

pub(super) fn open_output() -> Option<Output> {
    None
}
