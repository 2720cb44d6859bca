//! Capabilities of an embedder, in this process and in worker processes, which are this program: so it has no harness.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fumehood::boxed::BoxFuture;
use fumehood::capability::{
    Capability, CapabilityCall, CapabilityError, CapabilityGrant, CapabilitySession, HandleTable, Value,
};
use fumehood::permission::{Environment, KeyValueQuota};
use fumehood::{Call, CallResult, ErrorKind, Grant, Host, Isolation, Limits, Load, LoadError, Workers};
use serde_json::json;

#[path = "../examples/database.rs"]
#[allow(dead_code, reason = "its `main` is called, and nothing else")]
mod database;

/// A capability with functions that a hostile program misuses.
#[derive(Clone, Default)]
struct Probe(Arc<Counts>);

#[derive(Default)]
struct Counts {
    /// Functions that wait.
    waiting: AtomicUsize,
    /// Sessions that are open.
    sessions: AtomicUsize,
    /// Handles that are open.
    handles: AtomicUsize,
}

impl Capability for Probe {
    type Grant = u32;

    fn name(&self) -> &str {
        "probe"
    }

    fn description(&self) -> &str {
        "be probed"
    }

    fn wit(&self) -> &str {
        include_str!("../../../tests/capability/misuse.wit")
    }

    fn open(&self, _grant: Arc<u32>) -> Box<dyn CapabilitySession> {
        self.0.sessions.fetch_add(1, Ordering::SeqCst);
        Box::new(Session { counts: Arc::clone(&self.0), items: HandleTable::new() })
    }
}

struct Session {
    counts: Arc<Counts>,
    items: HandleTable<u32>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.counts.sessions.fetch_sub(1, Ordering::SeqCst);
        self.counts.handles.fetch_sub(self.items.len(), Ordering::SeqCst);
    }
}

