//! Seeds of a tool's randomness, so that a call can be repeated exactly.

use super::GrantError;
use crate::call::quote;

/// The seed of a tool's randomness: every call gets the same numbers, in the same order.
///
/// For replay and tests only. The numbers are predictable for anyone with the seed, so keys and tokens derived from
/// them are insecure. Without a seed, a tool has the randomness of the operating system.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct Seed([u8; 32]);

impl Seed {
    /// Parses a whole number below 2^64, or all 32 bytes as 64 hexadecimal digits.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(text: &str) -> Result<Self, GrantError> {
        let trimmed = text.trim();
        if trimmed.len() != 64 {
            return trimmed.parse::<u64>().map(Self::from).map_err(|_| invalid(text));
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(trimmed.as_bytes().chunks(2)) {
            let digits = str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|c| c.is_ascii_hexdigit()));
            *byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or_else(|| invalid(text))?;
        }
        Ok(Self(bytes))
    }

    /// Returns the key of the generator.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

fn invalid(text: &str) -> GrantError {
    let text = quote(text);
    GrantError::new(format!("invalid seed `{text}`; expected a whole number below 2^64, or 64 hexadecimal digits"))
}

impl From<[u8; 32]> for Seed {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl From<u64> for Seed {
    /// Converts a number: its bytes in little-endian order, followed by zeroes.
    fn from(number: u64) -> Self {
        let mut bytes = [0; 32];
        for (byte, digit) in bytes.iter_mut().zip(number.to_le_bytes()) {
            *byte = digit;
        }
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_numbers_and_hexadecimal_bytes() {
        assert_eq!(Seed::parse("258").unwrap().bytes()[..3], [2, 1, 0]);
        assert_eq!(Seed::parse("42"), Ok(Seed::from(42)));
        assert_eq!(Seed::parse(&"0a".repeat(32)), Ok(Seed::from([10; 32])));
        assert_eq!(Seed::parse(&u64::MAX.to_string()), Ok(Seed::from(u64::MAX)));
        for text in ["", "-1", "1.5", "luck", "18446744073709551616", &"+a".repeat(32), &"ä".repeat(32)] {
            let error = Seed::parse(text).unwrap_err().to_string();
            assert!(error.contains("whole number below 2^64, or 64 hexadecimal digits"), "{text}: {error}");
        }
    }
}
