//! One line with the styles of this command, whatever text it is made of.

use std::borrow::Cow;

use fumehood::sanitize::{count_hidden, printable};

use super::STYLES;

/// Returns the text on one line: line breaks become spaces, and hidden characters are escaped, except the styles of this
/// command. A name or a path within it can neither draw a line nor control the terminal.
pub(super) fn to_line(text: &str) -> Cow<'_, str> {
    if !text.contains('\n') && count_hidden(text) == 0 {
        return Cow::Borrowed(text);
    }
    let sequences: Vec<String> =
        STYLES.iter().flat_map(|style| [style.render().to_string(), style.render_reset().to_string()]).collect();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (plain, from_escape) = rest.split_at(at);
        out.push_str(&escape(plain));
        let style = sequences.iter().find(|sequence| from_escape.starts_with(sequence.as_str()));
        match style {
            Some(style) => out.push_str(style),
            None => out.push_str(&escape("\u{1b}")),
        }
        rest = from_escape.get(style.map_or(1, String::len)..).unwrap_or_default();
    }
    out.push_str(&escape(rest));
    Cow::Owned(out)
}

fn escape(text: &str) -> String {
    printable(&text.replace('\n', " ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::{BAD, styled};
    use super::*;

    #[test]
    fn text_within_a_line_does_not_end_it_and_keeps_its_styles() {
        assert!(matches!(to_line("plain ä"), Cow::Borrowed(_)));
        let red = styled(BAD, "no");
        assert_eq!(to_line(&red), red);
        let evil = format!("{red} a\nfake\r\u{1b}[2Jb\u{1b}]0;c\u{7}\u{85}d");
        let expected = format!("{red} a fake\\u{{d}}\\u{{1b}}[2Jb\\u{{1b}}]0;c\\u{{7}}\\u{{85}}d");
        assert_eq!(to_line(&evil), expected);
        assert_eq!(to_line("\u{1b}"), "\\u{1b}");
    }
}
