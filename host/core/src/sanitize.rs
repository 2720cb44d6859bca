//! Text that a guest made, on its way to a person or a log: what could steer a terminal or hide from a reader is
//! written out, and what is too long is cut.
//!
//! Nothing is taken away, so that a reader sees that there was something, and what. A sequence of a terminal is harmless
//! once its first character is written out; each character counts by itself. Selectors of emoji and what joins them are
//! written out as well, although honest text has them: the same characters carry hidden messages, and no rule tells the
//! two apart for certain.

use std::borrow::Cow;

/// The text with every control, bidirectional, invisible or private-use character replaced by `\u{…}`.
///
/// Line breaks and tabs stay. A text without such characters is returned as it is, without a copy.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if hidden(text) == 0 {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            out.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// The beginning of the text in at most so many bytes, cut between characters.
#[must_use]
pub fn beginning(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// How many characters [`printable`] would write out.
#[must_use]
pub fn hidden(text: &str) -> u64 {
    if is_plain(text) {
        return 0;
    }
    text.chars().filter(|c| is_hidden(*c)).count() as u64
}

/// Whether the text is printable ASCII with line breaks and tabs, as most text is. Every result is looked at, so this looks
/// at all bytes without a branch: the compiler makes it compare many at once.
fn is_plain(text: &str) -> bool {
    text.bytes().fold(true, |plain, byte| plain & (matches!(byte, b' '..=b'~') | (byte == b'\n') | (byte == b'\t')))
}

/// A text that is JSON, with every hidden character written as an escape of JSON: for whoever parses it, the value is the
/// same. A carriage return, which stands between values there, becomes a space.
#[must_use]
pub fn printable_json(text: &str) -> Cow<'_, str> {
    if hidden(text) == 0 {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\r' => out.push(' '),
            c if is_hidden(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Whether a reader would not see the character, or a terminal would act on it.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        c if c.is_control() => true,
        '\u{ad}' // soft hyphen
        | '\u{34f}' // joiner of graphemes
        | '\u{61c}' // Arabic letter mark
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // Hangul fillers
        | '\u{17b4}' | '\u{17b5}' // Khmer inherent vowels
        | '\u{180b}'..='\u{180f}' // Mongolian variation selectors
        | '\u{200b}'..='\u{200f}' // zero width, direction marks
        | '\u{2028}'..='\u{202e}' // separators, embeddings and overrides
        | '\u{2060}'..='\u{206f}' // word joiner, isolates, deprecated controls
        | '\u{fdd0}'..='\u{fdef}' // noncharacters
        | '\u{fe00}'..='\u{fe0f}' // variation selectors
        | '\u{feff}' // byte order mark
        | '\u{fff0}'..='\u{fffb}' // specials, interlinear annotation
        | '\u{13430}'..='\u{13455}' // controls of hieroglyphs
        | '\u{1bca0}'..='\u{1bca3}' // controls of shorthand
        | '\u{1d173}'..='\u{1d17a}' // controls of music
        | '\u{e000}'..='\u{f8ff}' // private use
        | '\u{e0000}'..='\u{e0fff}' // tags, more variation selectors
        | '\u{f0000}'..='\u{10ffff}' => true, // private use planes
        c => u32::from(c) & 0xfffe == 0xfffe, // noncharacters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(printable(text), expected);
    }

    #[test]
    fn what_steers_a_terminal_or_hides_is_written_out() {
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
    fn every_ascii_character_is_judged_alike_alone_and_beside_others() {
        for c in (0..128_u8).map(char::from) {
            let expected = u64::from(is_hidden(c));
            assert_eq!(hidden(&c.to_string()), expected, "{c:?}");
            assert_eq!(hidden(&format!("{c} beside ä, and a text that is longer than a vector")), expected, "{c:?}");
        }
    }

    #[test]
    fn a_beginning_ends_between_characters() {
        let check = |text: &str, bytes, expected: &str| assert_eq!(beginning(text, bytes), expected);
        check("abc", 0, "");
        check("abc", 2, "ab");
        check("abc", 3, "abc");
        check("abc", usize::MAX, "abc");
        check("aä", 2, "a");
        check("aä", 3, "aä");
    }

    #[test]
    fn what_is_written_out_is_counted() {
        let check = |text: &str, expected: u64| {
            assert_eq!(hidden(text), expected, "{text:?}");
            assert_eq!(hidden(&printable(text)), 0, "{text:?}");
        };
        check("plain\ttext\n", 0);
        check("\u{1b}]52;c;aGk=\u{7}", 2);
        check("\u{e0041}\u{e0042}\u{200b}", 3);
    }

    #[test]
    fn json_keeps_its_value() {
        let text = "{\r\n\"a\": \"<\u{202e}\u{e0041}\u{7f}>\"}";
        let printable = printable_json(text);
        assert_eq!(printable, "{ \n\"a\": \"<\\u202e\\udb40\\udc41\\u007f>\"}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&printable), read(text));
        assert!(matches!(printable_json("{}"), Cow::Borrowed(_)));
    }

    #[test]
    fn harmless_text_is_not_copied() {
        assert!(matches!(printable("hello"), Cow::Borrowed(_)));
    }
}
