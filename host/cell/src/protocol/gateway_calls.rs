//! The calls of a gateway: each ends exactly once, whatever its worker and the network do. Pure.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use super::message::{AttemptId, Offer, RefusalReason, ToGateway, ToWorker, WorkerName};
use super::{CANCEL_GRACE, DEADLINE_GRACE, GATEWAY_HEARTBEAT_EVERY, LOST_AFTER};

/// Number of ended attempts that are remembered, so that late results are known as such.
const MAX_ENDED: usize = 1 << 16;
/// Maximum number of attempts for one call.
const MAX_ATTEMPTS: usize = 3;

/// The knowledge of a gateway about whether a guest began to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuestStart {
    /// The worker never received the call, or refused it.
    No,
    /// The worker may have received the call.
    Perhaps,
    /// The worker said so.
    Yes,
}

/// The end of an attempt. `T` is a result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Conclusion<T> {
    /// The worker returned the result of the guest.
    Finished(T),
    /// The worker refused the call, and ran nothing.
    Refused(RefusalReason),
    /// The worker was lost: killed, stopped, started anew or cut off.
    Interrupted(GuestStart),
    /// The deadline passed, and the worker did not say how the call ended.
    Deadline(GuestStart),
    /// The caller cancelled, and the worker did not say how the call ended.
    Cancelled(GuestStart),
    /// The worker ran another component than the gateway named, or with other powers.
    Mismatched,
}

/// A call that was sent to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenCall {
    /// The worker.
    pub(crate) worker: WorkerName,
    /// The run of the worker, from its ticket.
    pub(crate) run: u64,
    /// The component and its powers.
    pub(crate) offer: Offer,
    /// The time that is left.
    pub(crate) remaining: Duration,
}

/// An effect that the gateway has to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GatewayEffect<T> {
    /// Send this to a worker.
    Send {
        /// The worker.
        worker: WorkerName,
        /// The message.
        message: ToWorker,
    },
    /// Tell the caller the end of an attempt. There is one for each attempt.
    Conclude {
        /// The attempt.
        attempt: AttemptId,
        /// The end.
        conclusion: Conclusion<T>,
    },
    /// Record a result that arrived after the end of its attempt. The caller was told another end.
    Late {
        /// The attempt.
        attempt: AttemptId,
        /// The worker.
        worker: WorkerName,
        /// The result.
        result: T,
    },
}

/// The attempts of one run of a gateway that have not ended, and the last of those that have.
#[derive(Debug, Default)]
pub(crate) struct GatewayCalls {
    open: HashMap<AttemptId, Attempt>,
    /// The number of open attempts of each worker that has some.
    open_at: HashMap<WorkerName, usize>,
    ended: HashMap<AttemptId, WorkerName>,
    /// Ended attempts, the oldest first.
    order: VecDeque<AttemptId>,
    last_heartbeat: Duration,
}

#[derive(Debug)]
struct Attempt {
    call: OpenCall,
    heard: Duration,
    begun: GuestStart,
    ends_at: Duration,
    /// The time at which a cancelled call ends without a word of its worker.
    cancelled_until: Option<Duration>,
}

impl GatewayCalls {
    /// Adds an attempt that is about to be sent.
    pub(crate) fn open(&mut self, now: Duration, attempt: AttemptId, call: OpenCall) {
        let ends_at = now.saturating_add(call.remaining).saturating_add(DEADLINE_GRACE);
        let count = self.open_at.entry(call.worker.clone()).or_default();
        *count = count.saturating_add(1);
        self.open
            .insert(attempt, Attempt { call, heard: now, begun: GuestStart::Perhaps, ends_at, cancelled_until: None });
    }

    /// Removes an attempt that could not be sent. Nobody is told of its end.
    pub(crate) fn withdraw(&mut self, attempt: AttemptId) {
        self.remove(attempt);
    }

    /// Returns the number of attempts of a worker that have not ended.
    #[must_use]
    pub(crate) fn open_at(&self, worker: &str) -> usize {
        self.open_at.get(worker).copied().unwrap_or(0)
    }

    /// Returns whether this attempt at this worker has not ended.
    #[must_use]
    pub(crate) fn is_open(&self, attempt: AttemptId, worker: &str) -> bool {
        self.open.get(&attempt).is_some_and(|open| &*open.call.worker == worker)
    }

    /// Asks the worker to stop a call. Its end follows: the worker's word, or [`Conclusion::Cancelled`].
    pub(crate) fn cancel<T>(&mut self, now: Duration, attempt: AttemptId) -> Vec<GatewayEffect<T>> {
        let Some(open) = self.open.get_mut(&attempt) else { return Vec::new() };
        open.cancelled_until.get_or_insert(now.saturating_add(CANCEL_GRACE));
        vec![cancel_at(&open.call.worker, attempt)]
    }