/// Counts a function while it waits.
struct Waiting(Arc<Counts>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl CapabilitySession for Session {
    fn call<'a>(&'a mut self, call: CapabilityCall<'a>) -> BoxFuture<'a, Result<Option<Value>, CapabilityError>> {
        Box::pin(async move {
            Ok(Some(match (call.function, call.arguments.as_slice()) {
                ("make", [Value::U32(number)]) => {
                    self.counts.handles.fetch_add(1, Ordering::SeqCst);
                    Value::Handle(self.items.insert(*number)?)
                }
                ("[method]item.value", [Value::Handle(item)]) => Value::from(*self.items.get_mut(*item)?),
                ("take", [Value::Handle(item)]) => {
                    self.counts.handles.fetch_sub(1, Ordering::SeqCst);
                    Value::from(self.items.remove(*item)?)
                }
                ("size", [Value::Bytes(bytes)]) => Value::from(u32::try_from(bytes.len()).unwrap()),
                ("sum", [Value::List(numbers)]) => Value::from(u32::try_from(numbers.len()).unwrap()),
                ("lines", [Value::U32(count)]) => (0..*count).map(|number| Value::from(number.to_string())).collect(),
                ("ask", []) => {
                    call.context.refuse("asking", "the grant does not cover questions");
                    Value::err("denied")
                }
                ("wait", []) => {
                    self.counts.waiting.fetch_add(1, Ordering::SeqCst);
                    let _waiting = Waiting(Arc::clone(&self.counts));
                    std::future::pending().await
                }
                ("wrong", []) => Value::from("no number"),
                ("panic", []) => panic!("the capability has a bug"),
                _ => return Err(CapabilityError::unknown_function(&call)),
            }))
        })
    }

    fn drop_resource(&mut self, _resource: &str, handle: u32) {
        if self.items.remove(handle).is_ok() {
            self.counts.handles.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A host with the hostile program `misuse`.
struct Stage {
    host: Host,
    probe: Probe,
}

impl Stage {
    async fn new(isolation: Isolation) -> Self {
        let probe = Probe::default();
        // A busy machine makes a thousand uses in a worker take long.
        let deadline = Duration::from_secs(120);
        let limits = Limits::default().deadline(deadline).fuel(20_000_000).handles(64);
        let builder = Host::builder().concurrency(4).limits(limits).workers(workers());
        let host = builder.capability(probe.clone()).build().unwrap();
        let grant = Grant::none().with_capability(probe.grant(&1).unwrap()).unwrap();
        let load = Load::bytes("it", fumehood_tests::capability("misuse").unwrap()).grant(grant);
        let component = host.load(load.isolation(isolation)).await.unwrap();
        assert_eq!(component.is_isolated(), isolation == Isolation::Process);
        Self { host, probe }
    }

    async fn call(&self, tool: &str, arguments: serde_json::Value) -> CallResult {
        self.host.call(Call::new(format!("it__{tool}"), arguments)).await
    }

    /// Asserts that a call fails with this kind, and that the next one succeeds.
    async fn fails(&self, tool: &str, arguments: serde_json::Value, kind: ErrorKind) -> String {
        let result = self.call(tool, arguments).await;
        let error = result.error().unwrap_or_else(|| panic!("{tool} should fail: {result:?}"));
        assert_eq!(error.kind, kind, "{tool}: {error:?}");
        assert_eq!(self.call("fine", json!({})).await.text().as_deref(), Some("7"), "after {tool}");
        error.to_string()
    }

    /// Waits until nothing of a call is left in the capability.
    async fn is_left(&self) {
        let until = Instant::now() + Duration::from_secs(5);
        let Counts { waiting, sessions, handles } = &*self.probe.0;
        while [waiting, sessions, handles].iter().any(|count| count.load(Ordering::SeqCst) > 0) {
            assert!(Instant::now() < until, "something is left: {waiting:?}, {sessions:?}, {handles:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn workers() -> Workers {
    Workers::this_program(["run-worker"])
}

fn describe(error: &LoadError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Loads the hostile program with a grant, and returns the error.
async fn refused(isolation: Isolation, wit_change: Option<(&str, &str)>, grant: Grant) -> String {
    let host = Host::builder().concurrency(2).workers(workers()).capability(Probe::default()).build().unwrap();
    let bytes = match wit_change {
        None => fumehood_tests::capability("misuse").unwrap(),
        Some((from, to)) => {
            let folder = tempfile::tempdir().unwrap();
            let wit = std::fs::read_to_string(fumehood_tests::capability_wit("misuse")).unwrap();
            let wit = wit.replace(from, to);
            std::fs::write(folder.path().join("misuse.wit"), wit).unwrap();
            let program = fumehood_tests::folder().join("capability/misuse.wat");
            let program = std::fs::read_to_string(program).unwrap();
            fumehood_tests::wrap_as(&program, "misuse", folder.path()).unwrap()
        }
    };
    let loaded = host.load(Load::bytes("it", bytes).grant(grant).isolation(isolation)).await;
    describe(&loaded.expect_err("it should be refused"))
}

/// Returns a host with a program that uses interfaces of WASI which are capabilities.
async fn settings(isolation: Isolation, grant: Grant) -> Host {
    program("settings", isolation, grant).await
}

async fn program(name: &str, isolation: Isolation, grant: Grant) -> Host {
    let host = Host::builder().concurrency(2).workers(workers()).build().unwrap();
    let load = Load::bytes("it", fumehood_tests::capability(name).unwrap()).grant(grant);
    host.load(load.isolation(isolation)).await.unwrap();
    host
}

async fn text(host: &Host, tool: &str, arguments: serde_json::Value) -> String {
    let result = host.call(Call::new(format!("it__{tool}"), arguments)).await;
    result.text().unwrap_or_else(|| panic!("{tool}: {result:?}")).into_owned()
}

/// Calls a tool whose result is empty.
async fn succeeds(host: &Host, tool: &str, arguments: serde_json::Value) {
    let result = host.call(Call::new(format!("it__{tool}"), arguments)).await;
    assert!(result.is_ok(), "{tool}: {result:?}");
}

/// Defines tests that run in this process and in a worker process. The marks are for the tables in `docs`.
macro_rules! tests {
    ($(#[test] async fn $name:ident($isolation:ident: Isolation) $body:block)*) => {
        $(async fn $name($isolation: Isolation) $body)*

        const TESTS: &[(&str, fn(Isolation) -> BoxFuture<'static, ()>)] =
            &[$((stringify!($name), |isolation| Box::pin($name(isolation)))),*];
    };
}

tests! {
    #[test]
    async fn misused_handles_of_a_capability_end_the_call(isolation: Isolation) {
        let stage = Stage::new(isolation).await;
        for tool in ["take-twice", "use-after-drop", "forge", "reenter"] {
            stage.fails(tool, json!({}), ErrorKind::Trap).await;
        }
        stage.fails("flood", json!({}), ErrorKind::Quota).await;
        let churned = stage.call("churn", json!({"count": 300})).await;
        assert_eq!(churned.text().as_deref(), Some("0"), "{churned:?}");
        stage.is_left().await;
    }

    #[test]
    async fn values_of_a_capability_are_bounded(isolation: Isolation) {
        let stage = Stage::new(isolation).await;
        let passed = stage.call("pass-bytes", json!({"length": 100_000})).await;
        assert_eq!(passed.text().as_deref(), Some("100000"), "{passed:?}");
        let got = stage.call("get-lines", json!({"count": 1000})).await;
        assert_eq!(got.text().as_deref(), Some("1000"), "{got:?}");
        stage.fails("pass-bytes", json!({"length": 8 << 20}), ErrorKind::Quota).await;
        stage.fails("pass-bytes", json!({"length": u32::MAX}), ErrorKind::Trap).await;
        let too_many = stage.fails("pass-numbers", json!({"count": 100_000}), ErrorKind::Quota).await;
        assert!(too_many.contains("the tool passed"), "{too_many}");
        stage.fails("pass-numbers", json!({"count": 2_000_000}), ErrorKind::Quota).await;
        stage.fails("get-lines", json!({"count": 200_000}), ErrorKind::Quota).await;
        stage.fails("spin", json!({}), ErrorKind::Fuel).await;
    }

    #[test]
    async fn a_capability_that_hangs_ends_with_its_call(isolation: Isolation) {
        let stage = Stage::new(isolation).await;
        let limits = Limits::default().deadline(Duration::from_millis(300));
        let started = Instant::now();
        let late = stage.host.call(Call::new("it__wait", json!({})).limits(limits)).await;
        assert_eq!(late.error().unwrap().kind, ErrorKind::Deadline, "{late:?}");
        assert!(started.elapsed() < Duration::from_millis(1_250), "{:?}", started.elapsed());
        stage.is_left().await;
        let patience = tokio::time::sleep(Duration::from_millis(100));
        let cancelled = stage.host.call_until(Call::new("it__wait", json!({})), patience).await;
        assert_eq!(cancelled.error().unwrap().kind, ErrorKind::Cancelled, "{cancelled:?}");
        stage.is_left().await;
        let dropped = stage.host.call(Call::new("it__wait", json!({})));
        let _elapsed = tokio::time::timeout(Duration::from_millis(100), dropped).await.unwrap_err();
        stage.is_left().await;
        assert_eq!(stage.call("fine", json!({})).await.text().as_deref(), Some("7"));
    }

    #[test]
    async fn a_refusal_of_a_capability_is_explained(isolation: Isolation) {
        let stage = Stage::new(isolation).await;
        let refused = stage.fails("ask", json!({}), ErrorKind::Denied).await;
        assert!(refused.contains("the grant does not cover questions"), "{refused}");
    }

    #[test]
    async fn a_broken_capability_is_the_hosts_failure(isolation: Isolation) {
        let stage = Stage::new(isolation).await;
        let wrong = stage.fails("wrong", json!({}), ErrorKind::Host).await;
        assert!(wrong.contains("a value of another type"), "{wrong}");
        stage.fails("panic", json!({}), ErrorKind::Host).await;
    }

    #[test]
    async fn the_granted_environment_is_a_configuration(isolation: Isolation) {
        let environment = Environment::none().with("REGION", "north").unwrap().with("MODE", "test").unwrap();
        let host = settings(isolation, Grant::none().with_environment(environment)).await;
        assert_eq!(text(&host, "get-config", json!({"key": "REGION"})).await, r#""north""#);
        assert_eq!(text(&host, "get-config", json!({"key": "region"})).await, "null");
        assert_eq!(text(&host, "all-config", json!({})).await, r#"[["REGION","north"],["MODE","test"]]"#);
        let host = settings(isolation, Grant::none()).await;
        assert_eq!(text(&host, "all-config", json!({})).await, "[]");
    }

    #[test]
    async fn the_granted_store_is_a_bucket(isolation: Isolation) {
        let quota = KeyValueQuota::new(4096).unwrap();
        let host = settings(isolation, Grant::none().with_key_value(quota)).await;
        let set = async |key: &str, value: &[u8]| {
            host.call(Call::new("it__set-value", json!({"key": key, "value": value}))).await
        };
        assert!(set("b", b"two").await.is_ok() && set("a", b"one").await.is_ok());
        assert_eq!(text(&host, "get-value", json!({"key": "a"})).await, "[111,110,101]");
        assert_eq!(text(&host, "get-value", json!({"key": "c"})).await, "null");
        assert_eq!(text(&host, "keys", json!({})).await, r#"{"keys":["a","b"]}"#);
        let many = text(&host, "get-many", json!({"keys": ["b", "c"]})).await;
        assert_eq!(many, r#"[["b",[116,119,111]],null]"#);
        let full = set("large", &[0; 8192]).await;
        assert!(full.error().unwrap().to_string().contains("quota"), "{full:?}");
        let host = settings(isolation, Grant::none()).await;
        let denied = host.call(Call::new("it__get-value", json!({"key": "a"}))).await;
        let error = denied.error().unwrap();
        assert_eq!(error.kind, ErrorKind::Denied, "{error:?}");
        assert!(error.to_string().contains("key_value = "), "{error}");
    }

    #[test]
    async fn increments_at_once_are_all_counted(isolation: Isolation) {
        let quota = KeyValueQuota::new(4096).unwrap();
        let host = program("atomics", isolation, Grant::none().with_key_value(quota)).await;
        let callers = (0..8).map(|_| {
            let host = host.clone();
            tokio::spawn(async move {
                for _ in 0..25 {
                    text(&host, "increment", json!({"key": "n", "delta": 3})).await;
                }
            })
        });
        for caller in Vec::from_iter(callers) {
            caller.await.unwrap();
        }
        assert_eq!(text(&host, "increment", json!({"key": "n", "delta": -1})).await, "599");
        assert_eq!(text(&host, "increment-unsigned", json!({"key": "n", "delta": 1})).await, "600");
    }

    #[test]
    async fn a_sum_that_does_not_fit_changes_nothing(isolation: Isolation) {
        let quota = KeyValueQuota::new(4096).unwrap();
        let host = program("atomics", isolation, Grant::none().with_key_value(quota)).await;
        let fails = async |tool: &str, arguments: serde_json::Value, expected: &str| {
            let result = host.call(Call::new(format!("it__{tool}"), arguments)).await;
            assert!(result.error().unwrap().to_string().contains(expected), "{result:?}");
        };
        // Large numbers are strings in JSON.
        let largest = format!("\"{}\"", i64::MAX);
        assert_eq!(text(&host, "increment", json!({"key": "n", "delta": i64::MAX})).await, largest);
        fails("increment", json!({"key": "n", "delta": 1}), "the sum does not fit").await;
        assert_eq!(text(&host, "increment", json!({"key": "n", "delta": 0})).await, largest);
        assert_eq!(text(&host, "increment", json!({"key": "m", "delta": -1})).await, "-1");
        fails("increment-unsigned", json!({"key": "m", "delta": 0}), "the sum does not fit").await;
        succeeds(&host, "set-value", json!({"key": "t", "value": b"1.5"})).await;
        fails("increment", json!({"key": "t", "delta": 1}), "not a whole number").await;
    }

    #[test]
    async fn a_late_swap_fails_with_the_present_value(isolation: Isolation) {
        let quota = KeyValueQuota::new(4096).unwrap();
        let host = program("atomics", isolation, Grant::none().with_key_value(quota)).await;
        let swap = json!({"key": "k", "meanwhile": b"2", "value": b"7"});
        assert_eq!(text(&host, "swap-late", swap).await, "[50]");
        assert_eq!(text(&host, "increment", json!({"key": "k", "delta": 0})).await, "7");
        succeeds(&host, "open-many", json!({"key": "k", "count": 16})).await;
        let many = host.call(Call::new("it__open-many", json!({"key": "k", "count": 17}))).await;
        assert!(many.error().unwrap().to_string().contains("at most 16 handles"), "{many:?}");
        succeeds(&host, "set-value", json!({"key": "l", "value": []})).await;
        assert_eq!(text(&host, "keys-after", json!({})).await, r#"{"keys":["k","l"]}"#);
        assert_eq!(text(&host, "keys-after", json!({"key": "k"})).await, r#"{"keys":["l"]}"#);
    }

    #[test]
    async fn a_capability_needs_a_grant_that_fits(isolation: Isolation) {
        let grant = |name: &str, value: serde_json::Value| {
            Grant::none().with_capability(CapabilityGrant::new(name, &value).unwrap()).unwrap()
        };
        let error = refused(isolation, None, Grant::none()).await;
        assert!(error.contains("`test:probe/probe@0.1.0`") && error.contains("capability `probe`"), "{error}");
        let error = refused(isolation, None, grant("probe", json!("no number"))).await;
        assert!(error.contains("its grant is invalid"), "{error}");
        let error = refused(isolation, None, grant("other", json!(1))).await;
        assert!(error.contains("`other`") && error.contains("does not have it"), "{error}");
        let other_type = Some(("size: func(data: list<u8>) -> u32", "size: func(data: list<s8>) -> u32"));
        let error = refused(isolation, other_type, grant("probe", json!(1))).await;
        assert!(error.contains("`size`") && error.contains("does not provide"), "{error}");
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "run-worker") {
        return fumehood::serve_worker();
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    for (name, test) in TESTS.iter().filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter.as_str()))) {
        for isolation in [Isolation::InProcess, Isolation::Process] {
            println!("test {name} ({isolation:?})");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(test(isolation));
        }
    }
    if filter.is_none() { database::main() } else { ExitCode::SUCCESS }
}
