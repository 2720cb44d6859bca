//! From a name to the addresses that it stands for.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use tokio::sync::Semaphore;

/// Names that are looked up at once. Each takes a thread, and a name server that is silent keeps it for half a minute.
const LOOKUPS: usize = 8;

/// Finds the addresses of a name.
///
/// It is asked once for each request, before anything is connected, and the request goes to one of the addresses that
/// it gave. Time is up when the request's is: the future is then dropped.
pub trait Resolver: Send + Sync {
    /// The addresses of `host`, a name in lower case without a dot at its end.
    ///
    /// Runs on the threads that run guests, and must not block them.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Asks this machine: its hosts file, and the name servers that it uses.
pub struct SystemResolver {
    turns: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(LOOKUPS)) }
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(io::Error::other)?;
            let host = host.to_owned();
            let look_up = move || {
                // Held to the end of the lookup, even if nobody waits for it any more.
                let _turn = turn;
                (host.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect())
            };
            tokio::task::spawn_blocking(look_up).await.map_err(io::Error::other)?
        })
    }
}
