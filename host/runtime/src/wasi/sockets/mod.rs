//! Sockets of a guest (`wasi:sockets`): TCP connections to hosts that were granted, and lookups of their names. No socket of the
//! operating system is in the hands of a guest, and none listens.
//!
//! `view` and `tcp_socket` are the interfaces. They leave every decision to [`Sockets`], which is `direct` in the process that
//! opens connections, and a relay to it in a worker process.

mod connection;
mod direct;
mod error;
mod streams;
mod tcp_socket;
mod view;

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub(crate) use connection::Connection;
pub(crate) use direct::DirectSockets;
pub(crate) use error::SocketError;
use fumehood_core::boxed::BoxFuture;
use tcp_socket::GuestSocket;
pub(crate) use view::{SocketsView, link};

/// Maximum size of the buffers of one connection, in bytes: what was read ahead, and what is being written.
const CONNECTION_BYTES: usize = 2 * streams::MAX_CHUNK_BYTES;

/// The name lookups and connections of one call, each of which is admitted or refused.
pub(crate) trait Sockets: Send + Sync {
    /// Returns the addresses of a name.
    fn look_up(self: Arc<Self>, name: String) -> BoxFuture<'static, Result<Vec<IpAddr>, SocketError>>;

    /// Opens a connection.
    fn connect(self: Arc<Self>, remote: SocketAddr) -> BoxFuture<'static, Result<Connection, SocketError>>;
}

/// Returns the bytes behind one handle, at most.
pub(super) fn entry_bytes(entry: &(dyn Any + Send)) -> usize {
    match entry.downcast_ref::<GuestSocket>() {
        Some(socket) if socket.has_connection() => CONNECTION_BYTES,
        _ => 0,
    }
}
