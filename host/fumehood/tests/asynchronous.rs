//! Components with asynchronous functions and interfaces of WASI 0.3. Their worker processes are this program, so it has no
//! harness.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fumehood::boxed::BoxFuture;
use fumehood::permission::files::{Access, FileRole, Folder, Quota};
use fumehood::permission::http::{HttpGrant, HttpLimits};
use fumehood::permission::{CommandLine, Environment, Injection, Secret, SecretValue};
use fumehood::{
    Call, CallResult, CancellationToken, Content, ErrorKind, Grant, Host, Isolation, Limits, Load, LoadError, Observer,
    Progress, Workers,
};
use serde_json::{Value, json};

/// Deadline of calls that never end.
const DEADLINE: Duration = Duration::from_millis(200);
/// Slack for a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

fn workers() -> Workers {
    Workers::this_program(["run-worker"])
}

fn builder() -> fumehood::HostBuilder {
    Host::builder().concurrency(4).workers(workers())
}

async fn load(program: &str, grant: Grant) -> Host {
    let host = builder().build().unwrap();
    let bytes = fumehood_tests::component(&format!("asynchronous/{program}")).unwrap();
    let component =
        host.load(Load::bytes("it", bytes).grant(grant)).await.unwrap_or_else(|error| panic!("{}", describe(&error)));
    assert!(component.is_isolated());
    host
}

async fn call(host: &Host, tool: &str, arguments: Value) -> CallResult {
    host.call(Call::new(format!("it__{tool}"), arguments)).await
}

/// Calls a tool that must fail with this kind, not long after its deadline.
async fn fails(host: &Host, tool: &str, kind: ErrorKind, message: &str) {
    let limits = Limits::default().deadline(DEADLINE).fuel(20_000_000_000);
    let result = host.call(Call::new(format!("it__{tool}"), json!({})).limits(limits)).await;
    let error = result.error().unwrap_or_else(|| panic!("{tool} should fail: {result:?}"));
    assert_eq!(error.kind, kind, "{tool}: {error:?}");
    assert!(error.to_string().contains(message), "{tool}: {error}");
    assert!(result.metadata.duration < DEADLINE + PATIENCE, "{tool}: {:?}", result.metadata);
}

fn describe(error: &LoadError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// An observer that records the texts among the parts of a result that arrive early.
#[derive(Default)]
struct PartObserver(Mutex<Vec<String>>);

impl PartObserver {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for PartObserver {
    fn progress(&self, progress: Progress) {
        self.0.lock().unwrap().extend(texts(&progress.partial));
    }
}

fn texts(parts: &[Content]) -> Vec<String> {
    let text = |part: &Content| match part {
        Content::Text { text } => Some(text.to_sanitized().into_owned()),
        _ => None,
    };
    parts.iter().filter_map(text).collect()
}

/// Returns a component of `tests/languages/build`; `None` if it is not there, with a note on stderr.
fn built(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("FUMEHOOD_LANGUAGE_COMPONENTS");
    let path = folder.map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder).join(name));
    let path = path.map(|path| path.with_extension("wasm")).filter(|path| path.is_file());
    if path.is_none() {
        fumehood_tests::skip::skip("languages", &format!("`tests/languages/build` has not made {name}"));
    }
    path
}

/// Answers one request, and returns its head.
fn answer_once(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    String::from_utf8(head).unwrap()
}

