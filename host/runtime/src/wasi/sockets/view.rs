//! The state that the host functions for sockets work on, the lookup of names, and what no guest may do.

use std::net::IpAddr;
use std::sync::Arc;

use fumehood_core::policy::permission::{Power, Refusal};
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::{self, HostResolveAddressStream, ResolveAddressStream};
use wasmtime_wasi::p2::bindings::sockets::network::{self, ErrorCode, IpAddress, IpAddressFamily, Network};
use wasmtime_wasi::p2::bindings::sockets::{tcp, tcp_create_socket, udp_create_socket};
use wasmtime_wasi::p2::{DynPollable, Pollable, SocketResult, UdpSocket, subscribe};

use super::streams::Pending;
use super::{SocketError, Sockets};
use crate::wasi::refusals::Refusals;

/// Maximum length of a name that is looked up. One has at most 253 characters (RFC 1035, section 2.3.4).
const MAX_NAME_BYTES: usize = 1 << 10;

/// The sockets of a call and the table of its handles.
pub(crate) struct SocketsView<'a> {
    pub(crate) sockets: Arc<dyn Sockets>,
    pub(crate) refusals: Refusals,
    pub(crate) table: &'a mut ResourceTable,
}

/// The type-level key of [`SocketsView`] for the linker.
struct GuestSockets;

impl HasData for GuestSockets {
    type Data<'a> = SocketsView<'a>;
}

/// Links the functions of this module in place of wasmtime's own.
pub(crate) fn link<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> SocketsView<'_>,
) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    ip_name_lookup::add_to_linker::<T, GuestSockets>(linker, view)?;
    tcp::add_to_linker::<T, GuestSockets>(linker, view)?;
    tcp_create_socket::add_to_linker::<T, GuestSockets>(linker, view)?;
    udp_create_socket::add_to_linker::<T, GuestSockets>(linker, view)?;
    linker.allow_shadowing(false);
    Ok(())
}

impl SocketsView<'_> {
    /// Records an attempt that no grant allows, and returns its error.
    pub(super) fn refuse(&self, tried: &str, because: &str) -> ErrorCode {
        self.refusals.add(Refusal {
            power: Power::Sockets,
            tried: tried.to_owned(),
            because: because.to_owned(),
            allow: None,
        });
        ErrorCode::AccessDenied
    }
}

/// A lookup, and the addresses that the guest did not take yet.
struct Lookup(Pending<Result<std::vec::IntoIter<IpAddr>, SocketError>>);

#[async_trait]
impl Pollable for Lookup {
    async fn ready(&mut self) {
        std::future::poll_fn(|cx| self.0.poll_ready(cx)).await;
    }
}

/// Returns the lookup behind a handle.
fn lookup_handle(stream: &Resource<ResolveAddressStream>) -> Resource<Lookup> {
    Resource::new_borrow(stream.rep())
}

impl ip_name_lookup::Host for SocketsView<'_> {
    fn resolve_addresses(
        &mut self,
        network: Resource<Network>,
        name: String,
    ) -> SocketResult<Resource<ResolveAddressStream>> {
        self.table.get(&network)?;
        if name.len() > MAX_NAME_BYTES {
            return Err(ErrorCode::InvalidArgument.into());
        }
        let looking_up = Arc::clone(&self.sockets).look_up(name);
        let pending = Pending::start(Box::pin(async move { looking_up.await.map(Vec::into_iter) }));
        if let Pending::Ready(Err(error)) = &pending {
            return Err(error.to_lookup_code().into());
        }
        let lookup = self.table.push(Lookup(pending))?;
        Ok(Resource::new_own(lookup.rep()))
    }
}

impl HostResolveAddressStream for SocketsView<'_> {
    fn resolve_next_address(&mut self, stream: Resource<ResolveAddressStream>) -> SocketResult<Option<IpAddress>> {
        let Lookup(pending) = self.table.get_mut(&lookup_handle(&stream))?;
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let _is_ready = pending.poll_ready(&mut cx);
        match pending {
            Pending::Waiting(_) => Err(ErrorCode::WouldBlock.into()),
            Pending::Ready(Ok(addresses)) => Ok(addresses.next().map(IpAddress::from)),
            Pending::Ready(Err(error)) => Err(error.to_lookup_code().into()),
        }
    }

    fn subscribe(&mut self, stream: Resource<ResolveAddressStream>) -> wasmtime::Result<Resource<DynPollable>> {
        subscribe(self.table, lookup_handle(&stream))
    }

    fn drop(&mut self, stream: Resource<ResolveAddressStream>) -> wasmtime::Result<()> {
        self.table.delete(Resource::<Lookup>::new_own(stream.rep()))?;
        Ok(())
    }
}

impl udp_create_socket::Host for SocketsView<'_> {
    async fn create_udp_socket(&mut self, _family: IpAddressFamily) -> SocketResult<Resource<UdpSocket>> {
        Err(self.refuse("a UDP socket", "UDP is never granted").into())
    }
}

/// As wasmtime has them: the error codes of all interfaces are converted here.
impl network::Host for SocketsView<'_> {
    fn convert_error_code(&mut self, error: wasmtime_wasi::p2::SocketError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn network_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        let error = self.table.get(&error)?;
        Ok(error.downcast_ref::<std::io::Error>().map(ErrorCode::from))
    }
}

impl network::HostNetwork for SocketsView<'_> {
    fn drop(&mut self, network: Resource<Network>) -> wasmtime::Result<()> {
        self.table.delete(network)?;
        Ok(())
    }
}
