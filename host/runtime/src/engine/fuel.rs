//! The fuel that a guest used, also if it was stopped before its counter was saved.
//!
//! Within a function the counter is in a register, and is lost when the code is stopped there. It is saved when the code
//! leaves the function, calls the host, or has used up what it was given: the host hands the fuel out in pieces.

use wasmtime::Trap;

use super::deadline::DeadlinePassed;
use super::memory::KeptTooMuch;

/// Fuel after which running code saves its counter at the latest, and yields. That is a few milliseconds, more than a
/// first slice.
pub(crate) const FUEL_UPDATE_INTERVAL: u64 = 4_000_000;

/// Returns whether code saves its counter before it ends with this error. It does not before a check of its deadline,
/// nor before a trap that the processor notices.
pub(crate) fn saves_fuel(error: &wasmtime::Error) -> bool {
    match error.downcast_ref::<Trap>() {
        Some(trap) => matches!(trap, Trap::UnreachableCodeReached | Trap::OutOfFuel),
        None => !error.is::<DeadlinePassed>() && !error.is::<KeptTooMuch>(),
    }
}

/// Returns the fuel that a guest used. If its counter was not saved, the rest until the next update is charged in full.
pub(crate) fn used_fuel(limit: u64, remaining: Option<u64>, is_saved: bool) -> u64 {
    let used = limit.saturating_sub(remaining.unwrap_or(limit));
    if is_saved { used } else { used.saturating_add(FUEL_UPDATE_INTERVAL).min(limit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_the_whole_interval_if_the_counter_was_not_saved() {
        const LIMIT: u64 = 10_000_000;
        assert_eq!(used_fuel(LIMIT, Some(9_000_000), true), 1_000_000);
        assert_eq!(used_fuel(LIMIT, Some(9_000_000), false), 1_000_000 + FUEL_UPDATE_INTERVAL);
        assert_eq!(used_fuel(LIMIT, Some(1), false), LIMIT);
        assert_eq!(used_fuel(LIMIT, None, true), 0);
    }

    #[test]
    fn counter_is_lost_where_code_is_stopped() {
        for (error, is_saved) in [
            (Trap::OutOfFuel.into(), true),
            (Trap::UnreachableCodeReached.into(), true),
            (Trap::MemoryOutOfBounds.into(), false),
            (DeadlinePassed.into(), false),
            (wasmtime::Error::msg("an error of a host function"), true),
        ] {
            let error: wasmtime::Error = error;
            assert_eq!(saves_fuel(&error), is_saved, "{error}");
        }
    }
}
