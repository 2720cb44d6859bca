//! Calls, fuel and room in the event log that tenants have used: in the last minute, and today. A pure part decides; time is an argument.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::time::Timestamp;

use crate::budget_leases::BudgetLeases;
use crate::tenant::{Tenant, TenantLimits};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const MINUTE_MS: u64 = 60 * 1000;
/// Time after which the disk of the event log may have room again.
const LOG_RETRY: Duration = Duration::from_secs(60);

/// Calls, fuel and room in the event log of one tenant on one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DayUsage {
    /// The number of calls that were begun.
    pub calls: u64,
    /// The fuel of calls that have ended.
    pub fuel: u64,
    /// The bytes that calls wrote to the event log.
    pub log_bytes: u64,
}

/// The use of one day, for a store that outlives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageEntry {
    /// The name of the tenant.
    pub tenant: Arc<str>,
    /// The number of the day since 1970 (UTC).
    pub day: u64,
    /// The amounts.
    pub usage: DayUsage,
}

/// The usage of one tenant.
#[derive(Debug, Default)]
struct Usage {
    day: u64,
    today: DayUsage,
    /// Fuel that was used and not refilled yet.
    owed: u64,
    /// The time of `owed`.
    at: Timestamp,
    /// Amounts that no store has yet, by day.
    unsaved: BTreeMap<u64, DayUsage>,
}

impl DayUsage {
    fn add(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.fuel = self.fuel.saturating_add(other.fuel);
        self.log_bytes = self.log_bytes.saturating_add(other.log_bytes);
    }
}

impl Usage {
    /// Goes on to this time. A clock that goes back changes nothing.
    fn advance(&mut self, limits: &TenantLimits, now: Timestamp) {
        let day = now.0 / DAY_MS;
        if day > self.day {
            (self.day, self.today) = (day, DayUsage::default());
        }
        if now > self.at {
            let elapsed = now.0 - self.at.0;
            let refill = limits.fuel_per_minute.unwrap_or(u64::MAX);
            let refilled = u128::from(refill).saturating_mul(u128::from(elapsed)) / u128::from(MINUTE_MS);
            self.owed = self.owed.saturating_sub(u64::try_from(refilled).unwrap_or(u64::MAX));
            self.at = now;
        }
    }

    /// Counts a call.
    ///
    /// # Errors
    /// If a limit was reached: the limit, and the time until there is something left.
    fn begin(&mut self, limits: &TenantLimits, now: Timestamp) -> Result<(), (String, Duration)> {
        self.advance(limits, now);
        let next_day = Duration::from_millis(self.day.saturating_add(1).saturating_mul(DAY_MS).saturating_sub(now.0));
        if let Some(max) = limits.calls_per_day.filter(|max| self.today.calls >= *max) {
            return Err((format!("all {max} calls of today were made"), next_day));
        }
        if let Some(max) = limits.fuel_per_day.filter(|max| self.today.fuel >= *max) {
            return Err((format!("today's fuel of {max} was used up"), next_day));
        }
        if let Some(max) = limits.log_bytes_per_day.filter(|max| self.today.log_bytes >= *max) {
            return Err((format!("today's {max} bytes in the event log were used up"), next_day));
        }
        if let Some(max) = limits.fuel_per_minute.filter(|max| self.owed >= *max) {
            let missing = u128::from(self.owed - max).saturating_add(1);
            let wait = missing.saturating_mul(u128::from(MINUTE_MS)).div_ceil(u128::from(max.max(1)));
            let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(u64::MAX));
            return Err((format!("this minute's fuel of {max} was used up"), wait));
        }
        self.count(DayUsage { calls: 1, ..DayUsage::default() });
        Ok(())
    }

    /// Counts the fuel of a call that has ended.
    fn charge(&mut self, limits: &TenantLimits, fuel: u64, now: Timestamp) {
        self.advance(limits, now);
        if limits.fuel_per_minute.is_some() {
            self.owed = self.owed.saturating_add(fuel);
        }
        self.count(DayUsage { fuel, ..DayUsage::default() });
    }

    fn count(&mut self, more: DayUsage) {
        self.today.add(more);
        self.unsaved.entry(self.day).or_default().add(more);
    }
}

/// The usage of all tenants, by name. Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub struct UsageLedger {
    usage: Arc<Mutex<HashMap<Arc<str>, Usage>>>,
    shared: Option<BudgetLeases>,
}

impl fmt::Debug for UsageLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageLedger").finish_non_exhaustive()
    }
}

impl UsageLedger {
    /// Lets the budgets of tenants hold over all gateways that share their counters, besides those of this one.
    #[must_use]
    pub fn shared(self, leases: BudgetLeases) -> Self {
        Self { shared: Some(leases), ..self }
    }

