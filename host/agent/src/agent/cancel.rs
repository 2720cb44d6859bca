//! Cancelling a run from outside.

use std::sync::Arc;

use tokio::sync::watch;

/// Cancels the run that is under way, or, if none is, the next one. Clones are the same handle.
#[derive(Debug, Clone)]
pub struct CancelHandle {
    wanted: Arc<watch::Sender<bool>>,
}

impl CancelHandle {
    pub(super) fn new() -> Self {
        Self { wanted: Arc::new(watch::Sender::new(false)) }
    }

    /// Cancels. Returns at once; the run ends as cancelled as soon as what it waits for has been dropped.
    pub fn cancel(&self) {
        self.wanted.send_replace(true);
    }

    /// Waits until somebody cancels, and takes that up: the next run is not cancelled by it.
    pub(super) async fn cancelled(&self) {
        let mut wanted = self.wanted.subscribe();
        // The sender lives as long as `self`, so that waiting does not fail.
        if wanted.wait_for(|wanted| *wanted).await.is_ok() {
            self.wanted.send_replace(false);
        }
    }
}
