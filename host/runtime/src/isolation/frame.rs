//! Frames between a host and a worker: the length of a message in four bytes (little-endian), the number of open files that
//! belong to it in one byte, and the message.
//!
//! The kernel delivers files no later than the first byte of the frame that they were sent with, and any number of frames
//! in one read. So a receiver queues files in order, and takes for each frame as many as its head says.

use std::collections::VecDeque;
use std::fs::File;
use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) use crate::socket::MAX_FILES;
use crate::socket::{Socket, Wait};

/// Maximum size of a message, in bytes: the arguments of a call at the largest memory limit, with some margin. A host accepts
/// less from a worker.
pub(super) const MAX_MESSAGE_BYTES: usize = 320 << 20;
/// Size of the head of a frame, in bytes.
pub(super) const HEAD_BYTES: usize = size_of::<u32>() + size_of::<u8>();
/// Size of a receiver's buffer between large messages, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Errors of a received frame.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error("a message has {found} bytes; the maximum now is {limit}")]
    TooLong { found: usize, limit: usize },
    #[error("a message is malformed: {0}")]
    Malformed(#[from] postcard::Error),
    #[error("a descriptor is missing")]
    MissingDescriptor,
    #[error("a descriptor belongs to no message")]
    UnexpectedDescriptor,
}

/// The head of a frame.
#[derive(Debug, Clone, Copy)]
struct Head {
    body_bytes: usize,
    files: usize,
}

impl Head {
    fn to_bytes(self) -> Option<[u8; HEAD_BYTES]> {
        let [a, b, c, d] = u32::try_from(self.body_bytes).ok()?.to_le_bytes();
        Some([a, b, c, d, u8::try_from(self.files).ok()?])
    }

    fn from_bytes([a, b, c, d, files]: [u8; HEAD_BYTES]) -> Self {
        Self { body_bytes: u32::from_le_bytes([a, b, c, d]) as usize, files: usize::from(files) }
    }
}

/// Encodes a message as a frame with this number of files.
///
/// # Errors
/// If the message is too large, or has more than [`MAX_FILES`] files.
pub(super) fn encode(message: &impl Serialize, files: usize) -> io::Result<Vec<u8>> {
    let invalid = |error: postcard::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut frame = postcard::to_io(message, vec![0; HEAD_BYTES]).map_err(invalid)?;
    let body_bytes = frame.len().saturating_sub(HEAD_BYTES);
    let head = Head { body_bytes, files }.to_bytes();
    let Some(head) = head.filter(|_| body_bytes <= MAX_MESSAGE_BYTES && files <= MAX_FILES) else {
        let error = FrameError::TooLong { found: body_bytes, limit: MAX_MESSAGE_BYTES };
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    };
    if let Some(place) = frame.first_chunk_mut() {
        *place = head;
    }
    Ok(frame)
}

/// Decodes the head of a frame without files, and returns the size of its message in bytes.
///
/// # Errors
/// If the message is longer than `limit` bytes, or has files.
pub(super) fn decode_head(head: [u8; HEAD_BYTES], limit: usize) -> Result<usize, FrameError> {
    match Head::from_bytes(head) {
        Head { files: 1.., .. } => Err(FrameError::UnexpectedDescriptor),
        Head { body_bytes, .. } if body_bytes > limit => Err(FrameError::TooLong { found: body_bytes, limit }),
        Head { body_bytes, .. } => Ok(body_bytes),
    }
}

/// Sends a whole frame with its files, waiting while the socket is full.
pub(super) fn send_all(socket: &Socket, frame: &[u8], files: &[&File]) -> io::Result<()> {
    let mut rest = frame;
    let mut files = files;
    while !rest.is_empty() {
        let sent = match socket.send(rest, files, Wait::Usual) {
            // Somebody watches the socket, so that it does not wait by itself.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.wait_writable()?;
                continue;
            }
            sent => sent?,
        };
        rest = rest.get(sent..).unwrap_or_default();
        files = &[];
    }
    Ok(())
}

/// The result of one read from a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    Some,
    /// No data yet.
    Nothing,
    /// A closed connection.
    Closed,
}

/// A received message with the open files that were sent with it.
#[derive(Debug)]
pub(super) struct Message<M> {
    pub(super) body: M,
    pub(super) files: Vec<File>,
}

impl<M> Message<M> {
    /// Returns a message that has no files.
    ///
    /// # Errors
    /// If it has any.
    pub(super) fn without_files(self) -> Result<M, FrameError> {
        if self.files.is_empty() { Ok(self.body) } else { Err(FrameError::UnexpectedDescriptor) }
    }
}

/// A buffer of received bytes and open files that are not a whole message yet.
pub(super) struct Receiver {
    buffer: Vec<u8>,
    /// Start of the received bytes in the buffer.
    start: usize,
    /// End of the received bytes in the buffer.
    end: usize,
    files: VecDeque<File>,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, files: VecDeque::new() }
    }

    /// Reads from the socket once.
    pub(super) fn receive(&mut self, socket: &Socket, wait: Wait) -> io::Result<Received> {
        self.make_room();
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        let bytes = match socket.receive(room, &mut self.files, wait) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Nothing),
            received => received?,
        };
        self.end = self.end.saturating_add(bytes);
        Ok(if bytes == 0 { Received::Closed } else { Received::Some })
    }

    /// Decodes the next message, if all of it has arrived, and takes its files.
    ///
    /// # Errors
    /// If the message is longer than `limit` bytes or malformed, or if the files are not those that the heads name.
    pub(super) fn next<M: DeserializeOwned>(&mut self, limit: usize) -> Result<Option<Message<M>>, FrameError> {
        let held = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some((head, rest)) = held.split_first_chunk::<HEAD_BYTES>() else {
            // The files of a frame arrive with its first byte, before the head is complete.
            let may_have = if held.is_empty() { 0 } else { MAX_FILES };
            return self.expect_at_most(may_have).map(|()| None);
        };
        let Head { body_bytes, files } = Head::from_bytes(*head);
        if body_bytes > limit {
            return Err(FrameError::TooLong { found: body_bytes, limit });
        }
        let Some(bytes) = rest.get(..body_bytes) else {
            return self.expect_at_most(files).map(|()| None);
        };
        let body = postcard::from_bytes(bytes)?;
        if files > self.files.len() {
            return Err(FrameError::MissingDescriptor);
        }
        self.start = self.start.saturating_add(HEAD_BYTES).saturating_add(body_bytes);
        Ok(Some(Message { body, files: self.files.drain(..files).collect() }))
    }

    /// Checks the number of files that were received for frames that are not complete.
    fn expect_at_most(&self, files: usize) -> Result<(), FrameError> {
        if self.files.len() > files { Err(FrameError::UnexpectedDescriptor) } else { Ok(()) }
    }

    /// Moves the received bytes to the front, and doubles the buffer if they fill it. The buffer grows only with bytes
    /// that have arrived: a claimed length allocates nothing. A large buffer is shrunk once it is empty.
    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > 16 * BUFFER_BYTES {
                self.buffer = vec![0; BUFFER_BYTES];
            }
        } else if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end.saturating_sub(self.start));
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len().saturating_mul(2), 0);
        }
    }
}

#[cfg(test)]
mod tests;
