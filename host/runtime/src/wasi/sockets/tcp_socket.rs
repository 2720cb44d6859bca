//! The `tcp-socket` resource of `wasi:sockets`: connections of a guest. Options have no effect, because the socket belongs to the
//! host: those that only tune a connection are accepted, and read as their defaults.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use wasmtime::component::Resource;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::bindings::sockets::network::{ErrorCode, IpAddressFamily, IpSocketAddress, Network};
use wasmtime_wasi::p2::bindings::sockets::tcp::{self, HostTcpSocket, ShutdownType};
use wasmtime_wasi::p2::bindings::sockets::tcp_create_socket;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, Pollable, SocketResult, TcpSocket, subscribe};

use super::streams::{Pending, Reader, Writer};
use super::view::SocketsView;
use super::{Connection, SocketError};

/// The idle time and interval of keep-alive messages that a guest reads, in nanoseconds: two hours and 75 s, as on Linux.
const KEEP_ALIVE_IDLE_NS: u64 = 7_200_000_000_000;
const KEEP_ALIVE_INTERVAL_NS: u64 = 75_000_000_000;
/// The number of keep-alive messages that a guest reads.
const KEEP_ALIVE_COUNT: u32 = 9;
/// The hop limit that a guest reads.
const HOP_LIMIT: u8 = 64;
/// The size of the buffers that a guest reads, in bytes.
const BUFFER_BYTES: u64 = super::streams::MAX_CHUNK_BYTES as u64;

/// A socket of a guest.
pub(super) struct GuestSocket {
    family: IpAddressFamily,
    state: State,
}

enum State {
    New,
    Connecting { remote: SocketAddr, pending: Pending<Result<Connection, SocketError>> },
    Connected { remote: SocketAddr, reader: Reader, writer: Writer },
    Closed(SocketError),
}

impl GuestSocket {
    /// Returns whether the host keeps a connection for it.
    pub(super) fn has_connection(&self) -> bool {
        matches!(self.state, State::Connecting { .. } | State::Connected { .. })
    }

    /// Checks that an address can be connected to.
    fn check_remote(&self, remote: SocketAddr) -> Result<(), ErrorCode> {
        let is_of_family = match remote.ip() {
            IpAddr::V4(_) => self.family == IpAddressFamily::Ipv4,
            IpAddr::V6(address) => self.family == IpAddressFamily::Ipv6 && address.to_ipv4_mapped().is_none(),
        };
        match self.state {
            State::Connecting { .. } => Err(ErrorCode::ConcurrencyConflict),
            State::Connected { .. } | State::Closed(_) => Err(ErrorCode::InvalidState),
            State::New if !is_of_family || remote.ip().is_unspecified() || remote.port() == 0 => {
                Err(ErrorCode::InvalidArgument)
            }
            State::New => Ok(()),
        }
    }
}

#[async_trait]
impl Pollable for GuestSocket {
    async fn ready(&mut self) {
        if let State::Connecting { pending, .. } = &mut self.state {
            std::future::poll_fn(|cx| pending.poll_ready(cx)).await;
        }
    }
}

/// Returns the socket behind a handle.
fn handle(socket: &Resource<TcpSocket>) -> Resource<GuestSocket> {
    Resource::new_borrow(socket.rep())
}

impl SocketsView<'_> {
    fn socket(&mut self, socket: &Resource<TcpSocket>) -> SocketResult<&mut GuestSocket> {
        Ok(self.table.get_mut(&handle(socket))?)
    }

    /// Accepts an option without effect.
    fn accept_option(&mut self, socket: &Resource<TcpSocket>, is_valid: bool) -> SocketResult<()> {
        self.socket(socket)?;
        if is_valid { Ok(()) } else { Err(ErrorCode::InvalidArgument.into()) }
    }

    /// Returns the default of an option.
    fn option<T>(&mut self, socket: &Resource<TcpSocket>, default: T) -> SocketResult<T> {
        self.socket(socket)?;
        Ok(default)
    }
}

