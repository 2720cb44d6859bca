//! A local server that plays recorded replies, one for each connection, and records the requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The reply to one connection.
#[derive(Clone)]
pub(super) enum Play {
    /// A whole response, written in pieces of this many bytes.
    Reply { status: u16, headers: &'static str, body: Vec<u8>, piece: usize },
    /// The beginning of a response without a length; then the connection ends.
    Ends(Vec<u8>),
    /// The beginning of a response with a greater length; then the connection ends.
    Cut(Vec<u8>),
    /// The beginning of a response; then the connection stays open.
    Hangs(Vec<u8>),
    /// No reply.
    Silent,
    /// This head, and then the piece until the client leaves or so many bytes are sent.
    Floods { head: &'static str, piece: Vec<u8>, max_bytes: usize },
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub(super) struct ReceivedRequest {
    /// The request line and the headers.
    pub(super) head: String,
    /// The body.
    pub(super) body: Value,
}

/// The server.
pub(super) struct Server {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
    flooded: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server that plays these replies in order, and then accepts no more connections.
    pub(super) async fn start(plays: Vec<Play>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let flooded = Arc::new(AtomicUsize::new(0));
        let sent = Arc::clone(&flooded);
        tokio::spawn(async move {
            for play in plays {
                let (stream, _) = listener.accept().await.unwrap();
                serve(stream, play, &kept, &sent).await;
            }
        });
        Self { url, asked, flooded }
    }

    /// Returns the requests so far.
    pub(super) fn requests(&self) -> Vec<ReceivedRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the number of bytes of floods so far.
    pub(super) fn sent_bytes(&self) -> usize {
        self.flooded.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, play: Play, asked: &Mutex<Vec<ReceivedRequest>>, flooded: &AtomicUsize) {
    let (head, body) = request(&mut stream).await;
    asked.lock().unwrap().push(ReceivedRequest { head, body: serde_json::from_slice(&body).unwrap_or_default() });
    let stream_head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    match play {
        Play::Reply { status, headers, body, piece } => {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            for piece in body.chunks(piece.max(1)) {
                if stream.write_all(piece).await.is_err() || stream.flush().await.is_err() {
                    return;
                }
            }
        }
        Play::Ends(body) => {
            stream.write_all(format!("{stream_head}\r\n").as_bytes()).await.unwrap();
            stream.write_all(&body).await.unwrap();
        }
        Play::Cut(body) => {
            stream.write_all(format!("{stream_head}content-length: 999999\r\n\r\n").as_bytes()).await.unwrap();
            stream.write_all(&body).await.unwrap();
        }
        Play::Hangs(body) => {
            stream.write_all(format!("{stream_head}content-length: 999999\r\n\r\n").as_bytes()).await.unwrap();
            stream.write_all(&body).await.unwrap();
            tokio::spawn(hold(stream));
            return;
        }
        Play::Floods { head, piece, max_bytes } => {
            stream.write_all(head.as_bytes()).await.unwrap();
            while flooded.load(Ordering::Relaxed) < max_bytes && stream.write_all(&piece).await.is_ok() {
                flooded.fetch_add(piece.len(), Ordering::Relaxed);
            }
        }
        Play::Silent => {
            tokio::spawn(hold(stream));
            return;
        }
    }
    let _ = stream.shutdown().await;
}

async fn hold(stream: TcpStream) {
    tokio::time::sleep(Duration::from_secs(30)).await;
    drop(stream);
}

async fn request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await.unwrap();
        assert_ne!(read, 0, "the client left before it had asked");
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
        });
        let length = length.unwrap_or(0);
        if bytes.len() >= end + 4 + length {
            return (head, bytes[end + 4..end + 4 + length].to_vec());
        }
    }
}
