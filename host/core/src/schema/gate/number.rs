//! Exactness of JSON numbers: as a 64-bit integer, or as a binary64 with the same decimal value.

use serde_json::Number;

/// The exact decimal value of a literal: digits without zeros at either end, and the power of ten of the last digit.
#[derive(PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// Parses a literal. Returns `None` if it is no JSON number, or its exponent does not fit in 64 bits.
    fn parse(literal: &str) -> Option<Self> {
        let (negative, literal) = match literal.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, literal),
        };
        let (mantissa, exponent) = match literal.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>()),
            None => (literal, Ok(0)),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let leading = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..leading);
        if digits.is_empty() {
            // Zero is the same with any exponent, and minus zero is a binary64 too.
            return Some(Self { negative: false, digits, exponent: 0 });
        }
        let trailing = digits.iter().rev().take_while(|digit| **digit == b'0').count();
        digits.truncate(digits.len() - trailing);
        let shift = i64::try_from(trailing).ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        Some(Self { negative, digits, exponent: exponent.ok()?.checked_add(shift)? })
    }
}

/// The reason why a literal is not exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InexactError {
    /// An integer beyond 64 bits.
    Integer,
    /// A number beyond the range of a binary64.
    Range,
    /// A number with more digits than a binary64 keeps.
    Digits,
}

/// Maximum size of a literal that is exact without a check, in bytes: without an exponent it has at most 15 digits,
/// which a binary64 keeps.
const MAX_EXACT_LITERAL_BYTES: usize = 15;

/// Returns whether a literal needs [`check_exact`]; most do not.
pub(super) fn can_be_inexact(literal: &[u8]) -> bool {
    literal.len() > MAX_EXACT_LITERAL_BYTES || literal.iter().any(|byte| matches!(byte, b'e' | b'E'))
}

/// Checks that a JSON number can be represented exactly.
pub(super) fn check_exact(literal: &str) -> Result<(), InexactError> {
    if !literal.contains(['.', 'e', 'E']) {
        let fits = literal.parse::<u64>().is_ok() || literal.parse::<i64>().is_ok();
        return if fits { Ok(()) } else { Err(InexactError::Integer) };
    }
    let float: f64 = literal.parse().map_err(|_| InexactError::Digits)?;
    if !float.is_finite() {
        return Err(InexactError::Range);
    }
    // A binary64 can have two shortest decimals that differ in the last digit. Both the one of the standard library and
    // the one written as JSON are accepted.
    let standard = Decimal::parse(&format!("{float:e}"));
    let written = Number::from_f64(float).and_then(|number| Decimal::parse(&number.to_string()));
    match Decimal::parse(literal) {
        Some(decimal) if standard.as_ref() == Some(&decimal) || written.as_ref() == Some(&decimal) => Ok(()),
        _ if float == 0.0 => Err(InexactError::Range),
        _ => Err(InexactError::Digits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_literals() {
        let check =
            |literal: &str, expected: Result<(), InexactError>| assert_eq!(check_exact(literal), expected, "{literal}");
        check("0", Ok(()));
        check("-0", Ok(()));
        check("-0.0", Ok(()));
        check("0e999999999999999999999", Ok(()));
        check("0.1", Ok(()));
        check("1.0", Ok(()));
        check("1.50", Ok(()));
        check("1e2", Ok(()));
        check("1E+2", Ok(()));
        check("1.5e-7", Ok(()));
        check("18446744073709551615", Ok(()));
        check("18446744073709551616", Err(InexactError::Integer));
        check("-9223372036854775808", Ok(()));
        check("-9223372036854775809", Err(InexactError::Integer));
        check("9007199254740992.0", Ok(()));
        check("9007199254740993.0", Err(InexactError::Digits));
        check("3.1415926535897932385", Err(InexactError::Digits));
        check("3.141592653589793", Ok(()));
        check("1e308", Ok(()));
        check("1e400", Err(InexactError::Range));
        check("-1e400", Err(InexactError::Range));
        check("1e-400", Err(InexactError::Range));
        check("5e-324", Ok(()));
        check("4.9e-324", Err(InexactError::Digits));
        check("1.7976931348623157e308", Ok(()));
        check("765255160232409.2", Ok(()));
        check("765255160232409.3", Ok(()));
        check("765255160232409.25", Err(InexactError::Digits));
        check("0.10000000000000001", Err(InexactError::Digits));
    }

    #[test]
    fn finds_literals_to_check() {
        let check = |literal: &str, expected| assert_eq!(can_be_inexact(literal.as_bytes()), expected, "{literal}");
        check("123456789012345", false);
        check("1234567890123456", true);
        check("1e2", true);
        check("0.12345678901", false);
    }
}
