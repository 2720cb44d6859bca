//! Budgets of tenants that several gateways share: each gateway takes slices of them ahead of need, so that a call waits for
//! nobody. A slice that was taken counts as used, so that all gateways together never use more than there is.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::time::Timestamp;

use crate::tenant::{Tenant, TenantLimits};

/// Maximum time that a call waits for a slice.
const LEASE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for which calls are refused without asking again, after the counter did not answer.
const RETRY_AFTER_FAILURE: Duration = Duration::from_millis(250);
/// Time for which calls are refused without asking again, after a budget was used up: other gateways may give something back.
const RETRY_AFTER_END_MS: u64 = 1000;

/// A budget of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BudgetKind {
    /// Calls in a day (UTC).
    CallsPerDay,
    /// Fuel of calls in a day (UTC).
    FuelPerDay,
    /// Fuel of calls in a minute.
    FuelPerMinute,
    /// Requests in a minute.
    RequestsPerMinute,
}

impl BudgetKind {
    /// Returns the name, of letters and `_`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CallsPerDay => "calls_per_day",
            Self::FuelPerDay => "fuel_per_day",
            Self::FuelPerMinute => "fuel_per_minute",
            Self::RequestsPerMinute => "requests_per_minute",
        }
    }

    fn window_ms(self) -> u64 {
        match self {
            Self::CallsPerDay | Self::FuelPerDay => 24 * 60 * 60 * 1000,
            Self::FuelPerMinute | Self::RequestsPerMinute => 60 * 1000,
        }
    }

    /// Returns what one admission takes at once. Fuel is charged when a call has ended.
    fn unit(self) -> i64 {
        match self {
            Self::CallsPerDay | Self::RequestsPerMinute => 1,
            Self::FuelPerDay | Self::FuelPerMinute => 0,
        }
    }

    fn of(self, limits: &TenantLimits) -> Option<u64> {
        match self {
            Self::CallsPerDay => limits.calls_per_day,
            Self::FuelPerDay => limits.fuel_per_day,
            Self::FuelPerMinute => limits.fuel_per_minute,
            Self::RequestsPerMinute => limits.requests_per_minute.map(|requests| u64::from(requests.get())),
        }
    }
}

/// A budget in one window of time.
#[derive(Debug, Clone)]
pub struct Budget {
    /// The name of the tenant.
    pub tenant: Arc<str>,
    /// The budget.
    pub kind: BudgetKind,
    /// The number of the day or minute since 1970 (UTC).
    pub window: u64,
    /// The amount that there is in a window.
    pub max: u64,
}

/// A slice of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The window that it is of: the one that was asked for, or a later one if the clock of another gateway is ahead.
    pub window: u64,
    /// The amount; zero if the budget is used up.
    pub amount: u64,
}

/// The port for counters that several gateways share.
pub trait BudgetCounters: fmt::Debug + Send + Sync {
    /// Takes a slice of a budget, of this amount at least if there is so much.
    ///
    /// # Errors
    /// If the counter cannot be reached; the text says why.
    fn lease(&self, budget: Budget, at_least: u64) -> BoxFuture<'_, Result<Lease, String>>;

    /// Gives back what was taken and not used.
    fn give_back(&self, budget: Budget, amount: u64) -> BoxFuture<'_, ()>;
}

/// The slices that this gateway has. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct BudgetLeases(Arc<Inner>);

struct Inner {
    counters: Arc<dyn BudgetCounters>,
    held: Mutex<HashMap<(Arc<str>, BudgetKind), HeldSlices>>,
    /// The time of the last failure. Who has it asks for a slice; the others wait for that one.
    asking: tokio::sync::Mutex<Option<Instant>>,
}

impl fmt::Debug for BudgetLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BudgetLeases").field(&self.0.counters).finish()
    }
}

/// The rest of the slices of a window.
#[derive(Debug, Clone, Copy, Default)]
struct HeldSlices {
    window: u64,
    /// Negative if calls used more than there was when they began.
    left: i64,
    max: u64,
    /// The time at which the budget was found to be used up.
    ended_at: Option<Timestamp>,
}

