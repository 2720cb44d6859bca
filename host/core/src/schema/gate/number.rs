//! Numbers of any length: their exact decimal values, and limits on how they are written.

use std::cmp::Ordering;

use serde_json::Number;

/// The exact decimal value of a literal: digits without zeros at either end, and the power of ten of the last digit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// Parses a literal. Returns `None` if it is no JSON number, or its exponent does not fit in 64 bits.
    pub(crate) fn parse(literal: &str) -> Option<Self> {
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

    fn of(number: &Number) -> Option<Self> {
        Self::parse(number.as_str())
    }

    /// Returns whether the value has no fraction. In JSON Schema, 1.0 is an integer (Validation 2020-12, section 6.1.1).
    pub(crate) fn is_integer(&self) -> bool {
        self.exponent >= 0
    }

    /// Returns the value; `None` if it has a fraction, or does not fit.
    pub(crate) fn to_integer(&self) -> Option<i128> {
        let digits = self
            .digits
            .iter()
            .try_fold(0_i128, |sum, digit| sum.checked_mul(10)?.checked_add(digit_of(*digit).into()))?;
        let value = digits.checked_mul(10_i128.checked_pow(u32::try_from(self.exponent).ok()?)?)?;
        Some(if self.negative { -value } else { value })
    }

    /// Returns the power of ten above the first digit.
    fn magnitude(&self) -> i64 {
        self.exponent.saturating_add(i64::try_from(self.digits.len()).unwrap_or(i64::MAX))
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => -1,
        }
    }

    /// Returns whether the value is a multiple of `step`; `None` if `step` has too many digits to tell.
    fn is_multiple_of(&self, step: &Self) -> Option<bool> {
        let divisor =
            step.digits.iter().try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(digit_of(*digit)))?;
        if divisor == 0 {
            return None;
        }
        let shift = self.exponent.checked_sub(step.exponent)?;
        // Of a step such as 10, which has the digit 1, the zeros count when the value is a fraction of it.
        let scale = u32::try_from(shift.min(0).checked_neg()?).ok()?;
        let divisor = u128::from(divisor).checked_mul(10_u128.checked_pow(scale)?).filter(|step| *step < 1 << 120)?;
        let zeros = usize::try_from(shift.max(0)).ok().filter(|zeros| *zeros <= MAX_NUMBER_BYTES)?;
        let digits = self.digits.iter().copied().chain(std::iter::repeat_n(b'0', zeros));
        Some(digits.fold(0_u128, |rest, digit| (rest * 10 + u128::from(digit_of(digit))) % divisor) == 0)
    }
}

fn digit_of(digit: u8) -> u64 {
    u64::from(digit.wrapping_sub(b'0'))
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = || self.magnitude().cmp(&other.magnitude()).then_with(|| self.digits.cmp(&other.digits));
        match self.sign().cmp(&other.sign()) {
            Ordering::Equal if self.sign() < 0 => size().reverse(),
            Ordering::Equal if self.sign() > 0 => size(),
            order => order,
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares the values of two numbers.
pub(super) fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    Some(Decimal::of(left)?.cmp(&Decimal::of(right)?))
}

/// Returns whether a number has no fraction.
pub(super) fn is_integer(number: &Number) -> bool {
    Decimal::of(number).is_some_and(|decimal| decimal.is_integer())
}

pub(super) fn is_multiple(number: &Number, step: &Number) -> bool {
    let exact = Decimal::of(number).zip(Decimal::of(step)).and_then(|(number, step)| number.is_multiple_of(&step));
    exact.unwrap_or_else(|| {
        let (Some(number), Some(step)) = (number.as_f64(), step.as_f64()) else { return true };
        // The nearest multiple, within the rounding error of binary fractions such as 0.1.
        let times = number / step;
        !times.is_finite() || (times - times.round()).abs() <= times.abs() * 4.0 * f64::EPSILON
    })
}

/// Returns the spelling that all numbers of this value have, for comparing and hashing: that of a 64-bit integer or a
/// binary64 where one has exactly this value, and otherwise the digits and a power of ten.
pub(crate) fn to_canonical(number: &Number) -> String {
    let literal = number.as_str();
    if literal.len() <= MAX_SHORT_BYTES && literal.bytes().all(|byte| byte.is_ascii_digit()) {
        return literal.to_owned();
    }
    let Some(decimal) = Decimal::of(number) else { return literal.to_owned() };
    let is_plain = !literal.contains(['.', 'e', 'E']);
    if is_plain && literal != "-0" {
        return literal.to_owned();
    }
    let shortest =
        number.as_f64().and_then(Number::from_f64).filter(|float| Decimal::of(float).as_ref() == Some(&decimal));
    if let Some(float) = shortest {
        return float.as_str().to_owned();
    }
    let sign = if decimal.negative { "-" } else { "" };
    let digits: String = decimal.digits.iter().copied().map(char::from).collect();
    format!("{sign}{digits}e{}", decimal.exponent)
}

/// The reason why a literal is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberError {
    /// A number with an exponent or a fraction beyond the range of a binary64.
    Range,
    /// A number with too many digits.
    Digits,
}

/// Maximum size of a number's text, in bytes.
pub(super) const MAX_NUMBER_BYTES: usize = 1024;
/// Maximum size of a number's text that needs no check, in bytes.
const MAX_SHORT_BYTES: usize = 15;
/// Digits of a number that the comparison of one takes as long as one evaluation of a subschema.
const CHEAP_DIGITS: u64 = 24;
/// Squares of digits that are compared in the time of one evaluation: exact arithmetic takes quadratic time.
const SQUARED_DIGITS_PER_EVALUATION: u64 = 64;

