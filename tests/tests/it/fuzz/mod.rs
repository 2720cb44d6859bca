//! Random loads, guests, schemas and documents: none causes a panic, a missed deadline or a growing process.
//!
//! Cases depend only on a seed and their number. `FUMEHOOD_FUZZ_SEED` sets the seed, `FUMEHOOD_FUZZ_SECONDS` the total
//! time (30 by default), and `FUMEHOOD_FUZZ_CASE` runs a single case, whose number a failure prints.

mod bytes;
mod cases;
mod gate;
mod grafted;
mod guests;
mod powers;
#[allow(unreachable_pub, reason = "the bodies of targets are public in their own crate")]
mod replay;
