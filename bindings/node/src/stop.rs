//! The handle by which JavaScript stops a call or a load.

use std::sync::{Mutex, PoisonError};

use napi_derive::napi;
use tokio::task::AbortHandle;

/// A handle that stops the operation that was started with it.
#[napi]
#[derive(Debug, Default)]
pub struct Stop(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// Nothing was started with it, or it ended at once.
    #[default]
    Idle,
    Running(AbortHandle),
    Stopped,
}

impl Stop {
    /// Sets the task that is stopped; at once if that was asked for before.
    pub(crate) fn set(&self, task: AbortHandle) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Stopped => task.abort(),
            State::Idle | State::Running(_) => *state = State::Running(task),
        }
    }
}

#[napi]
impl Stop {
    /// Creates a handle.
    #[napi(constructor)]
    #[allow(
        clippy::new_without_default,
        reason = "the default is the same, and the macro wants a constructor of its own"
    )]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the operation; a guest stops within milliseconds.
    #[napi]
    pub fn stop(&self) {
        let state = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), State::Stopped);
        if let State::Running(task) = state {
            task.abort();
        }
    }
}
