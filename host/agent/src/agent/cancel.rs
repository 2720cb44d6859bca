//! Waiting for work until a limit is reached or the run is cancelled.

use std::sync::Arc;

use tokio::sync::watch;

/// A handle that cancels the current run or, if there is none, the next one. Clones share their state.
#[derive(Debug, Clone)]
pub struct CancelHandle {
    wanted: Arc<watch::Sender<bool>>,
}

impl CancelHandle {
    pub(super) fn new() -> Self {
        Self { wanted: Arc::new(watch::Sender::new(false)) }
    }

    /// Requests the cancellation and returns at once. The run ends as cancelled as soon as the work that it waits for has been
    /// dropped.
    pub fn cancel(&self) {
        self.wanted.send_replace(true);
    }

    /// Waits for a cancellation and consumes it, so that it does not cancel the next run as well.
    pub(super) async fn cancelled(&self) {
        let mut wanted = self.wanted.subscribe();
        // The sender lives as long as `self`, so that waiting does not fail.
        if wanted.wait_for(|wanted| *wanted).await.is_ok() {
            self.wanted.send_replace(false);
        }
    }
}