    /// Adds what was used before this process began. Entries of days before `today` have no effect.
    pub fn restore(&self, entries: impl IntoIterator<Item = UsageEntry>) {
        let today = now().0 / DAY_MS;
        let mut all = self.lock();
        for entry in entries.into_iter().filter(|entry| entry.day == today) {
            let usage = all.entry(entry.tenant).or_default();
            usage.day = today;
            usage.today.add(entry.usage);
        }
    }

    /// Takes the amounts since the last time, to be added to a store.
    #[must_use]
    pub fn take_unsaved(&self) -> Vec<UsageEntry> {
        let mut all = self.lock();
        let unsaved = all.iter_mut().flat_map(|(tenant, usage)| {
            let taken = std::mem::take(&mut usage.unsaved).into_iter();
            taken.map(|(day, usage)| UsageEntry { tenant: Arc::clone(tenant), day, usage })
        });
        unsaved.collect()
    }

    /// Gives amounts back that could not be stored, for the next time.
    pub fn put_back(&self, entries: Vec<UsageEntry>) {
        let mut all = self.lock();
        for entry in entries {
            all.entry(entry.tenant).or_default().unsaved.entry(entry.day).or_default().add(entry.usage);
        }
    }

    /// Returns what a tenant has used today.
    #[must_use]
    pub fn today(&self, tenant: &str) -> DayUsage {
        let day = now().0 / DAY_MS;
        self.lock().get(tenant).filter(|usage| usage.day == day).map(|usage| usage.today).unwrap_or_default()
    }

    /// Counts bytes that a call of a tenant writes to the event log.
    pub(crate) fn charge_log(&self, tenant: &Tenant, log_bytes: u64) {
        let mut all = self.lock();
        let usage = all.entry(Arc::clone(&tenant.name)).or_default();
        usage.advance(&tenant.limits, now());
        usage.count(DayUsage { log_bytes, ..DayUsage::default() });
    }

    /// Refuses a tenant that has written more to the event log today than tenants did on average: while the disk is nearly
    /// full, the rest of it is for the others.
    ///
    /// # Errors
    /// If it has.
    pub(crate) fn spare_log(&self, tenant: &Tenant) -> Result<(), CallError> {
        let day = now().0 / DAY_MS;
        let all = self.lock();
        let today = |usage: &Usage| if usage.day == day { u128::from(usage.today.log_bytes) } else { 0 };
        let written: u128 = all.values().map(today).sum();
        let own = all.get(&tenant.name).map_or(0, today);
        if own.saturating_mul(all.len() as u128) <= written {
            return Ok(());
        }
        let message = "the disk of the event log is nearly full, and this client has written the most to it today";
        let error = CallError::new(ErrorKind::Unavailable, message);
        Err(error.with_hint("tell the operator, and call again later").with_retry_after(LOG_RETRY))
    }

    /// Counts a call of a tenant, here and in the slices of shared budgets.
    ///
    /// # Errors
    /// If a limit was reached, with the time after which there is something left.
    pub(crate) async fn admit(&self, tenant: &Tenant) -> Result<(), CallError> {
        self.begin(tenant)?;
        match &self.shared {
            None => Ok(()),
            Some(shared) => shared.admit_call(tenant, now()).await.inspect_err(|_| self.take_back(tenant)),
        }
    }

    fn begin(&self, tenant: &Tenant) -> Result<(), CallError> {
        let mut all = self.lock();
        let usage = all.entry(Arc::clone(&tenant.name)).or_default();
        usage.begin(&tenant.limits, now()).map_err(|(message, wait)| {
            CallError::new(ErrorKind::Quota, message).with_hint("call again later").with_retry_after(wait)
        })
    }

    /// Takes a call back that was not run.
    pub(crate) fn give_back(&self, tenant: &Tenant) {
        self.take_back(tenant);
        self.shared.iter().for_each(|shared| shared.give_back_call(tenant));
    }

    fn take_back(&self, tenant: &Tenant) {
        if let Some(usage) = self.lock().get_mut(&tenant.name) {
            usage.today.calls = usage.today.calls.saturating_sub(1);
            if let Some(unsaved) = usage.unsaved.get_mut(&usage.day) {
                unsaved.calls = unsaved.calls.saturating_sub(1);
            }
        }
    }

