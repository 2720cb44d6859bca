//! Looking out for changes of what is served, on a thread of its own: the one that serves never waits for a file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::assembly::Assembly;
use crate::render;

/// So long nothing may happen before changes count as complete: programs write in several steps.
const QUIET: Duration = Duration::from_millis(100);
/// After so long they count even if more is happening.
const LONGEST: Duration = Duration::from_secs(1);
/// Where the kernel tells nothing, such as on network file systems, somebody looks that often.
const AT_LEAST: Duration = Duration::from_secs(2);

/// Brings what is served in line with its files until `stop`.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn start(mut assembly: Assembly, stop: CancellationToken) -> Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot watch files")?;
    let watch = move || {
        runtime.block_on(stop.run_until_cancelled(async {
            let mut ears = Ears::new();
            loop {
                ears.listen_at(assembly.folders());
                assembly.renew().await;
                ears.stirred().await;
            }
        }));
    };
    std::thread::Builder::new().name("watch".to_owned()).spawn(watch).context("cannot watch files")
}

/// Hears of changes in folders.
struct Ears {
    /// `None` if the kernel has no more of them to give.
    watcher: Option<RecommendedWatcher>,
    at: BTreeSet<PathBuf>,
    stirred: Arc<Notify>,
}

impl Ears {
    fn new() -> Self {
        let stirred = Arc::new(Notify::new());
        let heard = Arc::clone(&stirred);
        let hear = move |event: notify::Result<Event>| {
            if event.map_or(true, |event| may_change_something(&event.kind)) {
                heard.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(hear);
        if let Err(error) = &watcher {
            render::warning(&format!(
                "the system tells of no changes ({error}); files are looked at every 2 s instead"
            ));
        }
        Self { watcher: watcher.ok(), at: BTreeSet::new(), stirred }
    }

    /// Listens at these folders and no others. Doing that again each time finds those that were made anew; those that
    /// are not there are looked for again.
    fn listen_at(&mut self, folders: BTreeSet<PathBuf>) {
        let Some(watcher) = &mut self.watcher else { return };
        for folder in self.at.difference(&folders) {
            let _gone = watcher.unwatch(folder);
        }
        for folder in &folders {
            let _not_there = watcher.watch(folder, RecursiveMode::NonRecursive);
        }
        self.at = folders;
    }

    /// Waits until something may have changed, and is complete.
    async fn stirred(&self) {
        if timeout(AT_LEAST, self.stirred.notified()).await.is_err() {
            return;
        }
        let latest = Instant::now() + LONGEST;
        while Instant::now() < latest {
            let quiet = (Instant::now() + QUIET).min(latest);
            if timeout_at(quiet, self.stirred.notified()).await.is_err() {
                return;
            }
        }
    }
}

/// Reading a file is told too, and would wake whoever reads because of it for ever.
fn may_change_something(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(access) => *access == AccessKind::Close(AccessMode::Write),
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => true,
    }
}
