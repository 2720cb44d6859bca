//! A cursor over JSON text, which reads tokens and compares many bytes of a string at once.
//!
//! `serde_json` inspects eight bytes of a string at once, and strings are most of a call's JSON. It still decodes every
//! string with escapes and every number that is not a short integer.

use serde_json::Number;

/// Maximum nesting of a text that [`is_json`] accepts: that of `serde_json`.
const MAX_DEPTH: usize = 127;
/// Maximum number of digits of an integer that surely fits in 64 bits.
const MAX_SHORT_DIGITS: usize = 18;

/// A position in JSON text (RFC 8259). Every method returns `None` where the text has something else.
#[derive(Debug)]
pub(crate) struct Cursor<'t> {
    /// The text from the position on.
    rest: &'t str,
    /// True until something was read that is not the shortest text of its value.
    is_compact: bool,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { rest: text, is_compact: true }
    }

    /// Returns whether everything so far is written as [`to_compact_text`](super::json::to_compact_text) does; if unsure,
    /// false.
    pub(crate) fn is_compact(&self) -> bool {
        self.is_compact
    }

    /// Skips white space, and returns the next byte without reading it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.rest.as_bytes().first() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => {
                    self.is_compact = false;
                    self.skip(1)?;
                }
                first => return first.copied(),
            }
        }
    }

    /// Reads one byte of punctuation.
    pub(crate) fn punctuation(&mut self, expected: u8) -> Option<()> {
        if self.peek()? == expected { self.skip(1) } else { None }
    }

    /// Reads what follows an item: a comma (`true`), or the bracket `end` (`false`).
    pub(crate) fn separator(&mut self, end: u8) -> Option<bool> {
        let next = self.peek()?;
        if next != b',' && next != end {
            return None;
        }
        self.skip(1)?;
        Some(next == b',')
    }

    /// Reads `end` if the container that was just opened is empty.
    pub(crate) fn is_empty(&mut self, end: u8) -> Option<bool> {
        let empty = self.peek()? == end;
        if empty {
            self.skip(1)?;
        }
        Some(empty)
    }

    /// Reads a literal: `true`, `false` or `null`.
    pub(crate) fn literal(&mut self, expected: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(expected)?;
        Some(())
    }

    /// Reads a string, and returns it without its escapes.
    pub(crate) fn string(&mut self) -> Option<String> {
        let text = self.rest.strip_prefix('"')?;
        let stop = memchr::memchr2(b'"', b'\\', text.as_bytes())?;
        let (plain, rest) = text.split_at_checked(stop)?;
        if let Some(rest) = rest.strip_prefix('"') {
            self.rest = rest;
            return (!has_control(plain)).then(|| plain.to_owned());
        }
        self.is_compact = false;
        serde_json::from_str(self.escaped_string(stop + 1)?).ok()
    }

    /// Reads a string that has no escapes.
    pub(crate) fn plain_string(&mut self) -> Option<&'t str> {
        let text = self.rest.strip_prefix('"')?;
        let (plain, rest) = text.split_at_checked(memchr::memchr2(b'"', b'\\', text.as_bytes())?)?;
        self.rest = rest.strip_prefix('"')?;
        (!has_control(plain)).then_some(plain)
    }

    /// Reads an integer of at most 18 digits, written as every other program would write it.
    pub(crate) fn short_integer(&mut self) -> Option<i64> {
        let bytes = self.rest.as_bytes();
        let length = bytes.iter().position(|byte| !is_number_byte(*byte)).unwrap_or(bytes.len());
        let literal = self.take(length)?;
        match literal.strip_prefix('-') {
            Some("0") => None,
            Some(digits) => i64::try_from(parse_short(digits)?).ok().map(|number| -number),
            None => i64::try_from(parse_short(literal)?).ok(),
        }
    }

    /// Reads a string without keeping it. Leaves escapes by number to `serde_json`.
    fn skip_string(&mut self) -> Option<()> {
        let mut text = self.rest.strip_prefix('"')?;
        loop {
            let (plain, rest) = text.split_at_checked(memchr::memchr2(b'"', b'\\', text.as_bytes())?)?;
            if has_control(plain) {
                return None;
            }
            match rest.as_bytes() {
                [b'"', ..] => {
                    self.rest = rest.get(1..)?;
                    return Some(());
                }
                [_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => text = rest.get(2..)?,
                _ => return None,
            }
        }
    }

    /// Reads a string with an escape at the byte `at`, and returns it as it is written, quotes included.
    fn escaped_string(&mut self, mut at: usize) -> Option<&'t str> {
        let bytes = self.rest.as_bytes();
        loop {
            at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
            if bytes.get(at) == Some(&b'"') {
                return self.take(at + 1);
            }
            at += 2;
        }
    }

    /// Reads a number, and returns it with its literal.
    pub(crate) fn number(&mut self) -> Option<(Number, &'t str)> {
        let bytes = self.rest.as_bytes();
        let length = bytes.iter().position(|byte| !is_number_byte(*byte)).unwrap_or(bytes.len());
        let literal = self.take(length)?;
        if let Some(integer) = parse_short(literal) {
            return Some((integer.into(), literal));
        }
        let number: Number = serde_json::from_str(literal).ok()?;
        self.is_compact &= number.as_str() == literal;
        Some((number, literal))
    }

    /// Succeeds if nothing but white space is left.
    pub(crate) fn end(&mut self) -> Option<()> {
        if self.peek().is_none() { Some(()) } else { None }
    }

    fn take(&mut self, bytes: usize) -> Option<&'t str> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }
}

