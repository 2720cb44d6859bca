//! What waits to be written: in order, bounded, and answered once it is on disk.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::record::{Durability, Record, RecordError};
use futures_channel::oneshot;

use crate::retention::{Keep, Pruned};

/// Tells one waiter what came of it.
pub(crate) type Answer<T = ()> = oneshot::Sender<Result<T, RecordError>>;

/// What the future of one waiter awaits.
pub(crate) type Awaited<T = ()> = oneshot::Receiver<Result<T, RecordError>>;

/// How many times the capacity may wait before a record is refused.
const REFUSE_AT: usize = 4;

/// How many pieces of work may wait before even a deferred record wakes the writer.
const MAX_DEFERRED: usize = 64;

/// One piece of work for the writer.
pub(crate) enum Work {
    Record(Box<Record>, Option<Answer>),
    Flush(Answer),
    Prune(Keep, Answer<Pruned>),
}

/// What became of a record that was brought.
pub(crate) enum Taken {
    Now,
    Later(Awaited),
    Refused(RecordError),
}

/// What the writer is to do next.
pub(crate) struct Turn {
    pub(crate) work: Vec<Work>,
    /// The log is being closed, and until when there is time for that.
    pub(crate) closing: Option<Instant>,
}

#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    /// Records that are not on disk: those in `work`, and those that the writer holds.
    held: usize,
    waiting_for_room: Vec<Answer>,
    writer_sleeps: bool,
    closing: Option<Instant>,
    ended: bool,
    /// Why the last transaction failed, until one succeeds.
    trouble: Option<String>,
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

    /// Takes a record, unless far too many wait.
    pub(crate) fn put(&self, record: Record, durability: Durability) -> Taken {
        let mut state = self.lock();
        if state.ended {
            return Taken::Refused(RecordError("it is closed".to_owned()));
        }
        if state.held >= self.capacity.saturating_mul(REFUSE_AT) {
            let why = state.trouble.as_deref().unwrap_or("the disk is too slow for them");
            return Taken::Refused(RecordError(format!("{} records wait to be written already: {why}", state.held)));
        }
        state.held = state.held.saturating_add(1);
        let mut taken = Taken::Now;
        let mut answer = None;
        match durability {
            Durability::Durable => {
                let (sender, receiver) = oneshot::channel();
                answer = Some(sender);
                taken = Taken::Later(receiver);
            }
            Durability::Deferred | Durability::Queued => {
                if let Some(trouble) = &state.trouble {
                    taken = Taken::Refused(not_yet(trouble));
                } else if state.held > self.capacity {
                    let (sender, receiver) = oneshot::channel();
                    state.waiting_for_room.push(sender);
                    taken = Taken::Later(receiver);
                }
            }
        }
        state.work.push_back(Work::Record(Box::new(record), answer));
        let is_deferred = durability == Durability::Deferred && matches!(taken, Taken::Now);
        if !is_deferred || state.work.len() > MAX_DEFERRED {
            self.wake(state);
        }
        taken
    }

    /// Asks for something that comes after all records so far.
    pub(crate) fn ask<T>(&self, work: impl FnOnce(Answer<T>) -> Work) -> Awaited<T> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        // Once the writer is gone, the sender is dropped at once, and whoever waits hears of it.
        if !state.ended {
            state.work.push_back(work(sender));
            self.wake(state);
        }
        receiver
    }

    /// Asks the writer to end, and waits until it did or the time is over. Says whether it did, and how many records
    /// are not on disk.
    pub(crate) fn close(&self, timeout: Duration) -> (bool, usize) {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        state.closing = Some(deadline.unwrap_or_else(Instant::now));
        self.arrived.notify_one();
        let waited = self.ended.wait_timeout_while(state, timeout, |state| !state.ended);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (state.ended, state.held)
    }

    /// The writer's next turn: waits for work, for the end, or, if there is a `pause`, until that is over.
    pub(crate) fn next(&self, pause: Option<Duration>) -> Turn {
        let mut state = self.lock();
        if let Some(pause) = pause {
            // After a failure. New work does not make the disk any better, so only the end cuts it short.
            let waited = self.arrived.wait_timeout_while(state, pause, |state| state.closing.is_none());
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        } else {
            state.writer_sleeps = true;
            let idle = |state: &mut State| state.work.is_empty() && state.closing.is_none();
            state = self.arrived.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
            state.writer_sleeps = false;
        }
        Turn { work: mem::take(&mut state.work).into(), closing: state.closing }
    }

    /// How many pieces of work wait for the next turn.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().work.len()
    }

    /// These many records are settled, and the disk does as it should.
    pub(crate) fn settled(&self, records: usize) {
        let mut state = self.lock();
        state.trouble = None;
        state.held = state.held.saturating_sub(records);
        if state.held < self.capacity {
            let waiting = mem::take(&mut state.waiting_for_room);
            drop(state);
            waiting.into_iter().for_each(|answer| drop(answer.send(Ok(()))));
        }
    }

    /// The disk refuses. Whoever waits for room is told, so that nobody waits for as long as the trouble lasts.
    pub(crate) fn failed(&self, trouble: &str) {
        let mut state = self.lock();
        state.trouble = Some(trouble.to_owned());
        let waiting = mem::take(&mut state.waiting_for_room);
        drop(state);
        waiting.into_iter().for_each(|answer| drop(answer.send(Err(not_yet(trouble)))));
    }

    /// The writer is gone, and takes nothing any more.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let left = (mem::take(&mut state.work), mem::take(&mut state.waiting_for_room));
        drop(state);
        // Dropped without the lock: this wakes whoever waits.
        drop(left);
        self.ended.notify_all();
    }

    /// A writer that sleeps is woken; one that works will look by itself, which saves a system call per record.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let sleeps = mem::take(&mut state.writer_sleeps);
        drop(state);
        if sleeps {
            self.arrived.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What whoever records is told while the disk refuses.
pub(crate) fn not_yet(trouble: &str) -> RecordError {
    RecordError(format!("{trouble} (the record waits in memory, and is tried again)"))
}
