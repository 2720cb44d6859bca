//! The tool `read`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use fumehood_guest::{ToolError, tool};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::io_failure;
use crate::grants;

/// Maximum length of a line, in bytes. A longer one is split into pieces of this size, each of which counts as a line.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 10;

/// Some lines of a file.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Lines {
    /// The lines, with their line breaks.
    pub text: String,
    /// The number of the first one.
    pub first_line: u64,
    /// The `from_line` of the next part; null at the end of the file.
    pub next_line: Option<u64>,
}

/// Reads lines of a text file.
#[tool(title = "Read a file", read_only, idempotent, open_world = false)]
pub fn read(
    /// The absolute path of the file.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// The first line to return, counted from 1.
    #[default(1)]
    #[schemars(range(min = 1, max = 4294967295_u64))]
    from_line: u64,
    /// Maximum number of lines to return.
    #[default(500)]
    #[schemars(range(min = 1, max = 10000))]
    lines: u64,
    /// Maximum number of bytes to return. A line is never split, unless it alone is longer.
    #[default(65536)]
    #[schemars(range(min = 64, max = 262144))]
    max_bytes: usize,
) -> Result<Lines, ToolError> {
    let path = grants::check_path(&path)?;
    let mut reader = open(&path)?;
    let mut line = Vec::new();
    for number in 1..from_line {
        if !next_line(&mut reader, &mut line, &path)? {
            let message = format!("`{}` has only {} lines", path.display(), number - 1);
            return Err(ToolError::invalid_arguments(message));
        }
    }
    let mut text = String::new();
    let mut number = from_line;
    while next_line(&mut reader, &mut line, &path)? {
        let piece = text_of(&line, &path)?;
        if number - from_line == lines || (!text.is_empty() && text.len() + piece.len() > max_bytes) {
            return Ok(Lines { text, first_line: from_line, next_line: Some(number) });
        }
        text.push_str(truncate(piece, max_bytes));
        number += 1;
    }
    Ok(Lines { text, first_line: from_line, next_line: None })
}

/// Opens a file, which must not be a folder.
pub(crate) fn open(path: &Path) -> Result<BufReader<File>, ToolError> {
    let file = File::open(path).map_err(|error| io_failure("read", path, &error))?;
    let is_folder = file.metadata().map_err(|error| io_failure("read", path, &error))?.is_dir();
    if is_folder {
        let message = format!("`{}` is a folder; `list` lists its contents", path.display());
        return Err(ToolError::invalid_arguments(message));
    }
    Ok(BufReader::with_capacity(MAX_LINE_BYTES, file))
}

/// Reads a line with its line break into `line`. Returns `false` at the end of the file.
pub(crate) fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>, path: &Path) -> Result<bool, ToolError> {
    line.clear();
    let read = reader.take(MAX_LINE_BYTES as u64).read_until(b'\n', line);
    Ok(read.map_err(|error| io_failure("read", path, &error))? > 0)
}

fn text_of<'a>(line: &'a [u8], path: &Path) -> Result<&'a str, ToolError> {
    let not_text = || ToolError::failed(format!("`{}` is not UTF-8 text; this tool reads text only", path.display()));
    match std::str::from_utf8(line) {
        Ok(text) if !text.contains('\0') => Ok(text),
        // A long line may have been split in the middle of a character.
        Err(error) if error.error_len().is_none() && line.len() >= MAX_LINE_BYTES => {
            std::str::from_utf8(line.get(..error.valid_up_to()).unwrap_or_default()).map_err(|_| not_text())
        }
        _ => Err(not_text()),
    }
}

/// Returns the beginning of a text, of at most `bytes` bytes.
fn truncate(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use fumehood_guest::FailureKind;

    use super::*;
    use crate::grants::tests::Folder;

    fn lines(text: &str, from: u64, lines: u64, bytes: usize) -> (String, Option<u64>) {
        let folder = Folder::with(&[("a.txt", text)]);
        let read = read(folder.path("a.txt"), from, lines, bytes).unwrap();
        assert_eq!(read.first_line, from);
        (read.text, read.next_line)
    }

    #[test]
    fn reads_a_file_in_parts() {
        let text = "one\ntwo\nthree";
        assert_eq!(lines(text, 1, 500, 1000), (text.to_owned(), None));
        assert_eq!(lines(text, 1, 2, 1000), ("one\ntwo\n".to_owned(), Some(3)));
        assert_eq!(lines(text, 3, 2, 1000), ("three".to_owned(), None));
        assert_eq!(lines(text, 1, 500, 8), ("one\ntwo\n".to_owned(), Some(3)));
        assert_eq!(lines(text, 1, 500, 7), ("one\n".to_owned(), Some(2)));
        assert_eq!(lines("", 1, 500, 64), (String::new(), None));
        assert_eq!(lines("ää\n", 1, 500, 3), ("ä".to_owned(), None));
    }

    #[test]
    fn splits_an_endless_line() {
        let text = "x".repeat(MAX_LINE_BYTES + 10);
        assert_eq!(lines(&text, 2, 1, 64), ("x".repeat(10), None));
    }

    #[test]
    fn reports_why_a_file_cannot_be_read() {
        let folder = Folder::with(&[("a.txt", "one\n"), ("b.png", "a\0b"), ("c/d", "")]);
        let error = |path: &str, from| read(folder.path(path), from, 10, 100).unwrap_err();
        assert!(error("a.txt", 3).message().contains("has only 1 lines"));
        assert!(error("b.png", 1).message().contains("not UTF-8 text"));
        assert!(error("c", 1).message().contains("is a folder"));
        assert!(error("absent", 1).message().contains("there is no"));
        assert_eq!(read("/etc/passwd".to_owned(), 1, 1, 64).unwrap_err().kind(), FailureKind::Denied);
    }
}
