//! Text on one line.

use std::fmt;
use std::ops::Deref;
use std::path::Path;

use super::sanitize::printable;

/// Printable text on one line: [hidden characters](super::sanitize::is_hidden) are escaped, and white space, line breaks
/// included, is one space. So a name or a message of others cannot begin a line that looks like one of the host, or move
/// the columns beside it.
///
/// ```
/// use fumehood_core::text::line::PrintableLine;
///
/// assert_eq!(&*PrintableLine::from("a\n  error: b\u{1b}[2J"), "a error: b\\u{1b}[2J");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrintableLine(String);

impl From<&str> for PrintableLine {
    fn from(text: &str) -> Self {
        let words: Vec<&str> = text.split_whitespace().collect();
        Self(printable(&words.join(" ")).into_owned())
    }
}

impl From<&String> for PrintableLine {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&Path> for PrintableLine {
    /// Bytes of the path that are not UTF-8 become U+FFFD.
    fn from(path: &Path) -> Self {
        Self::from(&*path.to_string_lossy())
    }
}

impl From<PrintableLine> for String {
    fn from(line: PrintableLine) -> Self {
        line.0
    }
}

impl Deref for PrintableLine {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PrintableLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Pads to the width of a column.
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_break_of_a_line_becomes_a_space_or_an_escape() {
        let breaks = ["\n", "\r\n", "\r", "\n\n\t ", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{2029}", "\u{1b}[1E"];
        for text in breaks {
            let line = PrintableLine::from(format!("a{text}b").as_str());
            assert!(line.chars().all(|c| c == ' ' || c.is_ascii_graphic()), "{text:?}: {line}");
            assert!(line.starts_with('a') && line.ends_with('b'), "{line}");
        }
    }

    #[test]
    fn a_line_fills_a_column() {
        assert_eq!(format!("{:<6}|", PrintableLine::from("a\nb")), "a b   |");
        assert_eq!(&*PrintableLine::from(Path::new("a\nb/c")), "a b/c");
        assert_eq!(String::from(PrintableLine::from("")), "");
    }
}
