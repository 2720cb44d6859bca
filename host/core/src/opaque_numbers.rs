//! Numbers as clients see them: a keyed permutation, so that ids do not tell a client how many others there are.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

use crate::digest::Digest;

/// Number of rounds of the Feistel network. Four make it a strong permutation, if each round is a random function.
const ROUNDS: u8 = 6;

/// A permutation of all 64-bit numbers. Without its key, the images of two numbers do not show which is greater, or how far
/// they are apart.
///
/// ```
/// use fumehood_core::opaque_numbers::OpaqueNumbers;
///
/// let numbers = OpaqueNumbers::default();
/// assert_eq!(numbers.decode(numbers.encode(7)), 7);
/// assert_ne!(numbers.encode(8), numbers.encode(7) + 1);
/// ```
#[derive(Clone)]
pub struct OpaqueNumbers(Key);

#[derive(Clone)]
enum Key {
    /// A random key of this process.
    Process(RandomState),
    /// A key that others have as well.
    Shared([u8; 32]),
}

impl OpaqueNumbers {
    /// Creates a permutation that everyone with this key has.
    #[must_use]
    pub fn with_key(key: [u8; 32]) -> Self {
        Self(Key::Shared(key))
    }

    /// Returns the image of a number.
    #[must_use]
    pub fn encode(&self, number: u64) -> u64 {
        let (mut left, mut right) = halves(number);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.mix(round, right));
        }
        join(left, right)
    }

    /// Returns the number with this image.
    #[must_use]
    pub fn decode(&self, image: u64) -> u64 {
        let (mut left, mut right) = halves(image);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.mix(round, left), left);
        }
        join(left, right)
    }

    /// The function of one round.
    fn mix(&self, round: u8, half: u32) -> u32 {
        match &self.0 {
            Key::Process(state) => halves(state.hash_one((round, half))).1,
            Key::Shared(key) => {
                let input = [key.as_slice(), &[round], &half.to_be_bytes()].concat();
                let digest = Digest::of(&input);
                let first = digest.as_bytes().iter().take(4);
                first.fold(0, |bits, byte| bits << 8 | u32::from(*byte))
            }
        }
    }
}

impl Default for OpaqueNumbers {
    /// Creates a permutation with a random key of this process.
    fn default() -> Self {
        Self(Key::Process(RandomState::new()))
    }
}

impl fmt::Debug for OpaqueNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpaqueNumbers").finish_non_exhaustive()
    }
}

/// Returns the upper and the lower half of a number.
fn halves(number: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

fn join(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn check(numbers: &OpaqueNumbers) {
        let sample = (0..2000).chain([u64::MAX, u64::MAX - 1, 1 << 32, 1 << 63]);
        for number in sample {
            assert_eq!(numbers.decode(numbers.encode(number)), number);
        }
        let images: Vec<u64> = (0..2000).map(|number| numbers.encode(number)).collect();
        let differences: BTreeSet<u64> =
            images.iter().zip(images.iter().skip(1)).map(|(one, next)| next.wrapping_sub(*one)).collect();
        assert!(differences.len() > 1990, "only {} differences", differences.len());
        let rising = images.iter().zip(images.iter().skip(1)).filter(|(one, next)| one < next).count();
        assert!((800..1200).contains(&rising), "{rising} of 2000 rise");
    }

    #[test]
    fn images_show_no_order_and_no_distance() {
        check(&OpaqueNumbers::default());
        check(&OpaqueNumbers::with_key([7; 32]));
    }

    #[test]
    fn a_shared_key_gives_the_same_images() {
        let image = |key| OpaqueNumbers::with_key([key; 32]).encode(5);
        assert_eq!(image(1), image(1));
        assert_ne!(image(1), image(2));
        assert_ne!(OpaqueNumbers::default().encode(5), OpaqueNumbers::default().encode(5));
    }
}
