//! The HTTP listener: accepts connections, and enforces a deadline for each phase of one.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::{Admission, MAX_HEAD_BYTES};
use crate::bounds::{MAX_VALUES, Size};
use crate::connections::{Capacity, Connection, Connections};
use crate::guard::Guard;
use crate::limits::message_memory_bytes;
use crate::options::{HttpError, HttpOptions};
use crate::request_framing::RequestFraming;
use crate::service::Services;
use crate::tenants::{RequestDefaults, Tenants};
use crate::turns::Turns;
use crate::write_deadline::WriteDeadline;
use fumehood_core::dependency::Dependency;
use fumehood_layers::Access;

/// Deadline for the head of a request, from the moment that the connection waits for it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time in which a client takes nothing of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the kernel's send buffer of a connection, in bytes; the kernel doubles it. The default is megabytes for each
/// client that takes nothing.
const SEND_BUFFER_BYTES: usize = 128 << 10;
/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 64;
/// Time for open requests to end when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after the system refused to accept a connection.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(20);
/// Pause after the system refused to accept a connection and another one was dropped to make room.
const SHED_BACKOFF: Duration = Duration::from_millis(1);

/// A listener that is bound to an address and does not accept yet.
///
/// ```
/// use fumehood_server::{Access, HttpOptions, Listener};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listener = Listener::bind(HttpOptions::new(([127, 0, 0, 1], 0).into(), Access::Anyone)).await?;
/// println!("listening at {}", listener.address());
/// // The services of MCP, of the HTTP API, or your own.
/// listener.services().open(Vec::new());
/// let stop = async {
///     // A service waits for a signal here.
/// };
/// listener.serve(stop).await;
/// # Ok(())
/// # }
/// ```
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    admission: Arc<Admission>,
    connections: Connections,
    turns: Turns,
    drain: Duration,
    stop: CancellationToken,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Listener {
    /// Binds to the address. Nothing is accepted before [`Listener::serve`], and requests are rejected until
    /// [`Services::open`].
    ///
    /// # Errors
    /// See [`HttpError`].
    pub async fn bind(options: HttpOptions) -> Result<Self, HttpError> {
        let address = options.address;
        check_access(&options.access, address)?;
        let listener = TcpListener::bind(address).await.map_err(|source| HttpError::Listen { address, source })?;
        Self::new(listener, options)
    }

    /// Creates a listener from a socket that listens already, such as that of a service manager, in place of
    /// [`HttpOptions::address`].
    ///
    /// # Errors
    /// See [`HttpError`].
    pub fn from_socket(socket: std::net::TcpListener, options: HttpOptions) -> Result<Self, HttpError> {
        let failed = |source| HttpError::Listen { address: options.address, source };
        check_access(&options.access, socket.local_addr().map_err(failed)?)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let listener = TcpListener::from_std(socket).map_err(failed)?;
        Self::new(listener, options)
    }

    fn new(listener: TcpListener, options: HttpOptions) -> Result<Self, HttpError> {
        let address = listener.local_addr().map_err(|source| HttpError::Listen { address: options.address, source })?;
        let largest = message_memory_bytes(Size { bytes: options.body_bytes, values: MAX_VALUES });
        let in_flight_bytes = options.in_flight_bytes.max(largest.saturating_mul(2));
        let defaults = RequestDefaults { requests: options.requests, in_flight_bytes };
        let tenants = Tenants::new(&options.access, defaults, options.verifier.is_some())?;
        let guard = Guard::new(address, &options.hosts, &options.origins);
        let admission = Admission {
            guard,
            tenants,
            verifier: options.verifier,
            body_bytes: options.body_bytes,
            services: Services::default(),
            dependencies: RwLock::default(),
            running: TaskTracker::new(),
        };
        let capacity = Capacity { pending: options.unauthenticated_connections, authenticated: options.connections };
        let connections = Connections::new(capacity);
        let stop = CancellationToken::new();
        let streams = connections.clone();
        admission.tenants.on_replaced(move |tenants| streams.end_streams(|identity| tenants.accepts(identity)));
        let admission = Arc::new(admission);
        let drain = options.drain;
        Ok(Self { listener, address, admission, connections, turns: Turns::new(), drain, stop })
    }

    /// Returns the address that it is bound to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the services, to be opened once there are any.
    #[must_use]
    pub fn services(&self) -> Services {
        self.admission.services.clone()
    }

    /// Answers checks of readiness with 503 while this part of the service is lost.
    pub fn depend_on(&self, dependency: Arc<dyn Dependency>) {
        self.admission.dependencies.write().unwrap_or_else(PoisonError::into_inner).push(dependency);
    }

    /// Returns the tenants, to be replaced when they change.
    #[must_use]
    pub fn tenants(&self) -> Tenants {
        self.admission.tenants.clone()
    }

    /// Returns the accepted `Host` headers.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        self.admission.guard.hosts()
    }

    /// Returns the accepted `Origin` headers.
    #[must_use]
    pub fn origins(&self) -> &[String] {
        self.admission.guard.origins()
    }

    /// Returns the maximum size of the body of a request, in bytes.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        self.admission.body_bytes
    }

    /// Returns a token that is cancelled when running requests have to end.
    #[must_use]
    pub fn stopped(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Serves until `stop` completes. Then new requests are rejected, and running ones may end within
    /// [`HttpOptions::drain`]; after that, open ones have a second to end, and their calls are stopped.
    pub async fn serve(&self, stop: impl Future) {
        let tasks = TaskTracker::new();
        self.accept_until(stop, &tasks).await;
        // From here on requests are rejected.
        self.admission.running.close();
        if !self.drain.is_zero() {
            let drained = tokio::time::timeout(self.drain, self.admission.running.wait());
            self.accept_until(drained, &tasks).await;
        }
        self.stop.cancel();
        tasks.close();
        let _in_time = tokio::time::timeout(SHUTDOWN_TIMEOUT, tasks.wait()).await;
    }

    async fn accept_until(&self, stop: impl Future, tasks: &TaskTracker) {
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                _ = &mut stop => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = Arc::new(self.connections.add());
                    let served = serve_connection(
                        stream,
                        Arc::clone(&connection),
                        Arc::clone(&self.admission),
                        self.stop.clone(),
                    );
                    tasks.spawn(self.turns.share(connection, served));
                    // Otherwise many connections at once would keep those before them from sending their heads.
                    tokio::task::yield_now().await;
                }
                Err(error) if is_peer_error(&error) => {}
                // For example too many open files: one connection fewer makes room for the next.
                Err(_) => {
                    let backoff = if self.connections.shed() { SHED_BACKOFF } else { ACCEPT_BACKOFF };
                    tokio::select! {
                        _ = &mut stop => return,
                        () = tokio::time::sleep(backoff) => {}
                    }
                }
            }
        }
    }
}