impl tcp_create_socket::Host for SocketsView<'_> {
    /// Creates a socket, which is nothing but a handle until it is connected.
    fn create_tcp_socket(&mut self, family: IpAddressFamily) -> SocketResult<Resource<TcpSocket>> {
        let socket = self.table.push(GuestSocket { family, state: State::New })?;
        Ok(Resource::new_own(socket.rep()))
    }
}

impl tcp::Host for SocketsView<'_> {}

impl HostTcpSocket for SocketsView<'_> {
    async fn start_bind(
        &mut self,
        socket: Resource<TcpSocket>,
        _network: Resource<Network>,
        local: IpSocketAddress,
    ) -> SocketResult<()> {
        self.socket(&socket)?;
        Err(self.refuse(&format!("binding a socket to {}", SocketAddr::from(local)), "no tool may listen").into())
    }

    fn finish_bind(&mut self, _socket: Resource<TcpSocket>) -> SocketResult<()> {
        Err(ErrorCode::NotInProgress.into())
    }

    fn start_connect(
        &mut self,
        socket: Resource<TcpSocket>,
        network: Resource<Network>,
        remote: IpSocketAddress,
    ) -> SocketResult<()> {
        self.table.get(&network)?;
        let remote = SocketAddr::from(remote);
        self.socket(&socket)?.check_remote(remote)?;
        let pending = Pending::start(Arc::clone(&self.sockets).connect(remote));
        let open = self.socket(&socket)?;
        match pending.take() {
            // A refusal is known at once.
            Ok(Err(error)) => {
                open.state = State::Closed(error);
                Err(error.to_code().into())
            }
            Ok(connected) => {
                open.state = State::Connecting { remote, pending: Pending::Ready(connected) };
                Ok(())
            }
            Err(pending) => {
                open.state = State::Connecting { remote, pending };
                Ok(())
            }
        }
    }

    fn finish_connect(
        &mut self,
        socket: Resource<TcpSocket>,
    ) -> SocketResult<(Resource<DynInputStream>, Resource<DynOutputStream>)> {
        let open = self.socket(&socket)?;
        let (remote, pending) = match std::mem::replace(&mut open.state, State::New) {
            State::Connecting { remote, pending } => (remote, pending),
            other => {
                open.state = other;
                return Err(ErrorCode::NotInProgress.into());
            }
        };
        let Connection { incoming, outgoing } = match pending.take() {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                open.state = State::Closed(error);
                return Err(error.to_code().into());
            }
            Err(pending) => {
                open.state = State::Connecting { remote, pending };
                return Err(ErrorCode::WouldBlock.into());
            }
        };
        let reader = Reader::new(incoming);
        let writer = Writer::new(outgoing);
        open.state = State::Connected { remote, reader: reader.clone(), writer: writer.clone() };
        let parent = handle(&socket);
        let input = self.table.push_child(Box::new(reader) as DynInputStream, &parent)?;
        let output = self.table.push_child(Box::new(writer) as DynOutputStream, &parent)?;
        Ok((input, output))
    }

    async fn start_listen(&mut self, socket: Resource<TcpSocket>) -> SocketResult<()> {
        self.socket(&socket)?;
        Err(self.refuse("listening for connections", "no tool may listen").into())
    }

    fn finish_listen(&mut self, _socket: Resource<TcpSocket>) -> SocketResult<()> {
        Err(ErrorCode::NotInProgress.into())
    }

    fn accept(
        &mut self,
        _socket: Resource<TcpSocket>,
    ) -> SocketResult<(Resource<TcpSocket>, Resource<DynInputStream>, Resource<DynOutputStream>)> {
        Err(ErrorCode::InvalidState.into())
    }

    /// Returns the unspecified address. A guest does not see those of the host.
    fn local_address(&mut self, socket: Resource<TcpSocket>) -> SocketResult<IpSocketAddress> {
        let open = self.socket(&socket)?;
        if !matches!(open.state, State::Connected { .. }) {
            return Err(ErrorCode::InvalidState.into());
        }
        let address = match open.family {
            IpAddressFamily::Ipv4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddressFamily::Ipv6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Ok(SocketAddr::new(address, 0).into())
    }

    fn remote_address(&mut self, socket: Resource<TcpSocket>) -> SocketResult<IpSocketAddress> {
        match &self.socket(&socket)?.state {
            State::Connected { remote, .. } => Ok((*remote).into()),
            State::Closed(error) => Err(error.to_code().into()),
            State::New | State::Connecting { .. } => Err(ErrorCode::InvalidState.into()),
        }
    }

    fn is_listening(&mut self, _socket: Resource<TcpSocket>) -> wasmtime::Result<bool> {
        Ok(false)
    }

    fn address_family(&mut self, socket: Resource<TcpSocket>) -> wasmtime::Result<IpAddressFamily> {
        Ok(self.table.get(&handle(&socket))?.family)
    }

    fn set_listen_backlog_size(&mut self, socket: Resource<TcpSocket>, value: u64) -> SocketResult<()> {
        self.accept_option(&socket, value > 0)
    }

    fn keep_alive_enabled(&mut self, socket: Resource<TcpSocket>) -> SocketResult<bool> {
        self.option(&socket, false)
    }

    fn set_keep_alive_enabled(&mut self, socket: Resource<TcpSocket>, _value: bool) -> SocketResult<()> {
        self.accept_option(&socket, true)
    }

    fn keep_alive_idle_time(&mut self, socket: Resource<TcpSocket>) -> SocketResult<u64> {
        self.option(&socket, KEEP_ALIVE_IDLE_NS)
    }

    fn set_keep_alive_idle_time(&mut self, socket: Resource<TcpSocket>, value: u64) -> SocketResult<()> {
        self.accept_option(&socket, value > 0)
    }

    fn keep_alive_interval(&mut self, socket: Resource<TcpSocket>) -> SocketResult<u64> {
        self.option(&socket, KEEP_ALIVE_INTERVAL_NS)
    }

    fn set_keep_alive_interval(&mut self, socket: Resource<TcpSocket>, value: u64) -> SocketResult<()> {
        self.accept_option(&socket, value > 0)
    }

    fn keep_alive_count(&mut self, socket: Resource<TcpSocket>) -> SocketResult<u32> {
        self.option(&socket, KEEP_ALIVE_COUNT)
    }

    fn set_keep_alive_count(&mut self, socket: Resource<TcpSocket>, value: u32) -> SocketResult<()> {
        self.accept_option(&socket, value > 0)
    }

    fn hop_limit(&mut self, socket: Resource<TcpSocket>) -> SocketResult<u8> {
        self.option(&socket, HOP_LIMIT)
    }

    fn set_hop_limit(&mut self, socket: Resource<TcpSocket>, value: u8) -> SocketResult<()> {
        self.accept_option(&socket, value > 0)
    }

    fn receive_buffer_size(&mut self, socket: Resource<TcpSocket>) -> SocketResult<u64> {
        self.option(&socket, BUFFER_BYTES)
    }

    fn set_receive_buffer_size(&mut self, socket: Resource<TcpSocket>, value: u64) -> SocketResult<()> {
        self.accept_option(&socket, value > 0)
    }

    fn send_buffer_size(&mut self, socket: Resource<TcpSocket>) -> SocketResult<u64> {
        self.option(&socket, BUFFER_BYTES)
    }

    fn set_send_buffer_size(&mut self, socket: Resource<TcpSocket>, value: u64) -> SocketResult<()> {
        self.accept_option(&socket, value > 0)
    }

    fn subscribe(&mut self, socket: Resource<TcpSocket>) -> wasmtime::Result<Resource<DynPollable>> {
        subscribe(self.table, handle(&socket))
    }

    fn shutdown(&mut self, socket: Resource<TcpSocket>, how: ShutdownType) -> SocketResult<()> {
        let State::Connected { reader, writer, .. } = &self.socket(&socket)?.state else {
            return Err(ErrorCode::InvalidState.into());
        };
        if matches!(how, ShutdownType::Receive | ShutdownType::Both) {
            reader.close();
        }
        if matches!(how, ShutdownType::Send | ShutdownType::Both) {
            writer.close();
        }
        Ok(())
    }

    fn drop(&mut self, socket: Resource<TcpSocket>) -> wasmtime::Result<()> {
        self.table.delete(Resource::<GuestSocket>::new_own(socket.rep()))?;
        Ok(())
    }
}
