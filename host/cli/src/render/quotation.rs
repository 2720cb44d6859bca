//! Text of tools on a screen, behind a bar that only the host draws.
//!
//! Every line of such text stands behind the bar, and is cut to the width of the screen before the screen can do it. So no
//! text, however it is made, begins a line, and none can pass for a line of the host.

use anyhow::Result;
use fumehood::sanitize::printable;
use unicode_width::UnicodeWidthChar as _;

use super::{FAINT, line, note, styled};

/// Stands before every line of a tool's text.
const BAR: &str = "│ ";
/// Cells of the bar where a terminal draws it wide.
const BAR_CELLS: usize = 3;
/// Lines of one text that are shown unless all are wanted: more than the longest description has on a narrow screen.
const MAX_LINES: usize = 150;
/// Cells of a screen whose width is not known.
const DEFAULT_WIDTH: usize = 80;
/// Fewer cells than this are taken for this many: what is written then is wider than the screen, and still behind the bar.
const MIN_WIDTH: usize = 24;
/// Longer lines are hard to read.
const MAX_WIDTH: usize = 110;
/// Cells of text beside the longest label.
const MIN_TEXT: usize = 8;

/// The stream that is written to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

/// Writes untrusted text, and counts what it left out.
pub(crate) struct Quotation {
    stream: Stream,
    width: usize,
    /// Whether every line is written.
    full: bool,
    left_out: usize,
}

impl Quotation {
    /// For the screen that standard output is; `full` writes every line, however many there are.
    pub(crate) fn new(full: bool) -> Self {
        let width = columns(std::io::stdout()).unwrap_or(DEFAULT_WIDTH);
        Self { stream: Stream::Stdout, width: width.clamp(MIN_WIDTH, MAX_WIDTH), full, left_out: 0 }
    }

    /// For the screen that standard error is, with every line. Where it is none, lines are as long as they were made: a file
    /// has no edge.
    pub(crate) fn for_stderr() -> Self {
        let width = columns(std::io::stderr()).map_or(usize::MAX, |width| width.clamp(MIN_WIDTH, MAX_WIDTH));
        Self { stream: Stream::Stderr, width, full: true, left_out: 0 }
    }

    /// Returns whether every line is written.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Returns whether words of the host fit on one line.
    pub(crate) fn fits(&self, text: &str) -> bool {
        text.chars().map(width).sum::<usize>() <= self.width
    }

    /// A fact of the host's own, beside its label where the screen has room for both.
    pub(crate) fn fact(&self, label: &str, value: &str) -> Result<()> {
        let whole = format!("{label}{value}");
        if self.fits(&whole) {
            return self.line(&whole);
        }
        self.line(label.trim_end())?;
        self.own(4, value)
    }

    /// Lines that were left out so far.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// A text below its heading.
    pub(crate) fn block(&mut self, indent: usize, text: &str) -> Result<()> {
        self.labelled(&" ".repeat(indent), text)
    }

    /// Words of the host in as many lines as the screen needs, every line set in.
    fn own(&self, indent: usize, text: &str) -> Result<()> {
        let rows = rows(text, self.width.saturating_sub(indent).max(MIN_TEXT));
        rows.iter().try_for_each(|row| self.line(&format!("{}{row}", " ".repeat(indent))))
    }

    fn line(&self, text: &str) -> Result<()> {
        match self.stream {
            Stream::Stdout => line(text),
            Stream::Stderr => {
                note(text);
                Ok(())
            }
        }
    }

    /// A text behind words of the host, in their style.
    pub(crate) fn styled(&mut self, label: &str, style: anstyle::Style, text: &str) -> Result<()> {
        let (first, next) = (styled(style, label), " ".repeat(label.chars().count()));
        let labels = |at| if at == 0 { first.clone() } else { next.clone() };
        self.write(text, label.chars().count(), labels, |text| text)
    }

    /// A text whose every row stands behind the same words of the host.
    pub(crate) fn repeated(&mut self, label: &str, style: anstyle::Style, text: &str) -> Result<()> {
        self.write(text, label.chars().count(), |_| styled(style, label), |text| text)
    }

    /// A text behind words of the host.
    pub(crate) fn labelled(&mut self, label: &str, text: &str) -> Result<()> {
        let (first, next) = (label.to_owned(), " ".repeat(label.chars().count()));
        let labels = |at| if at == 0 { first.clone() } else { next.clone() };
        self.write(text, label.chars().count(), labels, |text| text)
    }

