//! A listener that nobody is allowed to reach.

use std::io::{ErrorKind, Result};
use std::net::{Ipv4Addr, TcpListener};

/// Connections wait here until somebody looks.
pub(crate) struct Listener(TcpListener);

impl Listener {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If this machine has none.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say.
    pub(crate) fn port(&self) -> Result<u16> {
        Ok(self.0.local_addr()?.port())
    }

    /// Whether nobody has connected since it was asked last. Whatever cannot be known counts as a connection.
    pub(crate) fn saw_nobody(&self) -> bool {
        self.0.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}
