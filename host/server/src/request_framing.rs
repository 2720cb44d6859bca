//! A stream that reads the heads of requests before the HTTP library does, and refuses those that peers could frame
//! differently.
//!
//! A proxy in front of this server and the server itself must agree on where a request ends; otherwise a client can hide a
//! request of its own in the body of another one (request smuggling). The library accepts more than RFC 9112 allows, so
//! heads are checked here, byte by byte, by the strict rules of its sections 2.2, 5 and 6.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::bytes::{Buf as _, BytesMut};

use crate::admission::MAX_HEAD_BYTES;

/// Size of one read, in bytes.
const READ_BYTES: usize = 8 << 10;
/// A head that no parser accepts. The library answers it with 400, and closes the connection.
const INVALID_HEAD: &[u8] = b"\0\r\n\r\n";

/// The end of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// It has this many bytes; the next request comes after them.
    Length(u64),
    /// It is chunked. The request is the last one of its connection, so that only one parser looks for its end.
    Chunked,
}

/// A head that could be read in two ways, or is no head at all.
#[derive(Debug, PartialEq, Eq)]
struct AmbiguousHead;

/// A stream whose reader sees only requests that have one reading.
pub(crate) struct RequestFraming<T> {
    inner: T,
    /// Bytes that were received and not passed on.
    received: BytesMut,
    /// Number of bytes of `received`, from its beginning, without the end of a head.
    scanned: usize,
    /// Number of bytes that may be passed on before the next head.
    passable: u64,
    /// True if nothing follows what may be passed on.
    is_last: bool,
}

impl<T> RequestFraming<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, received: BytesMut::new(), scanned: 0, passable: 0, is_last: false }
    }

    /// Looks for the end of the next head among what was received, and decides how much may be passed on.
    fn find_head(&mut self) {
        // An empty line may stand before a request (RFC 9112, section 2.2).
        while self.received.starts_with(b"\r\n") {
            self.received.advance(2);
            self.scanned = 0;
        }
        match find_end(&self.received, self.scanned) {
            Ok(Some(end)) => match self.received.get(..end).map(body_of) {
                Some(Ok(Body::Length(length))) => self.passable = length.saturating_add(end as u64),
                Some(Ok(Body::Chunked)) => self.passable = u64::MAX,
                Some(Err(AmbiguousHead)) | None => self.refuse(),
            },
            Ok(None) if self.received.len() > MAX_HEAD_BYTES => {
                // So much of a head without its end makes the library answer with 431.
                self.received.truncate(MAX_HEAD_BYTES);
                (self.passable, self.is_last) = (MAX_HEAD_BYTES as u64, true);
            }
            Ok(None) => self.scanned = self.received.len(),
            Err(AmbiguousHead) => self.refuse(),
        }
        if self.passable > 0 {
            self.scanned = 0;
        }
    }

    fn refuse(&mut self) {
        self.received = BytesMut::from(INVALID_HEAD);
        (self.passable, self.is_last) = (INVALID_HEAD.len() as u64, true);
    }
}

/// Returns the number of bytes up to the end of a head; `None` if it is not there yet. The first `scanned` bytes were
/// looked at before.
fn find_end(bytes: &[u8], scanned: usize) -> Result<Option<usize>, AmbiguousHead> {
    let from = scanned.saturating_sub(3);
    let mut tail = bytes.get(from..).unwrap_or_default();
    let mut passed = from;
    while let Some(index) = tail.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        let rest = tail.get(index..).unwrap_or_default();
        match rest {
            [b'\r', b'\n', b'\r', b'\n', ..] => return Ok(Some(passed + index + 4)),
            [b'\r', b'\n', ..] => {}
            [b'\r'] => return Ok(None),
            // The line before it was looked at: this is the second half of a line break.
            [b'\n', ..] if index == 0 && passed == from && is_after_return(bytes, from) => {}
            _ => return Err(AmbiguousHead),
        }
        let step = index + if rest.first() == Some(&b'\r') { 2 } else { 1 };
        passed += step;
        tail = tail.get(step..).unwrap_or_default();
    }
    Ok(None)
}

/// Returns whether the byte at this index follows a carriage return.
fn is_after_return(bytes: &[u8], index: usize) -> bool {
    index.checked_sub(1).and_then(|before| bytes.get(before)) == Some(&b'\r')
}

