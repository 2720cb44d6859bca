//! Servers on loopback: one that behaves as badly as the path of a request asks for, and one that must not be reached.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Maximum size of the head of a request, in bytes; longer ones are not answered.
const MAX_HEAD_BYTES: u64 = 64 << 10;
/// Interval between two pieces of a slow answer.
const DRIP_INTERVAL: Duration = Duration::from_millis(20);

/// A server on the tasks of this thread, which ends when it is dropped.
pub(crate) struct Server {
    port: u16,
    leaked: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts the server. It notices requests that contain `secret` and whose path is not below `/secret/`.
    ///
    /// # Errors
    /// If this machine has no free port on 127.0.0.1.
    pub(crate) async fn start(secret: &'static str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("there is no free port on 127.0.0.1")?;
        let port = listener.local_addr()?.port();
        let leaked = Arc::<AtomicBool>::default();
        let leak = Arc::clone(&leaked);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let leak = Arc::clone(&leak);
                connections.spawn(async move {
                    // A client that disconnects is not a failure of the server.
                    let _ = serve(stream, secret, &leak).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, leaked, task })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether the secret arrived with a request that it is not for.
    pub(crate) fn has_received_secret(&self) -> bool {
        self.leaked.load(SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, secret: &str, leaked: &AtomicBool) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut reader = BufReader::new(read.take(MAX_HEAD_BYTES));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    if head.contains(secret) && !path.starts_with("/secret/") {
        leaked.store(true, SeqCst);
    }
    match path.as_str() {
        "/redirect" => {
            let location = "http://169.254.169.254/latest/meta-data/";
            let text = format!("HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: {location}\r\n\r\n");
            write.write_all(text.as_bytes()).await
        }
        "/slow-body" => drip(&mut write, "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", "x").await,
        "/slow-head" => drip(&mut write, "HTTP/1.1 200 OK\r\n", "x: y\r\n").await,
        "/endless" => {
            write.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
            let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
            loop {
                write.write_all(chunk.as_bytes()).await?;
            }
        }
        "/upload" => {
            // Everything is read before anything is answered.
            let mut rest = reader.into_inner();
            rest.set_limit(u64::MAX);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.map(|_| ())
        }
        _ => {
            let authorization = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or("nothing");
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{authorization}", authorization.len());
            write.write_all(text.as_bytes()).await
        }
    }
}

/// Writes `begin`, and then `drop` again and again until the client disconnects.
async fn drip(write: &mut (impl tokio::io::AsyncWrite + Unpin), begin: &str, drop: &str) -> std::io::Result<()> {
    write.write_all(begin.as_bytes()).await?;
    loop {
        write.write_all(drop.as_bytes()).await?;
        write.flush().await?;
        tokio::time::sleep(DRIP_INTERVAL).await;
    }
}

/// A listener that no tool is allowed to reach. Connections wait in it until it is checked.
pub(crate) struct Listener(std::net::TcpListener);

impl Listener {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If this machine has none.
    pub(crate) fn start() -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Returns its port.
    ///
    /// # Errors
    /// If the system does not report it.
    pub(crate) fn port(&self) -> std::io::Result<u16> {
        Ok(self.0.local_addr()?.port())
    }

    /// Returns whether nothing has connected since the last check. An error counts as a connection.
    pub(crate) fn has_no_connection(&self) -> bool {
        self.0.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}
