//! Quotation of untrusted text on a screen, behind a bar that only the host draws.
//!
//! Every line of such text stands behind the bar and is wrapped to the width of the screen before the terminal wraps
//! it. No text therefore begins a line, and none can pass for a line of the host.

use anyhow::Result;
use fumehood::PrintableLine;
use fumehood::sanitize::printable;
use fumehood_platform::terminal;
use unicode_width::UnicodeWidthChar as _;

use super::{FAINT, line, note, styled};

/// Bar before every line of a tool's text.
const BAR: &str = "│ ";
/// Width of the bar where a terminal draws it wide.
const BAR_CELLS: usize = 3;
/// Maximum number of lines of one text without `--full`: more than the longest description has on a narrow screen.
const MAX_LINES: usize = 150;
/// Assumed width of a screen whose width is not known.
const DEFAULT_WIDTH_CELLS: usize = 80;
/// Minimum assumed width. On a narrower screen the lines are wider than the screen, and still behind the bar.
const MIN_WIDTH_CELLS: usize = 24;
/// Maximum width of a line, however wide the screen is: longer lines are hard to read.
const MAX_WIDTH_CELLS: usize = 110;
/// Width of a space and `…`, which a terminal may draw wide.
const ELLIPSIS_CELLS: usize = 3;
/// Minimum width of the text beside a label.
const MIN_TEXT_CELLS: usize = 8;
/// Minimum width of a screen for wrapping of tables; on a narrower one it makes them worse.
const MIN_TABLE_CELLS: usize = 40;

/// A standard stream to write to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

/// A writer of untrusted text that counts the lines it left out.
pub(crate) struct Quotation {
    stream: Stream,
    width: usize,
    /// True if every line is written.
    full: bool,
    /// Maximum number of lines of one text, unless every line is written.
    max_rows: usize,
    written: usize,
    left_out: usize,
}

impl Quotation {
    /// Creates a quotation for standard output; `full` writes every line, however many there are.
    pub(crate) fn new(full: bool) -> Self {
        let width = terminal::stdout_columns().unwrap_or(DEFAULT_WIDTH_CELLS);
        Self::with_width(Stream::Stdout, width.clamp(MIN_WIDTH_CELLS, MAX_WIDTH_CELLS), full)
    }

    /// Creates a quotation for standard error that writes every line. If that is no terminal, lines are not wrapped,
    /// because a file has no width.
    pub(crate) fn for_stderr() -> Self {
        let width =
            terminal::stderr_columns().map_or(usize::MAX, |width| width.clamp(MIN_WIDTH_CELLS, MAX_WIDTH_CELLS));
        Self::with_width(Stream::Stderr, width, true)
    }

    fn with_width(stream: Stream, width: usize, full: bool) -> Self {
        Self { stream, width, full, max_rows: MAX_LINES, written: 0, left_out: 0 }
    }

    /// Sets the maximum number of lines of one text, unless every line is written.
    pub(crate) fn set_max_rows(&mut self, max_rows: usize) {
        self.max_rows = max_rows;
    }

    /// Returns the number of lines of texts that were written so far.
    pub(crate) fn written(&self) -> usize {
        self.written
    }

    /// Counts lines that the caller leaves out.
    pub(crate) fn leave_out(&mut self, lines: usize) {
        self.left_out += lines;
    }

    /// Returns whether every line is written.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Returns whether a text of the host fits on one line.
    pub(crate) fn fits(&self, text: &str) -> bool {
        text.chars().map(char_cells).sum::<usize>() <= self.width
    }

    /// Writes a text of the host beside its label, or below it if the screen is too narrow for both.
    pub(crate) fn write_fact(&self, label: &str, value: &str) -> Result<()> {
        let whole = format!("{label}{value}");
        if self.fits(&whole) {
            return self.write_line(&whole);
        }
        self.write_line(label.trim_end())?;
        self.write_host_text(4, value)
    }

    /// Returns the number of lines that were left out so far.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Writes a text, every line indented.
    pub(crate) fn write_block(&mut self, indent: usize, text: &str) -> Result<()> {
        self.write_labelled(&" ".repeat(indent), text)
    }