impl HeldSlices {
    /// Goes on to a window. A clock that goes back changes nothing.
    fn advance(&mut self, window: u64, max: u64) {
        if window > self.window {
            *self = Self { window, ..Self::default() };
        }
        self.max = max;
    }

    fn take(&mut self, unit: i64) -> bool {
        let is_left = self.left > 0;
        if is_left {
            self.left = self.left.saturating_sub(unit);
        }
        is_left
    }

    fn add(&mut self, lease: Lease) {
        self.advance(lease.window, self.max);
        self.left = self.left.saturating_add(i64::try_from(lease.amount).unwrap_or(i64::MAX));
    }
}

impl BudgetLeases {
    /// Creates leases of these counters, without any slice.
    #[must_use]
    pub fn new(counters: Arc<dyn BudgetCounters>) -> Self {
        Self(Arc::new(Inner { counters, held: Mutex::default(), asking: tokio::sync::Mutex::default() }))
    }

    /// Admits a call.
    ///
    /// # Errors
    /// If a budget is used up, or no slice of it can be had.
    pub(crate) async fn admit_call(&self, tenant: &Tenant, now: Timestamp) -> Result<(), CallError> {
        // The last one takes something, and the others do not.
        for kind in [BudgetKind::FuelPerMinute, BudgetKind::FuelPerDay, BudgetKind::CallsPerDay] {
            self.admit(tenant, kind, now).await?;
        }
        Ok(())
    }

    /// Admits a request.
    ///
    /// # Errors
    /// Like `admit_call`.
    pub async fn admit_request(&self, tenant: &Tenant, now: Timestamp) -> Result<(), CallError> {
        self.admit(tenant, BudgetKind::RequestsPerMinute, now).await
    }

    /// Takes a call back that was not run.
    pub(crate) fn give_back_call(&self, tenant: &Tenant) {
        if let Some(held) = self.held().get_mut(&(Arc::clone(&tenant.name), BudgetKind::CallsPerDay)) {
            held.left = held.left.saturating_add(1);
        }
    }

    /// Counts the fuel of a call that has ended.
    pub(crate) fn charge(&self, tenant: &Tenant, fuel: u64, now: Timestamp) {
        for kind in [BudgetKind::FuelPerMinute, BudgetKind::FuelPerDay] {
            if let Some(max) = kind.of(&tenant.limits) {
                let mut all = self.held();
                let held = all.entry((Arc::clone(&tenant.name), kind)).or_default();
                held.advance(now.0 / kind.window_ms(), max);
                held.left = held.left.saturating_sub(i64::try_from(fuel).unwrap_or(i64::MAX));
            }
        }
    }

