//! Regular expressions for the decimal form of 64-bit integers: exactly the numbers in range, each in one spelling.
//!
//! Each consists of two patterns, one of which has to match, because a single one would exceed
//! [`GateLimits::pattern_chars`](crate::schema::gate::GateLimits::pattern_chars).

/// Number of leading digits that the first pattern compares. Numbers that share them with the bound match the second.
const SPLIT_DIGITS: usize = 10;

/// Returns patterns that match `0` and every number up to [`u64::MAX`], without leading zeros.
#[must_use]
pub fn unsigned_patterns() -> [String; 2] {
    let bound = u64::MAX.to_string();
    [format!("^(0|{})$", far_pattern(&bound)), format!("^{}$", near_pattern(&bound))]
}

/// Returns patterns that match every number from [`i64::MIN`] to [`i64::MAX`], without leading zeros, `+` or `-0`.
#[must_use]
pub fn signed_patterns() -> [String; 2] {
    let bound = i64::MAX.to_string();
    [format!("^(0|-?({}))$", far_pattern(&bound)), format!("^(-?{}|{})$", near_pattern(&bound), i64::MIN)]
}

/// Returns a pattern for the numbers from 1 with fewer digits than the bound, or below it within the first digits.
fn far_pattern(bound: &str) -> String {
    let fewer = (bound.len() > 1).then(|| format!("[1-9][0-9]{{0,{}}}", bound.len() - 2));
    let below = digits_pattern(bound, 0, SPLIT_DIGITS.min(bound.len()));
    fewer.into_iter().chain(below).collect::<Vec<_>>().join("|")
}

/// Returns a pattern for the numbers that begin like the bound and are not above it.
fn near_pattern(bound: &str) -> String {
    let shared = bound.get(..SPLIT_DIGITS).unwrap_or_default();
    format!("{shared}({})", digits_pattern(bound, shared.len(), bound.len()).unwrap_or_default())
}

/// Returns a pattern for the digits after the first `from` in numbers that share these with the bound and are below it
/// at one of the digits up to `to`. If `to` is the end, the pattern also matches the rest of the bound itself. For 235,
/// 0 and 3: `1[0-9]{2}|2([0-2][0-9]|3([0-4]|5))`.
fn digits_pattern(bound: &str, from: usize, to: usize) -> Option<String> {
    let mut rest = (to == bound.len()).then(String::new);
    for (at, digit) in bound.bytes().enumerate().take(to).skip(from).collect::<Vec<_>>().into_iter().rev() {
        let lowest = if at == 0 { b'1' } else { b'0' };
        let free = match bound.len() - at - 1 {
            0 => String::new(),
            1 => "[0-9]".to_owned(),
            count => format!("[0-9]{{{count}}}"),
        };
        let below = (digit > lowest).then(|| match digit - 1 {
            highest if highest == lowest => format!("{}{free}", char::from(lowest)),
            highest => format!("[{}-{}]{free}", char::from(lowest), char::from(highest)),
        });
        let same = rest.map(|rest| {
            if rest.contains('|') {
                format!("{}({rest})", char::from(digit))
            } else {
                format!("{}{rest}", char::from(digit))
            }
        });
        rest = below.into_iter().chain(same).reduce(|below, same| format!("{below}|{same}"));
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns whether one of the patterns matches a text; never both.
    fn matches(pieces: &[String; 2], text: &str) -> bool {
        let hits = pieces.iter().filter(|pattern| {
            jsonschema::is_valid(&serde_json::json!({ "pattern": pattern }), &serde_json::json!(text))
        });
        let hits = hits.count();
        assert!(hits < 2, "{text:?}");
        hits == 1
    }

    #[test]
    fn patterns_fit_the_gate_limit() {
        for piece in unsigned_patterns().iter().chain(&signed_patterns()) {
            assert!(piece.len() <= crate::schema::gate::GateLimits::default().pattern_chars, "{piece}");
        }
    }

    #[test]
    fn matches_exactly_up_to_the_bounds() {
        fn check(text: &str, is_unsigned: bool, is_signed: bool) {
            assert_eq!(
                (matches(&unsigned_patterns(), text), matches(&signed_patterns(), text)),
                (is_unsigned, is_signed),
                "{text:?}"
            );
        }

        check("0", true, true);
        check("7", true, true);
        check("9223372036854775807", true, true);
        check("9223372036854775808", true, false);
        check("18446744073709551615", true, false);
        check("18446744073709551616", false, false);
        check("99999999999999999999", false, false);
        check("-1", false, true);
        check("-9223372036854775808", false, true);
        check("-9223372036854775809", false, false);
        for text in ["", "-0", "00", "01", "+1", "1 ", " 1", "1\n", "1.0", "1e3", "٣", "-", "0x1"] {
            check(text, false, false);
        }
    }

    #[test]
    fn matches_small_bounds_exhaustively() {
        for bound in [10, 19, 100, 101, 235, 999] {
            let bound_text = bound.to_string();
            for split in 0..bound_text.len() {
                let far = digits_pattern(&bound_text, 0, split);
                let near = digits_pattern(&bound_text, split, bound_text.len());
                let shared = &bound_text[..split];
                let near = near.map(|near| format!("{shared}({near})"));
                let all: Vec<_> = far.into_iter().chain(near).collect();
                let schema = serde_json::json!({ "pattern": format!("^({})$", all.join("|")) });
                let validator = jsonschema::validator_for(&schema).unwrap();
                for number in 0..=1_100 {
                    let text: String = number.to_string();
                    let expected = text.len() == bound_text.len() && (1..=bound).contains(&number);
                    assert_eq!(validator.is_valid(&serde_json::json!(text)), expected, "{text} {schema}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn matches_every_number_in_range(unsigned_number: u64, signed_number: i64) {
            prop_assert!(matches(&unsigned_patterns(), &unsigned_number.to_string()));
            prop_assert!(matches(&signed_patterns(), &signed_number.to_string()));
        }

        #[test]
        fn matches_only_canonical_numbers(text in "-?[0-9]{1,21}") {
            let is_unsigned = text.parse::<u64>().is_ok_and(|number| number.to_string() == text);
            let is_signed = text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
            prop_assert_eq!(matches(&unsigned_patterns(), &text), is_unsigned);
            prop_assert_eq!(matches(&signed_patterns(), &text), is_signed);
        }
    }
}
