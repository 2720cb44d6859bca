//! The bounded queue between the callers of a log and its writer.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::log;
use fumehood_core::record::{Durability, Record, RecordError};
use fumehood_core::saved_session::SessionEntry;
use futures_channel::oneshot;

use super::retention::{PruneReport, Retention};

/// Sends the outcome to one caller.
pub(crate) type ReplySender<T = ()> = oneshot::Sender<Result<T, RecordError>>;

/// Receives the outcome for one caller.
pub(crate) type ReplyReceiver<T = ()> = oneshot::Receiver<Result<T, RecordError>>;

/// Multiple of the capacity at which records are rejected.
const REJECT_FACTOR: usize = 4;

/// Maximum number of work items that wait before even a deferred record wakes the writer.
const MAX_DEFERRED_WORK: usize = 64;

/// Rows that are written together.
pub(crate) enum Rows {
    Record(Box<Record>),
    /// An entry of a saved session and the records that belong to it.
    Entry(Box<SessionEntry>, Vec<Record>),
}

/// Rows that wait to be written.
pub(crate) struct PendingRows {
    pub(crate) rows: Rows,
    /// The caller, if it waits for the outcome.
    pub(crate) answer: Option<ReplySender>,
    /// True if the caller waits for the disk, and not only for the operating system.
    pub(crate) needs_disk: bool,
}

/// One work item of the writer.
pub(crate) enum Work {
    Rows(PendingRows),
    Remove(String, ReplySender<bool>),
    Flush(ReplySender),
    Prune(Retention, ReplySender<PruneReport>),
}

/// The state of a record after [`Queue::put`].
pub(crate) enum EnqueueOutcome {
    Done,
    /// It waits to be written, or for room, since this number of transactions.
    Pending(ReplyReceiver, u64),
    Rejected(RecordError),
}

/// The state of the database while a record waits for it.
pub(crate) enum Patience {
    /// It has written something meanwhile: the number of its transactions.
    Working(u64),
    /// It has written nothing.
    Hanging(RecordError),
}

/// The pause of the writer before its next work.
pub(crate) enum Pause {
    /// After a failed transaction.
    Retry(Duration),
    /// With nothing to write: until there is work, or for this time at most.
    Idle(Option<Duration>),
}

/// The next work of the writer.
pub(crate) struct Batch {
    pub(crate) work: Vec<Work>,
    /// The deadline for closing, if the log is being closed.
    pub(crate) closing: Option<Instant>,
}

/// The state of a log, for its metrics.
pub(crate) struct LogHealth {
    /// True if records are refused.
    pub(crate) is_failing: bool,
    /// Number of records that are not on disk.
    pub(crate) waiting: usize,
    /// Number of records that were written.
    pub(crate) written: u64,
    /// Number of transactions that succeeded.
    pub(crate) transactions: u64,
    /// Time that they took.
    pub(crate) writing: Duration,
}

#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    /// Number of records that are not on disk: those in `work`, and those that the writer is processing.
    unwritten: usize,
    waiting_for_room: Vec<ReplySender>,
    is_writer_idle: bool,
    closing: Option<Instant>,
    ended: bool,
    /// The error of the last transaction, until one succeeds.
    last_error: Option<String>,
    /// Number of transactions that succeeded.
    transactions: u64,
    /// Number of records that they wrote.
    written: u64,
    /// Time that they took.
    writing: Duration,
    /// The error of a transaction that hangs, until one succeeds or fails.
    hanging: Option<String>,
}

pub(crate) struct Queue {
    capacity: usize,
    state: Mutex<State>,
    arrived: Condvar,
    ended: Condvar,
}

