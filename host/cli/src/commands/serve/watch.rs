//! A watcher for changes of served components, and for SIGHUP, on a thread of its own: the one that serves never waits for a file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::CancellationToken;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use super::folder_events::FolderEvents;
use super::served_components::ServedComponents;
use crate::service_manager::{self, ServiceState};
use crate::signals::Hangup;
use crate::{render, signals};

/// Time without events after which changes count as complete: programs write in several steps.
const QUIET_PERIOD: Duration = Duration::from_millis(100);
/// Maximum time until changes count as complete, even with more events.
const MAX_SETTLE_TIME: Duration = Duration::from_secs(1);
/// Interval between two refreshes without events: the kernel reports none for network file systems, for example.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Stack of the thread. Without optimisation, loading a component takes more than the default of 2 MiB.
const STACK_BYTES: usize = 8 << 20;

/// The causes for which components and the configuration are looked at again.
#[derive(Debug, Clone)]
pub(crate) struct Triggers {
    /// Their files change.
    pub(crate) files: bool,
    /// SIGHUP arrives.
    pub(crate) hangup: bool,
    /// Something that a component needs has arrived.
    pub(crate) arrived: Option<Arc<Notify>>,
}

/// Starts a thread that refreshes the components at these causes, until `stop`. Returns `None` if there are none.
///
/// # Errors
/// If the runtime, the thread or the signal handler cannot be created.
pub(crate) fn start(
    components: ServedComponents,
    triggers: Triggers,
    stop: CancellationToken,
) -> Result<Option<JoinHandle<()>>> {
    if !(triggers.files || triggers.hangup) {
        return Ok(None);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot watch files")?;
    let hangup = if triggers.hangup {
        // From here on the signal does not end the process.
        let _entered = runtime.enter();
        Some(signals::listen_for_hangup().context("cannot handle SIGHUP")?)
    } else {
        None
    };
    let builder = std::thread::Builder::new().name("watch".to_owned()).stack_size(STACK_BYTES);
    let thread = builder.spawn(move || {
        runtime.block_on(stop.run_until_cancelled(refresh_components(components, triggers, hangup)));
    });
    Ok(Some(thread.context("cannot watch files")?))
}

/// Refreshes the components at these causes, for ever.
async fn refresh_components(mut components: ServedComponents, triggers: Triggers, mut hangup: Option<Hangup>) {
    let mut watcher = triggers.files.then(FolderWatcher::new);
    loop {
        if let Some(watcher) = &mut watcher {
            // Before the components are read, so that a change in between is noticed.
            watcher.watch_folders(components.folders());
            components.refresh().await;
        }
        let changed = async {
            match &mut watcher {
                Some(watcher) => watcher.wait_for_change().await,
                None => std::future::pending().await,
            }
        };
        let hung_up = async {
            match &mut hangup {
                Some(hangup) => hangup.received().await,
                None => std::future::pending().await,
            }
        };
        let arrived = async {
            match &triggers.arrived {
                Some(arrived) => arrived.notified().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed => {}
            () = arrived => components.reload_all().await,
            () = hung_up => {
                service_manager::notify(ServiceState::Reloading);
                components.reload_all().await;
                service_manager::notify(ServiceState::Ready);
            }
        }
    }
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
                "file change notifications are not available ({error}); checking files every 2 s instead"
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
