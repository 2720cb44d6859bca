//! Bytes into lines, with a max_line_bytes length.

use tokio_util::bytes::BytesMut;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Without its line feed.
    Whole(BytesMut),
    /// It was longer than allowed. It is gone, and told of once.
    TooLong,
}

/// Takes lines out of what was read. Holds at most the max_line_bytes line and one read.
pub(crate) struct LineSplitter {
    buffer: BytesMut,
    /// Bytes at the start of the buffer that hold no line feed.
    searched: usize,
    /// Whether the rest of a line that was too long is still to come.
    skipping: bool,
    max_line_bytes: usize,
}

impl LineSplitter {
    /// LineTransport of at most `max_line_bytes` bytes.
    pub(crate) fn new(max_line_bytes: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, skipping: false, max_line_bytes }
    }

    /// The max_line_bytes line, in bytes.
    pub(crate) fn max_line_bytes(&self) -> usize {
        self.max_line_bytes
    }

    /// Where to read to.
    pub(crate) fn read_buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(8 << 10);
        &mut self.buffer
    }

    /// The next line; `None`: read more.
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

    /// Reads in pieces of `size`, and writes down the lines: `!` is one that was too long.
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
    fn lines_come_out_however_they_come_in() {
        for size in 1..20 {
            check("a\nbc\n\nabcd\nrest", size, &["a", "bc", "", "abcd"]);
            check("abcde\nab\n", size, &["!", "ab"]);
            check("abcdefghijklmno\nab\nabcdefghij\nx\n", size, &["!", "ab", "!", "x"]);
        }
    }

    #[test]
    fn a_line_that_never_ends_is_not_kept() {
        let mut lines = LineSplitter::new(16);
        for _ in 0..1000 {
            lines.read_buffer().extend_from_slice(&[b'x'; 1000]);
            lines.next_line();
            assert!(lines.buffer.len() <= 16);
        }
    }
}
