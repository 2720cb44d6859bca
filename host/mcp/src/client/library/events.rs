//! Changes of resources and prompts that a server reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fumehood_core::tool::{Changes, Revision};
use tokio::sync::broadcast;

/// Number of updates of resources that a session may be behind.
const MAX_QUEUED_UPDATES: usize = 64;

/// The changes that a server reports, for all sessions.
pub(crate) struct LibraryEvents {
    resources: Revision,
    prompts: Revision,
    updates: broadcast::Sender<Arc<str>>,
    /// True if something has changed since the last list.
    is_stale: AtomicBool,
}

impl Default for LibraryEvents {
    fn default() -> Self {
        let (updates, _) = broadcast::channel(MAX_QUEUED_UPDATES);
        let [resources, prompts] = [Revision::default(), Revision::default()];
        Self { resources, prompts, updates, is_stale: AtomicBool::new(false) }
    }
}

impl LibraryEvents {
    pub(crate) fn resources_changed(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
        self.resources.advance();
    }

    pub(crate) fn prompts_changed(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
        self.prompts.advance();
    }

    pub(crate) fn updated(&self, uri: &str) {
        // Nobody may be subscribed.
        let _receivers = self.updates.send(Arc::from(uri));
    }

    /// Tells all sessions to list again, because they have lists from before a change.
    pub(super) fn ask_again(&self) {
        self.resources.advance();
        self.prompts.advance();
    }

    /// Returns whether something has changed since the last list.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// Notes that what has changed until now is being listed.
    pub(super) fn take_stale(&self) {
        self.is_stale.store(false, Ordering::Relaxed);
    }

    /// Notes again that something has changed, because it could not be listed.
    pub(super) fn set_stale(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }

    pub(crate) fn subscribe_to_resources(&self) -> Changes {
        self.resources.subscribe()
    }

    pub(crate) fn subscribe_to_prompts(&self) -> Changes {
        self.prompts.subscribe()
    }

    /// Returns the URIs of resources whose contents change from now on.
    pub(crate) fn subscribe_to_updates(&self) -> broadcast::Receiver<Arc<str>> {
        self.updates.subscribe()
    }
}
