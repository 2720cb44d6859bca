//! The connections of one call, opened by this process. Each name is looked up once, every address is checked, and connections
//! go to addresses that were checked.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::event::RequestReport;
use fumehood_core::policy::permission::tcp::{TcpGrant, TcpLimits, decide_connection, decide_lookup, parse_host};
use fumehood_core::policy::permission::{Grant, Refusal};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Host;

use super::connection::OpenConnection;
use super::{Connection, SocketError, Sockets};
use crate::network::Network;
use crate::wasi::account::{Account, AllowanceExceeded, Budget, ReportOnDrop, RequestObserver};
use crate::wasi::refusals::Refusals;

/// Maximum number of addresses of one name that a guest gets.
const MAX_ADDRESSES: usize = 8;

/// The connections of one call. Without a grant nothing is looked up and nothing is connected.
pub(crate) struct DirectSockets {
    grant: Arc<Grant>,
    network: Network,
    refusals: Refusals,
    observer: RequestObserver,
    budget: Budget,
    lookups: AtomicU32,
    /// The names that were looked up, with their admitted addresses.
    found: Mutex<BTreeMap<String, Vec<IpAddr>>>,
}

impl DirectSockets {
    pub(crate) fn new(grant: &Arc<Grant>, network: &Network, refusals: &Refusals, observer: RequestObserver) -> Self {
        let limits = grant.tcp().map_or_else(TcpLimits::default, |tcp| *tcp.limits());
        Self {
            grant: Arc::clone(grant),
            network: network.clone(),
            refusals: refusals.clone(),
            observer,
            budget: Budget::new(limits, refusals),
            lookups: AtomicU32::new(0),
            found: Mutex::default(),
        }
    }

    fn limits(&self) -> TcpLimits {
        self.grant.tcp().map(TcpGrant::limits).copied().unwrap_or_default()
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<String, Vec<IpAddr>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names for which an address was found.
    fn names_of(&self, address: IpAddr) -> Vec<String> {
        let address = address.to_canonical();
        let found = self.found();
        let names = found.iter().filter(|(_, addresses)| addresses.contains(&address));
        names.map(|(name, _)| name.clone()).collect()
    }

    fn refuse(&self, refusal: Refusal) -> SocketError {
        self.refusals.add(refusal);
        SocketError::Denied
    }

    async fn resolve(&self, text: &str) -> Result<Vec<IpAddr>, SocketError> {
        let host = match decide_lookup(self.grant.tcp(), text) {
            Ok(host) => host,
            Err(refusal) => {
                let error = self.refuse(refusal);
                return self.placeholder(text).map(|address| vec![address]).ok_or(error);
            }
        };
        let name = match host {
            Host::Ipv4(address) => return Ok(vec![IpAddr::V4(address)]),
            Host::Ipv6(address) => return Ok(vec![IpAddr::V6(address)]),
            Host::Domain(name) => name,
        };
        if let Some(addresses) = self.found().get(&name) {
            return Ok(addresses.clone());
        }
        let limits = self.limits();
        if self.lookups.fetch_add(1, Relaxed) >= limits.connections {
            self.lookups.store(limits.connections, Relaxed);
            self.refusals.add_exhausted(format!("tcp: the tool looked up all of its {} names", limits.connections));
            return Err(SocketError::Exhausted);
        }
        let found = match timeout(limits.connect, self.network.resolver.resolve(&name)).await {
            Ok(Ok(found)) if !found.is_empty() => found,
            Ok(_) => return Err(SocketError::NoSuchName),
            Err(_late) => return Err(SocketError::SlowName),
        };
        if let Some(tcp) = self.grant.tcp() {
            tcp.admit(&name, &found).map_err(|refusal| self.refuse(refusal))?;
        }
        let addresses: Vec<IpAddr> = found.iter().take(MAX_ADDRESSES).map(IpAddr::to_canonical).collect();
        self.found().insert(name, addresses.clone());
        Ok(addresses)
    }

    /// Returns an address of no machine for a name that is not granted, if lookups are observed. A connection to it is refused
    /// with that name.
    fn placeholder(&self, text: &str) -> Option<IpAddr> {
        let Some(Host::Domain(name)) = parse_host(text).filter(|_| self.network.observes_lookups) else { return None };
        let mut found = self.found();
        if let Some(addresses) = found.get(&name) {
            return addresses.first().copied();
        }
        // A network for documentation (RFC 5737).
        let last = u8::try_from(found.len() + 1).ok()?;
        let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
        found.insert(name, vec![address]);
        Some(address)
    }

    /// Decides on a connection, and opens its account.
    fn admit(&self, remote: SocketAddr) -> Result<Account, SocketError> {
        let names = self.names_of(remote.ip());
        let rule = decide_connection(self.grant.tcp(), remote, &names).map_err(|refusal| {
            let target = names.first().map_or_else(|| remote.to_string(), |name| format!("{name}:{}", remote.port()));
            let account = Account::new(&self.budget, &self.observer, RequestReport::CONNECTION.to_owned(), target);
            account.record_refusal(&refusal.because);
            self.refuse(refusal)
        })?;
        let account =
            Account::open(&self.budget, &self.observer, RequestReport::CONNECTION.to_owned(), rule.to_string())
                .map_err(|AllowanceExceeded| SocketError::Exhausted)?;
        if self.observer.ledger.accounts.add(account.clone()) { Ok(account) } else { Err(SocketError::Broken) }
    }

    async fn open(&self, remote: SocketAddr) -> Result<Connection, SocketError> {
        let report = ReportOnDrop(self.admit(remote)?);
        let patience = self.limits().connect;
        let permits = Arc::clone(&self.network.permits);
        let Ok(Ok(permit)) = timeout(patience, permits.acquire_owned()).await else {
            let max = self.network.max_requests();
            self.refusals.add_exhausted(format!(
                "tcp: all calls of this host together have {max} running requests and connections, the maximum; call \
                 again later"
            ));
            report.0.record_failure(&SocketError::Exhausted.to_string());
            return Err(SocketError::Exhausted);
        };
        let endpoint = self.network.resolver.endpoint(remote.ip().to_canonical(), remote.port());
        let error = match timeout(patience, TcpStream::connect(endpoint)).await {
            Ok(Ok(stream)) => {
                // Tools decide what they send at once; the host should not hold it back.
                let _ = stream.set_nodelay(true);
                report.0.record_connected();
                return Ok(Connection::counted(stream, OpenConnection { report, _permit: permit }));
            }
            Ok(Err(error)) => SocketError::from_connect(&error),
            Err(_late) => SocketError::SlowConnect,
        };
        report.0.record_failure(&error.to_string());
        Err(error)
    }
}

impl Sockets for DirectSockets {
    fn look_up(self: Arc<Self>, name: String) -> BoxFuture<'static, Result<Vec<IpAddr>, SocketError>> {
        Box::pin(async move { self.resolve(&name).await })
    }

    fn connect(self: Arc<Self>, remote: SocketAddr) -> BoxFuture<'static, Result<Connection, SocketError>> {
        Box::pin(async move { self.open(remote).await })
    }
}
