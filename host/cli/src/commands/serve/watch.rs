//! Looking out for changes of what is served, on a thread of its own: the one that serves never waits for a file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::StreamExt as _;
use inotify::{EventStream, Inotify, WatchDescriptor, WatchMask};
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
/// Room for what the kernel tells at a time: an event is 16 bytes and a name of at most 256.
const EVENTS_BYTES: usize = 4096;

/// Brings what is served in line with its files until `stop`.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn start(mut assembly: Assembly, stop: CancellationToken) -> Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot watch files")?;
    let watch = move || {
        runtime.block_on(stop.run_until_cancelled(async {
            let mut ears = FolderWatcher::new();
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
struct FolderWatcher {
    /// `None` if the kernel has no more of them to give.
    kernel: Option<EventStream<Vec<u8>>>,
    at: BTreeMap<PathBuf, WatchDescriptor>,
}

impl FolderWatcher {
    /// Belongs to the runtime that it is made on.
    fn new() -> Self {
        let kernel = Inotify::init().and_then(|inotify| inotify.into_event_stream(vec![0; EVENTS_BYTES]));
        if let Err(error) = &kernel {
            render::warning(&format!(
                "the system tells of no changes ({error}); files are looked at every 2 s instead"
            ));
        }
        Self { kernel: kernel.ok(), at: BTreeMap::new() }
    }

    /// Listens at these folders and no others. Doing that again each time finds those that were made anew; those that
    /// are not there are looked for again.
    fn listen_at(&mut self, folders: BTreeSet<PathBuf>) {
        let Some(kernel) = &self.kernel else { return };
        let mut watches = kernel.watches();
        for (folder, watch) in std::mem::take(&mut self.at) {
            if !folders.contains(&folder) {
                let _gone = watches.remove(watch);
            }
        }
        // The kernel gives the same watch for a folder that it watches already.
        let watched = folders.into_iter().filter_map(|folder| Some((watches.add(&folder, changes()).ok()?, folder)));
        self.at = watched.map(|(watch, folder)| (folder, watch)).collect();
    }

    /// Waits until something may have changed, and is complete.
    async fn stirred(&mut self) {
        if timeout(AT_LEAST, self.heard()).await.is_err() {
            return;
        }
        let latest = Instant::now() + LONGEST;
        while Instant::now() < latest {
            let quiet = (Instant::now() + QUIET).min(latest);
            if timeout_at(quiet, self.heard()).await.is_err() {
                return;
            }
        }
    }

    /// The next that the kernel tells. Also that it lost count counts.
    async fn heard(&mut self) {
        let told = match &mut self.kernel {
            Some(kernel) => kernel.next().await.is_some(),
            None => false,
        };
        if !told {
            std::future::pending().await
        }
    }
}

/// Reading a file is not among them: it would wake whoever reads because of it for ever.
fn changes() -> WatchMask {
    WatchMask::CREATE
        | WatchMask::DELETE
        | WatchMask::MOVE
        | WatchMask::MODIFY
        | WatchMask::CLOSE_WRITE
        | WatchMask::ATTRIB
        | WatchMask::DELETE_SELF
        | WatchMask::MOVE_SELF
        | WatchMask::ONLYDIR
}
