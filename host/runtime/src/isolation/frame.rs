//! Frames between a host and a worker: a length in four bytes (little-endian), a message, and descriptors
//! (`SCM_RIGHTS`).

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum size of a message, in bytes: a result at the largest memory limit, with some margin.
const MAX_MESSAGE_BYTES: usize = 320 << 20;
/// Maximum number of descriptors of one message. The kernel's own limit is `SCM_MAX_FD`, 253.
pub(super) const MAX_DESCRIPTORS: usize = 250;
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

/// Sends as much as the socket accepts at once, the descriptors with the first byte. Returns the number of bytes sent.
pub(super) fn send_some(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = match descriptors.is_empty() {
        true => SendAncillaryBuffer::default(),
        false => SendAncillaryBuffer::new(&mut space),
    };
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOMANYREFS);
    }
    let flags = flags | SendFlags::NOSIGNAL;
    rustix::io::retry_on_intr(|| rustix::net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut ancillary, flags))
}

/// Sends a whole frame, waiting while the socket is full.
pub(super) fn send_all(socket: impl AsFd, frame: &[u8], descriptors: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
    let (mut rest, mut descriptors) = (frame, descriptors);
    while !rest.is_empty() {
        let sent = match send_some(&socket, rest, descriptors, SendFlags::empty()) {
            Err(Errno::AGAIN) => {
                // The socket is non-blocking.
                let mut polled = [PollFd::new(&socket, PollFlags::OUT)];
                rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, None))?;
                continue;
            }
            sent => sent?,
        };
        rest = rest.get(sent..).unwrap_or_default();
        descriptors = &[];
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

/// A buffer of received bytes and descriptors that are not a whole message yet.
pub(super) struct Receiver {
    buffer: Vec<u8>,
    /// Start of the received bytes in the buffer.
    start: usize,
    /// End of the received bytes in the buffer.
    end: usize,
    descriptors: VecDeque<OwnedFd>,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, descriptors: VecDeque::new() }
    }

    /// Reads from the socket once.
    pub(super) fn receive(&mut self, socket: impl AsFd, flags: RecvFlags) -> io::Result<Received> {
        self.make_room();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(room)], &mut ancillary, flags)
        });
        let received = match received {
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            Err(Errno::CONNRESET) => return Ok(Received::Closed),
            Err(errno) => return Err(errno.into()),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, FrameError::NoDescriptor));
        }
        self.end = self.end.saturating_add(received.bytes);
        Ok(if received.bytes == 0 { Received::Closed } else { Received::Some })
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

    /// Takes the next descriptor that was sent with a message.
    pub(super) fn descriptor(&mut self) -> Result<OwnedFd, FrameError> {
        self.descriptors.pop_front().ok_or(FrameError::NoDescriptor)
    }

    /// Returns the number of descriptors that were received and not taken.
    pub(super) fn pending_descriptors(&self) -> usize {
        self.descriptors.len()
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
    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    fn pair() -> (OwnedFd, OwnedFd) {
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn messages_and_descriptors_arrive_in_order() {
        let (ours, theirs) = pair();
        let long = "x".repeat(1 << 20);
        let sender = std::thread::spawn(move || {
            let file = std::fs::File::open("/dev/null").unwrap();
            send_all(&ours, &encode(&"first").unwrap(), &[file.as_fd()]).unwrap();
            send_all(&ours, &encode(&long).unwrap(), &[]).unwrap();
        });
        let mut receiver = Receiver::new();
        let mut messages: Vec<String> = Vec::new();
        while receiver.receive(&theirs, RecvFlags::empty()).unwrap() == Received::Some {
            while let Some(message) = receiver.next().unwrap() {
                messages.push(message);
            }
        }
        sender.join().unwrap();
        assert_eq!((messages[0].as_str(), messages[1].len(), messages.len()), ("first", 1 << 20, 2));
        assert!(receiver.descriptor().is_ok());
        assert!(matches!(receiver.descriptor(), Err(FrameError::NoDescriptor)));
    }

    #[test]
    fn a_claimed_length_allocates_no_memory() {
        let (ours, theirs) = pair();
        send_all(&ours, &[0xff, 0xff, 0xff, 0x0f], &[]).unwrap();
        let mut receiver = Receiver::new();
        receiver.receive(&theirs, RecvFlags::empty()).unwrap();
        assert!(receiver.next::<String>().unwrap().is_none());
        assert_eq!(receiver.buffer.len(), BUFFER_BYTES);
        send_all(&ours, &[0xff; 8], &[]).unwrap();
        drop(ours);
        let mut other = Receiver::new();
        other.receive(&theirs, RecvFlags::empty()).unwrap();
        assert!(matches!(other.next::<String>(), Err(FrameError::TooLong(_))));
    }

    #[test]
    fn distinguishes_no_data_from_a_closed_socket() {
        let (ours, theirs) = pair();
        let mut receiver = Receiver::new();
        assert_eq!(receiver.receive(&theirs, RecvFlags::DONTWAIT).unwrap(), Received::Nothing);
        drop(ours);
        assert_eq!(receiver.receive(&theirs, RecvFlags::DONTWAIT).unwrap(), Received::Closed);
    }
}
