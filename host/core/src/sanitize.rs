//! Text that a guest made, on its way to a person or a log: what could steer a terminal or hide from a reader is
//! written out, and what is too long is cut.

use std::borrow::Cow;

/// The text with every control, bidirectional, invisible or private-use character replaced by `\u{…}`.
///
/// Line breaks and tabs stay. A text without such characters is returned as it is, without a copy.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
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

/// Whether a reader would not see the character, or a terminal would act on it.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        c if c.is_control() => true,
        '\u{ad}' // soft hyphen
        | '\u{61c}' // Arabic letter mark
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // Hangul fillers
        | '\u{180b}'..='\u{180f}' // Mongolian variation selectors
        | '\u{200b}'..='\u{200f}' // zero width, direction marks
        | '\u{2028}'..='\u{202e}' // separators, embeddings and overrides
        | '\u{2060}'..='\u{206f}' // word joiner, isolates, deprecated controls
        | '\u{fe00}'..='\u{fe0f}' // variation selectors
        | '\u{feff}' // byte order mark
        | '\u{fff0}'..='\u{fffb}' // specials, interlinear annotation
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
        check("\u{fdd0}", "\u{fdd0}");
        check("\u{ffff}", "\\u{ffff}");
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
    fn harmless_text_is_not_copied() {
        assert!(matches!(printable("hello"), Cow::Borrowed(_)));
    }
}