impl Queue {
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self { capacity, state: Mutex::default(), arrived: Condvar::new(), ended: Condvar::new() }
    }

    /// Adds rows, unless the queue is full.
    pub(crate) fn put(&self, rows: Rows, durability: Durability) -> EnqueueOutcome {
        let mut state = self.lock();
        if state.ended {
            return EnqueueOutcome::Rejected(RecordError("it is closed".to_owned()));
        }
        if state.unwritten >= self.capacity.saturating_mul(REJECT_FACTOR) {
            let why = state.last_error.as_deref().unwrap_or("the disk is too slow for them");
            return EnqueueOutcome::Rejected(RecordError(format!(
                "{} records are already waiting to be written: {why}",
                state.unwritten
            )));
        }
        state.unwritten = state.unwritten.saturating_add(1);
        let mut enqueued = EnqueueOutcome::Done;
        let mut answer = None;
        // Entries of sessions wait: a session that misses one cannot be saved any more.
        let hanging = state.hanging.as_ref().filter(|_| matches!(rows, Rows::Record(_)));
        match (durability, state.last_error.as_ref().or(hanging)) {
            // At once, also where the caller would wait: a call must not outlive its deadline for the next attempt.
            (_, Some(last_error)) => enqueued = EnqueueOutcome::Rejected(retry_error(last_error)),
            (Durability::Written | Durability::Durable, None) => {
                let (sender, receiver) = oneshot::channel();
                answer = Some(sender);
                enqueued = EnqueueOutcome::Pending(receiver, state.transactions);
            }
            (Durability::Deferred | Durability::Queued, None) if state.unwritten > self.capacity => {
                let (sender, receiver) = oneshot::channel();
                state.waiting_for_room.push(sender);
                enqueued = EnqueueOutcome::Pending(receiver, state.transactions);
            }
            (Durability::Deferred | Durability::Queued, None) => {}
        }
        let needs_disk = durability == Durability::Durable;
        state.work.push_back(Work::Rows(PendingRows { rows, answer, needs_disk }));
        let is_deferred = durability == Durability::Deferred && matches!(enqueued, EnqueueOutcome::Done);
        if !is_deferred || state.work.len() > MAX_DEFERRED_WORK {
            self.wake(state);
        }
        enqueued
    }

    /// Adds a work item, to be done after all earlier records.
    pub(crate) fn submit<T>(&self, work: impl FnOnce(ReplySender<T>) -> Work) -> ReplyReceiver<T> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        // Without a writer the sender is dropped at once, which wakes the receiver.
        if !state.ended {
            state.work.push_back(work(sender));
            self.wake(state);
        }
        receiver
    }

    /// Stops the writer, and waits until it has stopped or the time is over. Returns whether it has stopped, and the
    /// number of records that are not on disk.
    pub(crate) fn close(&self, timeout: Duration) -> (bool, usize) {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        state.closing = Some(deadline.unwrap_or_else(Instant::now));
        self.arrived.notify_one();
        let waited = self.ended.wait_timeout_while(state, timeout, |state| !state.ended);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (state.ended, state.unwritten)
    }

    /// Waits for the writer's next work: for new work, for closing, or until the `pause` is over.
    pub(crate) fn next_batch(&self, pause: Pause) -> Batch {
        let mut state = self.lock();
        let is_idle = |state: &mut State| state.work.is_empty() && state.closing.is_none();
        state = match pause {
            Pause::Retry(delay) => {
                // New work does not repair the disk, so only closing cuts the delay short.
                let waited = self.arrived.wait_timeout_while(state, delay, |state| state.closing.is_none());
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            Pause::Idle(Some(limit)) => {
                state.is_writer_idle = true;
                self.arrived.wait_timeout_while(state, limit, is_idle).unwrap_or_else(PoisonError::into_inner).0
            }
            Pause::Idle(None) => {
                state.is_writer_idle = true;
                self.arrived.wait_while(state, is_idle).unwrap_or_else(PoisonError::into_inner)
            }
        };
        state.is_writer_idle = false;
        Batch { work: mem::take(&mut state.work).into(), closing: state.closing }
    }

    /// Returns the number of work items for the next batch.
    pub(crate) fn len(&self) -> usize {
        self.lock().work.len()
    }

    /// Returns the state of the log.
    pub(crate) fn health(&self) -> LogHealth {
        let state = self.lock();
        LogHealth {
            is_failing: state.ended || state.last_error.is_some() || state.hanging.is_some(),
            waiting: state.unwritten,
            written: state.written,
            transactions: state.transactions,
            writing: state.writing,
        }
    }

    /// Marks `records` records as processed after a transaction that took `duration`, and wakes callers that wait for room.
    pub(crate) fn complete(&self, records: usize, duration: Duration) {
        let mut state = self.lock();
        (state.last_error, state.hanging) = (None, None);
        state.transactions = state.transactions.wrapping_add(1);
        state.written = state.written.saturating_add(records as u64);
        state.writing = state.writing.saturating_add(duration);
        state.unwritten = state.unwritten.saturating_sub(records);
        if state.unwritten < self.capacity {
            let waiting = mem::take(&mut state.waiting_for_room);
            drop(state);
            waiting.into_iter().for_each(|answer| drop(answer.send(Ok(()))));
        }
    }

    /// Forgets the error of the last transaction: the database is there again, and nothing waits to be written.
    pub(crate) fn clear_error(&self) {
        let mut state = self.lock();
        (state.last_error, state.hanging) = (None, None);
    }

    /// Notes a failed transaction, and returns the error to callers that wait for room, so that none waits until
    /// writing works again.
    pub(crate) fn fail(&self, last_error: &str) {
        let mut state = self.lock();
        (state.last_error, state.hanging) = (Some(last_error.to_owned()), None);
        let waiting = mem::take(&mut state.waiting_for_room);
        drop(state);
        waiting.into_iter().for_each(|answer| drop(answer.send(Err(retry_error(last_error)))));
    }

    /// Returns whether the database has written something since a record began to wait, at this number of transactions. If
    /// not, it hangs, and further records are refused until a transaction succeeds.
    pub(crate) fn patience(&self, transactions: u64, waited: Duration) -> Patience {
        let mut state = self.lock();
        if state.transactions != transactions {
            return Patience::Working(state.transactions);
        }
        let hangs = || format!("the database has not answered within {}", humantime::format_duration(waited));
        let is_first = state.last_error.is_none() && state.hanging.is_none();
        let error = state.last_error.clone().unwrap_or_else(|| state.hanging.get_or_insert_with(hangs).clone());
        drop(state);
        if is_first {
            log::emit_storage_slow("event log", waited);
        }
        Patience::Hanging(retry_error(&error))
    }

    /// Marks the writer as stopped, and drops all remaining work.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let left = (mem::take(&mut state.work), mem::take(&mut state.waiting_for_room));
        drop(state);
        // Dropped without the lock, because this wakes the receivers.
        drop(left);
        self.ended.notify_all();
    }

    /// Wakes the writer if it is idle. A busy writer looks for work by itself, which saves a system call for each
    /// record.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let is_idle = mem::take(&mut state.is_writer_idle);
        drop(state);
        if is_idle {
            self.arrived.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error of a record that is kept in memory while writing fails.
pub(crate) fn retry_error(last_error: &str) -> RecordError {
    RecordError(format!("{last_error} (the record is in memory, and is retried)"))
}
