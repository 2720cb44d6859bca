//! The cost of a request beyond the same request made directly with the HTTP library.

use std::io::{BufRead as _, BufReader, Write as _};
use std::time::{Duration, Instant};

use fumehood::permission::http::HttpLimits;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;

use super::server::Server;
use super::stage::{LOCAL, Stage, answer, requests};

const ROUNDS: usize = 500;

/// Makes a request with the HTTP library, on a new connection each time, as the host does.
async fn directly(at: &str) {
    let stream = tokio::net::TcpStream::connect(at).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = hyper::Request::get("/").header("host", at).body(Empty::<Bytes>::new()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
    connection.abort();
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement and no check: run it with --ignored --nocapture on a machine that does nothing else"]
async fn a_request_and_the_same_one_made_directly() {
    let server = Server::start_raw(|mut stream, _| {
        let mut head = String::new();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while !head.ends_with("\r\n\r\n") && matches!(reader.read_line(&mut head), Ok(1..)) {}
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    });
    let at = format!("127.0.0.1:{}", server.port());
    let stage = Stage::new(requests(&[&format!("GET http://{at}/**")], LOCAL, HttpLimits::default())).await;
    let request = format!("GET http://{at}/");
    let refused = "GET http://127.0.0.1:1/".to_owned();
    let [mut direct, mut through, mut without] = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let started = Instant::now();
        directly(&at).await;
        direct.push(started.elapsed());
        let started = Instant::now();
        assert_eq!(answer(&stage.fetch(&request).await).0, 200);
        through.push(started.elapsed());
        // The same call of the same tool, whose request the host refuses.
        let started = Instant::now();
        assert!(stage.fetch(&refused).await.error().is_some());
        without.push(started.elapsed());
    }
    let [direct, through, without] = [direct, through, without].map(middle);
    println!("direct {direct:?}, by a tool {through:?}, refused to a tool {without:?}");
    println!("overhead of the request itself {:?}", through.saturating_sub(direct + without));
}
