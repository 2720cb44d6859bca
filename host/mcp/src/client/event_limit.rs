//! A limit on the size of one event in a stream of server-sent events.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio_util::bytes::Bytes;

/// A byte stream of events that fails at the first event that is too large.
pub(crate) struct EventLimit<S> {
    inner: Pin<Box<S>>,
    max_event_bytes: usize,
    /// Number of bytes of the event so far.
    event: usize,
    /// Number of bytes of its line so far.
    line: usize,
    after_return: bool,
    failed: bool,
}

impl<S> EventLimit<S> {
    /// Wraps a stream whose events have at most `max_event_bytes`, as they are sent, with the names of their fields.
    pub(crate) fn new(inner: S, max_event_bytes: usize) -> Self {
        Self { inner: Box::pin(inner), max_event_bytes, event: 0, line: 0, after_return: false, failed: false }
    }

    /// Returns whether all events in the chunk are within the limit. Lines end with CR, LF or CRLF (HTML Standard,
    /// section 9.2.5).
    fn admits(&mut self, chunk: &[u8]) -> bool {
        chunk.iter().all(|byte| {
            let is_rest_of_end = std::mem::replace(&mut self.after_return, *byte == b'\r') && *byte == b'\n';
            match byte {
                b'\n' if is_rest_of_end => {}
                b'\n' | b'\r' if self.line == 0 => self.event = 0,
                b'\n' | b'\r' => self.line = 0,
                _ => (self.line, self.event) = (self.line + 1, self.event + 1),
            }
            self.event <= self.max_event_bytes
        })
    }
}

impl<S, E> Stream for EventLimit<S>
where
    S: Stream<Item = Result<Bytes, E>>,
    E: Error + Send + Sync + 'static,
{
    type Item = Result<Bytes, io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.failed {
            return Poll::Ready(None);
        }
        let Poll::Ready(chunk) = self.inner.as_mut().poll_next(context) else { return Poll::Pending };
        Poll::Ready(chunk.map(|chunk| {
            let chunk = chunk.map_err(io::Error::other)?;
            match self.admits(&chunk) {
                true => Ok(chunk),
                false => {
                    self.failed = true;
                    let why = format!("an event is larger than {} bytes", self.max_event_bytes);
                    Err(io::Error::other(why))
                }
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                let mut limit = EventLimit::new((), 9);
                let all = stream.as_bytes().chunks(size).all(|chunk| limit.admits(chunk));
                assert_eq!(all, admitted, "{stream:?} in pieces of {size}");
            }
        }
    }
}
