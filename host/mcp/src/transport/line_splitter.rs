//! A splitter of bytes into lines of limited length.

use tokio_util::bytes::BytesMut;

/// A line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its line feed.
    Whole(BytesMut),
    /// A line over the maximum length. Its bytes are dropped, and it is reported once.
    TooLong,
}

/// A splitter of input into lines. Holds at most one line of maximum length and one read.
pub(crate) struct LineSplitter {
    buffer: BytesMut,
    /// Number of bytes at the start of the buffer that contain no line feed.
    searched: usize,
    /// True while the rest of a line that was too long is skipped.
    skipping: bool,
    max_line_bytes: usize,
}

impl LineSplitter {
    /// Creates a splitter for lines of at most `max_line_bytes`.
    pub(crate) fn new(max_line_bytes: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, skipping: false, max_line_bytes }
    }

    /// Returns the maximum length of a line, in bytes.
    pub(crate) fn max_line_bytes(&self) -> usize {
        self.max_line_bytes
    }

    /// Returns the buffer to read into.
    pub(crate) fn read_buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(8 << 10);
        &mut self.buffer
    }

    /// Returns the next line, or `None` if more has to be read.
    pub(crate) fn next_line(&mut self) -> Option<Line> {
        let rest = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(found) = rest.iter().position(|byte| *byte == b'\n') else {
            return self.take_incomplete();
        };
        let mut line = self.buffer.split_to(self.searched + found + 1);
        self.searched = 0;
        line.truncate(line.len() - 1);
        if std::mem::take(&mut self.skipping) {
            return self.next_line();
        }
        Some(if line.len() > self.max_line_bytes { Line::TooLong } else { Line::Whole(line) })
    }

    fn take_incomplete(&mut self) -> Option<Line> {
        self.searched = self.buffer.len();
        if self.skipping || self.searched > self.max_line_bytes {
            self.buffer = BytesMut::new();
            self.searched = 0;
            return (!std::mem::replace(&mut self.skipping, true)).then_some(Line::TooLong);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads in pieces of `size`, and collects the lines: `!` is one that was too long.
    fn check(input: &str, size: usize, expected: &[&str]) {
        let mut lines = LineSplitter::new(4);
        let mut found = Vec::new();
        for piece in input.as_bytes().chunks(size) {
            lines.read_buffer().extend_from_slice(piece);
            while let Some(line) = lines.next_line() {
                found.push(match line {
                    Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                    Line::TooLong => "!".to_owned(),
                });
            }
        }
        assert_eq!(found, expected, "{input:?} in pieces of {size}");
    }

    #[test]
    fn splits_lines_in_pieces_of_any_size() {
        for size in 1..20 {
            check("a\nbc\n\nabcd\nrest", size, &["a", "bc", "", "abcd"]);
            check("abcde\nab\n", size, &["!", "ab"]);
            check("abcdefghijklmno\nab\nabcdefghij\nx\n", size, &["!", "ab", "!", "x"]);
        }
    }

    #[test]
    fn drops_an_endless_line() {
        let mut lines = LineSplitter::new(16);
        for _ in 0..1000 {
            lines.read_buffer().extend_from_slice(&[b'x'; 1000]);
            lines.next_line();
            assert!(lines.buffer.len() <= 16);
        }
    }
}
