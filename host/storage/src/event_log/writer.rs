//! The writer thread: it writes queued records in one transaction, and retries a transaction that failed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fumehood_core::log;
use fumehood_core::record::RecordError;

use super::port::RecordStore;
use super::queue::{Pause, PendingRows, Queue, ReplySender, Rows, Work, retry_error};
use super::retention::{PruneReport, Retention};
use crate::error::StorageError;

/// Maximum number of records in one transaction, so that none waits long for the others.
const MAX_BATCH_RECORDS: usize = 4096;

/// Delay before the first retry of a failed transaction; doubled up to [`MAX_RETRY_DELAY`].
const INITIAL_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Maximum delay before a retry.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Duration of a transaction that an operator should know of.
const SLOW_WRITE: Duration = Duration::from_secs(1);
/// Name of the event log in the log of the host.
const STORE: &str = "event log";

pub(crate) struct Writer {
    queue: Arc<Queue>,
    store: Box<dyn RecordStore>,
    rows: VecDeque<PendingRows>,
    flushes: Vec<ReplySender>,
    prunes: Vec<(Retention, ReplySender<PruneReport>)>,
    removals: Vec<(String, ReplySender<bool>)>,
    retry_delay: Option<Duration>,
}

impl Writer {
    pub(crate) fn new(queue: Arc<Queue>, store: Box<dyn RecordStore>) -> Self {
        Self {
            queue,
            store,
            rows: VecDeque::new(),
            flushes: Vec::new(),
            prunes: Vec::new(),
            removals: Vec::new(),
            retry_delay: None,
        }
    }

    /// Runs until the log is closed.
    pub(crate) fn run(mut self) {
        let _end = EndGuard(Arc::clone(&self.queue));
        loop {
            let pause = match self.retry_delay {
                Some(delay) => Pause::Retry(delay),
                None => Pause::Idle(self.store.probe_interval()),
            };
            let batch = self.queue.next_batch(pause);
            let has_work = !batch.work.is_empty();
            for work in batch.work {
                match work {
                    Work::Rows(rows) => self.rows.push_back(rows),
                    Work::Remove(session, answer) => self.removals.push((session, answer)),
                    Work::Flush(answer) => self.flushes.push(answer),
                    Work::Prune(keep, answer) => self.prunes.push((keep, answer)),
                }
            }
            let is_due = !has_work || self.retry_delay.is_some();
            let is_there =
                if is_due && self.rows.is_empty() && batch.closing.is_none() { self.probe() } else { Ok(()) };
            match is_there {
                Ok(()) => self.write_all(),
                Err(error) => self.fail(&error),
            }
            if let Some(deadline) = batch.closing {
                let is_done = self.rows.is_empty() && self.queue.len() == 0;
                if is_done || Instant::now() >= deadline {
                    break;
                }
                // `next_batch` does not wait while the log is being closed.
                thread::sleep(self.retry_delay.map_or(Duration::ZERO, |_| INITIAL_RETRY_DELAY));
            }
        }
        self.store.close();
    }

    /// Asks whether the database is still there, after a while without records or after a probe that failed.
    fn probe(&mut self) -> Result<(), StorageError> {
        self.store.probe()?;
        self.queue.clear_error();
        Ok(())
    }

    fn write_all(&mut self) {
        while !self.rows.is_empty() {
            if let Err(error) = self.write_batch() {
                return self.fail(&error);
            }
        }
        if self.retry_delay.take().is_some() {
            log::emit_storage_recovered(STORE);
        }
        if !self.flushes.is_empty() {
            let synced = self.store.sync();
            for answer in self.flushes.drain(..) {
                let synced = synced.as_ref().copied().map_err(|error| RecordError(error.to_string()));
                drop(answer.send(synced));
            }
        }
        for (session, answer) in std::mem::take(&mut self.removals) {
            let removed = self.store.remove_session(&session);
            drop(answer.send(removed.map_err(|error| RecordError(error.to_string()))));
        }
        for (keep, answer) in std::mem::take(&mut self.prunes) {
            let pruned = self.store.prune(keep);
            drop(answer.send(pruned.map_err(|error| RecordError(error.to_string()))));
        }
    }

    fn write_batch(&mut self) -> Result<(), StorageError> {
        let count = self.rows.len().min(MAX_BATCH_RECORDS);
        let rows: Vec<&Rows> = self.rows.iter().take(count).map(|pending| &pending.rows).collect();
        let needs_disk = self.rows.iter().take(count).any(|pending| pending.needs_disk);
        let began = Instant::now();
        let outcomes = self.store.append(&rows, needs_disk)?;
        if began.elapsed() >= SLOW_WRITE {
            log::emit_storage_slow(STORE, began.elapsed());
        }
        // Done before the replies, so that a caller that continues at once finds room.
        self.queue.complete(count, began.elapsed());
        for (PendingRows { answer, .. }, outcome) in self.rows.drain(..count).zip(outcomes) {
            if let Some(answer) = answer {
                drop(answer.send(outcome.map_err(RecordError)));
            }
        }
        Ok(())
    }

    /// Returns the error to all waiting callers. The records stay queued, in their order.
    fn fail(&mut self, error: &StorageError) {
        let error = error.to_string();
        self.queue.fail(&error);
        let waiting = self.rows.iter_mut().filter_map(|pending| pending.answer.take());
        waiting.chain(self.flushes.drain(..)).for_each(|answer| drop(answer.send(Err(retry_error(&error)))));
        for (_, answer) in self.removals.drain(..) {
            drop(answer.send(Err(RecordError(error.clone()))));
        }
        for (_, answer) in self.prunes.drain(..) {
            drop(answer.send(Err(RecordError(error.clone()))));
        }
        if self.retry_delay.is_none() {
            log::emit_storage_failing(STORE, &error);
        }
        let doubled = self.retry_delay.map(|delay| delay.saturating_mul(2).min(MAX_RETRY_DELAY));
        self.retry_delay = Some(doubled.unwrap_or(INITIAL_RETRY_DELAY));
    }
}

/// Marks the queue as without a writer when dropped, even after a panic.
struct EndGuard(Arc<Queue>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}
