//! The rest of a session's budgets while a batch of calls runs, for the calls that programs make within it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The calls and the fuel that programs of one batch may use.
#[derive(Debug)]
pub struct CallAllowance {
    calls: AtomicU64,
    fuel: AtomicU64,
}

impl CallAllowance {
    /// Creates an allowance of calls and of fuel. [`u64::MAX`] is no limit.
    #[must_use]
    pub fn new(calls: u64, fuel: u64) -> Self {
        Self { calls: AtomicU64::new(calls), fuel: AtomicU64::new(fuel) }
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
}
