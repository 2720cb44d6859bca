//! The rest of a session's budgets while a batch of calls runs, for the calls that programs make within it, and for
//! agents that are tools.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::session::budget::{Budget, BudgetUsage};

/// The calls, the fuel and the tokens that programs and agents of one batch may use.
#[derive(Debug)]
pub struct CallAllowance {
    calls: AtomicU64,
    fuel: AtomicU64,
    tokens_in: AtomicU64,
    tokens_out: AtomicU64,
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
    /// Creates an allowance of calls and of fuel. [`u64::MAX`] is no limit.
    #[must_use]
    pub fn new(calls: u64, fuel: u64) -> Self {
        let no_limit = || AtomicU64::new(u64::MAX);
        let (calls, fuel) = (AtomicU64::new(calls), AtomicU64::new(fuel));
        Self { calls, fuel, tokens_in: no_limit(), tokens_out: no_limit() }
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
        give_back(&self.fuel, reserved.fuel, 0);
        give_back(&self.tokens_in, reserved.tokens_in, used.usage.input);
        give_back(&self.tokens_out, reserved.tokens_out, used.usage.output);
    }

    /// Takes one call, and returns whether there was one left, and fuel for it.
    pub(crate) fn take_call(&self) -> bool {
        if self.fuel.load(Ordering::Acquire) == 0 {
            return false;
        }
        let take = |calls: u64| if calls == u64::MAX { Some(calls) } else { calls.checked_sub(1) };
        self.calls.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    /// Subtracts the fuel of a call that has ended, which may be more than what is left.
    pub(crate) fn spend_fuel(&self, used: u64) {
        let spend = |fuel: u64| Some(if fuel == u64::MAX { fuel } else { fuel.saturating_sub(used) });
        // The closure never returns `None`, so this cannot fail.
        let _ = self.fuel.fetch_update(Ordering::AcqRel, Ordering::Acquire, spend);
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
}
