//! The calls of a worker: which run, which were seen, and what gateways are told of them. Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::message::{AttemptId, RefusalReason, Ticket, ToGateway};
use super::{EPOCH, HEARTBEAT_EVERY, ORPHANED_AFTER, STARTED_AFTER};

/// Number of epochs whose tickets are accepted.
const EPOCHS: usize = 3;
/// Maximum number of attempts that are remembered for each epoch. Further ones are refused.
const MAX_SEEN: usize = 1 << 20;

/// The decision on a call that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Run it.
    Run,
    /// Tell the gateway that it does not run.
    Refuse(RefusalReason),
    /// The same attempt arrived before, or was cancelled before it arrived: do nothing.
    Ignore,
}

/// An effect that the worker has to carry out.
#[derive(Debug, Clone)]
pub(crate) enum WorkerEffect {
    /// Send this to a gateway.
    Send {
        /// The name of the gateway.
        gateway: Arc<str>,
        /// The message.
        message: ToGateway,
    },
    /// Stop the guest of this attempt.
    Cancel(AttemptId),
}

/// The calls of one run of a worker.
#[derive(Debug)]
pub(crate) struct WorkerCalls {
    run: u64,
    places: usize,
    draining: bool,
    running: BTreeMap<AttemptId, RunningCall>,
    /// Attempts of the last epochs, the newest last, each with the number of its epoch.
    seen: VecDeque<(u64, HashSet<AttemptId>)>,
    heard: BTreeMap<Arc<str>, Duration>,
    last_heartbeat: Duration,
}

#[derive(Debug)]
struct RunningCall {
    gateway: Arc<str>,
    since: Duration,
    is_told: bool,
}

impl WorkerCalls {
    /// Creates the state of a run with so many places. `run` is random.
    #[must_use]
    pub(crate) fn new(run: u64, places: usize) -> Self {
        Self {
            run,
            places,
            draining: false,
            running: BTreeMap::new(),
            seen: VecDeque::from([(0, HashSet::new())]),
            heard: BTreeMap::new(),
            last_heartbeat: Duration::ZERO,
        }
    }

