//! Escaping of hidden characters in untrusted text, for terminals, logs, models and MCP clients.
//!
//! Characters that could control a terminal or be invisible to a reader are replaced by escapes. No character is
//! removed, so that a reader sees each of them. A terminal sequence is harmless once its first character is escaped;
//! each character counts by itself. Emoji variation selectors and joiners are escaped too, although they occur in
//! legitimate text: the same characters can carry hidden messages, and no rule distinguishes the two with certainty.
//! The classes of characters are in [`is_hidden`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapDataBorrowed, CodePointSetDataBorrowed};
use serde_json::{Map, Value};

/// Replaces every control, bidirectional, invisible or private-use character of a text with `\u{…}`.
///
/// Line breaks and tabs stay. A text without such characters is returned without a copy.
///
/// ```
/// use fumehood_core::text::sanitize::printable;
///
/// assert_eq!(printable("plain text"), "plain text");
/// assert_eq!(printable("\u{1b}[31mred"), "\\u{1b}[31mred");
/// ```
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if count_hidden(text) == 0 {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            // Writing to a string never fails.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Truncates a text to at most `bytes` bytes, between characters.
#[must_use]
pub fn truncate_str(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// Returns the number of characters that [`printable`] would replace.
#[must_use]
pub fn count_hidden(text: &str) -> u64 {
    if is_plain(text) {
        return 0;
    }
    text.chars().filter(|c| is_hidden(*c)).count() as u64
}

/// Returns whether the text is printable ASCII with line breaks and tabs, as most text is. Runs for every result, so it
/// compares all bytes without a branch, which the compiler vectorizes.
fn is_plain(text: &str) -> bool {
    text.bytes().fold(true, |plain, byte| plain & (matches!(byte, b' '..=b'~') | (byte == b'\n') | (byte == b'\t')))
}

/// Replaces every hidden character of a JSON text with a JSON escape (RFC 8259, section 7), so that its value stays the
/// same. A carriage return, which can only be whitespace between values, becomes a space.
#[must_use]
pub fn printable_json(text: &str) -> Cow<'_, str> {
    if count_hidden(text) == 0 {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\r' => out.push(' '),
            c if is_hidden(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Percent-encodes every hidden character, space, tab and line break of a URI (RFC 3986, section 2.1).
#[must_use]
pub fn printable_uri(uri: &str) -> Cow<'_, str> {
    if !uri.chars().any(needs_encoding) {
        return Cow::Borrowed(uri);
    }
    let mut out = String::with_capacity(uri.len() + 16);
    for c in uri.chars() {
        if needs_encoding(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn needs_encoding(c: char) -> bool {
    c.is_whitespace() || is_hidden(c)
}

/// Applies [`printable`] to every string and every member name of a JSON value, and returns the number of characters
/// replaced. Unlike with [`printable_json`], no hidden character comes back when the value is parsed.
///
/// Names of one object stay distinct: a name that would equal another gets a number at its end. The nesting of the
/// value is bounded where it was read.
#[must_use]
pub fn printable_value(value: &Value) -> (Cow<'_, Value>, u64) {
    match count_hidden_in(value) {
        0 => (Cow::Borrowed(value), 0),
        count => (Cow::Owned(rewrite(value)), count),
    }
}

/// Returns the number of characters that [`printable_value`] would replace, those in member names included.
#[must_use]
pub fn count_hidden_in(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => count_hidden(text),
        Value::Array(items) => items.iter().map(count_hidden_in).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| count_hidden(name) + count_hidden_in(value)).sum(),
    }
}

fn rewrite(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable(text).into_owned()),
        Value::Array(items) => items.iter().map(rewrite).collect(),
        Value::Object(members) => {
            let mut out = Map::with_capacity(members.len());
            // The number of uses of each spelling, so that many names with one spelling stay cheap.
            let mut taken: HashMap<String, u64> = HashMap::new();
            for (name, value) in members {
                let is_taken = |name: &str| members.contains_key(name) || out.contains_key(name);
                let name = distinct_name(name, is_taken, &mut taken);
                out.insert(name, rewrite(value));
            }
            Value::Object(out)
        }
        other => other.clone(),
    }
}

/// Returns the printable spelling of a name, followed by a number if another member has that name.
fn distinct_name(name: &str, is_taken: impl Fn(&str) -> bool, taken: &mut HashMap<String, u64>) -> String {
    let Cow::Owned(spelling) = printable(name) else { return name.to_owned() };
    let count = taken.entry(spelling.clone()).or_default();
    loop {
        *count += 1;
        let candidate = if *count == 1 { spelling.clone() } else { format!("{spelling} ({count})") };
        if !is_taken(&candidate) {
            return candidate;
        }
    }
}

/// Characters with a blank glyph that no Unicode property covers.
const BLANK_GLYPHS: [RangeInclusive<char>; 7] = [
    '\u{2800}'..='\u{2800}',   // braille pattern without dots
    '\u{2d7f}'..='\u{2d7f}',   // Tifinagh consonant joiner
    '\u{fffc}'..='\u{fffc}',   // object replacement
    '\u{1107f}'..='\u{1107f}', // Brahmi number joiner
    '\u{13440}'..='\u{13455}', // blanks and modifiers of hieroglyphs
    '\u{16fe4}'..='\u{16fe4}', // Khitan filler
    '\u{1d159}'..='\u{1d159}', // null notehead
];

const CATEGORY: CodePointMapDataBorrowed<'static, GeneralCategory> = CodePointMapDataBorrowed::new();
const DEFAULT_IGNORABLE: CodePointSetDataBorrowed<'static> =
    CodePointSetDataBorrowed::new::<DefaultIgnorableCodePoint>();

/// Returns whether a character is invisible to a reader, or could control a terminal.
///
/// By their Unicode properties these are:
/// - controls (Cc) except line feed and tab, format characters (Cf), line and paragraph separators (Zl, Zp);
/// - characters that may be ignored in display (`Default_Ignorable_Code_Point`): variation selectors, tags, Hangul
///   fillers;
/// - private use and unassigned code points, including noncharacters, because their appearance is not defined;
/// - spaces other than U+0020, U+00A0 and U+3000, because they look the same as these;
/// - letters and symbols with a blank glyph, such as U+2800.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' | ' '..='~' | '\u{a0}' | '\u{3000}' => false,
        c if c.is_ascii() => true,
        c => {
            let is_hidden_category = matches!(
                CATEGORY.get(c),
                GeneralCategory::Control
                    | GeneralCategory::Format
                    | GeneralCategory::LineSeparator
                    | GeneralCategory::ParagraphSeparator
                    | GeneralCategory::SpaceSeparator
                    | GeneralCategory::PrivateUse
                    | GeneralCategory::Surrogate
                    | GeneralCategory::Unassigned
            );
            is_hidden_category || DEFAULT_IGNORABLE.contains(c) || BLANK_GLYPHS.iter().any(|blank| blank.contains(&c))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(printable(text), expected);
    }

    #[test]
    fn escapes_hidden_and_control_characters() {
        check("plain\ttext\nwith lines, ä and 漢字", "plain\ttext\nwith lines, ä and 漢字");
        check("\u{1b}[31mred", "\\u{1b}[31mred");
        check("\u{1b}]52;c;aGk=\u{7}", "\\u{1b}]52;c;aGk=\\u{7}");
        check("a\u{202e}b", "a\\u{202e}b");
        check("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}");
        check("\u{e0041}", "\\u{e0041}");
        check("over\rwritten", "over\\u{d}written");
        check("\u{9b}31m", "\\u{9b}31m");
        check("\u{fdd0}", "\\u{fdd0}");
        check("a\u{34f}\u{17b4}\u{1d173}\u{1bca0}\u{13430}", "a\\u{34f}\\u{17b4}\\u{1d173}\\u{1bca0}\\u{13430}");
        check("\u{2615}\u{fe0f} \u{1f469}\u{200d}\u{1f680}", "\u{2615}\\u{fe0f} \u{1f469}\\u{200d}\u{1f680}");
        check("\u{ffff}", "\\u{ffff}");
    }

    #[test]
    fn counts_ascii_alike_alone_and_in_long_text() {
        for c in (0..128_u8).map(char::from) {
            let expected = u64::from(is_hidden(c));
            assert_eq!(count_hidden(&c.to_string()), expected, "{c:?}");
            assert_eq!(
                count_hidden(&format!("{c} beside ä, and a text that is longer than a vector")),
                expected,
                "{c:?}"
            );
        }
    }

    #[test]
    fn truncates_between_characters() {
        fn check(text: &str, bytes: usize, expected: &str) {
            assert_eq!(truncate_str(text, bytes), expected);
        }

        check("abc", 0, "");
        check("abc", 2, "ab");
        check("abc", 3, "abc");
        check("abc", usize::MAX, "abc");
        check("aä", 2, "a");
        check("aä", 3, "aä");
    }

    #[test]
    fn counts_escaped_characters() {
        fn check(text: &str, expected: u64) {
            assert_eq!(count_hidden(text), expected, "{text:?}");
            assert_eq!(count_hidden(&printable(text)), 0, "{text:?}");
        }

        check("plain\ttext\n", 0);
        check("\u{1b}]52;c;aGk=\u{7}", 2);
        check("\u{e0041}\u{e0042}\u{200b}", 3);
    }

    #[test]
    fn keeps_json_value() {
        fn read(text: &str) -> Value {
            serde_json::from_str::<Value>(text).unwrap()
        }

        let text = "{\r\n\"a\": \"<\u{202e}\u{e0041}\u{7f}>\"}";
        let printable = printable_json(text);
        assert_eq!(printable, "{ \n\"a\": \"<\\u202e\\udb40\\udc41\\u007f>\"}");
        assert_eq!(read(&printable), read(text));
        assert!(matches!(printable_json("{}"), Cow::Borrowed(_)));
    }

    #[test]
    fn escapes_all_characters_of_hidden_classes() {
        // From the tables of another crate, so that an error in one of them is found.
        let class = r"^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Noncharacter_Code_Point}\p{Default_Ignorable_Code_Point}]$";
        let class = regex::Regex::new(class).unwrap();
        let mut found = 0;
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(|c| !matches!(c, '\n' | '\t')) {
            let text = c.to_string();
            let is_listed =
                class.is_match(&text) || CATEGORY.get(c) == GeneralCategory::Control || DEFAULT_IGNORABLE.contains(c);
            assert!(!is_listed || is_hidden(c), "U+{:04X} passes", u32::from(c));
            assert!(!printable(&text).chars().any(is_hidden), "U+{:04X} is still there", u32::from(c));
            found += usize::from(is_listed);
        }
        assert!(found > 140_000, "private use alone has that many: {found}");
    }

    #[test]
    fn escapes_blank_glyphs_and_unusual_spaces() {
        for c in "\u{2800}\u{1d159}\u{16fe4}\u{3164}\u{ffa0}\u{115f}\u{1160}\u{ad}\u{34f}\u{61c}\u{17b4}\u{17b5}\
                  \u{180b}\u{180e}\u{180f}\u{fffc}\u{2d7f}\u{13441}\u{1680}\u{2003}\u{200a}\u{202f}\u{205f}\u{378}\
                  \u{fe0e}\u{fe0f}\u{e0100}\u{e007f}\u{fff0}\u{1fffe}"
            .chars()
        {
            assert!(is_hidden(c), "U+{:04X} passes", u32::from(c));
        }
        for c in "aä漢字한글ไทยعשא\u{301}\u{93e}☕👩🇩│█\u{a0}\u{3000}\u{fffd}".chars() {
            assert!(!is_hidden(c), "U+{:04X} is a visible character", u32::from(c));
        }
    }

    #[test]
    fn percent_encodes_uris() {
        assert_eq!(printable_uri("https://a.example/ä?b=c#d"), "https://a.example/ä?b=c#d");
        assert_eq!(printable_uri("a:\u{202e}b c\n\u{1b}\u{85}"), "a:%E2%80%AEb%20c%0A%1B%C2%85");
    }

    #[test]
    fn keeps_value_shape_and_distinct_names() {
        fn value(text: &str) -> Value {
            serde_json::from_str::<Value>(text).unwrap()
        }

        let plain = value(r#"{"a": [1, "b\n", null]}"#);
        assert!(matches!(printable_value(&plain), (Cow::Borrowed(_), 0)));
        let hidden = value(r#"{"a\u200b": 1, "a\\u{200b}": 2, "b": ["\u001b[1m", {"\ue000": "\u2800"}], "n": 2.50}"#);
        let (shown, count) = printable_value(&hidden);
        assert_eq!(count, 4);
        let expected = r#"{"a\\u{200b} (2)":1,"a\\u{200b}":2,"b":["\\u{1b}[1m",{"\\u{e000}":"\\u{2800}"}],"n":2.50}"#;
        assert_eq!(shown.to_string(), expected);
        assert_eq!(count_hidden_in(&shown), 0);
    }

    #[test]
    fn keeps_many_names_of_one_spelling_distinct() {
        fn name(bits: u32) -> String {
            (0..12).map(|bit| if bits >> bit & 1 == 1 { "\u{200b}" } else { "\\u{200b}" }).collect()
        }

        let members: Map<String, Value> = (0..1 << 12).map(|bits| (name(bits), bits.into())).collect();
        let value = Value::Object(members.clone());
        let (shown, _) = printable_value(&value);
        let shown: Vec<_> = shown.as_object().unwrap().values().cloned().collect();
        assert_eq!(shown, members.values().cloned().collect::<Vec<_>>());
    }

    #[test]
    fn borrows_harmless_text() {
        assert!(matches!(printable("hello"), Cow::Borrowed(_)));
    }
}
