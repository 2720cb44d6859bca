//! The port for accounts of fuel, such as the budget of a session.

use std::fmt;

/// An account that the fuel of running code is taken from.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use fumehood_core::call::FuelAccount;
///
/// /// The fuel that is left of a budget.
/// #[derive(Debug)]
/// struct Remaining(AtomicU64);
///
/// impl FuelAccount for Remaining {
///     fn spend(&self, used: u64) -> bool {
///         let take = |left: u64| Some(left.saturating_sub(used));
///         self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok_and(|left| left > used)
///     }
/// }
///
/// let account = Remaining(AtomicU64::new(1_000));
/// assert!(account.spend(400));
/// assert!(!account.spend(700));
/// ```
pub trait FuelAccount: fmt::Debug + Send + Sync {
    /// Takes fuel that was used, which may be more than what is left. Returns whether there is more.
    fn spend(&self, used: u64) -> bool;
}