/// Returns whether a literal needs [`check`]; most do not.
pub(super) fn needs_check(literal: &[u8]) -> bool {
    literal.len() > MAX_SHORT_BYTES || literal.iter().any(|byte| matches!(byte, b'e' | b'E'))
}

/// Checks that a number is short enough, and within the range of a binary64 unless it is a plain integer.
pub(super) fn check(literal: &str) -> Result<(), NumberError> {
    if literal.len() > MAX_NUMBER_BYTES {
        return Err(NumberError::Digits);
    }
    if !literal.contains(['.', 'e', 'E']) {
        return Ok(());
    }
    let float: f64 = literal.parse().map_err(|_| NumberError::Digits)?;
    // A number other than zero that is read as zero is too small for a float.
    if !float.is_finite() || (float == 0.0 && !is_zero(literal)) {
        return Err(NumberError::Range);
    }
    Ok(())
}

fn is_zero(literal: &str) -> bool {
    let mantissa = literal.split(['e', 'E']).next().unwrap_or_default();
    mantissa.bytes().all(|byte| !matches!(byte, b'1'..=b'9'))
}

/// Returns the evaluations of a subschema that take as long as exact arithmetic with a number that passed [`check`].
pub(super) fn evaluations(literal: &str) -> u64 {
    let exponent = literal.split_once(['e', 'E']).and_then(|(_, exponent)| exponent.parse::<i64>().ok());
    let digits = literal.len() as u64 + exponent.map_or(0, i64::unsigned_abs).min(MAX_NUMBER_BYTES as u64);
    if digits <= CHEAP_DIGITS { 0 } else { digits.saturating_mul(digits) / SQUARED_DIGITS_PER_EVALUATION }
}

/// Evaluations for a number with any exponent in the range of a binary64, and few digits.
const MAX_EXPONENT_EVALUATIONS: u64 = 2048;

/// Returns about the most [`evaluations`] for the numbers with exponents in a text.
pub(super) fn evaluations_in(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let is_exponent = |at: &usize| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let after = bytes.get(at + 1);
        before.is_some_and(u8::is_ascii_digit) && matches!(after, Some(b'0'..=b'9' | b'+' | b'-'))
    };
    let found = memchr::memchr2_iter(b'e', b'E', bytes).filter(is_exponent).count() as u64;
    found.saturating_mul(MAX_EXPONENT_EVALUATIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn checks_literals() {
        let digits = "9".repeat(MAX_NUMBER_BYTES);
        for (literal, expected) in [
            ("0", Ok(())),
            ("-0.0", Ok(())),
            ("0e999999999999999999999", Ok(())),
            ("0.1", Ok(())),
            ("1E+2", Ok(())),
            ("18446744073709551616", Ok(())),
            ("9007199254740993.0", Ok(())),
            ("3.1415926535897932385", Ok(())),
            (digits.as_str(), Ok(())),
            (&format!("{digits}9"), Err(NumberError::Digits)),
            ("1e308", Ok(())),
            ("1e400", Err(NumberError::Range)),
            ("-1e400", Err(NumberError::Range)),
            ("1e-400", Err(NumberError::Range)),
            ("5e-324", Ok(())),
        ] {
            assert_eq!(check(literal), expected, "{literal:.60}");
            assert!(expected.is_ok() || needs_check(literal.as_bytes()), "{literal:.60}");
        }
    }

    #[test]
    fn compares_exact_values() {
        for (left, right, expected) in [
            ("1", "1.00", Ordering::Equal),
            ("-0", "0.0", Ordering::Equal),
            ("1e3", "1000", Ordering::Equal),
            ("9007199254740993", "9007199254740992", Ordering::Greater),
            ("12345678901234567890123", "12345678901234567890124", Ordering::Less),
            ("-12345678901234567890123", "-12345678901234567890124", Ordering::Greater),
            ("0.1", "0.10000000000000000001", Ordering::Less),
            ("-1", "0", Ordering::Less),
            ("10", "9", Ordering::Greater),
        ] {
            assert_eq!(compare(&number(left), &number(right)), Some(expected), "{left} {right}");
            assert_eq!(compare(&number(right), &number(left)), Some(expected.reverse()), "{right} {left}");
        }
    }

    #[test]
    fn divides_exactly() {
        for (value, step, expected) in [
            ("12345678901234567890123", "3", true),
            ("12345678901234567890124", "3", false),
            ("0.3", "0.1", true),
            ("0.35", "0.1", false),
            ("5", "10", false),
            ("1e300", "10", true),
            ("0", "7", true),
            ("18446744073709551616", "18446744073709551616", true),
        ] {
            assert_eq!(is_multiple(&number(value), &number(step)), expected, "{value} {step}");
        }
    }

    #[test]
    fn equal_numbers_have_one_canonical_text() {
        for (literal, expected) in [
            ("1", "1"),
            ("-7", "-7"),
            ("-0", "-0.0"),
            ("1.0", "1.0"),
            ("1.00", "1.0"),
            ("1e2", "100.0"),
            ("0.10", "0.1"),
            ("1E300", "1e+300"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("3.14159265358979323846", "314159265358979323846e-20"),
            ("314.159265358979323846e-2", "314159265358979323846e-20"),
        ] {
            assert_eq!(to_canonical(&number(literal)), expected, "{literal}");
        }
    }

    #[test]
    fn long_numbers_cost_more() {
        assert_eq!([evaluations("12345678901234567890"), evaluations("1.5e3")], [0, 0]);
        assert!(evaluations("1e-300") > 1000);
        assert!(evaluations(&"9".repeat(MAX_NUMBER_BYTES)) > 10_000);
        assert_eq!(evaluations_in(r#"{"e": "1e5 e5e", "f": [12, 1.5]}"#), MAX_EXPONENT_EVALUATIONS);
        assert!(evaluations_in("[1e-300]") >= evaluations("1e-300"));
    }
}
