//! The workers that a gateway knows, and the choice of one for a call. Pure.

use std::collections::HashMap;
use std::time::Duration;

use super::ABSENT_AFTER;
use super::message::{Announcement, Offer, Ticket, WorkerName};

/// Number of workers that are looked at before all are.
const PROBES: usize = 6;

/// A worker that was chosen for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The worker.
    pub(crate) worker: WorkerName,
    /// Its ticket.
    pub(crate) ticket: Ticket,
}

/// The reason for which no worker can take a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum NoWorker {
    /// The NATS server cannot be reached.
    Disconnected,
    /// No worker announces itself.
    Absent,
    /// No worker has the component with these powers.
    NotOffered,
    /// Every worker that has it is full, drains, or was asked already.
    Full,
}

/// The workers that announce themselves, each with its last announcement.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    workers: HashMap<WorkerName, (Duration, Announcement)>,
    /// Their names, for picking some at random.
    names: Vec<WorkerName>,
}

impl Roster {
    /// Takes an announcement. Returns whether the worker was not known before.
    pub(crate) fn on_announcement(&mut self, now: Duration, worker: WorkerName, announcement: Announcement) -> bool {
        let is_new = self.workers.insert(worker.clone(), (now, announcement)).is_none();
        if is_new {
            self.names.push(worker);
        }
        is_new
    }

    /// Forgets a run of a worker until it announces itself again. Returns whether it was known.
    pub(crate) fn forget(&mut self, worker: &str, run: u64) -> bool {
        let is_known = self.workers.get(worker).is_some_and(|(_, announcement)| announcement.ticket.run == run);
        if is_known {
            self.workers.remove(worker);
            self.names.retain(|name| &**name != worker);
        }
        is_known
    }

    /// Notes that a call of this gateway has ended at a worker, which its last announcement may not know.
    pub(crate) fn on_ended(&mut self, worker: &str) {
        if let Some((_, announcement)) = self.workers.get_mut(worker) {
            announcement.running = announcement.running.saturating_sub(1);
        }
    }

    /// Forgets workers that have not announced themselves for a while, and returns them.
    pub(crate) fn on_tick(&mut self, now: Duration) -> Vec<WorkerName> {
        let count = self.workers.len();
        self.workers.retain(|_, (at, _)| now.saturating_sub(*at) < ABSENT_AFTER);
        if self.workers.len() == count {
            return Vec::new();
        }
        let (known, absent) =
            std::mem::take(&mut self.names).into_iter().partition(|name| self.workers.contains_key(name));
        self.names = known;
        absent
    }

    /// Returns the last announcement of a worker.
    #[must_use]
    pub(crate) fn get(&self, worker: &str) -> Option<&Announcement> {
        self.workers.get(worker).map(|(_, announcement)| announcement)
    }

    /// Returns whether a worker announces itself and takes calls.
    #[must_use]
    pub(crate) fn has_worker(&self) -> bool {
        self.workers.values().any(|(_, announcement)| !announcement.draining)
    }

    /// Returns the workers that announce themselves, each with its last announcement.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Announcement)> {
        self.workers.iter().map(|(name, (_, announcement))| (&**name, announcement))
    }

    /// Returns the number of workers that announce themselves.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Chooses the less loaded of two workers that are taken at random from those with a free place. `own` returns the
    /// number of calls that this gateway has at a worker, since an announcement is up to a fifth of a second old.
    ///
    /// # Errors
    /// If no worker can take the call.
    pub(crate) fn choose(
        &self,
        offer: &Offer,
        random: u64,
        own: impl Fn(&str) -> usize,
        is_tried: impl Fn(&str) -> bool,
    ) -> Result<Candidate, NoWorker> {
        let load = |name: &WorkerName| self.load(name, offer, &own, &is_tried);
        // Most workers have the tool and a free place, so that few are looked at, however many there are.
        let mut found = None::<(f64, Candidate)>;
        let mut random = random;
        for _ in 0..PROBES {
            let Some(probed) = self.at(random).and_then(load) else {
                random = mix(random);
                continue;
            };
            random = mix(random);
            match found {
                None => found = Some(probed),
                Some(first) => return Ok(if probed.0 < first.0 { probed.1 } else { first.1 }),
            }
        }
        let free: Vec<(f64, Candidate)> = self.names.iter().filter_map(load).collect();
        let pick = |random: u64| free.get(index(random, free.len())?);
        match (pick(random), pick(mix(random))) {
            (Some(one), Some(other)) => Ok(if other.0 < one.0 { other.1.clone() } else { one.1.clone() }),
            _ => Err(self.reason(offer)),
        }
    }

    /// Returns the worker at a random place.
    fn at(&self, random: u64) -> Option<&WorkerName> {
        self.names.get(index(random, self.names.len())?)
    }

    /// Returns the load of a worker, if it can take the call.
    fn load(
        &self,
        name: &WorkerName,
        offer: &Offer,
        own: &impl Fn(&str) -> usize,
        is_tried: &impl Fn(&str) -> bool,
    ) -> Option<(f64, Candidate)> {
        let (_, worker) = self.workers.get(name)?;
        if worker.draining || worker.offers.binary_search(offer).is_err() || is_tried(name) {
            return None;
        }
        let running = own(name).max(usize::try_from(worker.running).unwrap_or(usize::MAX));
        let places = usize::try_from(worker.places).unwrap_or(usize::MAX);
        (running < places).then(|| {
            let candidate = Candidate { worker: name.clone(), ticket: worker.ticket };
            (running as f64 / places as f64, candidate)
        })
    }

    fn reason(&self, offer: &Offer) -> NoWorker {
        if self.workers.is_empty() {
            return NoWorker::Absent;
        }
        let has_it = self.workers.values().any(|(_, worker)| worker.offers.binary_search(offer).is_ok());
        if has_it { NoWorker::Full } else { NoWorker::NotOffered }
    }
}

/// Returns a place among so many.
fn index(random: u64, count: usize) -> Option<usize> {
    let index = random.checked_rem(u64::try_from(count).ok()?)?;
    usize::try_from(index).ok()
}

/// Returns the next pseudo-random number after a random one (SplitMix64).
fn mix(random: u64) -> u64 {
    let z = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
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
            let places = *places;
            let running = *running;
            let version = 0;
            let sequence = 1;
            let draining = false;
            let offers = vec![offer("a")];
            let announcement = Announcement { version, sequence, ticket, places, running, draining, offers };
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
        let chosen =
            (0..64).map(|random| choose(&roster, "a", mix(random)).unwrap()).filter(|name| name == "b").count();
        // Both are picked in half of the cases, twice the same one in a quarter each.
        assert!((36..=58).contains(&chosen), "{chosen}");
        for random in 0..64 {
            let own = roster.choose(&offer("a"), random, |name| if name == "b" { 4 } else { 0 }, |_| false);
            assert_eq!(own.map(|chosen| chosen.worker.to_string()), Ok("a".to_owned()));
        }
    }

    #[test]
    fn finds_the_only_free_worker_of_many() {
        let names: Vec<String> = (0..500).map(|index| format!("w{index}")).collect();
        let workers: Vec<_> = names.iter().map(|name| (name.as_str(), u32::from(name != "w321"), 1)).collect();
        let mut roster = roster(&workers);
        assert_eq!(choose(&roster, "a", 5), Ok("w321".to_owned()));
        roster.forget("w321", 1);
        assert_eq!(choose(&roster, "a", 5), Err(NoWorker::Full));
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
        assert!(full.len() == 0);
    }
}