    /// Takes a message of a worker; `result` is the body of one that ends a call.
    pub(crate) fn on_message<T>(
        &mut self,
        now: Duration,
        worker: &WorkerName,
        message: &ToGateway,
        result: Option<T>,
    ) -> Vec<GatewayEffect<T>> {
        match message {
            ToGateway::Started { attempt }
            | ToGateway::Log { attempt, .. }
            | ToGateway::Progress { attempt, .. }
            | ToGateway::Request { attempt, .. }
            | ToGateway::Used { attempt, .. } => self.mark_running(now, worker, *attempt),
            ToGateway::Running { attempts } => {
                attempts.iter().flat_map(|attempt| self.mark_running(now, worker, *attempt)).collect()
            }
            ToGateway::Refused { attempt, reason } if self.is_open(*attempt, worker) => {
                self.conclude(*attempt, Conclusion::Refused(*reason))
            }
            ToGateway::Ended { attempt, offer } => match (result, self.open.get(attempt)) {
                (Some(result), Some(open)) if open.call.worker == *worker => {
                    let is_same = open.call.offer == *offer;
                    self.conclude(*attempt, if is_same { Conclusion::Finished(result) } else { Conclusion::Mismatched })
                }
                (Some(result), None) if self.ended.get(attempt) == Some(worker) => {
                    // Forgotten, so that a duplicate of it is not recorded once more.
                    self.ended.remove(attempt);
                    vec![GatewayEffect::Late { attempt: *attempt, worker: worker.clone(), result }]
                }
                _ => Vec::new(),
            },
            ToGateway::Refused { .. } | ToGateway::Unknown => Vec::new(),
        }
    }

    /// Takes the announcement of a run of a worker: what earlier runs of it had is interrupted.
    pub(crate) fn on_run<T>(&mut self, worker: &str, run: u64) -> Vec<GatewayEffect<T>> {
        let lost: Vec<(AttemptId, GuestStart)> = self
            .open
            .iter()
            .filter(|(_, open)| &*open.call.worker == worker && open.call.run != run)
            .map(|(attempt, open)| (*attempt, open.begun))
            .collect();
        lost.into_iter().flat_map(|(attempt, begun)| self.conclude(attempt, Conclusion::Interrupted(begun))).collect()
    }

    /// Ends what is due at this time.
    pub(crate) fn on_tick<T>(&mut self, now: Duration) -> Vec<GatewayEffect<T>> {
        let due: Vec<(AttemptId, WorkerName, Conclusion<T>)> = self
            .open
            .iter()
            .filter_map(|(attempt, open)| Some((*attempt, open.call.worker.clone(), open.due(now)?)))
            .collect();
        let mut effects = Vec::new();
        for (attempt, worker, conclusion) in due {
            effects.push(cancel_at(&worker, attempt));
            effects.extend(self.conclude(attempt, conclusion));
        }
        if now.saturating_sub(self.last_heartbeat) >= GATEWAY_HEARTBEAT_EVERY {
            self.last_heartbeat = now;
            let alive = |worker: &WorkerName| GatewayEffect::Send { worker: worker.clone(), message: ToWorker::Alive };
            effects.extend(self.open_at.keys().map(alive));
        }
        effects
    }

    fn mark_running<T>(&mut self, now: Duration, worker: &WorkerName, attempt: AttemptId) -> Vec<GatewayEffect<T>> {
        match self.open.get_mut(&attempt) {
            Some(open) if open.call.worker == *worker => {
                open.heard = now;
                open.begun = GuestStart::Yes;
                Vec::new()
            }
            // The gateway gave it up, and the word to stop may be lost.
            None if self.ended.get(&attempt) == Some(worker) => vec![cancel_at(worker, attempt)],
            _ => Vec::new(),
        }
    }

    fn remove(&mut self, attempt: AttemptId) -> Option<Attempt> {
        let removed = self.open.remove(&attempt)?;
        if let Some(count) = self.open_at.get_mut(&removed.call.worker) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.open_at.remove(&removed.call.worker);
            }
        }
        Some(removed)
    }

    /// Ends an attempt. This is the only place that does, and it removes the attempt.
    fn conclude<T>(&mut self, attempt: AttemptId, conclusion: Conclusion<T>) -> Vec<GatewayEffect<T>> {
        let Some(open) = self.remove(attempt) else { return Vec::new() };
        // Only an attempt whose worker has not said how it ended can have a late result.
        if !matches!(conclusion, Conclusion::Finished(_) | Conclusion::Refused(_) | Conclusion::Mismatched) {
            self.ended.insert(attempt, open.call.worker);
            self.order.push_back(attempt);
            while self.order.len() > MAX_ENDED {
                if let Some(oldest) = self.order.pop_front() {
                    self.ended.remove(&oldest);
                }
            }
        }
        vec![GatewayEffect::Conclude { attempt, conclusion }]
    }
}

