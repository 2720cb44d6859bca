//! Generated modules and components that may use every proposal, by the code of the fuzz target `engine` and a fixed
//! seed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fumehood_runtime::LoadError;

use super::fixture::{Fixture, component_of};
use super::target::{self, Verdict};

/// Seed of all cases.
const SEED: u64 = 20_260_721;
/// Minimum number of cases, even on a machine that is too busy for more within [`TIME`].
const MIN_CASES: u64 = 60;
const TIME: Duration = Duration::from_secs(8);
/// Maximum length of the random bytes of a case, beyond the first 64.
const MAX_INPUT_BYTES: u64 = 4096;

/// A generator of numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the input of a case. Its first two bytes decide which proposals are on: all of them in one case of four,
    /// otherwise each of them in one of eight.
    fn input(&mut self) -> Vec<u8> {
        let each = self.number() & self.number() & self.number() & !0b111;
        let all = if self.number().is_multiple_of(4) { 0b110 } else { 0 };
        // The lowest bit decides whether it is a component, bit 14 whether it has segments.
        let head = (each & 0x3fff | all | (self.number() & 0x4001)) as u16;
        let length = 64 + self.number() % MAX_INPUT_BYTES;
        let rest = (0..length).map(|_| self.number().to_le_bytes()[0]);
        head.to_le_bytes().into_iter().chain(rest).collect()
    }
}

#[test]
fn generated_modules_reach_nothing_left_out() {
    let started = Instant::now();
    let mut cases = 0;
    let mut ran = 0;
    let mut calls = 0;
    let mut refused = BTreeMap::<&str, u64>::new();
    while cases < MIN_CASES || started.elapsed() < TIME {
        let mut random = Random(SEED ^ cases.wrapping_mul(0xa076_1d64_78bd_642f));
        cases += 1;
        match target::run(&random.input()) {
            Verdict::Nothing => {}
            Verdict::Refused(proposal) => *refused.entry(proposal).or_default() += 1,
            Verdict::Ran(called) => {
                ran += 1;
                calls += called;
            }
        }
    }
    println!("{cases} cases, {ran} compiled, {calls} calls; refused: {refused:?}");
    assert!(ran > 0 && calls > 0 && refused.len() > 3, "{ran} compiled, {calls} calls; refused: {refused:?}");
}

#[test]
fn a_nested_module_is_looked_at() {
    let module = wat::parse_str("(module (type (sub (func))))").unwrap();
    let mut nested = component_of(&module);
    for _ in 0..8 {
        let mut outer = wasm_encoder::ComponentBuilder::default();
        outer.component_raw(None, &nested);
        nested = outer.finish();
    }
    assert!(matches!(Fixture::new().load(nested), Err(LoadError::Proposal { proposal: "garbage collection", .. })));
}