/// Defines the tests. The marks are for the tables in `docs`.
macro_rules! tests {
    ($(#[test] async fn $name:ident() $body:block)*) => {
        $(async fn $name() $body)*

        const TESTS: &[(&str, fn() -> BoxFuture<'static, ()>)] = &[$((stringify!($name), || Box::pin($name()))),*];
    };
}

tests! {
    #[test]
    async fn asynchronous_functions_are_tools() {
        let host = load("tasks", Grant::none()).await;
        let greeted = call(&host, "greet", json!({"name": "Ada"})).await;
        assert_eq!(greeted.text().as_deref(), Some("Hello, Ada"), "{greeted:?}");
        assert!(greeted.metadata.fuel_used > 0);
        let napped = call(&host, "nap", json!({"nanoseconds": 5_000_000})).await;
        assert!(napped.is_ok() && napped.metadata.duration >= Duration::from_millis(5), "{napped:?}");
        let refused = call(&host, "greet", json!({"name": 7})).await;
        assert_eq!(refused.error().map(|error| error.kind), Some(ErrorKind::InvalidArguments));
        assert_eq!(refused.metadata.fuel_used, 0);
    }

    #[test]
    async fn tasks_that_never_end_are_stopped() {
        let host = load("tasks", Grant::none()).await;
        for tool in ["park", "block"] {
            fails(&host, tool, ErrorKind::Trap, "deadlock").await;
        }
        for tool in ["sleep", "yield", "spin"] {
            fails(&host, tool, ErrorKind::Deadline, "did not finish").await;
        }
        let fuel = Limits::default().fuel(10_000);
        for tool in ["yield", "spin"] {
            let result = host.call(Call::new(format!("it__{tool}"), json!({})).limits(fuel)).await;
            assert_eq!(result.error().map(|error| error.kind), Some(ErrorKind::Fuel), "{tool}: {result:?}");
            assert_eq!(result.metadata.fuel_used, 10_000, "{tool}");
        }
        let greeted = call(&host, "greet", json!({"name": "you"})).await;
        assert_eq!(greeted.text().as_deref(), Some("Hello, you"));
    }

    #[test]
    async fn tasks_sets_and_streams_are_counted() {
        let host = load("tasks", Grant::none()).await;
        for tool in ["subtasks", "sets", "streams"] {
            fails(&host, tool, ErrorKind::Quota, "more than").await;
        }
        fails(&host, "backpressure", ErrorKind::Trap, "backpressure").await;
        for tool in ["silent", "twice"] {
            fails(&host, tool, ErrorKind::Trap, "crashed").await;
        }
        let greeted = call(&host, "greet", json!({"name": "you"})).await;
        assert_eq!(greeted.text().as_deref(), Some("Hello, you"));
    }

    #[test]
    async fn tasks_between_components_end_with_the_call() {
        let host = load("callee", Grant::none()).await;
        for tool in ["cancel", "held", "endless"] {
            fails(&host, tool, ErrorKind::Trap, "deadlock").await;
        }
        fails(&host, "tasks", ErrorKind::Quota, "more than").await;
    }

    #[test]
    async fn interfaces_of_both_generations_share_the_grants() {
        let grant = Grant::none()
            .with_environment(Environment::none().with("NAME", "value").unwrap())
            .with_command_line(CommandLine::new(["one", "two"]).unwrap());
        let host = load("imports", grant).await;
        assert_eq!(call(&host, "arguments", json!({})).await.text().as_deref(), Some(r#"["one","two"]"#));
        assert_eq!(call(&host, "variables", json!({})).await.text().as_deref(), Some(r#"[["NAME","value"]]"#));
        assert_eq!(call(&host, "random", json!({"bytes": 9})).await.text().as_deref(), Some("9"));
        assert!(call(&host, "now", json!({})).await.is_ok());
        let host = load("imports", Grant::none()).await;
        assert_eq!(call(&host, "arguments", json!({})).await.text().as_deref(), Some("[]"));
        assert_eq!(call(&host, "folders", json!({})).await.text().as_deref(), Some("0"));
    }

    #[test]
    async fn folders_of_wasi_p3_keep_their_grants() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for folder in ["read", "write"] {
            std::fs::create_dir(at(folder)).unwrap();
            std::fs::write(at(folder).join("file.txt"), "file").unwrap();
        }
        std::fs::write(at("canary"), "nobody may read this").unwrap();
        std::fs::write(at("write/fumehood.toml"), "as it was").unwrap();
        std::fs::write(at("read/large"), "x".repeat(200_000)).unwrap();
        let quota = Quota::new(100_000, 4).unwrap();
        let grant = Grant::none().with_folder(Folder::new(at("read"), "/r", Access::Read).unwrap()).unwrap();
        let grant = grant.with_folder(Folder::new(at("write"), "/w", Access::Write(quota)).unwrap()).unwrap();
        let host = builder().protect(at("write/fumehood.toml"), FileRole::Configuration).build().unwrap();
        let component = fumehood_tests::component("asynchronous/files").unwrap();
        host.load(Load::bytes("it", component).grant(grant)).await.unwrap_or_else(|error| panic!("{}", describe(&error)));
        let read = |folder: u32, path: &str| json!({"folder": folder, "path": path});
        assert_eq!(call(&host, "read", read(0, "file.txt")).await.text().as_deref(), Some("file"));
        assert_eq!(call(&host, "read", read(0, "large")).await.text().map_or(0, |text| text.len()), 200_000);
        assert_eq!(call(&host, "list", read(0, ".")).await.text().as_deref(), Some("xx"));
        let write = |folder: u32, path: &str, how: u32, offset: u64, size: u32, times: u32| {
            json!({"folder": folder, "path": path, "how": how, "offset": offset, "size": size, "times": times})
        };
        let written = call(&host, "write", write(1, "new", 1, 0, 1_000, 3)).await;
        assert!(written.is_ok(), "{written:?}");
        let written = call(&host, "write", write(1, "new", 0, u64::MAX, 70_000, 1)).await;
        assert!(written.is_ok(), "{written:?}");
        assert_eq!(std::fs::metadata(at("write/new")).unwrap().len(), 73_000);
        let moved = call(&host, "rename", json!({"folder": 1, "path": "new", "to": 1, "new": "moved"})).await;
        assert!(moved.is_ok() && at("write/moved").exists(), "{moved:?}");

        // The quota on bytes, by writing and by size, and the one on names.
        let over = call(&host, "write", write(1, "moved", 0, u64::MAX, 60_000, 9)).await;
        assert_eq!(over.error().map(|error| error.kind), Some(ErrorKind::Quota), "{over:?}");
        assert!(std::fs::metadata(at("write/moved")).unwrap().len() <= 100_000);
        let over = call(&host, "resize", json!({"folder": 1, "path": "moved", "size": i64::MAX})).await;
        assert_eq!(over.error().map(|error| error.kind), Some(ErrorKind::Quota), "{over:?}");
        for (name, is_allowed) in [("a", true), ("b", true), ("c", true), ("d", false)] {
            let made = call(&host, "mkdir", read(1, name)).await;
            assert_eq!(made.is_ok(), is_allowed, "{made:?}");
        }

        // Paths that lead out, changes of what is only read, and protected files.
        let denied = [
            ("read", read(0, "../canary")),
            ("read", read(0, "/etc/passwd")),
            ("write", write(0, "file.txt", 0, 0, 1, 1)),
            ("unlink", read(0, "file.txt")),
            ("symlink", json!({"folder": 1, "target": "../canary", "path": "link"})),
            ("write", write(1, "fumehood.toml", 0, 0, 1, 1)),
            ("unlink", read(1, "fumehood.toml")),
            ("rename", json!({"folder": 1, "path": "moved", "to": 1, "new": "fumehood.toml"})),
        ];
        for (tool, arguments) in denied {
            let result = call(&host, tool, arguments.clone()).await;
            assert_eq!(result.error().map(|error| error.kind), Some(ErrorKind::Denied), "{tool} {arguments}: {result:?}");
            assert_eq!(result.metadata.refused.len(), 1, "{tool} {arguments}: {result:?}");
        }
        assert_eq!(std::fs::read_to_string(at("write/fumehood.toml")).unwrap(), "as it was");
        assert_eq!(std::fs::read_to_string(at("read/file.txt")).unwrap(), "file");

        // The numbers of open files and of streams.
        for tool in ["hoard", "streams"] {
            let result = call(&host, tool, read(0, "file.txt")).await;
            assert_eq!(result.error().map(|error| error.kind), Some(ErrorKind::Quota), "{tool}: {result:?}");
        }
        let long = call(&host, "unlink", read(1, &"x".repeat(10_000))).await;
        assert_eq!(long.error().map(|error| error.message.as_str().to_owned()).as_deref(), Some("17"), "{long:?}");
    }

    #[test]
    async fn requests_of_wasi_p3_pass_the_same_door() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || answer_once(&listener));
        let rules = vec![format!("GET http://{authority}/**").parse().unwrap()];
        let http = HttpGrant::new(rules, vec!["127.0.0.1/32".parse().unwrap()], HttpLimits::default()).unwrap();
        let secret = Secret::new(
            "key",
            SecretValue::new("a secret of the operator").unwrap(),
            &format!("http://{authority}/**"),
            Injection::header("x-key", "{secret}").unwrap(),
        );
        let grant = Grant::none().with_http(http).with_secret(secret.unwrap()).unwrap();
        let host = load("request", grant).await;
        let result = call(&host, "get", json!({"authority": authority})).await;
        assert_eq!(result.text().as_deref(), Some("204"), "{result:?}");
        assert_eq!(result.metadata.requests.len(), 1, "{result:?}");
        let head = server.join().unwrap();
        assert!(head.starts_with("GET / HTTP/1.1\r\n") && head.contains("x-key: a secret of the operator"), "{head}");
        for elsewhere in ["127.0.0.1:9", "169.254.169.254"] {
            let result = call(&host, "get", json!({"authority": elsewhere})).await;
            // The number of `HTTP-request-denied`.
            assert_eq!(result.text().as_deref(), Some("1015"), "{result:?}");
            assert_eq!(result.metadata.refused.len(), 1, "{result:?}");
        }
        let without = load("request", Grant::none()).await;
        let result = call(&without, "get", json!({"authority": authority})).await;
        assert_eq!(result.text().as_deref(), Some("1015"), "{result:?}");
        assert_eq!(result.metadata.refused.len(), 1, "{result:?}");
    }

    #[test]
    async fn programs_of_wasi_p3_are_tools() {
        let host = load("command", Grant::none()).await;
        assert_eq!(call(&host, "run", json!({"args": ["hello"]})).await.text().as_deref(), Some("hello"));
        let failed = call(&host, "run", json!({"args": ["x"]})).await;
        assert_eq!(failed.error().map(|error| error.kind), Some(ErrorKind::ToolFailed), "{failed:?}");
        let endless = call(&host, "run", json!({"args": ["o"]})).await;
        assert_eq!(endless.error().map(|error| error.kind), Some(ErrorKind::OutputTooLarge), "{endless:?}");
    }

    #[test]
    async fn streams_in_results_are_read_to_their_end() {
        let host = load("streams", Grant::none()).await;
        assert_eq!(call(&host, "bytes", json!({})).await.text().as_deref(), Some("a text"));
        assert_eq!(call(&host, "texts", json!({})).await.text().as_deref(), Some(r#"["a text","text"]"#));
        assert_eq!(call(&host, "text", json!({})).await.text().as_deref(), Some("a text"));
        fails(&host, "invalid", ErrorKind::BadResult, "UTF-8").await;
        fails(&host, "endless", ErrorKind::OutputTooLarge, "maximum").await;
        fails(&host, "unwritten", ErrorKind::Deadline, "did not finish").await;
        let numbers = call(&host, "numbers", json!({})).await;
        assert_eq!(numbers.error().map(|error| error.kind), Some(ErrorKind::UnknownTool), "{numbers:?}");
    }

    #[test]
    async fn parts_of_results_are_shown_before_the_end() {
        let host = load("parts", Grant::none()).await;
        let observer = Arc::new(PartObserver::default());
        let result = host.call(Call::new("it__parts", json!({})).observer(observer.clone())).await;
        assert_eq!(texts(result.content()), ["one", "two"], "{result:?}");
        assert_eq!(observer.take(), ["one", "two"]);
        let nothing = call(&host, "nothing", json!({})).await;
        assert!(nothing.is_ok() && nothing.content().is_empty(), "{nothing:?}");
        let failed = host.call(Call::new("it__fail", json!({})).observer(observer.clone())).await;
        let error = failed.error().unwrap();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Unavailable, "stop"), "{failed:?}");
        assert_eq!(observer.take(), ["one", "two"]);
    }

    #[test]
    async fn streams_of_parts_are_bounded() {
        let host = load("parts", Grant::none()).await;
        for tool in ["endless", "aliased", "bulk"] {
            fails(&host, tool, ErrorKind::OutputTooLarge, "maximum").await;
        }
        for tool in ["unwritten", "slow", "forget"] {
            fails(&host, tool, ErrorKind::Deadline, "did not finish").await;
        }
        fails(&host, "trap", ErrorKind::Trap, "aborted").await;
        fails(&host, "json", ErrorKind::BadResult, "not JSON").await;
        let token = CancellationToken::new();
        let observer = Arc::new(PartObserver::default());
        let slow = Call::new("it__slow", json!({})).observer(observer.clone()).cancelled_by(token.clone());
        let cancelling = async {
            while observer.0.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            token.cancel();
        };
        let (cancelled, ()) = tokio::join!(host.call(slow), cancelling);
        assert_eq!(cancelled.error().map(|error| error.kind), Some(ErrorKind::Cancelled), "{cancelled:?}");
        let result = call(&host, "parts", json!({})).await;
        assert_eq!(texts(result.content()), ["one", "two"], "{result:?}");
    }

    #[test]
    async fn asynchronous_tools_of_the_rust_sdk_return_parts() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/sections.wasm");
        let host = builder().build().unwrap();
        host.load(Load::path(path).named("it")).await.unwrap_or_else(|error| panic!("{}", describe(&error)));
        let observer = Arc::new(PartObserver::default());
        let text = json!({"text": "# One\nFirst.\n\n# Two\nSecond."});
        let result = host.call(Call::new("it__sections", text).observer(observer.clone())).await;
        assert_eq!(texts(result.content()), ["# One\nFirst.", "# Two\nSecond."], "{result:?}");
        assert_eq!(observer.take(), texts(result.content()));
        let failed = call(&host, "sections", json!({"text": "plain"})).await;
        assert_eq!(failed.error().map(|error| error.kind), Some(ErrorKind::InvalidArguments), "{failed:?}");
        assert!(failed.error().unwrap().message.as_str().contains("no heading"), "{failed:?}");
    }

    #[test]
    async fn generators_of_javascript_return_parts() {
        let Some(path) = built("javascript-parts") else { return };
        let host = builder().build().unwrap();
        host.load(Load::path(path).named("it")).await.unwrap_or_else(|error| panic!("{}", describe(&error)));
        let observer = Arc::new(PartObserver::default());
        let result = host.call(Call::new("it__count", json!({"to": 3})).observer(observer.clone())).await;
        assert_eq!(texts(result.content()), ["1", "2", "3"], "{result:?}");
        assert_eq!(observer.take(), texts(result.content()));
        let failed = call(&host, "count", json!({"to": 10})).await;
        let error = failed.error().unwrap();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::ToolFailed, "that is too far"), "{failed:?}");
        let endless = Call::new("it__count", json!({"to": 1_000_000_000})).limits(Limits::default().deadline(DEADLINE));
        let kind = host.call(endless).await.error().map(|error| error.kind);
        assert!([ErrorKind::Deadline, ErrorKind::Fuel].map(Some).contains(&kind), "{kind:?}");
    }

    #[test]
    async fn asynchronous_components_of_javascript_are_contained() {
        let Some(path) = built("javascript-asynchronous") else { return };
        let host = builder().build().unwrap();
        host.load(Load::path(path).named("it")).await.unwrap_or_else(|error| panic!("{}", describe(&error)));
        let greeted = call(&host, "greet", json!({"name": "Ada"})).await;
        assert_eq!(greeted.text().as_deref(), Some("Hello, Ada"), "{greeted:?}");
        let failed = call(&host, "fail", json!({})).await;
        assert_eq!(failed.error().map(|error| error.kind), Some(ErrorKind::ToolFailed), "{failed:?}");
        for (tool, kinds) in
            [("wait", [ErrorKind::Trap, ErrorKind::Deadline]), ("spin", [ErrorKind::Deadline, ErrorKind::Fuel])]
        {
            let limits = Limits::default().deadline(DEADLINE);
            let result = host.call(Call::new(format!("it__{tool}"), json!({})).limits(limits)).await;
            assert!(result.error().is_some_and(|error| kinds.contains(&error.kind)), "{tool}: {result:?}");
        }
        let greeted = call(&host, "greet", json!({"name": "you"})).await;
        assert_eq!(greeted.text().as_deref(), Some("Hello, you"), "{greeted:?}");
    }

    #[test]
    async fn asynchronous_components_run_only_in_workers() {
        let bytes = || fumehood_tests::component("asynchronous/tasks").unwrap();
        let host = builder().build().unwrap();
        let refused = host.load(Load::bytes("it", bytes()).isolation(Isolation::InProcess)).await.unwrap_err();
        assert!(describe(&refused).contains("run only in worker processes"), "{}", describe(&refused));
        let alone = Host::builder().build().unwrap();
        let refused = alone.load(Load::bytes("it", bytes())).await.unwrap_err();
        assert!(describe(&refused).contains("run only in worker processes"), "{}", describe(&refused));
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "run-worker") {
        return fumehood::serve_worker();
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    for (name, test) in TESTS.iter().filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter.as_str()))) {
        println!("test {name}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test());
    }
    ExitCode::SUCCESS
}
