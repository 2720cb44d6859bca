//! The logical clock of a program. It has no other: two runs with the same start see the same times.

use std::cell::Cell;

thread_local! {
    static NOW_US: Cell<u64> = const { Cell::new(0) };
}

/// Sets the clock, in milliseconds since 1970-01-01T00:00:00Z.
pub(crate) fn set(milliseconds: u64) {
    NOW_US.set(milliseconds.saturating_mul(1000));
}

/// Advances the clock to a time in milliseconds, unless it is later already.
pub(crate) fn advance_to(milliseconds: f64) {
    // Saturates, as conversions of floating-point numbers do.
    let until = (milliseconds * 1000.0) as u64;
    NOW_US.set(NOW_US.get().max(until));
}

/// Reads the clock, in microseconds, for QuickJS: `Date`, `performance` and its own seed. It advances with every
/// reading, so that a program which waits for a time by asking for it comes to an end.
#[unsafe(no_mangle)]
extern "C" fn __rquickjs_host_now_us() -> f64 {
    let now = NOW_US.get();
    NOW_US.set(now.saturating_add(1));
    now as f64
}