    /// Counts the fuel of a call that has ended.
    pub(crate) fn charge(&self, tenant: &Tenant, fuel: u64) {
        self.lock().entry(Arc::clone(&tenant.name)).or_default().charge(&tenant.limits, fuel, now());
        self.shared.iter().for_each(|shared| shared.charge(tenant, fuel, now()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Usage>> {
        // No code that holds the lock can panic half-way.
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time now.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp(20_000 * DAY_MS + DAY_MS / 2);

    fn after(seconds: u64) -> Timestamp {
        Timestamp(NOON.0 + seconds * 1000)
    }

    fn wait(usage: &mut Usage, limits: &TenantLimits, now: Timestamp) -> Option<u64> {
        usage.begin(limits, now).err().map(|(_, wait)| wait.as_secs())
    }

    #[test]
    fn fuel_of_a_minute_is_refilled_continuously() {
        let limits = TenantLimits { fuel_per_minute: Some(600), ..TenantLimits::default() };
        let mut usage = Usage::default();
        assert_eq!(wait(&mut usage, &limits, NOON), None);
        usage.charge(&limits, 599, NOON);
        assert_eq!(wait(&mut usage, &limits, NOON), None, "something is left");
        // 10 in each second; 899 are owed over the limit of 600.
        usage.charge(&limits, 900, NOON);
        assert_eq!(wait(&mut usage, &limits, NOON), Some(90));
        assert_eq!(wait(&mut usage, &limits, after(89)), Some(1));
        assert_eq!(wait(&mut usage, &limits, after(90)), None);
        // A clock that goes back refills nothing.
        usage.charge(&limits, 600, after(90));
        assert!(wait(&mut usage, &limits, after(10)).is_some());
        assert_eq!(wait(&mut usage, &limits, after(10_000)), None);
    }

    #[test]
    fn budgets_of_a_day_end_at_midnight() {
        let limits = TenantLimits { calls_per_day: Some(2), ..TenantLimits::default() };
        let mut usage = Usage::default();
        assert_eq!([NOON, after(1)].map(|now| wait(&mut usage, &limits, now)), [None, None]);
        assert_eq!(wait(&mut usage, &limits, after(2)), Some(12 * 60 * 60 - 2));
        assert_eq!(wait(&mut usage, &limits, after(12 * 60 * 60)), None);
        let limits = TenantLimits { fuel_per_day: Some(100), ..TenantLimits::default() };
        let mut usage = Usage::default();
        assert_eq!(wait(&mut usage, &limits, NOON), None);
        usage.charge(&limits, 100, NOON);
        assert_eq!(wait(&mut usage, &limits, NOON), Some(12 * 60 * 60));
        let unsaved: Vec<_> = usage.unsaved.into_iter().collect();
        assert_eq!(unsaved, [(20_000, DayUsage { calls: 1, fuel: 100, log_bytes: 0 })]);
    }

    #[test]
    fn room_in_the_log_ends_for_a_day() {
        let limits = TenantLimits { log_bytes_per_day: Some(100), ..TenantLimits::default() };
        let mut usage = Usage::default();
        assert_eq!(wait(&mut usage, &limits, NOON), None);
        usage.count(DayUsage { log_bytes: 99, ..DayUsage::default() });
        assert_eq!(wait(&mut usage, &limits, NOON), None);
        usage.count(DayUsage { log_bytes: 1, ..DayUsage::default() });
        assert_eq!(wait(&mut usage, &limits, NOON), Some(12 * 60 * 60));
        assert_eq!(wait(&mut usage, &limits, after(12 * 60 * 60)), None);
    }

    #[test]
    fn the_tenant_that_fills_the_disk_is_refused_first() {
        let ledger = UsageLedger::default();
        let [loud, quiet, new] = ["loud", "quiet", "new"].map(Tenant::anyone);
        ledger.charge_log(&loud, 1_000_000);
        assert!(ledger.spare_log(&loud).is_ok(), "there is nobody to spare it for");
        ledger.charge_log(&quiet, 1_000);
        assert_eq!(ledger.spare_log(&loud).unwrap_err().kind, ErrorKind::Unavailable);
        assert!(ledger.spare_log(&quiet).is_ok() && ledger.spare_log(&new).is_ok());
    }

    fn tenant_with_calls(calls: u64) -> Tenant {
        let limits = TenantLimits { calls_per_day: Some(calls), ..TenantLimits::default() };
        Tenant::anyone("a").limits(limits)
    }

    fn entry_of(day: u64) -> UsageEntry {
        UsageEntry { tenant: Arc::from("a"), day, usage: DayUsage { calls: 1, fuel: 7, log_bytes: 0 } }
    }

    #[test]
    fn a_ledger_goes_on_with_what_was_stored() {
        let first = UsageLedger::default();
        let today = now().0 / DAY_MS;
        first.begin(&tenant_with_calls(2)).unwrap();
        first.charge(&tenant_with_calls(2), 7);
        let unsaved = first.take_unsaved();
        // Around midnight there may be two entries.
        let calls: u64 = unsaved.iter().map(|entry| entry.usage.calls).sum();
        assert_eq!((calls, first.take_unsaved()), (1, Vec::new()));
        let second = UsageLedger::default();
        second.restore([entry_of(today), entry_of(today - 1)]);
        if second.today("a").calls == 1 {
            second.begin(&tenant_with_calls(2)).unwrap();
            let error = second.begin(&tenant_with_calls(2)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Quota);
            assert!(error.retry_after.is_some_and(|wait| wait <= Duration::from_millis(DAY_MS)));
            second.give_back(&tenant_with_calls(2));
            second.begin(&tenant_with_calls(2)).unwrap();
        }
        assert_eq!(second.today("b"), DayUsage::default());
    }
}
