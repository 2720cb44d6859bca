//! The powers of one tool.

/// The powers of one tool. It starts from nothing, and only the operator's own code adds to it.
///
/// Whatever is not granted here is linked all the same, because language runtimes import all of WASI whether they use
/// it or not, and refuses at use: no folders, no network, no environment, no arguments, an empty stdin, clocks that
/// tick in whole milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    state: bool,
}

impl Grant {
    /// Nothing: no files, no network, no environment, no secrets, no agent state.
    #[must_use]
    pub const fn none() -> Self {
        Self { state: false }
    }

    /// Adds: may read the snapshot of the agent's state that comes with a call.
    #[must_use]
    pub const fn with_state(mut self) -> Self {
        self.state = true;
        self
    }

    /// May it read the snapshot of the agent's state?
    #[must_use]
    pub const fn state(&self) -> bool {
        self.state
    }
}

impl Default for Grant {
    fn default() -> Self {
        Self::none()
    }
}
