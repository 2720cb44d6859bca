//! The thread that writes: what has come together is one transaction, and a transaction that failed is tried again.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fumehood_core::record::{Record, RecordError};
use rusqlite::Connection;

use crate::connect;
use crate::queue::{Answer, Queue, Work, not_yet};
use crate::retention::{self, Keep, Pruned};
use crate::storage_error::StorageError;
use crate::store::{self, Sealer};

/// The most records in one transaction, so that none waits long for the others.
const MOST_AT_ONCE: usize = 4096;

/// A journal that is larger than this is moved into the database when the log is closed, in any case.
const MAX_JOURNAL_BYTES: u64 = 2 << 20;

/// Between the first failure and the next try; doubled until [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub(crate) struct Writer {
    queue: Arc<Queue>,
    connection: Arc<Mutex<Connection>>,
    sealer: Sealer,
    records: VecDeque<(Box<Record>, Option<Answer>)>,
    flushes: Vec<Answer>,
    prunes: Vec<(Keep, Answer<Pruned>)>,
    pause: Option<Duration>,
    /// Whether a small journal stays when the log is closed.
    keep_journal: bool,
    /// Whether old records were removed, of which the journal may have copies.
    has_pruned: bool,
}

impl Writer {
    pub(crate) fn new(
        queue: Arc<Queue>,
        connection: Arc<Mutex<Connection>>,
        sealer: Sealer,
        keep_journal: bool,
    ) -> Self {
        let (records, flushes, prunes) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { queue, connection, sealer, records, flushes, prunes, pause: None, keep_journal, has_pruned: false }
    }

    /// Works until the log is closed.
    pub(crate) fn run(mut self) {
        let _end = End(Arc::clone(&self.queue));
        loop {
            let turn = self.queue.next(self.pause);
            for work in turn.work {
                match work {
                    Work::Record(record, answer) => self.records.push_back((record, answer)),
                    Work::Flush(answer) => self.flushes.push(answer),
                    Work::Prune(keep, answer) => self.prunes.push((keep, answer)),
                }
            }
            self.write_all();
            if let Some(deadline) = turn.closing {
                let is_done = self.records.is_empty() && self.queue.waiting() == 0;
                if is_done || Instant::now() >= deadline {
                    break;
                }
                // `next` no longer waits once the log is being closed.
                thread::sleep(self.pause.map_or(Duration::ZERO, |_| FIRST_PAUSE));
            }
        }
        self.finish();
    }

    fn write_all(&mut self) {
        while !self.records.is_empty() {
            if let Err(trouble) = self.write_some() {
                return self.fail(&trouble);
            }
        }
        self.pause = None;
        self.flushes.drain(..).for_each(|answer| drop(answer.send(Ok(()))));
        for (keep, answer) in std::mem::take(&mut self.prunes) {
            let pruned = retention::prune(&mut lock(&self.connection), &self.sealer, keep);
            self.has_pruned |= pruned.as_ref().is_ok_and(|pruned| pruned.removed > 0);
            drop(answer.send(pruned.map_err(|error| RecordError(StorageError::from(error).to_string()))));
        }
    }

    fn write_some(&mut self) -> Result<(), StorageError> {
        let count = self.records.len().min(MOST_AT_ONCE);
        let records = self.records.iter().take(count).map(|(record, _)| &**record);
        let outcomes = store::append(&mut lock(&self.connection), &self.sealer, records)?;
        // Settled before anybody is answered: whoever goes on at once finds room.
        self.queue.settled(count);
        for ((record, answer), outcome) in self.records.drain(..count).zip(outcomes) {
            drop(record);
            if let Some(answer) = answer {
                drop(answer.send(outcome.map_err(RecordError)));
            }
        }
        Ok(())
    }

    /// Everybody who waits is told; the records stay, in their order.
    fn fail(&mut self, trouble: &StorageError) {
        let trouble = trouble.to_string();
        self.queue.failed(&trouble);
        let waiting = self.records.iter_mut().filter_map(|(_, answer)| answer.take());
        waiting.chain(self.flushes.drain(..)).for_each(|answer| drop(answer.send(Err(not_yet(&trouble)))));
        for (_, answer) in self.prunes.drain(..) {
            drop(answer.send(Err(RecordError(trouble.clone()))));
        }
        self.pause = Some(self.pause.map_or(FIRST_PAUSE, |pause| pause.saturating_mul(2).min(LONGEST_PAUSE)));
    }

    /// Seals the end, and moves the journal into the database, unless it is small and may stay. Neither is needed for what was written to be safe, so a
    /// failure is not reported: `verify` then finds the end to be as sealed as after a crash.
    fn finish(self) {
        let mut connection = lock(&self.connection);
        drop(store::anchor_head(&mut connection, &self.sealer));
        let journal = connection.path().map_or(0, |path| connect::journal_bytes(Path::new(path)));
        if self.keep_journal && journal <= MAX_JOURNAL_BYTES && !self.has_pruned {
            return;
        }
        drop(connection.execute_batch("PRAGMA optimize"));
        drop(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    }
}

/// Tells the queue that the writer is gone, however it went.
struct End(Arc<Queue>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

pub(crate) fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}