    /// Gives back what is left, when this gateway ends.
    pub async fn close(&self) {
        let all = std::mem::take(&mut *self.held());
        for ((tenant, kind), HeldSlices { window, left, max, .. }) in all {
            if let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) {
                let giving = self.0.counters.give_back(Budget { tenant, kind, window, max }, left);
                if tokio::time::timeout(LEASE_TIMEOUT, giving).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn admit(&self, tenant: &Tenant, kind: BudgetKind, now: Timestamp) -> Result<(), CallError> {
        let Some(max) = kind.of(&tenant.limits) else { return Ok(()) };
        let key = (Arc::clone(&tenant.name), kind);
        if matches!(self.take_held(&key, max, now), LeaseOutcome::Unit) {
            return Ok(());
        }
        let mut failed_at = self.0.asking.lock().await;
        // Again, because another call may have asked for a slice while this one waited for its turn.
        let held = match self.take_held(&key, max, now) {
            LeaseOutcome::Unit => return Ok(()),
            LeaseOutcome::Over => return Err(used_up(kind, max, now)),
            LeaseOutcome::Nothing(held) => held,
        };
        if failed_at.is_some_and(|at| at.elapsed() < RETRY_AFTER_FAILURE) {
            return Err(unreachable(kind));
        }
        let budget = Budget { tenant: Arc::clone(&tenant.name), kind, window: held.window, max };
        let asking = self.0.counters.lease(budget, held.left.unsigned_abs().saturating_add(1));
        let Ok(Ok(lease)) = tokio::time::timeout(LEASE_TIMEOUT, asking).await else {
            *failed_at = Some(Instant::now());
            return Err(unreachable(kind));
        };
        *failed_at = None;
        let mut all = self.held();
        let held = all.entry(key.clone()).or_default();
        held.add(lease);
        if held.take(kind.unit()) {
            Ok(())
        } else {
            held.ended_at = Some(now);
            Err(used_up(kind, max, now))
        }
    }

    /// Takes a unit of what this gateway holds.
    fn take_held(&self, key: &(Arc<str>, BudgetKind), max: u64, now: Timestamp) -> LeaseOutcome {
        let kind = key.1;
        let mut all = self.held();
        let held = all.entry(key.clone()).or_default();
        held.advance(now.0 / kind.window_ms(), max);
        if held.take(kind.unit()) {
            LeaseOutcome::Unit
        } else if held.ended_at.is_some_and(|at| now.0.saturating_sub(at.0) < RETRY_AFTER_END_MS) {
            LeaseOutcome::Over
        } else {
            LeaseOutcome::Nothing(*held)
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<(Arc<str>, BudgetKind), HeldSlices>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A result of taking a unit of what this gateway holds.
enum LeaseOutcome {
    Unit,
    /// The budget was used up a moment ago, so that the counter is not asked again.
    Over,
    Nothing(HeldSlices),
}

fn used_up(kind: BudgetKind, max: u64, now: Timestamp) -> CallError {
    let message = match kind {
        BudgetKind::CallsPerDay => format!("all {max} calls of today were made or are reserved for other gateways"),
        BudgetKind::FuelPerDay => format!("today's fuel of {max} was used up or is reserved for other gateways"),
        BudgetKind::FuelPerMinute => {
            format!("this minute's fuel of {max} was used up or is reserved for other gateways")
        }
        BudgetKind::RequestsPerMinute => "too many requests with this token in a minute".to_owned(),
    };
    let window = kind.window_ms();
    let wait = Duration::from_millis(window.saturating_sub(now.0 % window));
    CallError::new(ErrorKind::Quota, message).with_hint("call again later").with_retry_after(wait)
}

fn unreachable(kind: BudgetKind) -> CallError {
    let message =
        format!("the budget `{}` is shared with other gateways, but its counter does not answer", kind.name());
    let error = CallError::new(ErrorKind::Unavailable, message);
    error.with_hint("call again in a second").with_retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    const NOON: Timestamp = Timestamp(20_000 * 24 * 60 * 60 * 1000 + 12 * 60 * 60 * 1000);

    /// Counters in memory, in slices of ten.
    #[derive(Debug, Default)]
    struct InMemory {
        taken: Mutex<HashMap<(BudgetKind, u64), u64>>,
        asked: AtomicUsize,
        is_gone: AtomicBool,
    }

    impl BudgetCounters for InMemory {
        fn lease(&self, budget: Budget, at_least: u64) -> BoxFuture<'_, Result<Lease, String>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                if self.is_gone.load(Ordering::Relaxed) {
                    return Err("gone".to_owned());
                }
                let mut all = self.taken.lock().unwrap();
                let taken = all.entry((budget.kind, budget.window)).or_default();
                let amount = at_least.max(10).min(budget.max.saturating_sub(*taken));
                *taken += amount;
                Ok(Lease { window: budget.window, amount })
            })
        }

        fn give_back(&self, budget: Budget, amount: u64) -> BoxFuture<'_, ()> {
            Box::pin(async move {
                if let Some(taken) = self.taken.lock().unwrap().get_mut(&(budget.kind, budget.window)) {
                    *taken -= amount;
                }
            })
        }
    }

    fn tenant(limits: TenantLimits) -> Tenant {
        Tenant::anyone("a").limits(limits)
    }

