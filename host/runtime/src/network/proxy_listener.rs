//! The listening socket of a proxy. A program with a network namespace creates another one there, and passes it to the
//! proxy over a Unix socket before its first instruction runs.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use fumehood_platform::private;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::socket::{Socket, SocketListener, Wait, file_of_listener, listener_of_file};

/// Name of the Unix socket in its folder.
const SOCKET_NAME: &str = "listener";
/// The message of a process that stays in the network of this machine, and of one that sends its listener along.
const OUTSIDE: u8 = 0;
const INSIDE: u8 = 1;

/// The address of a proxy, for the process that becomes its program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyAddress {
    /// Its TCP port, on 127.0.0.1 in the network of the program.
    pub(crate) port: u16,
    /// The Unix socket that takes the listener in a network namespace.
    socket: PathBuf,
}

impl ProxyAddress {
    /// Reports to the proxy where its program connects: to this listener in a network namespace, or to the one that the
    /// proxy has already.
    pub(crate) fn report(&self, listener: Option<TcpListener>) -> io::Result<()> {
        let socket = Socket::connect(&self.socket)?;
        let message = [if listener.is_some() { INSIDE } else { OUTSIDE }];
        let file = listener.map(file_of_listener);
        let files: Vec<_> = file.iter().collect();
        socket.send(&message, &files, Wait::Usual).map(drop)
    }
}

/// The listener in the network of this machine, and the socket that takes one in a network namespace.
#[derive(Debug)]
pub(super) struct ProxyListeners {
    outside: TcpListener,
    socket: SocketListener,
    address: ProxyAddress,
    /// Only this user may open it.
    folder: TempDir,
}

impl ProxyListeners {
    /// Binds both. Must be called within a tokio runtime.
    pub(super) fn bind() -> io::Result<Self> {
        let outside = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let folder =
            tempfile::Builder::new().prefix("fumehood-proxy-").permissions(private::folder_permissions()).tempdir()?;
        let socket = folder.path().join(SOCKET_NAME);
        let listening = SocketListener::bind(&socket)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot listen at {}: {error}", socket.display())))?;
        let address = ProxyAddress { port: outside.local_addr()?.port(), socket };
        Ok(Self { outside, socket: listening, address, folder })
    }

    pub(super) fn address(&self) -> &ProxyAddress {
        &self.address
    }

    /// Waits until the process of the program has reported, and returns the listener that its program can reach. The
    /// other one is closed.
    pub(super) async fn accept(self) -> io::Result<TcpListener> {
        let mut message = [OUTSIDE];
        let (length, mut files) = self.socket.receive(&mut message).await?;
        drop(self.folder);
        match (message, length, files.pop()) {
            ([OUTSIDE], 1, None) => Ok(self.outside),
            ([INSIDE], 1, Some(listener)) => Ok(listener_of_file(listener)),
            _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the program did not start")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[tokio::test]
    async fn the_reported_listener_replaces_the_one_outside() {
        for is_inside in [false, true] {
            let listeners = ProxyListeners::bind().unwrap();
            let address = listeners.address().clone();
            let folder = listeners.folder.path().to_owned();
            assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o77, 0);
            let inside = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = if is_inside { inside.local_addr().unwrap().port() } else { address.port };
            address.report(is_inside.then_some(inside)).unwrap();
            assert_eq!(listeners.accept().await.unwrap().local_addr().unwrap().port(), port);
            assert!(!folder.exists());
        }
    }

    #[tokio::test]
    async fn a_process_that_ends_without_a_report_has_no_proxy() {
        let listeners = ProxyListeners::bind().unwrap();
        drop(Socket::connect(&listeners.address().socket).unwrap());
        assert!(listeners.accept().await.is_err());
    }
}
