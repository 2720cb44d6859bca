//! The rest of a session's budgets while a batch of calls runs, and what the batch has used so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fumehood_core::call::history::{CallHistory, PastCall};
use tokio::time::Instant;

use crate::executor::StoppedBatch;
use crate::session::budget::{Budget, BudgetUsage, TenantFuel};

/// The calls, the fuel and the tokens that the calls, programs and agents of one batch may use, and what they used.
///
/// It counts while the batch runs, so that what was used is known even if the batch is stopped.
#[derive(Debug)]
pub struct CallAllowance {
    calls: AtomicU64,
    fuel: AtomicU64,
    tokens_in: AtomicU64,
    tokens_out: AtomicU64,
    tenant: Option<Arc<TenantFuel>>,
    used_calls: AtomicU32,
    used_fuel: AtomicU64,
}

/// A part of an allowance that one agent may use. [`u64::MAX`] is no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reservation {
    calls: u64,
    fuel: u64,
    tokens_in: u64,
    tokens_out: u64,
}

impl Reservation {
    /// Returns `wanted` with the limits of the reservation.
    pub(crate) fn limit(&self, wanted: &Budget) -> Budget {
        let limit = |reserved: u64| (reserved != u64::MAX).then_some(reserved);
        // An agent has one message, whose last request is for prose once it has no calls left.
        Budget {
            calls: u32::try_from(self.calls).unwrap_or(u32::MAX).min(wanted.calls),
            fuel: limit(self.fuel),
            tokens_in: limit(self.tokens_in),
            tokens_out: limit(self.tokens_out),
            ..wanted.clone()
        }
    }
}

/// Takes up to `wanted` of what is left. Returns what was taken.
fn take_up_to(left: &AtomicU64, wanted: u64) -> u64 {
    let mut taken = wanted;
    let take = |left: u64| {
        if left == u64::MAX {
            taken = wanted;
            return Some(left);
        }
        taken = left.min(wanted);
        Some(left.saturating_sub(taken))
    };
    // The closure never returns `None`, so this cannot fail.
    let _ = left.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
    taken
}

/// Gives back what was taken and not used.
fn give_back(left: &AtomicU64, taken: u64, used: u64) {
    let give = |left: u64| Some(if left == u64::MAX { left } else { left.saturating_add(taken.saturating_sub(used)) });
    let _ = left.fetch_update(Ordering::AcqRel, Ordering::Acquire, give);
}

impl CallAllowance {
    /// Creates an allowance of calls of programs and of fuel. [`u64::MAX`] is no limit.
    #[must_use]
    pub fn new(calls: u64, fuel: u64) -> Self {
        let (calls, fuel) = (AtomicU64::new(calls), AtomicU64::new(fuel));
        let (tokens_in, tokens_out) = (AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX));
        let (used_calls, used_fuel) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { calls, fuel, tokens_in, tokens_out, tenant: None, used_calls, used_fuel }
    }

    /// Sets the tokens of requests and of answers. [`u64::MAX`], the default, is no limit.
    #[must_use]
    pub fn with_tokens(self, tokens_in: u64, tokens_out: u64) -> Self {
        Self { tokens_in: AtomicU64::new(tokens_in), tokens_out: AtomicU64::new(tokens_out), ..self }
    }

    /// Reserves what `wanted` allows, or what is left of it.
    pub(crate) fn reserve(&self, wanted: &Budget) -> Reservation {
        let no_limit = u64::MAX;
        let calls = wanted.calls_in_all.unwrap_or(no_limit).min(wanted.calls.into());
        Reservation {
            calls: take_up_to(&self.calls, calls),
            fuel: take_up_to(&self.fuel, wanted.fuel.unwrap_or(no_limit)),
            tokens_in: take_up_to(&self.tokens_in, wanted.tokens_in.unwrap_or(no_limit)),
            tokens_out: take_up_to(&self.tokens_out, wanted.tokens_out.unwrap_or(no_limit)),
        }
    }

    /// Gives back what was reserved and not used. Fuel is given back as a whole: it is spent with the call's result.
    pub(crate) fn release(&self, reserved: &Reservation, used: &BudgetUsage) {
        give_back(&self.calls, reserved.calls, used.calls_in_all);
        self.used_calls.fetch_add(u32::try_from(used.calls_in_all).unwrap_or(u32::MAX), Ordering::AcqRel);
        give_back(&self.fuel, reserved.fuel, 0);
        give_back(&self.tokens_in, reserved.tokens_in, used.usage.input);
        give_back(&self.tokens_out, reserved.tokens_out, used.usage.output);
    }

    /// Takes the fuel from this account as well, which other sessions share. No call starts once it is empty.
    #[must_use]
    pub fn tenant(mut self, tenant: Option<Arc<TenantFuel>>) -> Self {
        self.tenant = tenant;
        self
    }

    /// Returns whether the account that other sessions share has fuel left.
    pub(crate) fn has_tenant_fuel(&self) -> bool {
        self.tenant.as_ref().is_none_or(|tenant| tenant.remaining() > 0)
    }

    /// Takes one call of a program, and returns whether there was one left, and fuel for it.
    pub(crate) fn take_call(&self) -> bool {
        if self.fuel.load(Ordering::Acquire) == 0 || !self.has_tenant_fuel() {
            return false;
        }
        let take = |calls: u64| if calls == u64::MAX { Some(calls) } else { calls.checked_sub(1) };
        let is_taken = self.calls.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok();
        if is_taken {
            self.used_calls.fetch_add(1, Ordering::AcqRel);
        }
        is_taken
    }

    /// Subtracts the fuel of a call that has ended, which may be more than what is left.
    pub(crate) fn spend_fuel(&self, used: u64) {
        let spend = |fuel: u64| Some(if fuel == u64::MAX { fuel } else { fuel.saturating_sub(used) });
        // The closure never returns `None`, so this cannot fail.
        let _ = self.fuel.fetch_update(Ordering::AcqRel, Ordering::Acquire, spend);
        let add = |fuel: u64| Some(fuel.saturating_add(used));
        let _ = self.used_fuel.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        if let Some(tenant) = &self.tenant {
            tenant.spend(used);
        }
    }

    /// Returns the number of calls that programs made.
    pub(crate) fn used_calls(&self) -> u32 {
        self.used_calls.load(Ordering::Acquire)
    }

    /// Returns the fuel of the calls that have ended.
    pub(crate) fn used_fuel(&self) -> u64 {
        self.used_fuel.load(Ordering::Acquire)
    }
}

