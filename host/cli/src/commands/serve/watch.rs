//! A watcher for changes of served components, on a thread of its own: the one that serves never waits for a file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::CancellationToken;
use tokio::time::{Instant, timeout, timeout_at};

use super::folder_events::FolderEvents;
use super::served_components::ServedComponents;
use crate::render;

/// Time without events after which changes count as complete: programs write in several steps.
const QUIET_PERIOD: Duration = Duration::from_millis(100);
/// Maximum time until changes count as complete, even with more events.
const MAX_SETTLE_TIME: Duration = Duration::from_secs(1);
/// Interval between two refreshes without events: the kernel reports none for network file systems, for example.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Starts a thread that refreshes the components whenever their files change, until `stop`.
///
/// # Errors
/// If the runtime or the thread cannot be created.
pub(crate) fn start(mut components: ServedComponents, stop: CancellationToken) -> Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot watch files")?;
    let watch = move || {
        runtime.block_on(stop.run_until_cancelled(async {
            let mut watcher = FolderWatcher::new();
            loop {
                watcher.watch_folders(components.folders());
                components.refresh().await;
                watcher.wait_for_change().await;
            }
        }));
    };
    std::thread::Builder::new().name("watch".to_owned()).spawn(watch).context("cannot watch files")
}

/// A watcher for changes in folders.
struct FolderWatcher {
    /// `None` if the system tells of none.
    events: Option<FolderEvents>,
}

impl FolderWatcher {
    /// Creates a watcher that belongs to the current runtime.
    fn new() -> Self {
        let events = FolderEvents::new();
        if let Err(error) = &events {
            render::warning(&format!(
                "the system tells of no changes ({error}); files are looked at every 2 s instead"
            ));
        }
        Self { events: events.ok() }
    }

    /// Watches these folders and no others.
    fn watch_folders(&mut self, folders: BTreeSet<PathBuf>) {
        if let Some(events) = &mut self.events {
            events.watch(folders);
        }
    }

    /// Waits until something may have changed, and the change is complete.
    async fn wait_for_change(&mut self) {
        if timeout(POLL_INTERVAL, self.next_event()).await.is_err() {
            return;
        }
        let latest = Instant::now() + MAX_SETTLE_TIME;
        while Instant::now() < latest {
            let quiet = (Instant::now() + QUIET_PERIOD).min(latest);
            if timeout_at(quiet, self.next_event()).await.is_err() {
                return;
            }
        }
    }

    /// Waits for the next event. Without events, it never returns.
    async fn next_event(&mut self) {
        let has_event = match &mut self.events {
            Some(events) => events.next().await,
            None => false,
        };
        if !has_event {
            std::future::pending().await
        }
    }
}
