//! TCP connections of tools, in this process and in workers: those that are granted carry bytes, and nothing else is opened,
//! looked up or listened to.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fumehood::permission::tcp::{TcpGrant, TcpLimits};
use fumehood::{Call, CallResult, ErrorKind, Grant, Host, IsolationPolicy, Limits, Load, Resolver};
use serde_json::{Value, json};

use super::isolation::{runtime, within_patience, workers};

/// The number of 127.0.0.1.
const LOCALHOST: u32 = u32::from_be_bytes([127, 0, 0, 1]);
/// A network that a grant for servers of a test includes.
const LOCAL: &[&str] = &["127.0.0.1/32"];

/// A resolver that finds names that end with `.test` at 127.0.0.1, unless they have a list of answers, of which the last one is
/// repeated.
#[derive(Default)]
struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl Names {
    fn with(name: &str, answers: &[&[&str]]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        let answers = HashMap::from([(name.to_owned(), answers.iter().map(parse).collect())]);
        Arc::new(Self { answers: Mutex::new(answers), asked: AtomicUsize::new(0) })
    }
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, host: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        self.asked.fetch_add(1, SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let found = match answers.get_mut(host) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None if host.ends_with(".test") => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
            None => Err(io::Error::other("no such name")),
        };
        Box::pin(async { found })
    }
}

/// A host with the program `connect`, in this process or in a worker.
struct Stage {
    host: Host,
}

impl Stage {
    async fn new(isolation: IsolationPolicy, names: Arc<Names>, grant: Grant) -> Self {
        let builder = Host::builder().concurrency(4).resolver(names).workers(workers()).isolation(isolation);
        let host = builder.build().unwrap();
        let program = fumehood_tests::component("connect").unwrap();
        host.load(Load::bytes("it", program).grant(grant)).await.unwrap();
        Self { host }
    }

    async fn call(&self, tool: &str, arguments: Value) -> CallResult {
        self.call_within(tool, arguments, Duration::from_secs(20)).await
    }

    async fn call_within(&self, tool: &str, arguments: Value, deadline: Duration) -> CallResult {
        let limits = Limits::default().deadline(deadline).fuel(u64::MAX / 2);
        self.host.call(Call::new(format!("it__{tool}"), arguments).limits(limits)).await
    }
}

const MODES: [IsolationPolicy; 2] = [IsolationPolicy::Nothing, IsolationPolicy::Everything];

fn grant(rules: &[&str], private: &[&str], limits: TcpLimits) -> Grant {
    let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let private = private.iter().map(|net| net.parse().unwrap()).collect();
    Grant::none().with_tcp(TcpGrant::new(rules, private, limits).unwrap())
}

/// A server on 127.0.0.1 that passes each connection to a function.
struct Server {
    port: u16,
    /// The bytes that it received over connections that have ended.
    received: Arc<AtomicUsize>,
}

impl Server {
    fn start(serve: impl Fn(TcpStream) -> usize + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let serve = serve.clone();
                let counter = Arc::clone(&counter);
                std::thread::spawn(move || counter.fetch_add(serve(stream), SeqCst));
            }
        });
        Self { port, received }
    }

    /// Returns everything that it receives, once it has received the end.
    fn echo() -> Self {
        Self::start(|mut stream| {
            let mut bytes = Vec::new();
            let received = stream.read_to_end(&mut bytes).unwrap_or(bytes.len());
            let _client_left = stream.write_all(&bytes);
            received
        })
    }

    /// Sends without end.
    fn endless() -> Self {
        Self::start(|mut stream| {
            while stream.write_all(&[7; 4096]).is_ok() {}
            0
        })
    }

    fn rule(&self, host: &str) -> String {
        format!("{host}:{}", self.port)
    }
}

/// A listener to which nobody may connect.
struct Canary(TcpListener);

