//! The thread that brings written rows to the disk, beside the writer, so that no call waits for it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::store::DATABASE;
use crate::sqlite;

/// Time for which written rows may stay with the operating system before they are flushed.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

/// Size of the journal from which on it is moved into the database, in bytes.
const MAX_UNMOVED_BYTES: u64 = 4 << 20;

/// Size of the journal, in pages, at which the writer moves it itself, because the flusher does not keep up.
const WRITER_CHECKPOINT_PAGES: u32 = 16_384;

/// Flushes a database in a file soon after each [`Flusher::mark`]. It is stopped when dropped.
pub(super) struct Flusher {
    marks: Option<(SyncSender<()>, Sender<()>)>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts the thread; `None` if the system starts none. The writer's journal is then moved by the writer.
    pub(super) fn start(connection: &rusqlite::Connection) -> Option<Self> {
        let path = connection.path().filter(|path| !path.is_empty()).map(PathBuf::from)?;
        let (mark, marks) = mpsc::sync_channel(1);
        let (end, ended) = mpsc::channel();
        let run = move || run(&path, &marks, &ended);
        let thread = thread::Builder::new().name("event-log-disk".to_owned()).spawn(run).ok()?;
        drop(connection.pragma_update(None, "wal_autocheckpoint", WRITER_CHECKPOINT_PAGES));
        Some(Self { marks: Some((mark, end)), thread: Some(thread) })
    }

    /// Notes that rows were written.
    pub(super) fn mark(&self) {
        if let Some((marks, _)) = &self.marks {
            // A full channel has a mark already.
            let _has_one = marks.try_send(());
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.marks = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn run(path: &Path, marks: &Receiver<()>, ended: &Receiver<()>) {
    let mut connection = None;
    while marks.recv().is_ok() {
        if ended.recv_timeout(FLUSH_INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        if sqlite::journal_bytes(path) < MAX_UNMOVED_BYTES {
            // An error is found by the next record that waits for the disk.
            drop(sqlite::sync_journal(path));
            continue;
        }
        connection = connection.or_else(|| DATABASE.open_existing(path, Duration::ZERO).ok());
        if let Some(connection) = &connection {
            // Flushes the journal first. Neither the writer nor readers wait for it.
            drop(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
        }
    }
}