/// Checks that other machines need a token.
fn check_access(access: &Access, address: SocketAddr) -> Result<(), HttpError> {
    match access {
        Access::Anyone if !address.ip().is_loopback() => Err(HttpError::OpenToAll(address)),
        _ => Ok(()),
    }
}

/// Returns whether the error means that the connection was gone before it was accepted.
fn is_peer_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Serves a connection until it ends, has to make room for another one, or `stop` is cancelled.
async fn serve_connection(
    stream: TcpStream,
    connection: Arc<Connection>,
    admission: Arc<Admission>,
    stop: CancellationToken,
) {
    // Without it, Nagle's algorithm holds small responses back for 40 ms.
    let _slower = stream.set_nodelay(true);
    let _larger = fumehood_platform::sockets::set_send_buffer(&stream, SEND_BUFFER_BYTES);
    let stream = RequestFraming::new(WriteDeadline::new(stream, WRITE_TIMEOUT, Arc::clone(&connection)));
    let request_connection = Arc::clone(&connection);
    let service = service_fn(move |request| {
        let admission = Arc::clone(&admission);
        let connection = Arc::clone(&request_connection);
        async move { Ok::<_, Infallible>(admission.handle(request, connection).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS);
    let mut serving = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ended = serving.as_mut() => return,
        () = connection.dropped() => return,
        () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ended = serving => {}
        () = connection.dropped() => {}
    }
}
