//! `fumehood log export`: writes records as JSON Lines.

use std::io::{BufWriter, Write};

use anyhow::{Context as _, Result};
use fumehood::event_log::{ExportError, Reader};

use super::to_filter;
use crate::args::log::Export;
use crate::exit::Exit;

pub(super) fn run(reader: &Reader, export: &Export) -> Result<Exit> {
    let mut filter = to_filter(&export.filters);
    filter.limit = export.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut out = PrintableWriter { line: Vec::new(), out: BufWriter::new(std::io::stdout().lock()) };
    match reader.export(&filter, &mut out) {
        // The reader of the pipe has seen enough: that is no failure.
        Err(ExportError::Write(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
        Err(ExportError::Write(error)) => Err(error).context("cannot write to standard output"),
        Err(ExportError::Read(error)) => Err(error.into()),
        Ok(_) => Ok(Exit::Ok),
    }
}

/// A writer of JSON Lines that escapes characters which control a terminal.
struct PrintableWriter<W: Write> {
    line: Vec<u8>,
    out: W,
}

impl<W: Write> Write for PrintableWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&self.line);
                self.out.write_all(fumehood::sanitize::printable_json(&line).as_bytes())?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_a_line_written_in_pieces() {
        let mut out = PrintableWriter { line: Vec::new(), out: Vec::new() };
        let line = "{\"a\":\"\u{9b}31m\"}\n{\"b\":1}\n".as_bytes();
        for piece in line.chunks(1) {
            out.write_all(piece).unwrap();
        }
        assert_eq!(String::from_utf8(out.out).unwrap(), "{\"a\":\"\\u009b31m\"}\n{\"b\":1}\n");
    }
}
