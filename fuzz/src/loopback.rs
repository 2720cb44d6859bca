//! A server on this machine that answers HTTP requests with bytes of a fuzz target.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// A request.
pub struct Request {
    /// The method.
    pub method: String,
    /// The body.
    pub body: Vec<u8>,
}

/// A response.
pub struct Response {
    /// The status, such as `200 OK`.
    pub status: &'static str,
    /// The media type of the body.
    pub media_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
    /// Size of the pieces in which it is sent, in bytes.
    pub piece: usize,
}

/// Starts a server that lives as long as the process. Returns its address.
pub fn serve(answer: impl Fn(Request) -> Response + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            // A client that disconnects in the middle ends its connection only.
            std::thread::spawn(move || serve_client(stream, answer.as_ref()));
        }
    });
    address
}

/// Answers the requests of one connection; `None` when it ends.
fn serve_client(stream: TcpStream, answer: &impl Fn(Request) -> Response) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let mut output = stream;
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let method = line.split(' ').next()?.to_owned();
        let mut length = 0;
        loop {
            let mut header = String::new();
            input.read_line(&mut header).ok().filter(|read| *read > 0)?;
            if header.trim().is_empty() {
                break;
            }
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body).ok()?;
        let Response { status, media_type, body, piece } = answer(Request { method, body });
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n");
        output.write_all(head.as_bytes()).ok()?;
        for piece in body.chunks(piece) {
            let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
            output.write_all(&chunk).ok()?;
        }
        output.write_all(b"0\r\n\r\n").ok()?;
    }
}