/// Parses an integer without a sign that surely fits in 64 bits.
fn parse_short(literal: &str) -> Option<u64> {
    match literal.as_bytes() {
        [digit @ b'0'..=b'9'] => Some(u64::from(digit - b'0')),
        [b'1'..=b'9', rest @ ..] if rest.len() < MAX_SHORT_DIGITS && rest.iter().all(u8::is_ascii_digit) => {
            literal.parse().ok()
        }
        _ => None,
    }
}

/// Returns whether a name is one by which `serde_json` recognizes a number or a raw value. An object with such a name is another
/// value once it has been written and read again.
pub(crate) fn is_reserved_name(name: &str) -> bool {
    name.starts_with("$serde_json::private::")
}

/// Returns whether the byte can be part of a number.
pub(crate) fn is_number_byte(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Returns whether a string has a character that JSON takes only as an escape.
///
/// Has no branches, so that the compiler compares many bytes at once.
fn has_control(text: &str) -> bool {
    text.bytes().fold(false, |control, byte| control | (byte < b' '))
}

/// Returns whether a text is one JSON value whose nesting, numbers and escapes `serde_json` accepts; if unsure, false.
pub(crate) fn is_json(text: &str) -> bool {
    let mut cursor = Cursor::new(text);
    check_value(&mut cursor, MAX_DEPTH).and_then(|()| cursor.end()).is_some()
}

fn check_value(cursor: &mut Cursor<'_>, depth: usize) -> Option<()> {
    match cursor.peek()? {
        b'"' => cursor.skip_string(),
        b'{' => check_items(cursor, depth, b'{', b'}'),
        b'[' => check_items(cursor, depth, b'[', b']'),
        b't' => cursor.literal("true"),
        b'f' => cursor.literal("false"),
        b'n' => cursor.literal("null"),
        _ => cursor.number().map(|_| ()),
    }
}

fn check_items(cursor: &mut Cursor<'_>, depth: usize, begin: u8, end: u8) -> Option<()> {
    let inside = depth.checked_sub(1)?;
    cursor.punctuation(begin)?;
    if cursor.is_empty(end)? {
        return Some(());
    }
    loop {
        if begin == b'{' {
            cursor.peek()?;
            cursor.skip_string()?;
            cursor.punctuation(b':')?;
        }
        check_value(cursor, inside)?;
        if !cursor.separator(end)? {
            return Some(());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks a text that `is_json` is sure of: one without escapes by number.
    fn check(text: &str) {
        let expected = serde_json::from_str::<serde_json::Value>(text).is_ok();
        assert_eq!(is_json(text), expected && !text.contains("\\u"), "{text}");
    }

    #[test]
    fn accepts_what_serde_json_accepts() {
        let texts = r#"
            {} [] [,] [1,] {,} {"a"} {"a":} {"a":1,} {1:2} {}{} [} {] {"a":[{"b":1},[],{}]}
            true tru truex nul null false - -0 0 00 01 -01 +1 1. .5 1.5 1e 1e5 1E+5 1e400 -1e400 1-2 1e5e5
            123456789012345678 1234567890123456789 18446744073709551615 18446744073709551616
            "" " "\" "\"" "\u0041" "\u00" "\ud800" "\ud83d\ude00" "\x" "é" é"#;
        texts.split_whitespace().for_each(check);
        let spaced = ["", " ", "[ ]", "{ }", " {} ", "[1 2]", "{\"a\" : 1 , \"b\" : [ ] }", "[\"\n\"]"];
        spaced.into_iter().for_each(check);
        let strange = ["\"\u{1}\"", "\"\u{7f}\"", "\u{feff}1", "\u{a0}1", "\u{b}1", "\u{c}1"];
        strange.into_iter().for_each(check);
        for depth in [126, 127, 128, 129] {
            check(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
            check(&format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
        }
    }

    proptest! {
        #[test]
        fn accepts_any_text_that_serde_json_accepts(
            text in r#"[\[{]?("[a\\/"nu0\x01-\x20]{0,4}"|-?[0-9]{1,20}|[0-9]\.[0-9e+-]{1,3}|true|null|[ \n,:]|\[\]|\{"a": ?1\}|,"b":){0,6}[\]}]?"#
        ) {
            check(&text);
        }
    }
}