    /// Writes a text of the host in as many lines as the screen needs, every line indented.
    fn write_host_text(&self, indent: usize, text: &str) -> Result<()> {
        let rows = wrap(text, self.width.saturating_sub(indent).max(MIN_TEXT_CELLS));
        rows.iter().try_for_each(|row| self.write_line(&format!("{}{row}", " ".repeat(indent))))
    }

    fn write_line(&self, text: &str) -> Result<()> {
        match self.stream {
            Stream::Stdout => line(text),
            Stream::Stderr => {
                note(text);
                Ok(())
            }
        }
    }

    /// Writes a text behind a styled label of the host.
    pub(crate) fn write_styled(&mut self, label: &str, style: anstyle::Style, text: &str) -> Result<()> {
        let first = styled(style, label);
        let next = " ".repeat(label.chars().count());
        let labels = |at| if at == 0 { first.clone() } else { next.clone() };
        self.write(text, label.chars().count(), labels, |text| text)
    }

    /// Writes the beginning of a text on one line behind a label of the host, with `…` if there is more.
    pub(crate) fn write_beginning(&mut self, label: &str, text: &str) -> Result<()> {
        let cells = self.width.saturating_sub(label.chars().count() + BAR_CELLS + ELLIPSIS_CELLS).max(MIN_TEXT_CELLS);
        let rows = wrap(text, cells);
        let ellipsis = if rows.len() > 1 { " …" } else { "" };
        let beginning = rows.first().map(String::as_str).unwrap_or_default();
        self.write_line(&format!("{label}{}{beginning}{ellipsis}", styled(FAINT, BAR)))
    }

    /// Writes a text with the same styled label of the host before every row.
    pub(crate) fn write_repeated(&mut self, label: &str, style: anstyle::Style, text: &str) -> Result<()> {
        self.write(text, label.chars().count(), |_| styled(style, label), |text| text)
    }

    /// Writes a text behind a label of the host.
    pub(crate) fn write_labelled(&mut self, label: &str, text: &str) -> Result<()> {
        let first = label.to_owned();
        let next = " ".repeat(label.chars().count());
        let labels = |at| if at == 0 { first.clone() } else { next.clone() };
        self.write(text, label.chars().count(), labels, |text| text)
    }

    /// Writes a line of a comparison in a style, with a sign of the host before each of its rows on the screen.
    pub(crate) fn write_signed(&mut self, label: &str, style: anstyle::Style, text: &str) -> Result<()> {
        self.write(text, label.chars().count(), |_| label.to_owned(), |text| styled(style, &text))
    }

    /// Writes the rows of a text. `lead` is the width of the label, in cells.
    fn write(
        &mut self,
        text: &str,
        lead: usize,
        label: impl Fn(usize) -> String,
        style: impl Fn(String) -> String,
    ) -> Result<()> {
        let before = lead + BAR_CELLS;
        let rows = wrap(text, self.width.saturating_sub(before).max(MIN_TEXT_CELLS));
        let shown = if self.full { rows.len() } else { rows.len().min(self.max_rows) };
        for (at, row) in rows.iter().take(shown).enumerate() {
            let row = if row.is_empty() { String::new() } else { style(row.clone()) };
            self.write_line(format!("{}{}{row}", label(at), styled(FAINT, BAR)).trim_end())?;
        }
        self.written += shown;
        let hidden = rows.len() - shown;
        if hidden > 0 {
            self.left_out += hidden;
            self.write_host_text(lead, &format!("… {hidden} more lines; `--full` shows them"))?;
        }
        Ok(())
    }
}

/// Wraps a message for standard error behind `lead` cells before the terminal does, so that text it quotes begins no
/// line. If standard error is no terminal, the message stays as it is.
pub(crate) fn wrap_for_stderr(text: &str, lead: usize) -> String {
    match terminal::stderr_columns() {
        Some(width) => wrap(text, width.saturating_sub(lead).max(MIN_TEXT_CELLS)).join("\n  "),
        None => text.to_owned(),
    }
}

/// Writes a text of the host to standard output in as many lines as the screen needs, every line indented.
pub(crate) fn write_host_text(indent: usize, text: &str) -> Result<()> {
    Quotation::new(true).write_host_text(indent, text)
}

