//! The rest of a session's budgets while a batch of calls runs, and what the batch has used so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fumehood_core::call::FuelAccount;

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

/// Amounts of everything that an allowance has. [`u64::MAX`] is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) calls: u64,
    pub(crate) fuel: u64,
    pub(crate) tokens_in: u64,
    pub(crate) tokens_out: u64,
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
        let calls = AtomicU64::new(calls);
        let fuel = AtomicU64::new(fuel);
        let tokens_in = AtomicU64::new(u64::MAX);
        let tokens_out = AtomicU64::new(u64::MAX);
        let used_calls = AtomicU32::new(0);
        let used_fuel = AtomicU64::new(0);
        Self { calls, fuel, tokens_in, tokens_out, tenant: None, used_calls, used_fuel }
    }

    /// Sets the tokens of requests and of answers. [`u64::MAX`], the default, is no limit.
    #[must_use]
    pub fn with_tokens(self, tokens_in: u64, tokens_out: u64) -> Self {
        Self { tokens_in: AtomicU64::new(tokens_in), tokens_out: AtomicU64::new(tokens_out), ..self }
    }

    /// Reserves these amounts for an agent, or what is left of them.
    pub(crate) fn reserve(&self, wanted: Amounts) -> Amounts {
        Amounts {
            calls: take_up_to(&self.calls, wanted.calls),
            fuel: take_up_to(&self.fuel, wanted.fuel),
            tokens_in: take_up_to(&self.tokens_in, wanted.tokens_in),
            tokens_out: take_up_to(&self.tokens_out, wanted.tokens_out),
        }
    }

    /// Gives back what was reserved and not used. Fuel is given back as a whole: it is spent with the call's result.
    pub(crate) fn release(&self, reserved: Amounts, used: Amounts) {
        give_back(&self.calls, reserved.calls, used.calls);
        self.used_calls.fetch_add(u32::try_from(used.calls).unwrap_or(u32::MAX), Ordering::AcqRel);
        give_back(&self.fuel, reserved.fuel, 0);
        give_back(&self.tokens_in, reserved.tokens_in, used.tokens_in);
        give_back(&self.tokens_out, reserved.tokens_out, used.tokens_out);
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

    /// Returns whether there is fuel left, in the session and in the account that it shares.
    fn has_fuel(&self) -> bool {
        self.fuel.load(Ordering::Acquire) > 0 && self.has_tenant_fuel()
    }

    /// Takes one call of a program, and returns whether there was one left, and fuel for it.
    pub(crate) fn take_call(&self) -> bool {
        if !self.has_fuel() {
            return false;
        }
        let take = |calls: u64| if calls == u64::MAX { Some(calls) } else { calls.checked_sub(1) };
        let is_taken = self.calls.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok();
        if is_taken {
            self.used_calls.fetch_add(1, Ordering::AcqRel);
        }
        is_taken
    }

    /// Subtracts the fuel of a call that has ended or of a program that runs, which may be more than what is left.
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

    /// Returns the fuel of the calls that have ended, and of programs so far.
    pub(crate) fn used_fuel(&self) -> u64 {
        self.used_fuel.load(Ordering::Acquire)
    }
}

impl FuelAccount for CallAllowance {
    fn spend(&self, used: u64) -> bool {
        self.spend_fuel(used);
        self.has_fuel()
    }
}

/// Fuel that all sessions of one tenant share, in an `Arc`. It is not part of any session.
#[derive(Debug)]
pub struct TenantFuel {
    left: AtomicU64,
}

impl TenantFuel {
    /// Creates an account with this fuel.
    #[must_use]
    pub fn new(fuel: u64) -> Self {
        Self { left: AtomicU64::new(fuel) }
    }

    /// Returns the remaining fuel. At 0, no session of the tenant starts another call.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// Subtracts the fuel of a batch. It is known only after the batch ended, so it may be more than what remained.
    pub fn spend(&self, fuel: u64) {
        self.update(|left| left.saturating_sub(fuel));
    }

    /// Adds fuel, such as at the start of a new day.
    pub fn refill(&self, fuel: u64) {
        self.update(|left| left.saturating_add(fuel));
    }

    fn update(&self, update: impl Fn(u64) -> u64) {
        // The closure never returns `None`, so this cannot fail.
        let _ = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| Some(update(left)));
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
        let wanted = Amounts { calls: 8, fuel: u64::MAX, tokens_in: 700, tokens_out: 50 };
        let first = allowance.reserve(wanted);
        assert_eq!(first, wanted);
        assert_eq!(allowance.reserve(wanted), Amounts { calls: 2, tokens_in: 300, ..wanted });
        assert!(!allowance.take_call());
        allowance.release(first, Amounts { calls: 7, fuel: 5, tokens_in: 650, tokens_out: 9 });
        assert_eq!(allowance.reserve(wanted), Amounts { calls: 1, tokens_in: 50, ..wanted });
        assert_eq!(allowance.used_calls(), 7);
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

    #[test]
    fn a_tenants_fuel_is_shared_and_never_less_than_nothing() {
        let fuel = TenantFuel::new(10);
        fuel.spend(4);
        assert_eq!(fuel.remaining(), 6);
        fuel.spend(7);
        assert_eq!(fuel.remaining(), 0);
        fuel.refill(u64::MAX);
        fuel.refill(1);
        assert_eq!(fuel.remaining(), u64::MAX);
    }
}
