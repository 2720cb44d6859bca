//! Events of `inotify(7)`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use futures_util::StreamExt as _;
use inotify::{EventStream, Inotify, WatchDescriptor, WatchMask};

/// Size of the buffer for events, in bytes. An event has 16 bytes and a name of at most 256.
const EVENT_BUFFER_BYTES: usize = 4096;

/// Events about the folders that are watched.
pub(in super::super) struct FolderEvents {
    events: EventStream<Vec<u8>>,
    watches: BTreeMap<PathBuf, WatchDescriptor>,
}

impl FolderEvents {
    /// Creates a source of events that belongs to the current runtime.
    pub(in super::super) fn new() -> io::Result<Self> {
        let events = Inotify::init()?.into_event_stream(vec![0; EVENT_BUFFER_BYTES])?;
        Ok(Self { events, watches: BTreeMap::new() })
    }

    /// Watches these folders and no others. Repeating this each time includes folders that were created or replaced
    /// since.
    pub(in super::super) fn watch(&mut self, folders: BTreeSet<PathBuf>) {
        let mut watches = self.events.watches();
        for (folder, watch) in std::mem::take(&mut self.watches) {
            if !folders.contains(&folder) {
                let _gone = watches.remove(watch);
            }
        }
        // The kernel gives the same watch for a folder that it watches already.
        let watched = folders.into_iter().filter_map(|folder| Some((watches.add(&folder, event_mask()).ok()?, folder)));
        self.watches = watched.map(|(watch, folder)| (folder, watch)).collect();
    }

    /// Waits for the next event; a queue overflow is one too. Returns `false` if there will be none.
    pub(in super::super) async fn next(&mut self) -> bool {
        self.events.next().await.is_some()
    }
}

/// Returns the events to watch for. Access is not among them, because a refresh reads the files and would wake itself.
fn event_mask() -> WatchMask {
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
