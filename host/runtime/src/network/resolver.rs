//! Resolution of host names to addresses.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use tokio::sync::Semaphore;

/// Maximum number of concurrent lookups. Each takes a thread, which a silent name server blocks for half a minute.
const MAX_LOOKUPS: usize = 8;

/// A resolver of host names.
///
/// It is called once for each request, before anything is connected, and the request goes to one of the addresses that
/// it returned. When the time of the request is over, the future is dropped.
pub trait Resolver: Send + Sync {
    /// Returns the addresses of `host`, a name in lower case without a trailing dot.
    ///
    /// Runs on threads that run guests, and must not block them.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;

    /// Returns the place to connect to for an address that was admitted. The default is that address with the port of
    /// the request; a test that answers requests itself returns the place of its own server.
    fn endpoint(&self, address: IpAddr, port: u16) -> SocketAddr {
        SocketAddr::new(address, port)
    }
}

/// The resolver of this machine: its hosts file, and the name servers that it uses.
#[derive(Debug)]
pub struct SystemResolver {
    permits: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(io::Error::other)?;
            let host = host.to_owned();
            let look_up = move || {
                // Held to the end of the lookup, even if the future has been dropped.
                let _permit = permit;
                (host.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect())
            };
            tokio::task::spawn_blocking(look_up).await.map_err(io::Error::other)?
        })
    }
}
