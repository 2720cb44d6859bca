//! Text of any length on a screen of some width.

use fumehood::sanitize::printable;

/// Lines longer than this are hard to read, however wide the screen is.
const WIDEST: usize = 110;
/// On a screen narrower than this, wrapping makes things worse.
const NARROWEST: usize = 40;

/// Maximum width of lines; `None` if standard output is no terminal, because a file has no edge.
pub(crate) fn width() -> Option<usize> {
    let width = comfy_table::Table::new().width()?;
    Some(usize::from(width).min(WIDEST)).filter(|width| *width >= NARROWEST)
}

/// The text on one line, in characters that a reader can see.
pub(crate) fn one_line(text: &str) -> String {
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// The text as a guest laid it out, but with every line after the first set in. Without that, a guest could begin a
/// line that looks like one of ours.
pub(crate) fn set_in(text: &str, indent: &str) -> String {
    printable(text.trim_end()).replace('\n', &format!("\n{indent}"))
}

/// The paragraphs of a text, each on one line.
pub(crate) fn paragraphs(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let paragraphs = lines.split(|line| line.is_empty());
    paragraphs.map(|lines| one_line(&lines.join(" "))).filter(|paragraph| !paragraph.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_cannot_begin_a_line() {
        assert_eq!(set_in("ok\nerror: forged\n", "    "), "ok\n    error: forged");
        assert_eq!(one_line("a\nb\t c\u{1b}"), "a b c\\u{1b}");
        assert_eq!(paragraphs("one\ntwo\n\n\n three\n"), ["one two", "three"]);
    }
}
