//! A tool without grants: every use of WASI is refused, and nothing of the host is visible.

use std::io::ErrorKind::WouldBlock;
use std::net::{TcpListener, TcpStream};

use fumehood::permission::Power;
use fumehood::{Call, CallResult, ErrorKind, Grant, Host, Load};
use fumehood_tests::component;
use serde_json::{Value, json};

async fn run(program: &str, tool: &str) -> CallResult {
    run_with(program, tool, json!({})).await
}

async fn run_with(program: &str, tool: &str, arguments: Value) -> CallResult {
    let host = Host::builder().concurrency(4).build().unwrap();
    host.load(Load::bytes("it", component(program).unwrap())).await.unwrap();
    host.call(Call::new(format!("it__{tool}"), arguments)).await
}

/// Asserts that a tool received this refusal and returned it as its own failure.
fn was_told(result: &CallResult, kind: ErrorKind, says: &str) {
    let error = result.error().unwrap_or_else(|| panic!("it should be refused: {result:?}"));
    assert_eq!((error.kind, error.message.as_str()), (kind, says), "{error:?}");
}

/// A listener that must not be connected to.
struct Canary(TcpListener);

impl Canary {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// Asserts that nothing has connected. Connections are accepted in the order of their arrival, so ours has to be
    /// the first.
    fn saw_nobody(&self) {
        let ours = TcpStream::connect(self.0.local_addr().unwrap()).unwrap();
        assert_eq!(self.0.accept().unwrap().1, ours.local_addr().unwrap(), "somebody connected");
        self.0.set_nonblocking(true).unwrap();
        assert_eq!(self.0.accept().unwrap_err().kind(), WouldBlock, "somebody connected late");
    }
}

#[tokio::test]
async fn there_is_no_environment_no_argument_and_no_folder() {
    for tool in ["environment", "arguments", "folders"] {
        assert_eq!(run("look-around", tool).await.text().as_deref(), Some("0"), "{tool}");
    }
    assert_eq!(run("look-around", "input").await.text().as_deref(), Some(r#""closed""#), "standard input is empty");
}

#[tokio::test]
async fn sockets_are_refused() {
    // A TCP socket is a handle without anything behind it, 1 is `access-denied` in the error codes of WASI.
    assert_eq!(run("reach-out", "tcp").await.text().as_deref(), Some("255"));
    let udp = run("reach-out", "udp").await;
    assert_eq!(udp.text().as_deref(), Some("1"));
    assert_eq!(udp.metadata.refused[0].tried, "a UDP socket");
    let canary = Canary::new();
    let port = canary.0.local_addr().unwrap().port();
    let arguments = json!({"address": 2_130_706_433, "port": port, "send": 1, "want": 1});
    let result = run_with("connect", "talk", arguments).await;
    was_told(&result, ErrorKind::Denied, r#""access-denied""#);
    assert_eq!(result.metadata.refused[0].allow, Some(format!("tcp = [\"127.0.0.1:{port}\"]")));
    canary.saw_nobody();
}

#[tokio::test]
async fn names_are_not_looked_up() {
    // The first two could be answered without any network, and the last is not even a name.
    for name in ["localhost", "127.0.0.1", "example.com", "not a name"] {
        let result = run_with("look-up", "resolve", json!({"name": name})).await;
        was_told(&result, ErrorKind::Denied, r#""permanent-resolver-failure""#);
    }
}

#[tokio::test]
async fn requests_are_denied_and_reach_nobody() {
    let canary = Canary::new();
    let by_name = canary.address().replace("127.0.0.1", "localhost");
    for scheme in ["http", "https"] {
        for authority in [canary.address(), by_name.clone(), "example.com".to_owned()] {
            let result = run_with("request", "get", json!({"scheme": scheme, "authority": authority})).await;
            was_told(&result, ErrorKind::Denied, r#"{"tag":"HTTP-request-denied"}"#);
            let tried: Vec<_> = result.metadata.refused.iter().map(|it| (it.power, it.tried.clone())).collect();
            assert_eq!(tried, [(Power::Http, format!("GET {scheme}://{authority}/"))]);
        }
    }
    canary.saw_nobody();
}

#[tokio::test]
async fn what_would_need_a_power_is_known_at_load() {
    for (program, interface, power) in [
        ("reach-out", "wasi:sockets/tcp-create-socket@0.2.0", Power::Tcp),
        ("reach-out", "wasi:sockets/udp-create-socket@0.2.0", Power::Sockets),
        ("look-up", "wasi:sockets/ip-name-lookup@0.2.0", Power::Tcp),
        ("request", "wasi:http/outgoing-handler@0.2.0", Power::Http),
        ("look-around", "wasi:filesystem/preopens@0.2.0", Power::Files),
    ] {
        let host = Host::builder().concurrency(4).build().unwrap();
        let loaded = host.load(Load::bytes("it", component(program).unwrap())).await.unwrap();
        let import = loaded.imports().iter().find(|import| import.name == interface);
        assert_eq!(import.and_then(|import| import.power), Some(power), "{program}");
    }
}

#[tokio::test]
async fn clocks_tick_in_milliseconds() {
    let result = run("look-around", "clock-step").await;
    let step: u64 = result.text().unwrap().parse().unwrap();
    assert!(step >= 1_000_000 && step.is_multiple_of(1_000_000), "{step} ns");
}

#[tokio::test]
async fn agent_state_is_shown_only_where_it_was_granted() {
    let host = Host::builder().concurrency(4).build().unwrap();
    let bytes = fumehood_tests::contract("tell-context").unwrap();
    host.load(Load::bytes("denied", bytes.clone())).await.unwrap();
    host.load(Load::bytes("granted", bytes).grant(Grant::none().with_state())).await.unwrap();
    let call = |tool: &str| Call::new(format!("{tool}__state"), "{}").id("call-x").actor("ann");
    let told = async |call: Call| host.call(call).await.text().map(|text| text.into_owned());
    for state in [r#"{"step":1}"#, r#"{"step":2}"#] {
        assert_eq!(told(call("denied").state(state)).await.as_deref(), Some("none"));
        assert_eq!(told(call("granted").state(state)).await.as_deref(), Some(state));
    }
    assert_eq!(told(call("granted")).await.as_deref(), Some("none"), "the state is that of one call");
}
