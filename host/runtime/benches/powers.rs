//! The cost of powers, measured in one run: a tool that needs none with and without grants, and an operation that needs
//! a power made by a tool and made directly.
//!
//! Both sides of a row are measured alternately, so that other load of the machine affects both of them.
//!
//! `cargo bench -p fumehood-runtime --bench powers`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood::key_value::{DiskStore, Key, KeyValueStore, MemoryStore};
use fumehood::permission::KeyValueQuota;
use fumehood::permission::files::Folder;
use fumehood::permission::http::{HttpGrant, HttpLimits};
use fumehood::{Call, Grant, Host, Load, Namespace};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

const ROUNDS: usize = 5_000;
const WARM_UP: usize = 500;
/// A request takes several times as long as any other row.
const REQUESTS: usize = 1_000;
const QUOTA: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// The medians of several operations, measured alternately.
struct Medians<const N: usize>([Duration; N]);

impl<const N: usize> Medians<N> {
    fn from_times(mut times: [Vec<Duration>; N]) -> Self {
        Self(std::array::from_fn(|which| {
            times[which].sort_unstable();
            times[which][times[which].len() / 2]
        }))
    }
}

async fn time(what: impl Future) -> Duration {
    let started = Instant::now();
    std::hint::black_box(what.await);
    started.elapsed()
}

async fn alternate<A: Future, B: Future>(
    rounds: usize,
    mut one: impl FnMut() -> A,
    mut other: impl FnMut() -> B,
) -> Medians<2> {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds + WARM_UP.min(rounds) {
        let took = [time(one()).await, time(other()).await];
        if round >= WARM_UP.min(rounds) {
            times.iter_mut().zip(took).for_each(|(times, took)| times.push(took));
        }
    }
    Medians::from_times(times)
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn head(one: &str, other: &str) {
    println!("\n{:<44} {one:>9} {other:>9} {:>9} {:>7}", "µs, medians", "more", "ratio");
}

fn row(what: &str, Medians([one, other]): &Medians<2>) {
    let more = micros(*other) - micros(*one);
    println!(
        "{what:<44} {:>9.2} {:>9.2} {more:>9.2} {:>6.2}×",
        micros(*one),
        micros(*other),
        micros(*other) / micros(*one)
    );
}

/// Makes a call that must succeed.
async fn call(host: &Host, tool: &str, arguments: &Value) {
    let result = host.call(Call::new(tool, arguments.clone())).await;
    assert!(result.is_ok(), "{tool}: {result:?}");
    std::hint::black_box(result);
}

async fn load(host: &Host, name: &str, program: Vec<u8>, grant: Grant) {
    host.load(Load::bytes(name, program).grant(grant)).await.expect("it loads");
}

fn folder(root: &Path) -> Grant {
    let folder = Folder::write(&format!("{}:/f", root.display())).expect("a folder");
    Grant::none().with_folder(folder).expect("a grant")
}

fn store() -> Grant {
    Grant::none().with_key_value(KeyValueQuota::new(QUOTA).expect("a quota"))
}

fn requests(to: SocketAddr) -> Grant {
    let rule = format!("GET http://{to}/**").parse().expect("a rule");
    let net = "127.0.0.1/32".parse().expect("a network");
    Grant::none().with_http(HttpGrant::new(vec![rule], vec![net], HttpLimits::default()).expect("a grant"))
}

/// Measures tools that use no power, without a grant and with each of them.
async fn bench_powerless_tools(root: &Path, server: SocketAddr) {
    let host = Host::builder().build().expect("a host");
    let pure = fumehood_tests::contract("echo").expect("the program");
    let wasi = fumehood_tests::component("look-around").expect("the program");
    let all = [("none", Grant::none()), ("folder", folder(root)), ("store", store()), ("http", requests(server))];
    for (name, grant) in all {
        load(&host, &format!("{name}-pure"), pure.clone(), grant.clone()).await;
        load(&host, &format!("{name}-wasi"), wasi.clone(), grant).await;
    }
    let nothing = json!({});
    head("no grant", "a grant");
    for (granted, what) in [("folder", "a folder"), ("store", "a store"), ("http", "requests")] {
        for (sort, tool) in [("pure", "echo"), ("wasi", "arguments")] {
            let [without, with] = ["none", granted].map(|name| format!("{name}-{sort}__{tool}"));
            let figures = alternate(ROUNDS, || call(&host, &without, &nothing), || call(&host, &with, &nothing)).await;
            row(&format!("{sort} tool, granted {what}"), &figures);
        }
    }
}

/// Measures keys and values, by a tool and by a call of the store itself.
async fn bench_key_value(root: &Path) {
    let owner = Namespace::parse("direct").expect("a name");
    let key = Key::parse("k").expect("a key");
    let disk = DiskStore::open(root.join("tools.db")).expect("a store");
    head("direct", "by a tool");
    for (name, store) in
        [("memory", Arc::new(MemoryStore::default()) as Arc<dyn KeyValueStore>), ("disk", Arc::new(disk))]
    {
        let host = Host::builder().key_value_store(Arc::clone(&store)).build().expect("a host");
        load(&host, "it", fumehood_tests::component("key-value").expect("the program"), self::store()).await;
        let set = json!({"key": "k", "value": "some value"});
        let get = json!({"key": "k"});
        let direct = async || store.set(&owner, &key, b"some value", QUOTA, PATIENCE).expect("it is set");
        row(&format!("set a value, in {name}"), &alternate(ROUNDS, direct, || call(&host, "it__set", &set)).await);
        let direct = async || store.get(&owner, &key, PATIENCE).expect("it is there");
        row(&format!("get a value, in {name}"), &alternate(ROUNDS, direct, || call(&host, "it__get", &get)).await);
    }
}

/// Measures files, by a tool and by the standard library.
async fn bench_files(root: &Path) {
    let host = Host::builder().build().expect("a host");
    load(&host, "it", fumehood_tests::component("files").expect("the program"), folder(root)).await;
    let path = root.join("file");
    std::fs::write(&path, [b'x'; 1000]).expect("a file");
    let list = json!({});
    let read = json!({"folder": 0, "path": "file", "follow": 1});
    let write = json!({"folder": 0, "path": "file", "how": 0, "offset": 0, "size": 1000, "times": 1});
    head("direct", "by a tool");
    let nothing = async || ();
    row("ask for the folders", &alternate(ROUNDS, nothing, || call(&host, "it__folders", &list)).await);
    let direct = async || std::fs::read(&path).expect("it is there");
    row("read 1,000 bytes", &alternate(ROUNDS, direct, || call(&host, "it__read", &read)).await);
    let direct = async || {
        let mut file = std::fs::OpenOptions::new().write(true).open(&path).expect("it is there");
        file.write_all(&[0; 1000]).expect("it is written");
    };
    row("write 1,000 bytes", &alternate(ROUNDS, direct, || call(&host, "it__write", &write)).await);
}

/// Answers every request with two bytes, one thread for each connection. It ends with the bench.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    while !head.ends_with("\r\n\r\n") && matches!(reader.read_line(&mut head), Ok(1..)) {}
    // The client may be gone.
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
}

