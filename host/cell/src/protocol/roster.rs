//! The workers that a gateway knows, and the choice of one for a call. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ABSENT_AFTER;
use super::message::{Announcement, Offer, Ticket, WorkerName};

/// A worker that was chosen for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The worker.
    pub worker: WorkerName,
    /// Its ticket.
    pub ticket: Ticket,
}

/// The reason for which no worker can take a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoWorker {
    /// No worker announces itself.
    Absent,
    /// No worker has the component with these powers.
    NotOffered,
    /// Every worker that has it is full, drains, or was asked already.
    Full,
}

/// The workers that announce themselves, each with its last announcement.
#[derive(Debug, Default)]
pub struct Roster {
    workers: BTreeMap<WorkerName, (Duration, Announcement)>,
}

impl Roster {
    /// Takes an announcement.
    pub fn on_announcement(&mut self, now: Duration, worker: WorkerName, announcement: Announcement) {
        self.workers.insert(worker, (now, announcement));
    }

    /// Notes that a call of this gateway has ended at a worker, which its last announcement may not know.
    pub fn on_ended(&mut self, worker: &str) {
        if let Some((_, announcement)) = self.workers.get_mut(worker) {
            announcement.running = announcement.running.saturating_sub(1);
        }
    }

    /// Forgets workers that have not announced themselves for a while.
    pub fn on_tick(&mut self, now: Duration) {
        self.workers.retain(|_, (at, _)| now.saturating_sub(*at) < ABSENT_AFTER);
    }

    /// Returns the number of workers that announce themselves.
    #[must_use]
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// Returns whether no worker announces itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// Chooses the less loaded of two workers that are taken at random from those with a free place. `own` returns the
    /// number of calls that this gateway has at a worker, since an announcement is up to a fifth of a second old.
    ///
    /// # Errors
    /// If no worker can take the call.
    pub fn choose(
        &self,
        offer: &Offer,
        random: u64,
        own: impl Fn(&str) -> usize,
        is_tried: impl Fn(&str) -> bool,
    ) -> Result<Candidate, NoWorker> {
        if self.workers.is_empty() {
            return Err(NoWorker::Absent);
        }
        let having = self.workers.iter().filter(|(_, (_, it))| it.offers.binary_search(offer).is_ok());
        let mut has_it = false;
        let mut free: Vec<(f64, &WorkerName, Ticket)> = Vec::new();
        for (name, (_, worker)) in having {
            has_it = true;
            let running = own(name).max(usize::try_from(worker.running).unwrap_or(usize::MAX));
            let places = usize::try_from(worker.places).unwrap_or(usize::MAX);
            if !worker.draining && running < places && !is_tried(name) {
                free.push((running as f64 / places as f64, name, worker.ticket));
            }
        }
        if !has_it {
            return Err(NoWorker::NotOffered);
        }
        let count = u64::try_from(free.len()).unwrap_or(u64::MAX);
        let pick = |random: u64| random.checked_rem(count).and_then(|index| free.get(usize::try_from(index).ok()?));
        let (one, other) = (pick(random & 0xffff_ffff), pick(random >> 32));
        let better = match (one, other) {
            (Some(one), Some(other)) => Some(if other.0 < one.0 { other } else { one }),
            _ => None,
        };
        let chosen = better.map(|(_, worker, ticket)| Candidate { worker: (*worker).clone(), ticket: *ticket });
        chosen.ok_or(NoWorker::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fumehood_core::digest::Digest;

    fn offer(name: &str) -> Offer {
        Offer { component: Digest::of(name.as_bytes()), powers: Digest::of(b"") }
    }

    fn roster(workers: &[(&str, u32, u32)]) -> Roster {
        let mut roster = Roster::default();
        for (name, running, places) in workers {
            let ticket = Ticket { run: 1, epoch: 0 };
            let (places, running) = (*places, *running);
            let announcement = Announcement { ticket, places, running, draining: false, offers: vec![offer("a")] };
            roster.on_announcement(Duration::ZERO, (*name).into(), announcement);
        }
        roster
    }

    fn choose(roster: &Roster, component: &str, random: u64) -> Result<String, NoWorker> {
        roster.choose(&offer(component), random, |_| 0, |_| false).map(|chosen| chosen.worker.to_string())
    }

    #[test]
    fn chooses_the_less_loaded_of_two() {
        let roster = roster(&[("a", 3, 4), ("b", 1, 4)]);
        assert_eq!(choose(&roster, "a", 1 << 32), Ok("b".to_owned()));
        assert_eq!(choose(&roster, "a", 1), Ok("b".to_owned()));
        assert_eq!(choose(&roster, "a", 0), Ok("a".to_owned()));
        let own = roster.choose(&offer("a"), 1, |name| if name == "b" { 4 } else { 0 }, |_| false);
        assert_eq!(own.map(|chosen| chosen.worker.to_string()), Ok("a".to_owned()));
    }

    #[test]
    fn says_why_there_is_no_worker() {
        let mut full = roster(&[("a", 4, 4)]);
        assert_eq!(choose(&full, "a", 0), Err(NoWorker::Full));
        assert_eq!(choose(&full, "b", 0), Err(NoWorker::NotOffered));
        assert_eq!(choose(&roster(&[("a", 0, 0)]), "a", 0), Err(NoWorker::Full));
        full.on_ended("a");
        assert_eq!(choose(&full, "a", 0), Ok("a".to_owned()));
        full.on_tick(ABSENT_AFTER);
        assert_eq!(choose(&full, "a", 0), Err(NoWorker::Absent));
        assert!(full.is_empty());
    }
}
