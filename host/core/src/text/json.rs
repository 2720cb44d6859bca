//! JSON of writers that do not quite keep to its grammar.

/// Returns JSON text with U+FFFD for each lone surrogate, `null` for numbers that JSON does not have, and control characters within
/// texts escaped.
#[must_use]
pub fn repair(text: &str) -> String {
    let mut repaired = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_string = false;
    while let Some(next) = rest.chars().next() {
        let (taken, replacement) = match next {
            '"' => {
                in_string = !in_string;
                (1, None)
            }
            '\\' if in_string => escape(rest),
            control if in_string && control < ' ' => {
                repaired.push_str(&format!("\\u{:04x}", u32::from(control)));
                (1, Some(""))
            }
            _ if in_string => (next.len_utf8(), None),
            _ => match ["-Infinity", "Infinity", "NaN"].iter().find(|word| rest.starts_with(**word)) {
                Some(word) => (word.len(), Some("null")),
                None => (next.len_utf8(), None),
            },
        };
        let (piece, after) = rest.split_at_checked(taken).unwrap_or((rest, ""));
        repaired.push_str(replacement.unwrap_or(piece));
        rest = after;
    }
    repaired
}

/// Returns the length of the escape sequence at the beginning of a text, and its replacement if it is a lone surrogate.
fn escape(text: &str) -> (usize, Option<&'static str>) {
    const LONE: Option<&str> = Some("\\ufffd");
    match parse_unit(text, 0) {
        Some(0xd800..=0xdbff) if parse_unit(text, 6).is_some_and(|low| (0xdc00..=0xdfff).contains(&low)) => (12, None),
        Some(0xd800..=0xdfff) => (6, LONE),
        Some(_) => (6, None),
        None => (1 + text.chars().nth(1).map_or(0, char::len_utf8), None),
    }
}

/// Reads the code unit of an escape such as `\u00e9`.
fn parse_unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn repairs_numbers_and_lone_surrogates_outside_of_texts_alone() {
        for (text, expected) in [
            (r#"{"n":NaN,"m":[-Infinity,Infinity]}"#, json!({"n": null, "m": [null, null]})),
            ("[\n\"a\tb\u{1}\"]", json!(["a\tb\u{1}"])),
            (r#"{"t":"NaN \"-Infinity"}"#, json!({"t": "NaN \"-Infinity"})),
            (r#"["a\ud83d","\ude00b","\ud83d\ude00","\\ud83d"]"#, json!(["a\u{fffd}", "\u{fffd}b", "😀", "\\ud83d"])),
        ] {
            let repaired = repair(text);
            assert_eq!(serde_json::from_str::<Value>(&repaired).unwrap(), expected, "{text}");
            assert_eq!(repair(&repaired), repaired);
        }
        for text in ["", "\"", "\"\\", "\"\\u", "\"\\ud8", "ü\"\\ü"] {
            assert_eq!(repair(text), text);
        }
    }
}
