//! The worker's end of the socket.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::isolation::frame::{self, FrameError, MAX_MESSAGE_BYTES, Message, Received, Receiver};
use crate::isolation::spin::Spinner;
use crate::socket::{Socket, Wait};

/// The socket to the host. Clones share it.
#[derive(Clone)]
pub(super) struct Channel(Arc<Ends>);

struct Ends {
    socket: Socket,
    /// Held while a message is sent, so that messages are not interleaved.
    sending: Mutex<()>,
    incoming: Mutex<Receiver>,
    spinner: Spinner,
}

impl Channel {
    pub(super) fn new(socket: Socket) -> Self {
        let sending = Mutex::default();
        let incoming = Mutex::new(Receiver::new());
        let spinner = Spinner::default();
        Self(Arc::new(Ends { socket, sending, incoming, spinner }))
    }

    /// Sends a message, and waits while the socket is full. Errors are ignored, because the kernel ends this process
    /// together with the host.
    pub(super) fn send(&self, message: &impl Serialize, files: &[&File]) {
        if let Ok(frame) = frame::encode(message, files.len()) {
            let _sending = self.0.sending.lock().unwrap_or_else(PoisonError::into_inner);
            let _sent = frame::send_all(&self.0.socket, &frame, files);
        }
    }

    fn incoming(&self) -> MutexGuard<'_, Receiver> {
        self.0.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives the next message; `None` once the host is gone. Only one thread receives.
    ///
    /// # Errors
    /// If the socket fails, or the host violates the protocol.
    pub(super) fn receive<M: DeserializeOwned>(&self) -> io::Result<Option<Message<M>>> {
        let mut incoming = self.incoming();
        let invalid = |error: FrameError| io::Error::new(io::ErrorKind::InvalidData, error);
        loop {
            if let Some(message) = incoming.next(MAX_MESSAGE_BYTES).map_err(invalid)? {
                return Ok(Some(message));
            }
            if self.wait(&mut incoming)? == Received::Closed {
                return Ok(None);
            }
        }
    }

    /// Reads once. An idle worker polls for a short time before it sleeps, while a core is free.
    fn wait(&self, incoming: &mut Receiver) -> io::Result<Received> {
        let mut spinning = self.0.spinner.start();
        loop {
            match incoming.receive(&self.0.socket, Wait::Never)? {
                Received::Nothing if spinning.turn() => {}
                Received::Nothing => return incoming.receive(&self.0.socket, Wait::Usual),
                received => return Ok(received),
            }
        }
    }
}
