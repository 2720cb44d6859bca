//! The cases of a run: each has a number and its own random numbers, and they go on until the time is over.

use std::time::{Duration, Instant};

const SEED: u64 = 0x5eed_f00d_cafe_0001;
/// Default time for all groups of cases together.
const SECONDS: f64 = 30.0;
const GROUPS: f64 = 7.0;
/// Minimum number of cases of a group, even on a very slow machine.
const MIN_CASES: u64 = 8;

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}; expected a number")))
}

/// A generator of random numbers from a seed (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number less than `end`, which must not be zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end as u64).unwrap()
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.number().to_le_bytes()[0]).collect()
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// A guard that reports the number of the case if it panics.
struct CaseGuard {
    seed: u64,
    case: u64,
}

impl Drop for CaseGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("run it again: FUMEHOOD_FUZZ_SEED={} FUMEHOOD_FUZZ_CASE={}", self.seed, self.case);
        }
    }
}

/// Tries cases of a group until its share of the time is over, and prints their number.
pub(crate) fn run(group: &str, mut case: impl FnMut(&mut Random)) {
    let seed = setting("FUMEHOOD_FUZZ_SEED").unwrap_or(SEED);
    let mut try_one = |number: u64| {
        let _running = CaseGuard { seed, case: number };
        let mut random = Random(seed ^ number.wrapping_mul(0xa076_1d64_78bd_642f));
        case(&mut random);
    };
    if let Some(only) = setting("FUMEHOOD_FUZZ_CASE") {
        return try_one(only);
    }
    let time = Duration::from_secs_f64(setting("FUMEHOOD_FUZZ_SECONDS").unwrap_or(SECONDS) / GROUPS);
    let started = Instant::now();
    let mut number = 0;
    while number < MIN_CASES || started.elapsed() < time {
        try_one(number);
        number += 1;
    }
    println!("{group}: {number} cases, seed {seed}");
}
