//! The workers of one component. Usually one process runs all its calls; callers whose calls were in a worker that died have
//! workers of their own for some time, so that the others do not share their fate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::link::{Death, Link};

/// Consecutive deaths of a worker after which its restart is delayed.
const DEATHS_BEFORE_DELAY: u32 = 3;
/// The first of those delays. Each further one is twice as long as the one before.
const MIN_RESTART_DELAY: Duration = Duration::from_millis(100);
/// Maximum delay before a restart.
const MAX_RESTART_DELAY: Duration = Duration::from_secs(10);
/// Time without a call after which a worker of one actor is ended, and after which the actor returns to the shared one.
const SEPARATION: Duration = Duration::from_secs(60);
/// Maximum number of workers of single actors. The one that was not used for longest is ended for another.
const MAX_SEPARATE: usize = 8;

/// The actors that have a worker of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separation {
    /// None: quotas of folders are counted in the process of the worker.
    Never,
    /// Those whose calls were in a worker that died, for some time.
    AfterDeath,
    /// Every actor.
    Always,
}

/// The workers of one component.
pub(super) struct Lanes {
    separation: Separation,
    shared: Arc<Lane>,
    /// Runs calls of no actor again that were in a worker that died, one at a time.
    solo: Arc<Lane>,
    separate: Mutex<HashMap<Arc<str>, SeparateLane>>,
    /// Held while such a call runs.
    pub(super) solo_turn: tokio::sync::Mutex<()>,
}

struct SeparateLane {
    lane: Arc<Lane>,
    used: Instant,
}

impl Lanes {
    pub(super) fn new(separation: Separation, first: Arc<Link>) -> Self {
        let shared = Arc::new(Lane { is_shared: true, ..Lane::default() });
        shared.set_link(&first);
        let solo = Arc::default();
        let solo_turn = tokio::sync::Mutex::default();
        Self { separation, shared, solo, separate: Mutex::default(), solo_turn }
    }

    pub(super) fn shared(&self) -> &Arc<Lane> {
        &self.shared
    }

    /// Returns all lanes, the shared one first.
    pub(super) fn all(&self) -> Vec<Arc<Lane>> {
        let separate: Vec<Arc<Lane>> = self.separate().values().map(|separate| Arc::clone(&separate.lane)).collect();
        [&self.shared, &self.solo].into_iter().map(Arc::clone).chain(separate).collect()
    }

    /// Returns the lane in which a call of no actor is repeated.
    pub(super) fn solo(&self) -> &Arc<Lane> {
        &self.solo
    }

    /// Returns the lane for a call of this actor.
    pub(super) fn lane_of(&self, actor: Option<&Arc<str>>) -> Arc<Lane> {
        let now = Instant::now();
        let mut separate = self.separate();
        separate.retain(|_, separate| now.saturating_duration_since(separate.used) < SEPARATION);
        let Some(actor) = actor else { return Arc::clone(&self.shared) };
        if let Some(separate) = separate.get_mut(actor) {
            separate.used = now;
            return Arc::clone(&separate.lane);
        }
        match self.separation {
            Separation::Always => insert(&mut separate, actor, now),
            Separation::Never | Separation::AfterDeath => Arc::clone(&self.shared),
        }
    }

    /// Gives the actors of the calls that a dead worker had begun workers of their own.
    pub(super) fn separate_actors(&self, death: &Death) {
        if self.separation == Separation::Never {
            return;
        }
        let now = Instant::now();
        let mut separate = self.separate();
        for actor in death.actors.iter().flatten() {
            if !separate.contains_key(actor) {
                let _lane = insert(&mut separate, actor, now);
            }
        }
    }

    fn separate(&self) -> MutexGuard<'_, HashMap<Arc<str>, SeparateLane>> {
        self.separate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn insert(separate: &mut HashMap<Arc<str>, SeparateLane>, actor: &Arc<str>, now: Instant) -> Arc<Lane> {
    if separate.len() >= MAX_SEPARATE
        && let Some(oldest) =
            separate.iter().min_by_key(|(_, separate)| separate.used).map(|(actor, _)| Arc::clone(actor))
    {
        separate.remove(&oldest);
    }
    let lane = Arc::<Lane>::default();
    separate.insert(Arc::clone(actor), SeparateLane { lane: Arc::clone(&lane), used: now });
    lane
}

/// One worker process, which is started again when it has died.
#[derive(Default)]
pub(super) struct Lane {
    state: Mutex<LaneState>,
    is_shared: bool,
    /// Held while a worker is started.
    pub(super) starting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct LaneState {
    link: Option<Arc<Link>>,
    /// Consecutive deaths that count: see [`Lane::record_death`].
    deaths: u32,
    /// The time before which no worker is started.
    restart_after: Option<Instant>,
}

impl Lane {
    fn state(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether calls of all actors run here: the lane that had a worker from the beginning.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.state().link.clone()
    }

    pub(super) fn set_link(&self, link: &Arc<Link>) {
        self.state().link = Some(Arc::clone(link));
    }

    /// Returns the time to wait before the next start.
    pub(super) fn restart_delay(&self) -> Duration {
        let until = self.state().restart_after;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Records that a call was answered, so that the next deaths are not consecutive.
    pub(super) fn record_answer(&self) {
        self.state().deaths = 0;
    }

    /// Removes a dead worker. Returns false if it was removed already.
    ///
    /// Its death delays the next starts if it died by itself, without a call, or in the lane of one actor, which delays nobody
    /// else. A death in the shared lane that calls may have caused does not count: their callers leave that lane.
    pub(super) fn record_death(&self, link: &Arc<Link>, death: &Death) -> bool {
        let mut state = self.state();
        if !state.link.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            return false;
        }
        state.link = None;
        if !self.is_shared || death.actors.is_empty() {
            state.deaths = state.deaths.saturating_add(1);
        }
        let doublings = state.deaths.checked_sub(DEATHS_BEFORE_DELAY);
        let delay =
            doublings.map(|doublings| MIN_RESTART_DELAY.saturating_mul(1 << doublings.min(10)).min(MAX_RESTART_DELAY));
        state.restart_after = delay.map(|delay| Instant::now() + delay);
        true
    }
}
