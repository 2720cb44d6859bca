//! The port for accounts of fuel, such as the budget of a session.

use std::fmt;

/// An account that the fuel of running code is taken from.
pub trait FuelAccount: fmt::Debug + Send + Sync {
    /// Takes fuel that was used, which may be more than what is left. Returns whether there is more.
    fn spend(&self, used: u64) -> bool;
}