    fn gateways(counters: &Arc<InMemory>) -> [BudgetLeases; 2] {
        [0; 2].map(|_| BudgetLeases::new(Arc::clone(counters) as Arc<dyn BudgetCounters>))
    }

    #[tokio::test]
    async fn gateways_together_make_exactly_the_calls_of_a_day() {
        let counters = Arc::new(InMemory::default());
        let gateways = gateways(&counters);
        let tenant = tenant(TenantLimits { calls_per_day: Some(95), ..TenantLimits::default() });
        let mut admitted = 0;
        for turn in 0..300 {
            match gateways[turn % 2].admit_call(&tenant, NOON).await {
                Ok(()) => admitted += 1,
                Err(error) => assert_eq!(error.kind, ErrorKind::Quota),
            }
        }
        assert_eq!(admitted, 95);
        let asked = counters.asked.load(Ordering::Relaxed);
        assert!(asked <= 12, "{asked} questions: one for each slice, and one for each gateway at the end");
        let tomorrow = Timestamp(NOON.0 + 12 * 60 * 60 * 1000);
        gateways[0].admit_call(&tenant, tomorrow).await.unwrap();
    }

    #[tokio::test]
    async fn what_a_gateway_does_not_use_comes_back_when_it_ends() {
        let counters = Arc::new(InMemory::default());
        let [one, other] = gateways(&counters);
        let tenant = tenant(TenantLimits { calls_per_day: Some(10), ..TenantLimits::default() });
        one.admit_call(&tenant, NOON).await.unwrap();
        let refused = other.admit_call(&tenant, NOON).await.unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (ErrorKind::Quota, Some(Duration::from_hours(12))));
        one.admit_call(&tenant, NOON).await.unwrap();
        one.give_back_call(&tenant);
        one.close().await;
        let later = Timestamp(NOON.0 + RETRY_AFTER_END_MS);
        for _ in 0..9 {
            other.admit_call(&tenant, later).await.unwrap();
        }
        other.admit_call(&tenant, later).await.unwrap_err();
    }

    #[tokio::test]
    async fn fuel_that_calls_used_beyond_their_slice_is_taken_from_the_next() {
        let counters = Arc::new(InMemory::default());
        let [one, other] = gateways(&counters);
        let tenant = tenant(TenantLimits { fuel_per_day: Some(1000), ..TenantLimits::default() });
        one.admit_call(&tenant, NOON).await.unwrap();
        one.charge(&tenant, 985, NOON);
        one.admit_call(&tenant, NOON).await.unwrap();
        assert_eq!(counters.taken.lock().unwrap().values().sum::<u64>(), 986);
        other.admit_call(&tenant, NOON).await.unwrap();
        one.charge(&tenant, 500, NOON);
        one.admit_call(&tenant, NOON).await.unwrap_err();
    }

    #[tokio::test]
    async fn without_counters_the_rest_of_a_slice_is_used_and_no_more() {
        let counters = Arc::new(InMemory::default());
        let [one, _] = gateways(&counters);
        let limits = TenantLimits { requests_per_minute: std::num::NonZeroU32::new(60), ..TenantLimits::default() };
        let tenant = tenant(limits);
        one.admit_request(&tenant, NOON).await.unwrap();
        counters.is_gone.store(true, Ordering::Relaxed);
        for _ in 0..9 {
            one.admit_request(&tenant, NOON).await.unwrap();
        }
        let refused = one.admit_request(&tenant, NOON).await.unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (ErrorKind::Unavailable, Some(Duration::from_secs(1))));
        let asked = counters.asked.load(Ordering::Relaxed);
        one.admit_request(&tenant, NOON).await.unwrap_err();
        assert_eq!(counters.asked.load(Ordering::Relaxed), asked, "it is not asked again at once");
        tokio::time::sleep(RETRY_AFTER_FAILURE).await;
        counters.is_gone.store(false, Ordering::Relaxed);
        one.admit_request(&tenant, NOON).await.unwrap();
    }
}