    /// Returns the ticket for new calls.
    #[must_use]
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket { run: self.run, epoch: self.seen.back().map_or(0, |(epoch, _)| *epoch) }
    }

    /// Returns the number of running calls.
    #[must_use]
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// Takes no more calls from now on. Those that run go on.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// Returns whether no more calls are taken.
    #[must_use]
    pub(crate) fn is_draining(&self) -> bool {
        self.draining
    }

    /// Notes that a gateway is there.
    pub(crate) fn on_alive(&mut self, now: Duration, gateway: &Arc<str>) {
        self.heard.insert(Arc::clone(gateway), now);
    }

    /// Decides on a call. `is_offered` says whether the worker has the tool.
    pub(crate) fn on_call(
        &mut self,
        now: Duration,
        gateway: &Arc<str>,
        attempt: AttemptId,
        ticket: Ticket,
        is_offered: bool,
    ) -> Admission {
        self.on_alive(now, gateway);
        let is_full = self.running.len() >= self.places;
        let epoch = self.seen.iter_mut().find(|(epoch, _)| ticket.run == self.run && *epoch == ticket.epoch);
        let Some((_, seen)) = epoch else { return Admission::Refuse(RefusalReason::Stale) };
        if seen.contains(&attempt) {
            return Admission::Ignore;
        }
        if seen.len() >= MAX_SEEN {
            return Admission::Refuse(RefusalReason::Full);
        }
        // A refused attempt counts as seen: the gateway may have run the call elsewhere since.
        seen.insert(attempt);
        if !is_offered {
            return Admission::Refuse(RefusalReason::NotOffered);
        }
        if self.draining {
            return Admission::Refuse(RefusalReason::Draining);
        }
        if is_full {
            return Admission::Refuse(RefusalReason::Full);
        }
        let call = RunningCall { gateway: Arc::clone(gateway), since: now, is_told: false };
        self.running.insert(attempt, call);
        Admission::Run
    }

    /// Cancels a call. One that has not arrived yet will not run. Returns whether a guest has to be stopped.
    pub(crate) fn on_cancel(&mut self, now: Duration, gateway: &Arc<str>, attempt: AttemptId) -> bool {
        self.on_alive(now, gateway);
        if let Some(call) = self.running.get(&attempt) {
            return call.gateway == *gateway;
        }
        // The epoch of its ticket is not known here.
        for (_, seen) in self.seen.iter_mut().filter(|(_, seen)| seen.len() < MAX_SEEN) {
            seen.insert(attempt);
        }
        false
    }

    /// Notes that a guest has ended. Returns the gateway that waits for the result.
    pub(crate) fn on_ended(&mut self, attempt: AttemptId) -> Option<Arc<str>> {
        self.running.remove(&attempt).map(|call| call.gateway)
    }

    /// Does what is due at this time.
    pub(crate) fn on_tick(&mut self, now: Duration) -> Vec<WorkerEffect> {
        self.begin_epochs(now);
        let mut effects = Vec::new();
        for (attempt, call) in self.running.iter_mut().filter(|(_, call)| !call.is_told) {
            if now.saturating_sub(call.since) >= STARTED_AFTER {
                call.is_told = true;
                let message = ToGateway::Started { attempt: *attempt };
                effects.push(WorkerEffect::Send { gateway: Arc::clone(&call.gateway), message });
            }
        }
        if now.saturating_sub(self.last_heartbeat) >= HEARTBEAT_EVERY {
            self.last_heartbeat = now;
            self.send_heartbeats(&mut effects);
            self.cancel_orphans(now, &mut effects);
        }
        effects
    }

    fn begin_epochs(&mut self, now: Duration) {
        let epoch = now.as_secs() / EPOCH.as_secs();
        if self.ticket().epoch < epoch {
            self.seen.push_back((epoch, HashSet::new()));
            while self.seen.len() > EPOCHS || self.seen.front().is_some_and(|(oldest, _)| oldest + 2 < epoch) {
                self.seen.pop_front();
            }
        }
    }

    fn send_heartbeats(&self, effects: &mut Vec<WorkerEffect>) {
        let mut of_gateways: BTreeMap<&Arc<str>, Vec<AttemptId>> = BTreeMap::new();
        // A call that is not told of yet has most likely ended before it would be missed.
        for (attempt, call) in self.running.iter().filter(|(_, call)| call.is_told) {
            of_gateways.entry(&call.gateway).or_default().push(*attempt);
        }
        effects.extend(of_gateways.into_iter().map(|(gateway, attempts)| WorkerEffect::Send {
            gateway: Arc::clone(gateway),
            message: ToGateway::Running { attempts },
        }));
    }

    fn cancel_orphans(&mut self, now: Duration, effects: &mut Vec<WorkerEffect>) {
        let heard = &self.heard;
        let is_gone =
            |gateway: &Arc<str>| heard.get(gateway).is_none_or(|at| now.saturating_sub(*at) >= ORPHANED_AFTER);
        let orphans = self.running.iter().filter(|(_, call)| is_gone(&call.gateway));
        effects.extend(orphans.map(|(attempt, _)| WorkerEffect::Cancel(*attempt)));
        let waiting: BTreeSet<&Arc<str>> = self.running.values().map(|call| &call.gateway).collect();
        let forgotten: Vec<Arc<str>> =
            self.heard.keys().filter(|name| !waiting.contains(name) && is_gone(name)).cloned().collect();
        for name in forgotten {
            self.heard.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(bits: u128) -> AttemptId {
        AttemptId::from_bits(bits)
    }

    fn has_cancel(effects: &[WorkerEffect]) -> bool {
        effects.iter().any(|effect| matches!(effect, WorkerEffect::Cancel(_)))
    }

    #[test]
    fn an_attempt_runs_once_within_and_beyond_its_epoch() {
        let gateway: Arc<str> = "g".into();
        let mut calls = WorkerCalls::new(7, 4);
        let ticket = calls.ticket();
        let first = attempt(1);
        assert_eq!(calls.on_call(Duration::ZERO, &gateway, first, ticket, true), Admission::Run);
        assert_eq!(calls.on_call(Duration::ZERO, &gateway, first, ticket, true), Admission::Ignore);
        assert_eq!(calls.on_ended(attempt(1)), Some(Arc::clone(&gateway)));
        assert_eq!(calls.on_call(Duration::ZERO, &gateway, first, ticket, true), Admission::Ignore);
        calls.on_tick(EPOCH * 2);
        assert_eq!(calls.on_call(EPOCH * 2, &gateway, first, ticket, true), Admission::Ignore);
        calls.on_tick(EPOCH * 3);
        let stale = Admission::Refuse(RefusalReason::Stale);
        assert_eq!(calls.on_call(EPOCH * 3, &gateway, first, ticket, true), stale);
        let other_run = Ticket { run: 8, ..calls.ticket() };
        assert_eq!(calls.on_call(EPOCH * 3, &gateway, attempt(2), other_run, true), stale);
    }

    #[test]
    fn a_cancel_that_overtakes_its_call_prevents_it() {
        let gateway: Arc<str> = "g".into();
        let mut calls = WorkerCalls::new(7, 4);
        assert!(!calls.on_cancel(Duration::ZERO, &gateway, attempt(1)));
        assert_eq!(calls.on_call(Duration::ZERO, &gateway, attempt(1), calls.ticket(), true), Admission::Ignore);
    }

    #[test]
    fn a_gateway_cannot_cancel_calls_of_another() {
        let gateway: Arc<str> = "g".into();
        let other: Arc<str> = "h".into();
        let mut calls = WorkerCalls::new(7, 4);
        calls.on_call(Duration::ZERO, &gateway, attempt(1), calls.ticket(), true);
        assert!(!calls.on_cancel(Duration::ZERO, &other, attempt(1)));
        assert!(calls.on_cancel(Duration::ZERO, &gateway, attempt(1)));
    }

    #[test]
    fn refuses_when_full_draining_or_not_offered() {
        let gateway: Arc<str> = "g".into();
        let mut calls = WorkerCalls::new(7, 1);
        let ticket = calls.ticket();
        let mut ask = |bits, is_offered| calls.on_call(Duration::ZERO, &gateway, attempt(bits), ticket, is_offered);
        assert_eq!(ask(1, false), Admission::Refuse(RefusalReason::NotOffered));
        assert_eq!(ask(2, true), Admission::Run);
        assert_eq!(ask(3, true), Admission::Refuse(RefusalReason::Full));
        calls.drain();
        let admission = calls.on_call(Duration::ZERO, &gateway, attempt(4), ticket, true);
        assert_eq!(admission, Admission::Refuse(RefusalReason::Draining));
    }

    #[test]
    fn cancels_the_calls_of_a_silent_gateway() {
        let gateway: Arc<str> = "g".into();
        let mut calls = WorkerCalls::new(7, 4);
        calls.on_call(Duration::ZERO, &gateway, attempt(1), calls.ticket(), true);
        assert!(!has_cancel(&calls.on_tick(Duration::from_secs(1))));
        assert!(has_cancel(&calls.on_tick(Duration::from_secs(3))));
    }
}
