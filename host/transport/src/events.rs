//! Bodies that are streams of events: a limit on each event and on their number, and pieces that end where an event does.

use bytes::{Bytes, BytesMut};
use futures_util::Stream;

use crate::error::TransportError;
use crate::response::Response;

/// The framing of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events, which end with an empty line. Lines end with CR, LF or CRLF (HTML Standard, section 9.2.5).
    ServerSent,
    /// One event on each line.
    Lines,
}

/// Limits of a stream of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventLimits {
    /// The framing.
    pub framing: Framing,
    /// Maximum size of one event as it is sent, without the ends of its lines, in bytes.
    pub max_event_bytes: usize,
    /// Maximum number of events, comments among them.
    pub max_events: u64,
    /// Maximum number of commas and opening brackets and braces of one event, in texts or not. An event of JSON has no more
    /// values than that and one more, each of which takes many times its size when it is parsed.
    pub max_values: usize,
}

/// The pieces of a stream of events. Each is the end of an event and perhaps further events, so that a reader never joins an
/// event from many small pieces.
#[derive(Debug)]
pub struct EventPieces {
    response: Response,
    scanner: Scanner,
    /// The beginning of an event.
    pending: BytesMut,
}

impl EventPieces {
    /// Reads the body of a response as a stream of events.
    #[must_use]
    pub fn new(response: Response, limits: EventLimits) -> Self {
        Self { response, scanner: Scanner::new(limits), pending: BytesMut::new() }
    }

    /// Waits for the next piece. Returns `None` at the end of the stream.
    ///
    /// # Errors
    /// If a limit is exceeded, or the connection ends.
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, TransportError> {
        while let Some(chunk) = self.response.chunk().await? {
            let end = self.scanner.scan(&chunk)?;
            let before = self.pending.len();
            self.pending.extend_from_slice(&chunk);
            if let Some(end) = end {
                return Ok(Some(self.pending.split_to(before.saturating_add(end)).freeze()));
            }
        }
        // An event that the connection ended before its empty line.
        let rest = std::mem::take(&mut self.pending).freeze();
        Ok(Some(rest).filter(|rest| !rest.is_empty()))
    }

    /// Returns the pieces as a stream, which ends at the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, TransportError>> + Send {
        futures_util::stream::unfold(Some(self), |pieces| async move {
            let mut pieces = pieces?;
            match pieces.next_piece().await {
                Ok(piece) => Some((Ok(piece?), Some(pieces))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

/// A scanner for the ends of events.
#[derive(Debug)]
struct Scanner {
    limits: EventLimits,
    /// Number of bytes of the event so far.
    event: usize,
    /// Number of its bytes that may begin a value.
    values: usize,
    /// Number of bytes of its line so far.
    line: usize,
    events: u64,
    after_return: bool,
}

impl Scanner {
    fn new(limits: EventLimits) -> Self {
        Self { limits, event: 0, values: 0, line: 0, events: 0, after_return: false }
    }

    /// Scans a chunk. Returns the position after the last end of an event in it, if there is one.
    fn scan(&mut self, chunk: &[u8]) -> Result<Option<usize>, TransportError> {
        let mut end = None;
        for (at, byte) in chunk.iter().enumerate() {
            let is_rest_of_end = std::mem::replace(&mut self.after_return, *byte == b'\r') && *byte == b'\n';
            let is_end_of_line = matches!(byte, b'\n' | b'\r');
            if is_end_of_line && is_rest_of_end {
                continue;
            }
            if !is_end_of_line {
                self.count_byte(*byte)?;
                continue;
            }
            if self.line == 0 || self.limits.framing == Framing::Lines {
                end = Some(at.saturating_add(1));
                self.count_event()?;
            }
            self.line = 0;
        }
        Ok(end)
    }

    fn count_byte(&mut self, byte: u8) -> Result<(), TransportError> {
        self.line = self.line.saturating_add(1);
        self.event = self.event.saturating_add(1);
        self.values = self.values.saturating_add(usize::from(matches!(byte, b',' | b'[' | b'{')));
        if self.event > self.limits.max_event_bytes {
            return Err(TransportError::EventTooLarge(self.limits.max_event_bytes));
        }
        if self.values > self.limits.max_values {
            return Err(TransportError::TooManyValues(self.limits.max_values));
        }
        Ok(())
    }

    /// Counts the event that ends here; further empty lines are none.
    fn count_event(&mut self) -> Result<(), TransportError> {
        self.values = 0;
        if std::mem::take(&mut self.event) > 0 {
            self.events = self.events.saturating_add(1);
        }
        if self.events > self.limits.max_events {
            return Err(TransportError::TooManyEvents(self.limits.max_events));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanner(framing: Framing, max_event_bytes: usize, max_events: u64) -> Scanner {
        Scanner::new(EventLimits { framing, max_event_bytes, max_events, max_values: 5 })
    }

    #[test]
    fn counts_the_bytes_of_each_event() {
        for (stream, admitted) in [
            ("data:1\n\ndata:2\n\ndata:3\n\n", true),
            ("data:1\r\n\r\ndata:2\r\n\r\n", true),
            ("data:1\r\rdata:2\r\r", true),
            ("data:1\ndata:2\n\n", false),
            ("data:1\r\ndata:2\r\n", false),
            ("data:12345", false),
        ] {
            for size in 1..stream.len() {
                let mut scanner = scanner(Framing::ServerSent, 9, 10);
                let all = stream.as_bytes().chunks(size).all(|chunk| scanner.scan(chunk).is_ok());
                assert_eq!(all, admitted, "{stream:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn counts_events_and_comments_but_no_empty_lines() {
        let mut few = scanner(Framing::ServerSent, 9, 2);
        assert!(few.scan(b"\n\n\n\r\n: a\n\n\n\ndata:1\n\n\n").is_ok());
        assert!(matches!(few.scan(b": b\n\n"), Err(TransportError::TooManyEvents(2))));
        let mut lines = scanner(Framing::Lines, 9, 2);
        assert!(lines.scan(b"{}\r\n{}\n").is_ok());
        assert!(lines.scan(b"{}\n").is_err());
    }

    #[test]
    fn counts_what_may_be_values_of_one_event() {
        let mut scanner = scanner(Framing::Lines, 100, 100);
        assert!(scanner.scan(b"[1,2,3,4]\n[{\"a\":[0,1]}]\n").is_ok());
        assert!(matches!(scanner.scan(b"[0,0,0,0,0,"), Err(TransportError::TooManyValues(5))));
    }

    #[test]
    fn finds_the_last_end_of_an_event() {
        for (framing, chunk, expected) in [
            (Framing::ServerSent, "data:1\n\ndata:2\n\nda", Some(16)),
            (Framing::ServerSent, "data:1\n", None),
            (Framing::ServerSent, "data:1\r\n\r\n", Some(9)),
            (Framing::Lines, "{}\n{}\n{", Some(6)),
            (Framing::Lines, "{", None),
        ] {
            let found = scanner(framing, 100, 100).scan(chunk.as_bytes()).unwrap();
            assert_eq!(found, expected, "{chunk:?}");
        }
    }
}
