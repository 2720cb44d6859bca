//! The worker's end of the socket.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::isolation::frame::{self, FrameError, Received, Receiver};
use crate::isolation::socket::{Socket, Wait};

/// Time for which an idle worker polls for the next call before it sleeps: waking up takes longer than most calls.
const SPIN: Duration = Duration::from_micros(50);

/// The socket to the host. Clones share it.
#[derive(Clone)]
pub(super) struct Channel(Arc<Ends>);

struct Ends {
    socket: Socket,
    /// Held while a message is sent, so that messages are not interleaved.
    sending: Mutex<()>,
    incoming: Mutex<Receiver>,
}

impl Channel {
    pub(super) fn new(socket: Socket) -> Self {
        Self(Arc::new(Ends { socket, sending: Mutex::default(), incoming: Mutex::new(Receiver::new()) }))
    }

    /// Sends a message, and waits while the socket is full. Errors are ignored, because the kernel ends this process
    /// together with the host.
    pub(super) fn send(&self, message: &impl Serialize, files: &[&File]) {
        if let Ok(frame) = frame::encode(message) {
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
    pub(super) fn receive<M: DeserializeOwned>(&self) -> io::Result<Option<M>> {
        let mut incoming = self.incoming();
        let invalid = |error: FrameError| io::Error::new(io::ErrorKind::InvalidData, error);
        loop {
            if let Some(message) = incoming.next().map_err(invalid)? {
                return Ok(Some(message));
            }
            if self.wait(&mut incoming)? == Received::Closed {
                return Ok(None);
            }
        }
    }

    fn wait(&self, incoming: &mut Receiver) -> io::Result<Received> {
        let until = Instant::now() + SPIN;
        loop {
            match incoming.receive(&self.0.socket, Wait::Never)? {
                Received::Nothing if Instant::now() < until => std::thread::yield_now(),
                Received::Nothing => return incoming.receive(&self.0.socket, Wait::Usual),
                received => return Ok(received),
            }
        }
    }

    /// Returns the next open file that was sent with a message.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn file(&self) -> io::Result<File> {
        self.incoming().file().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}