impl Attempt {
    /// Returns the end of the attempt, if it is due without a word of the worker.
    fn due<T>(&self, now: Duration) -> Option<Conclusion<T>> {
        if self.cancelled_until.is_some_and(|until| now >= until) {
            return Some(Conclusion::Cancelled(self.begun));
        }
        if now >= self.ends_at {
            return Some(Conclusion::Deadline(self.begun));
        }
        (now.saturating_sub(self.heard) >= LOST_AFTER).then_some(Conclusion::Interrupted(self.begun))
    }
}

impl<T> Conclusion<T> {
    /// Returns whether the call may be sent to another worker. `is_repeatable` says that running it twice does no harm,
    /// and that the operator allows it.
    #[must_use]
    pub(crate) fn may_retry(&self, is_repeatable: bool) -> bool {
        match self {
            Self::Refused(_) | Self::Interrupted(GuestStart::No) => true,
            Self::Interrupted(GuestStart::Perhaps | GuestStart::Yes) => is_repeatable,
            Self::Finished(_) | Self::Deadline(_) | Self::Cancelled(_) | Self::Mismatched => false,
        }
    }
}

/// The rule on sending one call to several workers, one after the other.
#[derive(Debug)]
pub(crate) struct RetryPlan {
    is_repeatable: bool,
    attempts: usize,
    tried: BTreeSet<WorkerName>,
}

impl RetryPlan {
    /// Creates the plan of a call. `is_repeatable` is as in [`Conclusion::may_retry`].
    #[must_use]
    pub(crate) fn new(is_repeatable: bool) -> Self {
        Self { is_repeatable, attempts: 0, tried: BTreeSet::new() }
    }

    /// Returns whether the call was sent to this worker.
    #[must_use]
    pub(crate) fn is_tried(&self, worker: &str) -> bool {
        self.tried.contains(worker)
    }

    /// Takes the end of an attempt. Returns whether another worker may be asked.
    pub(crate) fn on_conclusion<T>(&mut self, worker: WorkerName, conclusion: &Conclusion<T>) -> bool {
        let may_retry = conclusion.may_retry(self.is_repeatable);
        // Once at most, if a guest may have run.
        self.is_repeatable &= matches!(conclusion, Conclusion::Refused(_) | Conclusion::Interrupted(GuestStart::No));
        // A worker that has forgotten the grant is sent it again.
        if !matches!(conclusion, Conclusion::Refused(RefusalReason::UnknownGrant)) {
            self.tried.insert(worker);
        }
        self.attempts = self.attempts.saturating_add(1);
        may_retry && self.attempts < MAX_ATTEMPTS
    }
}

