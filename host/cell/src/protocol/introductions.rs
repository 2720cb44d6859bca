//! The runs of workers that a gateway has a session with. Pure: an exchange of keys is a number here.
//!
//! An announcement may be a recorded one that is sent again. So it counts only once its run has answered a question that was
//! never asked before.

use std::collections::BTreeMap;
use std::time::Duration;

use super::message::{Announcement, WorkerName};
use super::{ANNOUNCE_EVERY, PROTOCOL_VERSION, RENEW_EVERY};

/// Maximum number of unanswered questions to runs of one worker.
const MAX_ASKED: usize = 4;

/// The decision on an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Introduction {
    /// Its run is known: it counts.
    Known,
    /// Its run is known and it counts, and keys are to be exchanged anew.
    Renew,
    /// Its run is not known: keys are to be exchanged first.
    Ask,
    /// It was received before, or a question was asked a moment ago.
    Ignore,
    /// Its version is too far from that of this gateway.
    Incompatible,
}

/// The runs of workers that answered, and the questions to others.
#[derive(Debug, Default)]
pub(crate) struct Introductions {
    known: BTreeMap<WorkerName, KnownRun>,
    asked: BTreeMap<WorkerName, Vec<PendingChallenge>>,
}

#[derive(Debug)]
struct KnownRun {
    run: u64,
    sequence: u64,
    since: Duration,
}

#[derive(Debug)]
struct PendingChallenge {
    nonce: u64,
    at: Duration,
    announcement: Announcement,
}

impl Introductions {
    /// Decides on an announcement.
    pub(crate) fn on_announcement(
        &mut self,
        now: Duration,
        worker: &WorkerName,
        announcement: &Announcement,
    ) -> Introduction {
        if announcement.version.abs_diff(PROTOCOL_VERSION) > 1 {
            return Introduction::Incompatible;
        }
        let run = announcement.ticket.run;
        let was_asked = self.was_asked(now, worker, announcement);
        match self.known.get_mut(worker) {
            Some(known) if known.run == run => {
                if announcement.sequence <= known.sequence {
                    return Introduction::Ignore;
                }
                known.sequence = announcement.sequence;
                let is_due = now.saturating_sub(known.since) >= RENEW_EVERY && !was_asked;
                if is_due { Introduction::Renew } else { Introduction::Known }
            }
            _ if was_asked => Introduction::Ignore,
            _ => Introduction::Ask,
        }
    }

    /// Notes that a worker was asked, because of this announcement.
    pub(crate) fn on_asked(&mut self, now: Duration, worker: &WorkerName, nonce: u64, announcement: Announcement) {
        let asked = self.asked.entry(worker.clone()).or_default();
        asked.push(PendingChallenge { nonce, at: now, announcement });
        if asked.len() > MAX_ASKED {
            asked.remove(0);
        }
    }

    /// Takes the answer of a run to a question. Returns the announcement that counts now; `None` if that question was not asked,
    /// or not of this run.
    pub(crate) fn on_answer(
        &mut self,
        now: Duration,
        worker: &WorkerName,
        run: u64,
        nonce: u64,
    ) -> Option<Announcement> {
        let asked = self.asked.get_mut(worker)?;
        let index = asked.iter().position(|it| it.nonce == nonce && it.announcement.ticket.run == run)?;
        let announcement = asked.remove(index).announcement;
        let sequence = match self.known.get(worker) {
            Some(known) if known.run == run => known.sequence.max(announcement.sequence),
            _ => announcement.sequence,
        };
        self.known.insert(worker.clone(), KnownRun { run, sequence, since: now });
        Some(announcement)
    }

    /// Forgets a run of a worker that does not answer any more: it is asked again when it announces itself.
    pub(crate) fn forget(&mut self, worker: &str, run: u64) {
        if self.known.get(worker).is_some_and(|known| known.run == run) {
            self.known.remove(worker);
        }
    }