    /// A line of a comparison, with a sign of the host before each of its rows on the screen.
    pub(crate) fn signed(&mut self, label: &str, style: anstyle::Style, text: &str) -> Result<()> {
        self.write(text, label.chars().count(), |_| label.to_owned(), |text| styled(style, &text))
    }

    /// Writes the rows of a text. `lead` is the number of cells of a label.
    fn write(
        &mut self,
        text: &str,
        lead: usize,
        label: impl Fn(usize) -> String,
        dress: impl Fn(String) -> String,
    ) -> Result<()> {
        let before = lead + BAR_CELLS;
        let rows = rows(text, self.width.saturating_sub(before).max(MIN_TEXT));
        let shown = if self.full { rows.len() } else { rows.len().min(MAX_LINES) };
        for (at, row) in rows.iter().take(shown).enumerate() {
            let row = if row.is_empty() { String::new() } else { dress(row.clone()) };
            self.line(format!("{}{}{row}", label(at), styled(FAINT, BAR)).trim_end())?;
        }
        let hidden = rows.len() - shown;
        if hidden > 0 {
            self.left_out += hidden;
            self.own(lead, &format!("… {hidden} more lines, which `--full` shows"))?;
        }
        Ok(())
    }
}

/// The width of the terminal that a stream is, and not of another one of the process; `None` if it is none.
fn columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// A message for standard error behind `lead` cells, broken before a terminal does it, so that what it quotes begins no line.
/// Where standard error is no terminal, the message stays as it is.
pub(crate) fn unbroken(text: &str, lead: usize) -> String {
    match columns(std::io::stderr()) {
        Some(width) => rows(text, width.saturating_sub(lead).max(MIN_TEXT)).join("\n  "),
        None => text.to_owned(),
    }
}

/// Words of the host in as many lines as the screen needs, every line set in.
pub(crate) fn own(indent: usize, text: &str) -> Result<()> {
    Quotation::new(true).own(indent, text)
}

/// The lines of a printable text, each of at most so many cells. Broken between words where that is possible.
fn rows(text: &str, cells: usize) -> Vec<String> {
    let text = printable(text.trim_end());
    let mut rows: Vec<String> = text.split('\n').flat_map(|line| row(&line.replace('\t', "    "), cells)).collect();
    // An empty text is one empty row.
    if rows.is_empty() {
        rows.push(String::new());
    }
    rows
}

/// One line of a text, without tabs.
fn row(line: &str, cells: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let (mut row, mut used) = (String::new(), 0);
    for piece in line.split_inclusive(' ') {
        let word: usize = piece.trim_end_matches(' ').chars().map(width).sum();
        if used > 0 && used + word > cells {
            rows.push(std::mem::take(&mut row));
            used = 0;
        }
        for c in piece.chars() {
            if used + width(c) > cells {
                rows.push(std::mem::take(&mut row));
                used = 0;
                if c == ' ' {
                    continue;
                }
            }
            row.push(c);
            used += width(c);
        }
    }
    rows.push(row);
    rows.iter().map(|row| row.trim_end().to_owned()).collect()
}

/// The most cells that any terminal gives a character. None counts for nothing: a terminal that does not combine a mark
/// with the letter before it gives it a cell, and a flood of marks fills lines as letters do.
fn width(c: char) -> usize {
    c.width_cjk().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_is_wider_than_the_screen() {
        let check = |text: &str, cells: usize, expected: &[&str]| {
            let rows = rows(text, cells);
            assert_eq!(rows, expected, "{text:?}");
            assert!(rows.iter().all(|row| row.chars().map(width).sum::<usize>() <= cells), "{rows:?}");
        };
        check("", 10, &[""]);
        check("one two three", 8, &["one two", "three"]);
        check("  set in", 20, &["  set in"]);
        check("unbreakable word", 5, &["unbre", "akabl", "e", "word"]);
        check("a\n\n\tb\n", 10, &["a", "", "    b"]);
        check("漢字漢字 a", 5, &["漢字", "漢字", "a"]);
        check("\u{1b}[2J", 10, &["\\u{1b}[2J"]);
        check(&" ".repeat(25), 10, &[""]);
        check(&format!("{}x", " ".repeat(25)), 10, &["", "", "   x"]);
    }

    #[test]
    fn marks_without_a_width_of_their_own_are_bounded_too() {
        let rows = rows(&format!("a{}", "\u{301}".repeat(99)), 10);
        assert_eq!(rows.len(), 10);
    }
}