fn cancel_at<T>(worker: &WorkerName, attempt: AttemptId) -> GatewayEffect<T> {
    GatewayEffect::Send { worker: worker.clone(), message: ToWorker::Cancel { attempt } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fumehood_core::digest::Digest;
    use std::sync::Arc;

    const ATTEMPT: AttemptId = AttemptId::from_bits(1);

    fn offer() -> Offer {
        Offer { component: Digest::of(b"c"), powers: Digest::of(b"p") }
    }

    fn opened() -> (GatewayCalls, WorkerName) {
        let worker: WorkerName = "w".into();
        let mut calls = GatewayCalls::default();
        let remaining = Duration::from_secs(2);
        calls.open(
            Duration::ZERO,
            ATTEMPT,
            OpenCall { worker: Arc::clone(&worker), run: 1, offer: offer(), remaining },
        );
        (calls, worker)
    }

    fn conclusions(effects: Vec<GatewayEffect<u8>>) -> Vec<Conclusion<u8>> {
        effects
            .into_iter()
            .filter_map(|effect| match effect {
                GatewayEffect::Conclude { conclusion, .. } => Some(conclusion),
                _ => None,
            })
            .collect()
    }

    fn ended() -> ToGateway {
        ToGateway::Ended { attempt: ATTEMPT, offer: offer() }
    }

    #[test]
    fn a_silent_worker_is_lost_and_its_late_result_is_told_once() {
        let (mut calls, worker) = opened();
        assert!(conclusions(calls.on_tick(LOST_AFTER - Duration::from_millis(1))).is_empty());
        let lost = conclusions(calls.on_tick(LOST_AFTER));
        assert_eq!(lost, [Conclusion::Interrupted(GuestStart::Perhaps)]);
        assert!(conclusions(calls.on_tick(LOST_AFTER * 2)).is_empty());
        let late = calls.on_message(LOST_AFTER, &worker, &ended(), Some(9));
        assert!(matches!(late.as_slice(), [GatewayEffect::Late { result: 9, .. }]), "{late:?}");
        assert!(calls.on_message(LOST_AFTER, &worker, &ended(), Some(9)).is_empty());
    }

    #[test]
    fn heartbeats_keep_a_call_until_its_deadline() {
        let (mut calls, worker) = opened();
        let mut now = Duration::ZERO;
        let beat = ToGateway::Running { attempts: vec![ATTEMPT] };
        while now < Duration::from_millis(2400) {
            now += Duration::from_millis(100);
            assert!(calls.on_message::<u8>(now, &worker, &beat, None).is_empty());
            assert!(conclusions(calls.on_tick(now)).is_empty(), "{now:?}");
        }
        now += Duration::from_millis(100);
        assert_eq!(conclusions(calls.on_tick(now)), [Conclusion::Deadline(GuestStart::Yes)]);
        // The worker has not stopped yet, so it is asked again.
        let again = calls.on_message::<u8>(now, &worker, &beat, None);
        assert_eq!(again, [cancel_at(&worker, ATTEMPT)]);
    }

    #[test]
    fn only_the_worker_that_was_asked_can_end_a_call() {
        let (mut calls, worker) = opened();
        let other: WorkerName = "other".into();
        assert!(calls.on_message(Duration::ZERO, &other, &ended(), Some(1)).is_empty());
        let refused = ToGateway::Refused { attempt: ATTEMPT, reason: RefusalReason::Full };
        assert!(calls.on_message::<u8>(Duration::ZERO, &other, &refused, None).is_empty());
        let finished = calls.on_message(Duration::ZERO, &worker, &ended(), Some(2));
        assert_eq!(conclusions(finished), [Conclusion::Finished(2)]);
        assert!(calls.on_message(Duration::ZERO, &worker, &ended(), Some(2)).is_empty());
    }

    #[test]
    fn another_component_than_the_named_one_is_no_result() {
        let (mut calls, worker) = opened();
        let powers = Digest::of(b"other powers");
        let message = ToGateway::Ended { attempt: ATTEMPT, offer: Offer { powers, ..offer() } };
        let ended = calls.on_message(Duration::ZERO, &worker, &message, Some(1));
        assert_eq!(conclusions(ended), [Conclusion::Mismatched]);
    }

    #[test]
    fn a_new_run_of_a_worker_interrupts_the_calls_of_the_last() {
        let (mut calls, worker) = opened();
        assert!(calls.on_run::<u8>(&worker, 1).is_empty());
        assert_eq!(conclusions(calls.on_run(&worker, 2)), [Conclusion::Interrupted(GuestStart::Perhaps)]);
    }

    #[test]
    fn a_cancelled_call_ends_with_the_word_of_the_worker_or_without() {
        let (mut calls, worker) = opened();
        assert_eq!(calls.cancel::<u8>(Duration::ZERO, ATTEMPT), [cancel_at(&worker, ATTEMPT)]);
        let word = calls.on_message(Duration::from_millis(3), &worker, &ended(), Some(4));
        assert_eq!(conclusions(word), [Conclusion::Finished(4)]);
        let (mut calls, _) = opened();
        calls.cancel::<u8>(Duration::ZERO, ATTEMPT);
        assert_eq!(conclusions(calls.on_tick(CANCEL_GRACE)), [Conclusion::Cancelled(GuestStart::Perhaps)]);
    }

    fn can_retry(conclusion: Conclusion<u8>) -> (bool, bool) {
        (conclusion.may_retry(false), conclusion.may_retry(true))
    }

    #[test]
    fn only_repeatable_calls_are_sent_twice_once_they_may_have_begun() {
        assert_eq!(can_retry(Conclusion::Refused(RefusalReason::Full)), (true, true));
        assert_eq!(can_retry(Conclusion::Interrupted(GuestStart::No)), (true, true));
        assert_eq!(can_retry(Conclusion::Interrupted(GuestStart::Perhaps)), (false, true));
        assert_eq!(can_retry(Conclusion::Interrupted(GuestStart::Yes)), (false, true));
        assert_eq!(can_retry(Conclusion::Deadline(GuestStart::Yes)), (false, false));
        assert_eq!(can_retry(Conclusion::Finished(1)), (false, false));
    }
}