    fn was_asked(&mut self, now: Duration, worker: &str, announcement: &Announcement) -> bool {
        let Some(asked) = self.asked.get_mut(worker) else { return false };
        let recent = asked.iter_mut().find(|it| {
            it.announcement.ticket.run == announcement.ticket.run && now.saturating_sub(it.at) < ANNOUNCE_EVERY
        });
        let Some(recent) = recent else { return false };
        if recent.announcement.sequence < announcement.sequence {
            recent.announcement = announcement.clone();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Ticket;

    fn announcement(run: u64, sequence: u64) -> Announcement {
        let ticket = Ticket { run, epoch: 0 };
        let version = PROTOCOL_VERSION;
        Announcement { version, sequence, ticket, places: 1, running: 0, draining: false, offers: Vec::new() }
    }

    #[test]
    fn an_announcement_counts_once_its_run_has_answered() {
        let mut known = Introductions::default();
        let worker: WorkerName = "w".into();
        let now = Duration::ZERO;
        assert_eq!(known.on_announcement(now, &worker, &announcement(1, 1)), Introduction::Ask);
        known.on_asked(now, &worker, 77, announcement(1, 1));
        assert_eq!(known.on_announcement(now, &worker, &announcement(1, 2)), Introduction::Ignore);
        assert!(known.on_answer(now, &worker, 2, 77).is_none(), "another run");
        assert!(known.on_answer(now, &worker, 1, 78).is_none(), "another question");
        assert_eq!(known.on_answer(now, &worker, 1, 77).map(|it| it.sequence), Some(2));
        assert!(known.on_answer(now, &worker, 1, 77).is_none(), "answered twice");
        assert_eq!(known.on_announcement(now, &worker, &announcement(1, 2)), Introduction::Ignore, "replayed");
        assert_eq!(known.on_announcement(now, &worker, &announcement(1, 3)), Introduction::Known);
    }

    #[test]
    fn a_replayed_announcement_of_an_earlier_run_displaces_nothing() {
        let mut known = Introductions::default();
        let worker: WorkerName = "w".into();
        let now = Duration::ZERO;
        known.on_asked(now, &worker, 77, announcement(2, 1));
        assert!(known.on_answer(now, &worker, 2, 77).is_some());
        assert_eq!(known.on_announcement(now, &worker, &announcement(1, 900)), Introduction::Ask);
        known.on_asked(now, &worker, 78, announcement(1, 900));
        assert_eq!(known.on_announcement(now, &worker, &announcement(2, 2)), Introduction::Known);
    }

    #[test]
    fn keys_are_exchanged_anew_after_a_while() {
        let mut known = Introductions::default();
        let worker: WorkerName = "w".into();
        known.on_asked(Duration::ZERO, &worker, 77, announcement(1, 1));
        assert!(known.on_answer(Duration::ZERO, &worker, 1, 77).is_some());
        assert_eq!(known.on_announcement(RENEW_EVERY, &worker, &announcement(1, 2)), Introduction::Renew);
        known.on_asked(RENEW_EVERY, &worker, 78, announcement(1, 2));
        assert_eq!(known.on_announcement(RENEW_EVERY, &worker, &announcement(1, 3)), Introduction::Known);
        assert!(known.on_answer(RENEW_EVERY, &worker, 1, 78).is_some());
        assert_eq!(known.on_announcement(RENEW_EVERY, &worker, &announcement(1, 3)), Introduction::Ignore);
    }

    #[test]
    fn versions_one_apart_work_together() {
        let mut known = Introductions::default();
        let worker: WorkerName = "w".into();
        for (version, is_compatible) in
            [(PROTOCOL_VERSION - 1, true), (PROTOCOL_VERSION + 1, true), (PROTOCOL_VERSION + 2, false)]
        {
            let decided =
                known.on_announcement(Duration::ZERO, &worker, &Announcement { version, ..announcement(1, 1) });
            assert_eq!(decided != Introduction::Incompatible, is_compatible, "{version}");
        }
    }
}