/// Makes a text printable and wraps it to rows of at most `cells` cells, between words where that is possible.
pub(crate) fn wrap(text: &str, cells: usize) -> Vec<String> {
    let text = printable(text.trim_end());
    let mut rows: Vec<String> =
        text.split('\n').flat_map(|line| wrap_line(&line.replace('\t', "    "), cells)).collect();
    // An empty text is one empty row.
    if rows.is_empty() {
        rows.push(String::new());
    }
    rows
}

/// Wraps one line without tabs.
fn wrap_line(line: &str, cells: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut row = String::new();
    let mut used = 0;
    for piece in line.split_inclusive(' ') {
        let word: usize = piece.trim_end_matches(' ').chars().map(char_cells).sum();
        if used > 0 && used + word > cells {
            rows.push(std::mem::take(&mut row));
            used = 0;
        }
        for c in piece.chars() {
            if used + char_cells(c) > cells {
                rows.push(std::mem::take(&mut row));
                used = 0;
                if c == ' ' {
                    continue;
                }
            }
            row.push(c);
            used += char_cells(c);
        }
    }
    rows.push(row);
    rows.iter().map(|row| row.trim_end().to_owned()).collect()
}

/// Returns the maximum number of cells that any terminal gives a character. It is never 0: a terminal that does not
/// combine a mark with the letter before it gives the mark a cell, and a flood of marks fills lines as letters do.
fn char_cells(c: char) -> usize {
    c.width_cjk().unwrap_or(1).max(1)
}

/// Returns the maximum width of a table row, in cells; `None` if standard output is no terminal, because a file has no
/// width, or if the terminal is too narrow for wrapping to help.
pub(crate) fn screen_width() -> Option<usize> {
    let width = terminal::stdout_columns()?;
    Some(width.min(MAX_WIDTH_CELLS)).filter(|width| *width >= MIN_TABLE_CELLS)
}

/// Joins a text to one line of printable characters.
pub(crate) fn one_line(text: &str) -> String {
    PrintableLine::from(text).into()
}

/// Makes a text printable and indents every line after the first. Otherwise a guest could begin a line that looks like
/// one of the host.
pub(crate) fn indent_continuations(text: &str, indent: &str) -> String {
    printable(text.trim_end()).replace('\n', &format!("\n{indent}"))
}

/// Splits a text into its paragraphs, each on one line.
pub(crate) fn paragraphs(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let paragraphs = lines.split(|line| line.is_empty());
    paragraphs.map(|lines| one_line(&lines.join(" "))).filter(|paragraph| !paragraph.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_wrapped(text: &str, cells: usize, expected: &[&str]) {
        let rows = wrap(text, cells);
        assert_eq!(rows, expected, "{text:?}");
        assert!(rows.iter().all(|row| row.chars().map(char_cells).sum::<usize>() <= cells), "{rows:?}");
    }

    #[test]
    fn wraps_to_the_width_of_the_screen() {
        assert_wrapped("", 10, &[""]);
        assert_wrapped("one two three", 8, &["one two", "three"]);
        assert_wrapped("  set in", 20, &["  set in"]);
        assert_wrapped("unbreakable word", 5, &["unbre", "akabl", "e", "word"]);
        assert_wrapped("a\n\n\tb\n", 10, &["a", "", "    b"]);
        assert_wrapped("漢字漢字 a", 5, &["漢字", "漢字", "a"]);
        assert_wrapped("\u{1b}[2J", 10, &["\\u{1b}[2J"]);
        assert_wrapped(&" ".repeat(25), 10, &[""]);
        assert_wrapped(&format!("{}x", " ".repeat(25)), 10, &["", "", "   x"]);
    }

    #[test]
    fn bounds_combining_marks() {
        let rows = wrap(&format!("a{}", "\u{301}".repeat(99)), 10);
        assert_eq!(rows.len(), 10);
    }

    #[test]
    fn indents_continuation_lines() {
        assert_eq!(indent_continuations("ok\nerror: forged\n", "    "), "ok\n    error: forged");
        assert_eq!(one_line("a\nb\t c\u{1b}"), "a b c\\u{1b}");
        assert_eq!(paragraphs("one\ntwo\n\n\n three\n"), ["one two", "three"]);
    }
}