/// Makes a request over a new connection, as the host does.
async fn request_directly(to: SocketAddr) {
    let stream = tokio::net::TcpStream::connect(to).await.expect("a connection");
    stream.set_nodelay(true).expect("an option");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("a connection");
    let connection = tokio::spawn(connection);
    let request =
        hyper::Request::get("/").header("host", to.to_string()).body(Empty::<Bytes>::new()).expect("a request");
    let response = sender.send_request(request).await.expect("a response");
    assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), "ok");
    connection.abort();
}

fn request_arguments(authority: String) -> Value {
    json!({"method": "GET", "scheme": "http", "authority": authority, "path": "/", "headers": [], "send": 0,
            "keep": 16, "patience-ms": 0})
}

/// Measures requests, by a tool and by the HTTP library alone.
async fn bench_requests(server: SocketAddr) {
    let host = Host::builder().build().expect("a host");
    load(&host, "it", fumehood_tests::component("fetch").expect("the program"), requests(server)).await;
    let asked = request_arguments(server.to_string());
    let refused = request_arguments("127.0.0.1:1".to_owned());
    head("direct", "by a tool");
    let figures = alternate(REQUESTS, || request_directly(server), || call(&host, "it__fetch", &asked)).await;
    row("a request", &figures);
    // The same call with a request that is refused before it is made: the difference is the cost of the request itself.
    let at_the_door = async || assert!(!host.call(Call::new("it__fetch", refused.clone())).await.is_ok());
    let Medians([_, refused]) = alternate(REQUESTS, async || (), at_the_door).await;
    let Medians([direct, through]) = figures;
    println!("{:<44} {:>19.2}", "the same call, refused at the door", micros(refused));
    let own = micros(through) - micros(refused) - micros(direct);
    println!("{:<44} {own:>29.2}", "overhead of the request itself");
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // Cargo asks for a list of benches when it runs them as tests.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    let granted = root.path().join("granted");
    std::fs::create_dir(&granted).expect("a folder");
    let server = serve();
    bench_powerless_tools(&granted, server).await;
    bench_key_value(root.path()).await;
    bench_files(&granted).await;
    bench_requests(server).await;
}
