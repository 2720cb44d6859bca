//! Progress of a running call.
//!
//! Reporting never fails and never blocks. Updates count towards the call's log limit; those beyond it are dropped and
//! counted by the host.
//!
//! ```
//! use fumehood_guest::progress;
//!
//! progress::message("reading the index").send();
//! progress::report(0.5).message("half of the rows").partial("first row: 42").send();
//! ```

use crate::{Content, host};

/// One progress update. It is reported by [`send`](Self::send).
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "an update is reported by `.send()`"]
pub struct Update {
    /// The completed fraction, 0.0 to 1.0, if it is known. The host clamps it.
    pub fraction: Option<f64>,
    /// A description of the current activity, for people.
    pub message: Option<String>,
    /// Parts of the result that are ready. They are shown early, and are not added to the result.
    pub partial: Vec<Content>,
}

/// Creates an update with the completed fraction, 0.0 to 1.0.
pub fn report(fraction: f64) -> Update {
    Update { fraction: Some(fraction), ..Update::default() }
}

/// Creates an update with a description of the current activity, if the completed fraction is unknown.
pub fn message(message: impl Into<String>) -> Update {
    Update::default().message(message)
}

impl Update {
    /// Sets the description of the current activity, for people.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Adds a part of the result that is ready. It is shown early, and is not added to the result: a tool must also
    /// return the parts that belong to it.
    pub fn partial(mut self, part: impl Into<Content>) -> Self {
        self.partial.push(part.into());
        self
    }

    /// Reports the update to the host.
    pub fn send(self) {
        host::report(self);
    }
}
