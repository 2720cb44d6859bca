//! Whatever bytes are loaded, whatever guests do, and whatever schemas and documents meet: no panic, the deadline kept, the
//! memory kept.
//!
//! Cases follow from a seed and their number alone. `FUMEHOOD_FUZZ_SEED` sets the seed, `FUMEHOOD_FUZZ_SECONDS` how long
//! all of it takes (30), and `FUMEHOOD_FUZZ_CASE` runs one case only: a failure says which.

mod bytes;
mod cases;
mod gate;
mod grafted;
mod guests;
mod powers;
#[allow(unreachable_pub, reason = "the bodies of targets are public in their own crate")]
mod replay;
