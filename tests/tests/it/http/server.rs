//! Servers on loopback, honest or hostile, with one thread for each connection.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A readable and writable connection, encrypted or not.
pub(crate) trait Wire: Read + Write {}
impl<W: Read + Write> Wire for W {}

/// Requests that a server received.
#[derive(Default)]
pub(crate) struct RequestLog {
    heads: Mutex<Vec<String>>,
    /// Bytes of request bodies.
    pub(crate) body: AtomicUsize,
    now: AtomicUsize,
    /// Maximum number of connections at one time.
    pub(crate) at_once: AtomicUsize,
    /// Number of connections that ended.
    pub(crate) ended: AtomicUsize,
}

impl RequestLog {
    /// Returns the heads of all requests, in the order of their arrival.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Returns the head of the only request.
    pub(crate) fn head(&self) -> String {
        let heads = self.heads();
        assert_eq!(heads.len(), 1, "{heads:?}");
        heads[0].clone()
    }

    /// Waits until all connections are closed.
    pub(crate) fn closed(&self) {
        let patience = Instant::now() + Duration::from_secs(5);
        while self.now.load(SeqCst) > 0 {
            assert!(Instant::now() < patience, "a connection is still open");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A listening server. It stops when it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    pub(crate) seen: Arc<RequestLog>,
    stop: Arc<AtomicBool>,
}

impl Server {
    /// Answers every request with what `answer` writes. The connection ends when that returns.
    pub(crate) fn start(answer: impl Fn(&mut dyn Wire, &str) + Send + Sync + 'static) -> Self {
        Self::start_raw(move |stream, seen| serve(&mut { stream }, seen, &answer))
    }

    /// Like [`Self::start`], over TLS.
    pub(crate) fn start_tls(
        config: Arc<rustls::ServerConfig>,
        answer: impl Fn(&mut dyn Wire, &str) + Send + Sync + 'static,
    ) -> Self {
        Self::start_raw(move |stream, seen| {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            serve(&mut stream, seen, &answer);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        })
    }

    /// Passes each connection to `talk` without reading it.
    pub(crate) fn start_raw(talk: impl Fn(TcpStream, &RequestLog) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<RequestLog>::default();
        let stop = Arc::<AtomicBool>::default();
        let talk = Arc::new(talk);
        let for_thread = (Arc::clone(&seen), Arc::clone(&stop));
        std::thread::spawn(move || {
            let (seen, stop) = for_thread;
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(SeqCst) {
                    return;
                }
                let seen = Arc::clone(&seen);
                let talk = Arc::clone(&talk);
                seen.at_once.fetch_max(seen.now.fetch_add(1, SeqCst) + 1, SeqCst);
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    talk(stream, &seen);
                    seen.ended.fetch_add(1, SeqCst);
                    seen.now.fetch_sub(1, SeqCst);
                });
            }
        });
        Self { address, seen, stop }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns `name:port`, for a name that the test's resolver knows.
    pub(crate) fn at(&self, name: &str) -> String {
        format!("{name}:{}", self.port())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(stream: &mut dyn Wire, seen: &RequestLog, answer: &dyn Fn(&mut dyn Wire, &str)) {
    let mut reader = BufReader::new(&mut *stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if !matches!(reader.read_line(&mut head), Ok(1..)) {
            return;
        }
    }
    let lower = head.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<u64>().ok());
    if let Some(length) = length {
        let read = std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).unwrap_or(0);
        seen.body.fetch_add(usize::try_from(read).unwrap(), SeqCst);
    } else if lower.contains("transfer-encoding: chunked") {
        read_chunks(&mut reader, seen);
    }
    seen.heads.lock().unwrap().push(head.clone());
    answer(stream, &head);
    let _ = stream.flush();
}

fn read_chunks(reader: &mut dyn std::io::BufRead, seen: &RequestLog) {
    loop {
        let mut line = String::new();
        if !matches!(reader.read_line(&mut line), Ok(1..)) {
            return;
        }
        let Ok(length) = u64::from_str_radix(line.trim(), 16) else { return };
        let read = std::io::copy(&mut reader.take(length), &mut std::io::sink()).unwrap_or(0);
        seen.body.fetch_add(usize::try_from(read).unwrap(), SeqCst);
        let mut end = String::new();
        if read < length || !matches!(reader.read_line(&mut end), Ok(1..)) || length == 0 {
            return;
        }
    }
}

/// Writes a response with status 200.
pub(crate) fn ok(stream: &mut dyn Wire, body: &str) {
    respond(stream, "200 OK", "", body);
}

/// Writes a response with a status and more headers, each with its line break.
pub(crate) fn respond(stream: &mut dyn Wire, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
}

/// A listener on an address of loopback that must not be connected to.
pub(crate) struct Canary(TcpListener);

impl Canary {
    pub(crate) fn new(address: Ipv4Addr, port: u16) -> Self {
        Self(TcpListener::bind((address, port)).unwrap())
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// Asserts that nothing has connected. Connections are accepted in the order of their arrival, so ours has to be
    /// the first.
    pub(crate) fn saw_nobody(&self) {
        let ours = TcpStream::connect(self.0.local_addr().unwrap()).unwrap();
        assert_eq!(self.0.accept().unwrap().1, ours.local_addr().unwrap(), "somebody connected");
        self.0.set_nonblocking(true).unwrap();
        assert!(self.0.accept().is_err(), "somebody connected late");
        self.0.set_nonblocking(false).unwrap();
    }
}
