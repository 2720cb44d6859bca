//! Frames between a host and a worker: a length in four bytes (little-endian), a message, and open files.

use std::collections::VecDeque;
use std::fs::File;
use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) use super::socket::MAX_FILES;
use super::socket::{Socket, Wait};

/// Maximum size of a message, in bytes: a result at the largest memory limit, with some margin.
const MAX_MESSAGE_BYTES: usize = 320 << 20;
/// Size of the length before a message, in bytes.
const HEAD_BYTES: usize = size_of::<u32>();
/// Size of a receiver's buffer between large messages, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Errors of a received frame.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error("a message of {0} bytes is longer than any may be")]
    TooLong(usize),
    #[error("a message does not make sense: {0}")]
    Malformed(#[from] postcard::Error),
    #[error("a descriptor is missing")]
    NoDescriptor,
}

/// Encodes a message as a frame.
///
/// # Errors
/// If the message is too large.
pub(super) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let invalid = |error: postcard::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut frame = postcard::to_io(message, vec![0; HEAD_BYTES]).map_err(invalid)?;
    let length = frame.len().saturating_sub(HEAD_BYTES);
    let Some(length) = u32::try_from(length).ok().filter(|length| *length as usize <= MAX_MESSAGE_BYTES) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, FrameError::TooLong(length)));
    };
    if let Some(head) = frame.first_chunk_mut() {
        *head = length.to_le_bytes();
    }
    Ok(frame)
}

/// Sends a whole frame, waiting while the socket is full.
pub(super) fn send_all(socket: &Socket, frame: &[u8], files: &[&File]) -> io::Result<()> {
    let (mut rest, mut files) = (frame, files);
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

    /// Decodes the next message, if all of it has arrived.
    pub(super) fn next<M: DeserializeOwned>(&mut self) -> Result<Option<M>, FrameError> {
        let Some(body) = self.length()? else { return Ok(None) };
        let from = self.start.saturating_add(HEAD_BYTES);
        let to = from.saturating_add(body);
        let Some(bytes) = self.buffer.get(from..to.min(self.end)).filter(|bytes| bytes.len() == body) else {
            return Ok(None);
        };
        let message = postcard::from_bytes(bytes)?;
        self.start = to;
        Ok(Some(message))
    }

    /// Takes the next open file that was sent with a message.
    pub(super) fn file(&mut self) -> Result<File, FrameError> {
        self.files.pop_front().ok_or(FrameError::NoDescriptor)
    }

    /// Returns the number of open files that were received and not taken.
    pub(super) fn pending_files(&self) -> usize {
        self.files.len()
    }

    fn length(&self) -> Result<Option<usize>, FrameError> {
        let held = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(head) = held.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > MAX_MESSAGE_BYTES { Err(FrameError::TooLong(length)) } else { Ok(Some(length)) }
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
mod tests {
    use super::*;

    #[test]
    fn messages_and_files_arrive_in_order() {
        let (ours, theirs) = Socket::pair().unwrap();
        let long = "x".repeat(1 << 20);
        let sender = std::thread::spawn(move || {
            let file = File::open("/dev/null").unwrap();
            send_all(&ours, &encode(&"first").unwrap(), &[&file]).unwrap();
            send_all(&ours, &encode(&long).unwrap(), &[]).unwrap();
        });
        let mut receiver = Receiver::new();
        let mut messages: Vec<String> = Vec::new();
        while receiver.receive(&theirs, Wait::Usual).unwrap() == Received::Some {
            while let Some(message) = receiver.next().unwrap() {
                messages.push(message);
            }
        }
        sender.join().unwrap();
        assert_eq!((messages[0].as_str(), messages[1].len(), messages.len()), ("first", 1 << 20, 2));
        assert!(receiver.file().is_ok());
        assert!(matches!(receiver.file(), Err(FrameError::NoDescriptor)));
    }

    #[test]
    fn a_claimed_length_allocates_no_memory() {
        let (ours, theirs) = Socket::pair().unwrap();
        send_all(&ours, &[0xff, 0xff, 0xff, 0x0f], &[]).unwrap();
        let mut receiver = Receiver::new();
        receiver.receive(&theirs, Wait::Usual).unwrap();
        assert!(receiver.next::<String>().unwrap().is_none());
        assert_eq!(receiver.buffer.len(), BUFFER_BYTES);
        send_all(&ours, &[0xff; 8], &[]).unwrap();
        drop(ours);
        let mut other = Receiver::new();
        other.receive(&theirs, Wait::Usual).unwrap();
        assert!(matches!(other.next::<String>(), Err(FrameError::TooLong(_))));
    }

    #[test]
    fn distinguishes_no_data_from_a_closed_socket() {
        let (ours, theirs) = Socket::pair().unwrap();
        let mut receiver = Receiver::new();
        assert_eq!(receiver.receive(&theirs, Wait::Never).unwrap(), Received::Nothing);
        drop(ours);
        assert_eq!(receiver.receive(&theirs, Wait::Never).unwrap(), Received::Closed);
    }
}
