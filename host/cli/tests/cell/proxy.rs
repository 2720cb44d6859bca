//! A network between a node and the NATS server that can be cut, for one direction or both, delayed and reset.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time between two looks at the state of the network.
const TICK: Duration = Duration::from_millis(5);

/// The state of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// Everything passes.
    Well,
    /// Nothing passes, and no end notices: what was sent arrives once the network is well again.
    Cut,
    /// Nothing of the node reaches the server; what the server sends passes.
    HalfOpen,
    /// Everything passes later.
    Slow(Duration),
}

/// A proxy on a port of its own. Connections through it end when it is dropped.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<ProxyState>,
}

struct ProxyState {
    network: Mutex<Network>,
    connections: Mutex<Vec<TcpStream>>,
    is_over: AtomicBool,
}

impl Proxy {
    /// Listens, and connects to this port of the machine whenever somebody connects.
    pub(crate) fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(ProxyState {
            network: Mutex::new(Network::Well),
            connections: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for accepted in listener.incoming() {
                if accepting.is_over.load(Ordering::Relaxed) {
                    break;
                }
                let (Ok(node), Ok(server)) = (accepted, TcpStream::connect(("127.0.0.1", server))) else { continue };
                accepting.join(node, server);
            }
        });
        Self { port, shared }
    }

    /// Changes the network, also for the connections that there are.
    pub(crate) fn set(&self, network: Network) {
        *self.shared.network.lock().unwrap() = network;
    }

    /// Resets all connections.
    pub(crate) fn reset(&self) {
        for connection in self.shared.connections.lock().unwrap().drain(..) {
            let _gone = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.reset();
        let _woken = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl ProxyState {
    fn join(self: &Arc<Self>, node: TcpStream, server: TcpStream) {
        for stream in [&node, &server] {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(TICK)).unwrap();
            self.connections.lock().unwrap().push(stream.try_clone().unwrap());
        }
        let from_node = node.try_clone().unwrap();
        let to_node = node;
        let from_server = server.try_clone().unwrap();
        let to_server = server;
        let one = Arc::clone(self);
        let other = Arc::clone(self);
        std::thread::spawn(move || one.pump(from_node, to_server, true));
        std::thread::spawn(move || other.pump(from_server, to_node, false));
    }

    /// Carries bytes in one direction until an end closes.
    fn pump(&self, mut from: TcpStream, mut to: TcpStream, is_from_node: bool) {
        let mut buffer = vec![0; 64 * 1024];
        while !self.is_over.load(Ordering::Relaxed) {
            let network = *self.network.lock().unwrap();
            match network {
                Network::Cut => {
                    std::thread::sleep(TICK);
                    continue;
                }
                Network::HalfOpen if is_from_node => {
                    std::thread::sleep(TICK);
                    continue;
                }
                _ => {}
            }
            let read = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(_) => break,
            };
            // What was read before the network was cut is on the wire already.
            if let Network::Slow(delay) = network {
                std::thread::sleep(delay);
            }
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _gone = from.shutdown(Shutdown::Both);
        let _gone = to.shutdown(Shutdown::Both);
    }
}