/// Returns where the body of a request with this head ends.
fn body_of(head: &[u8]) -> Result<Body, AmbiguousHead> {
    let mut length = None;
    let mut is_chunked = false;
    for line in head.split(|byte| *byte == b'\n').skip(1).filter_map(|line| line.strip_suffix(b"\r")) {
        if line.is_empty() {
            break;
        }
        // A line that begins with a space would continue the one before, and a space before the colon would be part of the
        // name for some.
        let colon = line.iter().position(|byte| *byte == b':').ok_or(AmbiguousHead)?;
        let (name, value) = line.split_at_checked(colon).ok_or(AmbiguousHead)?;
        if name.is_empty() || name.iter().any(|byte| !byte.is_ascii_graphic()) {
            return Err(AmbiguousHead);
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let is_first = length.replace(parse_length(value)?).is_none();
            is_first.then_some(()).ok_or(AmbiguousHead)?;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let is_only = !std::mem::replace(&mut is_chunked, true) && value.eq_ignore_ascii_case(b"chunked");
            is_only.then_some(()).ok_or(AmbiguousHead)?;
        }
    }
    match (length, is_chunked) {
        (Some(_), true) => Err(AmbiguousHead),
        (None, true) => Ok(Body::Chunked),
        (length, false) => Ok(Body::Length(length.unwrap_or(0))),
    }
}

/// Parses the value of `Content-Length`: digits alone.
fn parse_length(value: &[u8]) -> Result<u64, AmbiguousHead> {
    let digits = std::str::from_utf8(value).map_err(|_| AmbiguousHead)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AmbiguousHead);
    }
    digits.parse().map_err(|_| AmbiguousHead)
}

impl<T: AsyncRead + Unpin> AsyncRead for RequestFraming<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.passable == 0 && self.is_last {
                return Poll::Ready(Ok(()));
            }
            if self.passable == 0 && self.received.len() > self.scanned {
                self.find_head();
                continue;
            }
            if self.passable > 0 && !self.received.is_empty() {
                let passable = usize::try_from(self.passable).unwrap_or(usize::MAX);
                let count = passable.min(self.received.len()).min(buffer.remaining());
                buffer.put_slice(&self.received.split_to(count));
                if self.passable != u64::MAX {
                    self.passable -= count as u64;
                }
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.inner).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.received.extend_from_slice(read.filled());
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for RequestFraming<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Returns what the library would see of these bytes, which arrive in pieces of this size.
    async fn passed(sent: &[u8], piece: usize) -> Vec<u8> {
        let (mut client, server) = tokio::io::duplex(piece);
        let sent = sent.to_vec();
        let sending = tokio::spawn(async move {
            for part in sent.chunks(piece) {
                // It is closed once a head was refused.
                if client.write_all(part).await.is_err() {
                    break;
                }
            }
        });
        let mut seen = Vec::new();
        RequestFraming::new(server).read_to_end(&mut seen).await.unwrap();
        sending.await.unwrap();
        seen
    }

    async fn check(sent: &str, expected: &[u8]) {
        for piece in [1, 2, 3, 7, 4096] {
            let seen = passed(sent.as_bytes(), piece).await;
            assert_eq!(String::from_utf8_lossy(&seen), String::from_utf8_lossy(expected), "{sent:?} by {piece}");
        }
    }

    #[tokio::test]
    async fn passes_requests_with_one_reading() {
        for sent in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\ncontent-length:  5 \r\n\r\na\nb\rcGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\nGET \n\n",
            "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        ] {
            check(sent, sent.as_bytes()).await;
        }
        check("\r\n\r\nGET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n").await;
    }

    #[tokio::test]
    async fn refuses_heads_with_two_readings() {
        for head in [
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\rContent-Length: 3\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\r\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding:chunked\r\ncontent-length:3\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding:\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 0x3\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length : 3\r\n\r\n",
            "POST / HTTP/1.1\r\nA: b\r\n Content-Length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nno colon\r\n\r\n",
        ] {
            check(head, INVALID_HEAD).await;
            let first = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n\n\n";
            check(&format!("{first}{head}"), &[first.as_bytes(), INVALID_HEAD].concat()).await;
        }
    }

    #[tokio::test]
    async fn cuts_a_head_without_end() {
        let endless = format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(3 * MAX_HEAD_BYTES));
        assert_eq!(passed(endless.as_bytes(), 4096).await.len(), MAX_HEAD_BYTES);
    }
}