/// A batch that runs, and what is known of it if it is stopped.
#[derive(Debug)]
pub(crate) struct RunningBatch {
    pub(crate) allowance: Arc<CallAllowance>,
    pub(crate) history: Arc<CallHistory>,
    pub(crate) started: Instant,
}

impl RunningBatch {
    /// Returns the usage of the batch so far. `before` are the first calls of the session before it.
    pub(crate) fn usage(&self, before: &[PastCall]) -> StoppedBatch {
        let mut first_calls = self.history.past();
        first_calls.retain(|call| !before.contains(call));
        let (program_calls, fuel) = (self.allowance.used_calls(), self.allowance.used_fuel());
        StoppedBatch { program_calls, fuel, first_calls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_need_a_call_and_fuel() {
        let allowance = CallAllowance::new(2, 10);
        assert!(allowance.take_call());
        allowance.spend_fuel(9);
        assert!(allowance.take_call() && !allowance.take_call());
        assert_eq!((allowance.used_calls(), allowance.used_fuel()), (2, 9));
        let allowance = CallAllowance::new(u64::MAX, 10);
        assert!(allowance.take_call());
        allowance.spend_fuel(11);
        assert!(!allowance.take_call());
    }

    #[test]
    fn agents_reserve_what_is_left_and_give_back_the_rest() {
        let allowance = CallAllowance::new(10, u64::MAX).with_tokens(1000, u64::MAX);
        let wanted = Budget { calls: 8, tokens_in: Some(700), tokens_out: Some(50), ..Budget::default() };
        let first = allowance.reserve(&wanted);
        assert_eq!(first, Reservation { calls: 8, fuel: u64::MAX, tokens_in: 700, tokens_out: 50 });
        let second = allowance.reserve(&wanted);
        assert_eq!(second, Reservation { calls: 2, fuel: u64::MAX, tokens_in: 300, tokens_out: 50 });
        let limited = second.limit(&wanted);
        assert_eq!((limited.calls, limited.tokens_in), (2, Some(300)));
        assert_eq!((limited.tokens_out, limited.fuel, limited.turns), (Some(50), None, wanted.turns));
        assert!(!allowance.take_call());
        let used =
            BudgetUsage { calls_in_all: 7, usage: fumehood_core::chat::Usage::new(650, 9), ..Default::default() };
        allowance.release(&first, &used);
        assert_eq!(allowance.reserve(&wanted), Reservation { calls: 1, fuel: u64::MAX, tokens_in: 50, tokens_out: 50 });
    }

    #[test]
    fn fuel_that_sessions_share_is_looked_at_for_each_call() {
        let tenant = Arc::new(TenantFuel::new(10));
        let allowance = CallAllowance::new(u64::MAX, u64::MAX).tenant(Some(Arc::clone(&tenant)));
        assert!(allowance.take_call());
        allowance.spend_fuel(4);
        assert_eq!((tenant.remaining(), allowance.take_call()), (6, true));
        // Another session uses up the rest.
        tenant.spend(6);
        assert!(!allowance.take_call() && !allowance.has_tenant_fuel());
        tenant.refill(1);
        assert!(allowance.take_call());
    }
}
