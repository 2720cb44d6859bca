//! A server that answers every connection in the same way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fumehood_transport::{Request, Response, ResponseLimits, Roots, Transport, TransportError, Url};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Number of bytes after which a flood ends, so that a client without a limit fails its test and not the machine.
const MAX_FLOOD_BYTES: usize = 256 << 20;

/// The body of a response.
#[derive(Clone)]
pub(super) enum Body {
    /// These bytes, and the end of the connection.
    Whole(Vec<u8>),
    /// These bytes again and again.
    Floods(Vec<u8>),
    /// These bytes again and again, with a pause before each.
    Drips(Vec<u8>, Duration),
}

/// The server, which ends when it is dropped.
pub(super) struct Server {
    pub(super) url: Url,
    sent: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Server {
    /// Starts a server that sends this head, without the empty line, and body.
    pub(super) async fn start(head: &str, body: Body) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let sent = Arc::new(AtomicUsize::new(0));
        let connections = Arc::new(AtomicUsize::new(0));
        let head = head.to_owned();
        let counter = Arc::clone(&sent);
        let opened = Arc::clone(&connections);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                opened.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(answer(stream, head.clone(), body.clone(), Arc::clone(&counter)));
            }
        });
        Self { url, sent, connections, serving }
    }

    /// Returns the number of bytes of bodies so far.
    pub(super) fn sent_bytes(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the number of connections so far.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn answer(mut stream: TcpStream, head: String, body: Body, sent: Arc<AtomicUsize>) {
    let mut request = [0; 4096];
    let _read = stream.read(&mut request).await;
    if stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await.is_err() {
        return;
    }
    match body {
        Body::Whole(bytes) => drop(stream.write_all(&bytes).await),
        Body::Floods(piece) => {
            while sent.load(Ordering::Relaxed) < MAX_FLOOD_BYTES && stream.write_all(&piece).await.is_ok() {
                sent.fetch_add(piece.len(), Ordering::Relaxed);
            }
        }
        Body::Drips(piece, pause) => loop {
            tokio::time::sleep(pause).await;
            if stream.write_all(&piece).await.is_err() {
                return;
            }
            sent.fetch_add(piece.len(), Ordering::Relaxed);
        },
    }
}

pub(super) fn transport() -> Transport {
    Transport::builder().roots(Roots::None).build().unwrap()
}

pub(super) fn limits() -> ResponseLimits {
    ResponseLimits::within(Duration::from_secs(10), 1 << 20)
}

pub(super) async fn get(url: &Url, limits: ResponseLimits) -> Result<Response, TransportError> {
    transport().send(Request::get(url.clone()), limits).await
}
