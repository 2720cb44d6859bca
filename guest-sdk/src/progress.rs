//! News of a call that is still running.
//!
//! Reporting never fails and never blocks. Updates count towards the call's log cap; what goes over it is dropped and
//! counted by the host.
//!
//! ```
//! use fumehood_guest::progress;
//!
//! progress::message("reading the index").send();
//! progress::report(0.5).message("half of the rows").partial("first row: 42").send();
//! ```

use crate::{Content, host};

/// One piece of news. It is told when [`send`](Self::send) is called.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "an update is told by `.send()`"]
pub struct Update {
    /// How much is done, 0.0 to 1.0, if the tool can tell. The host clamps it.
    pub fraction: Option<f64>,
    /// What is being done, for a person to read.
    pub message: Option<String>,
    /// Parts of the result that are ready. They are shown early and are not added to the result.
    pub partial: Vec<Content>,
}

/// How much is done: 0.0 to 1.0.
pub fn report(fraction: f64) -> Update {
    Update { fraction: Some(fraction), ..Update::default() }
}

/// What is being done, where the tool cannot tell how much is left.
pub fn message(message: impl Into<String>) -> Update {
    Update::default().message(message)
}

impl Update {
    /// Says what is being done, for a person to read.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Adds a part of the result that is ready. It is shown early and not added to the result: a tool that wants it in
    /// its result returns it there too.
    pub fn partial(mut self, part: impl Into<Content>) -> Self {
        self.partial.push(part.into());
        self
    }

    /// Tells the host.
    pub fn send(self) {
        host::report(self);
    }
}