impl Canary {
    fn new(address: Ipv4Addr, port: u16) -> Self {
        let listener = TcpListener::bind((address, port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    fn saw_nobody(&self) {
        assert_eq!(self.0.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "somebody connected");
    }
}

fn failed(result: &CallResult, kind: ErrorKind, code: &str) {
    let error = result.error().unwrap_or_else(|| panic!("it should fail: {result:?}"));
    assert_eq!(error.kind, kind, "{result:?}");
    assert!(error.message.contains(code), "{code}: {error:?}");
}

fn allowed_by(result: &CallResult) -> Vec<String> {
    result.metadata.refused.iter().filter_map(|refusal| refusal.allow.clone()).collect()
}

#[test]
fn granted_connections_carry_bytes_both_ways() {
    runtime().block_on(async {
        for mode in MODES {
            let server = Server::echo();
            let rule = server.rule("db.test");
            let stage = Stage::new(mode, Arc::default(), grant(&[&rule], LOCAL, TcpLimits::default())).await;
            let arguments = json!({"name": "DB.test.", "port": server.port, "send": 200_000, "want": 1_000_000});
            let result = stage.call("meet", arguments).await;
            assert_eq!(result.text().as_deref(), Some("200000"), "{result:?}");
            let [request] = &result.metadata.requests[..] else { panic!("{result:?}") };
            assert_eq!((request.method.as_str(), &request.host), ("CONNECT", &rule));
            assert_eq!((request.status, request.reason.as_deref()), (None, None));
            assert_eq!((request.bytes_out, request.bytes_in), (200_000, 200_000));
            assert!(result.metadata.refused.is_empty(), "{result:?}");
            // An address needs no lookup.
            let by_address = grant(&[&server.rule("127.0.0.1")], LOCAL, TcpLimits::default());
            let stage = Stage::new(mode, Arc::default(), by_address).await;
            let result =
                stage.call("talk", json!({"address": LOCALHOST, "port": server.port, "send": 3, "want": 9})).await;
            assert_eq!(result.text().as_deref(), Some("3"), "{result:?}");
        }
    });
}

#[test]
fn what_was_written_arrives_after_the_call() {
    runtime().block_on(async {
        for mode in MODES {
            let server = Server::echo();
            let stage =
                Stage::new(mode, Arc::default(), grant(&[&server.rule("db.test")], LOCAL, TcpLimits::default())).await;
            let arguments = json!({"name": "db.test", "port": server.port, "send": 300_000, "want": 0});
            assert!(stage.call("meet", arguments).await.is_ok());
            within_patience("bytes are missing", || server.received.load(SeqCst) == 300_000);
        }
    });
}

/// Rows 50 and 90: ungranted names, ports and addresses.
#[test]
fn nothing_else_is_looked_up_or_connected_to() {
    runtime().block_on(async {
        for mode in MODES {
            let canary = Canary::new(Ipv4Addr::LOCALHOST, 0);
            let port = canary.port();
            let names = Arc::<Names>::default();
            let granted = grant(&["db.test:1"], LOCAL, TcpLimits::default());
            let stage = Stage::new(mode, names.clone(), granted).await;
            for name in ["other.test", "secret.db.test", "localhost", "db.test.evil.test"] {
                let result = stage.call("meet", json!({"name": name, "port": port, "send": 1, "want": 1})).await;
                failed(&result, ErrorKind::Denied, "permanent-resolver-failure");
                assert_eq!(allowed_by(&result), [format!("tcp = [\"{name}:PORT\"]")]);
            }
            assert_eq!(names.asked.load(SeqCst), 0, "a name server learns nothing");
            // The name is granted, but not this port of it.
            let result = stage.call("meet", json!({"name": "db.test", "port": port, "send": 1, "want": 1})).await;
            failed(&result, ErrorKind::Denied, "access-denied");
            assert_eq!(allowed_by(&result), [format!("tcp = [\"db.test:{port}\"]")]);
            // The address was not found for a granted name in this call.
            let arguments = json!({"address": LOCALHOST, "port": 1, "send": 1, "want": 1});
            let result = stage.call("talk", arguments.clone()).await;
            failed(&result, ErrorKind::Denied, "access-denied");
            let reason = result.metadata.requests[0].reason.as_deref();
            assert_eq!(reason, Some("no rule of this tool allows that host"), "{result:?}");
            let without = Stage::new(mode, names.clone(), Grant::none()).await;
            failed(&without.call("talk", arguments).await, ErrorKind::Denied, "access-denied");
            let result = without.call("look-up", json!({"name": "db.test"})).await;
            failed(&result, ErrorKind::Denied, "permanent-resolver-failure");
            assert_eq!(names.asked.load(SeqCst), 1);
            canary.saw_nobody();
        }
    });
}

/// Row 91: names at inner addresses, and names that change.
#[test]
fn addresses_are_checked_once_and_then_connected_to() {
    runtime().block_on(async {
        for mode in MODES {
            let server = Server::echo();
            let canary = Canary::new(Ipv4Addr::new(127, 0, 0, 2), server.port);
            let names = Names::with("db.test", &[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.1", "127.0.0.2"], &[]]);
            let rule = server.rule("db.test");
            let stage = Stage::new(mode, names.clone(), grant(&[&rule], LOCAL, TcpLimits::default())).await;
            let arguments = json!({"name": "db.test", "port": server.port, "send": 3, "want": 3});
            let result = stage.call("meet", arguments.clone()).await;
            assert_eq!(result.text().as_deref(), Some("3"), "{result:?}");
            for _ in 0..2 {
                let result = stage.call("meet", arguments.clone()).await;
                failed(&result, ErrorKind::Denied, "permanent-resolver-failure");
                assert_eq!(allowed_by(&result), ["private_addresses = [\"127.0.0.2/32\"]"]);
            }
            failed(&stage.call("meet", arguments.clone()).await, ErrorKind::ToolFailed, "name-unresolvable");
            assert_eq!(names.asked.load(SeqCst), 4, "each call asks once");
            let closed = Stage::new(mode, Arc::default(), grant(&[&rule], &[], TcpLimits::default())).await;
            let result = closed.call("meet", arguments).await;
            failed(&result, ErrorKind::Denied, "permanent-resolver-failure");
            assert_eq!(allowed_by(&result), ["private_addresses = [\"127.0.0.1/32\"]"]);
            assert_eq!(server.received.load(SeqCst), 3);
            canary.saw_nobody();
        }
    });
}

/// Row 92: many connections, and bytes without end.
#[test]
fn connections_and_their_bytes_are_limited() {
    runtime().block_on(async {
        for mode in MODES {
            let endless = Server::endless();
            let limits = TcpLimits { connections: 3, bytes_in: 100_000, bytes_out: 50_000, ..TcpLimits::default() };
            let echo = Server::echo();
            let rules = [endless.rule("127.0.0.1"), echo.rule("127.0.0.1")];
            let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
            let stage = Stage::new(mode, Arc::default(), grant(&rules, LOCAL, limits)).await;
            let result = stage.call("flood", json!({"address": LOCALHOST, "port": echo.port, "count": 100})).await;
            assert_eq!(result.text().as_deref(), Some("3"), "{result:?}");
            assert_eq!(result.metadata.exhausted, ["tcp: the tool made all of its 3 connections"]);
            let arguments = json!({"address": LOCALHOST, "port": endless.port, "send": 0, "want": 1_000_000});
            let result = stage.call("talk", arguments).await;
            failed(&result, ErrorKind::Quota, "connection-reset");
            assert_eq!(result.metadata.requests[0].bytes_in, 100_000, "{result:?}");
            let reason = result.metadata.requests[0].reason.as_deref();
            assert_eq!(reason, Some("the call received more than it may"));
            let arguments = json!({"address": LOCALHOST, "port": echo.port, "send": 1_000_000, "want": 1});
            let result = stage.call("talk", arguments).await;
            failed(&result, ErrorKind::Quota, "connection-");
            within_patience("exactly the allowance arrives", || echo.received.load(SeqCst) == 50_000);
            // A peer may send exactly as much as the tool may receive.
            let arguments = json!({"address": LOCALHOST, "port": echo.port, "send": 50_000, "want": 1_000_000});
            let result = stage.call("talk", arguments).await;
            assert_eq!(result.text().as_deref(), Some("50000"), "{result:?}");
        }
    });
}

/// Row 92: peers that never read, never send and never accept.
#[test]
fn silent_peers_end_with_the_call() {
    runtime().block_on(async {
        for mode in MODES {
            let (tell, ended) = std::sync::mpsc::channel();
            let silent = Server::start(move |mut stream| {
                std::thread::sleep(Duration::from_millis(1500));
                let read = io::copy(&mut stream, &mut io::sink());
                tell.send(()).unwrap();
                read.map_or(0, |bytes| usize::try_from(bytes).unwrap())
            });
            let limits = TcpLimits { bytes_out: 1 << 30, ..TcpLimits::default() };
            let stage = Stage::new(mode, Arc::default(), grant(&[&silent.rule("127.0.0.1")], LOCAL, limits)).await;
            for arguments in [
                json!({"address": LOCALHOST, "port": silent.port, "send": 1 << 29, "want": 1}),
                json!({"address": LOCALHOST, "port": silent.port, "send": 1, "want": 1}),
            ] {
                let began = Instant::now();
                let result = stage.call_within("talk", arguments, Duration::from_millis(400)).await;
                failed(&result, ErrorKind::Deadline, "");
                assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
                // The connection is closed although the tool did not close it.
                ended.recv_timeout(Duration::from_secs(20)).unwrap();
            }
        }
    });
}

/// Row 90: listening.
#[test]
fn no_tool_listens() {
    runtime().block_on(async {
        for mode in MODES {
            let stage = Stage::new(mode, Arc::default(), grant(&["127.0.0.1:1"], LOCAL, TcpLimits::default())).await;
            for bind in [true, false] {
                let result = stage.call("serve", json!({"bind": bind, "port": 0})).await;
                failed(&result, ErrorKind::Denied, "access-denied");
                assert_eq!(result.metadata.refused[0].because, "no tool may listen", "{result:?}");
            }
        }
    });
}
