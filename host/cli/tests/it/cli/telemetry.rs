//! Telemetry of the command: spans at a collector, metrics for a real parser, and what is never part of either.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fumehood_tests::otlp_collector::{Collector, Span};
use fumehood_tests::skip::skip;
use serde_json::{Value, json};

use super::session::Session;
use super::terminal::TerminalCommand;
use super::workbench::Workbench;

/// Timeout of every wait, far above what any of them takes.
const PATIENCE: Duration = Duration::from_secs(60);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const FUMEHOOD: &str = env!("CARGO_BIN_EXE_fumehood");

/// `fumehood serve http`, which ends when this is dropped.
pub(super) struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(bench: &Workbench, arguments: &[&str]) -> Self {
        Self::start_with(bench, arguments, &[])
    }

    /// Starts it with these variables of its environment.
    pub(super) fn start_with(bench: &Workbench, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let errors = tempfile::NamedTempFile::new().unwrap();
        let common = ["serve", "http", "--listen", "127.0.0.1:0", "--no-log"];
        let mut command = bench.command(&[&common, arguments].concat());
        command.envs(variables.iter().copied());
        let child = command.stdout(Stdio::null()).stderr(errors.reopen().unwrap()).spawn().unwrap();
        let mut server = Self { child, address: String::new() };
        let started = Instant::now();
        while server.address.is_empty() {
            let said = std::fs::read_to_string(errors.path()).unwrap();
            assert!(started.elapsed() < PATIENCE, "it never serves: {said}");
            std::thread::sleep(Duration::from_millis(20));
            let found = said.split_once(" at http://").and_then(|(_, rest)| rest.split_once('/'));
            server.address = found.map(|(address, _)| address.to_owned()).unwrap_or_default();
        }
        server
    }

    /// Sends a request with further headers, each with its line end, without waiting for the answer.
    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = &self.address;
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nHost: {address}\r\nContent-Length: {length}\r\n\
             Content-Type: application/json\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Sends a request, and returns the status, the head and the body of the answer.
    fn exchange(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String, String) {
        let mut answer = String::new();
        self.send(method, path, headers, body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), head.to_owned(), body.to_owned())
    }

    pub(super) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let (status, _, body) = self.exchange(method, path, headers, body);
        (status, body)
    }

    fn get(&self, path: &str) -> String {
        let (status, body) = self.ask("GET", path, "", "");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    fn live(&self) -> Value {
        serde_json::from_str(&self.get("/v1/live")).unwrap()
    }

    /// Waits until the running calls are like this.
    fn live_until(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let live = self.live();
            if is_met(&live) {
                return live;
            }
            assert!(started.elapsed() < PATIENCE, "{live}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Begins a call that takes a minute unless it is stopped.
    fn count_down(&self) -> TcpStream {
        self.send("POST", "/v1/tools/countdown__countdown/calls", "", r#"{"from": 500, "step_ms": 100}"#)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn bench(config: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").example("countdown");
    bench.put("fumehood.toml", config);
    bench
}

#[test]
fn a_call_over_http_is_part_of_the_callers_trace() {
    let collector = Collector::start().unwrap();
    let bench = bench(&format!("[telemetry]\nendpoint = {:?}\n", collector.endpoint()));
    let server = Server::start(&bench, &["calculator.wasm", "--no-auth", "--isolation", "in-process"]);
    let parent = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\nx-other: header-secret\r\n");
    let body = r#"{"a": 3, "b": 1234567}"#;
    let path = "/v1/tools/calculator__add/calls";
    let (status, head, answer) = server.exchange("POST", path, &parent, body);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(server.ask("POST", path, "traceparent: nonsense\r\n", r#"{"secret-name": 1}"#).0, 422);
    let call = collector.span("execute_tool calculator__add").unwrap();
    let metrics = server.get("/metrics");
    let is_request = |span: &&Span| span.name == "POST /v1/tools/{name}/calls" && span.trace == TRACE;
    let request = collector.wait(|all| all.spans.iter().find(is_request).cloned()).unwrap();
    assert_eq!((request.trace.as_str(), request.parent.as_str(), request.kind), (TRACE, PARENT, 2));
    assert_eq!((call.trace.as_str(), &call.parent), (TRACE, &request.id));
    assert!(head.contains(&format!("traceparent: 00-{TRACE}-{}-01\r\n", request.id)), "{head}");
    assert!(call.attributes["fumehood.fuel_used"].parse::<u64>().unwrap() > 0);
    assert_eq!(call.resource["service.name"], "fumehood");
    // Nothing of what was sent or returned is part of it, nor of the metrics.
    let exported = collector.exported().bodies.concat();
    let exported = String::from_utf8_lossy(&exported);
    for secret in ["1234567", "1234570", "header-secret", "secret-name"] {
        assert!(!exported.contains(secret) && !metrics.contains(secret), "{secret}");
    }
    // The slowest of the calls points to its trace.
    assert!(metrics.contains(&format!("# {{trace_id=\"{TRACE}\"}}")), "{metrics}");
}

fn digest_of(token: &str) -> fumehood::Digest {
    fumehood::Digest::of(token.as_bytes())
}

#[test]
fn a_tenant_neither_forces_traces_nor_sees_others() {
    let collector = Collector::start().unwrap();
    let tokens = ["one", "two", "three"].map(|name| format!("0123456789abcdef-{name}"));
    let [one, two, three] = tokens.each_ref().map(|token| digest_of(token));
    let bench = bench(&format!(
        "[telemetry]\nendpoint = {:?}\nsampling = 0.0\nmetrics_readers = [\"three\"]\n\
         [tenants.one]\ntokens = [\"{one}\"]\n[tenants.two]\ntokens = [\"{two}\"]\ndecides_sampling = true\n\
         [tenants.three]\ntokens = [\"{three}\"]\n",
        collector.endpoint()
    ));
    let server = Server::start(&bench, &["calculator.wasm", "--isolation", "in-process"]);
    let path = "/v1/tools/calculator__add/calls";
    let forced = "11111111111111111111111111111111";
    for (token, trace) in [(&tokens[0], forced), (&tokens[1], TRACE)] {
        let headers = format!("Authorization: Bearer {token}\r\ntraceparent: 00-{trace}-{PARENT}-01\r\n");
        assert_eq!(server.ask("POST", path, &headers, r#"{"a": 3, "b": 5}"#).0, 200);
    }
    let collected = collector.span("execute_tool calculator__add").unwrap();
    assert_eq!(collected.trace, TRACE);
    assert!(!collector.exported().spans.iter().any(|span| span.trace == forced));
    for (token, expected) in [(&tokens[0], json!({"ok": 1})), (&tokens[2], json!({"ok": 2}))] {
        let (status, live) = server.ask("GET", "/v1/live", &format!("Authorization: Bearer {token}\r\n"), "");
        let live: Value = serde_json::from_str(&live).unwrap();
        assert_eq!((status, &live["outcomes"]), (200, &expected), "{live}");
    }
    let (status, metrics) = server.ask("GET", "/metrics", &format!("Authorization: Bearer {}\r\n", tokens[2]), "");
    let line = r#"fumehood_calls_total{tool="calculator__add",outcome="ok",actor="two",tenant="two"} 1"#;
    assert!(status == 200 && metrics.contains(line), "{metrics}");
}

#[test]
fn host_calls_and_requests_of_worker_processes_are_measured() {
    let collector = Collector::start().unwrap();
    let bench = bench(&format!("[telemetry]\nendpoint = {:?}\n", collector.endpoint()));
    bench.example("fetch").example("notes");
    let allowed = format!("GET {}/**", collector.endpoint());
    let powers = ["--key-value", "1MiB", "--allow-http", &allowed, "--allow-private", "127.0.0.1/32"];
    let tools = ["fetch.wasm", "notes.wasm", "--no-auth", "--isolation", "process"];
    let server = Server::start(&bench, &[&tools[..], &powers].concat());
    let parent = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n");
    let note = r#"{"title": "milk", "text": "buy some"}"#;
    assert_eq!(server.ask("POST", "/v1/tools/notes__write/calls", &parent, note).0, 200);
    let page = json!({"url": format!("{}/page", collector.endpoint())}).to_string();
    server.ask("POST", "/v1/tools/fetch__get/calls", &parent, &page);

    let call = collector.span("execute_tool fetch__get").unwrap();
    let is_request = |span: &&Span| span.attributes.contains_key("server.address") && span.kind == 3;
    let request = collector.wait(|all| all.spans.iter().find(is_request).cloned()).unwrap();
    assert_eq!((request.trace.as_str(), &request.parent), (TRACE, &call.id));
    let metrics = server.get("/metrics");
    for line in [
        r#"fumehood_host_call_duration_seconds_count{function="key-value.set"} 1"#,
        "fumehood_http_request_duration_seconds_count{} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[test]
fn a_trace_goes_through_a_gateway_to_another_server() {
    let collector = Collector::start().unwrap();
    let endpoint = collector.endpoint();
    let bench = bench("");
    let command = [FUMEHOOD, "--trust-config", "serve", "mcp", "calculator.wasm", "--no-log"];
    let config = format!(
        "[telemetry]\nendpoint = {endpoint:?}\n[mcp.servers.sums]\ncommand = {command:?}\nfolder = \".\"\nisolation = \"none\"\n\
         env = {{ FUMEHOOD_CACHE_DIR = {:?}, XDG_STATE_HOME = {:?}, OTEL_EXPORTER_OTLP_ENDPOINT = {endpoint:?}, OTEL_SERVICE_NAME = \"inner\" }}\n\
         start_timeout = \"60s\"\napproval = \"off\"\n",
        bench.cache(),
        bench.path("inner-state")
    );
    bench.put("fumehood.toml", config);
    let mut session = Session::start(&bench, &["--servers", "--no-log"]);
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01")});
    let call = json!({"name": "sums__calculator__add", "arguments": {"a": 3, "b": 5}, "_meta": meta});
    let sum = session.request(1, "tools/call", call);
    assert_eq!(sum["result"]["structuredContent"], json!({"result": 8}), "{sum}");
    let inner = collector.span("execute_tool calculator__add").unwrap();
    let server = collector.span("tools/call calculator__add").unwrap();
    let client = |exported: &fumehood_tests::otlp_collector::ExportedTelemetry| {
        exported.spans.iter().find(|span| span.name == "tools/call sums__calculator__add" && span.kind == 3).cloned()
    };
    let client = collector.wait(client).unwrap();
    let gateway = collector.wait(|all| all.spans.iter().find(|span| span.id == client.parent).cloned()).unwrap();
    assert_eq!((gateway.kind, gateway.parent.as_str()), (2, PARENT));
    assert_eq!((server.kind, &server.parent, &inner.parent), (2, &client.id, &server.id));
    assert_eq!([&gateway, &client, &server, &inner].map(|span| span.trace.as_str()), [TRACE; 4]);
    assert_eq!([&client, &inner].map(|span| span.resource["service.name"].as_str()), ["fumehood", "inner"]);
    assert_eq!(server.attributes["mcp.method.name"], "tools/call");
}

#[test]
fn an_unreachable_collector_is_one_warning() {
    // A port that was free a moment ago, and that nobody listens at.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let bench = bench("");
    let mut command = bench.command(&["call", "calculator.wasm", "add", "a=3", "b=5", "--no-log"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://127.0.0.1:{port}")).env("OTEL_BSP_SCHEDULE_DELAY", "1");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && printed.contains('8'), "{printed}{said}");
    assert!(said.matches("does not accept telemetry").count() <= 2, "{said}");
    assert!(said.contains(&format!("http://127.0.0.1:{port}/v1/traces does not accept telemetry")), "{said}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (config, part) in [
        ("[telemetry]\nendpoint = \"collector\"\n", "http://127.0.0.1:4318"),
        ("[telemetry]\nsampling = 2.0\n", "from 0 to 1"),
    ] {
        let ran = bench(config).run(&["config", "check"]);
        assert!(ran.code != 0 && format!("{ran:?}").contains(part), "{ran:?}");
    }
    let bench = bench("");
    let mut command = bench.command(&["call", "calculator.wasm", "add", "a=3", "b=5", "--no-log"]);
    let output = command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("OTEL_EXPORTER_OTLP_PROTOCOL"), "{said}");
}

#[test]
fn metrics_are_behind_the_token_and_can_be_parsed() {
    let bench = bench("");
    bench.put("token", "0123456789abcdef0123456789abcdef");
    std::fs::set_permissions(bench.path("token"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let server = Server::start(&bench, &["calculator.wasm", "--token-file", "token"]);
    for path in ["/metrics", "/v1/live"] {
        assert_eq!(server.ask("GET", path, "", "").0, 401, "{path}");
    }
    let token = "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n";
    let path = "/v1/tools/calculator__add/calls";
    assert_eq!(server.ask("POST", path, token, r#"{"a": 3, "b": 5}"#).0, 200);
    assert_eq!(server.ask("POST", path, token, "{}").0, 422);
    for path in ["/metrics", "/v1/live"] {
        let (status, head, _) = server.exchange("POST", path, token, "{}");
        assert!(status == 405 && head.contains("allow: GET, HEAD"), "{path}: {head}");
    }
    let (status, text) = server.ask("GET", "/metrics", token, "");
    assert_eq!(status, 200);
    for outcome in ["ok", "invalid_arguments"] {
        let line =
            format!(r#"fumehood_calls_total{{tool="calculator__add",outcome="{outcome}",actor="",tenant="client"}} 1"#);
        assert!(text.contains(&line), "{line}: {text}");
    }
    let top = bench.run(&["top", &format!("http://{}", server.address), "--token-file", "token", "--once"]);
    assert!(top.code == 0 && top.stdout.contains("0 running, 0 waiting") && top.stdout.contains("ok 1"), "{top:?}");
    let top = bench.run(&["top", &format!("http://{}", server.address), "--once"]);
    assert!(top.code != 0 && top.stderr.contains("--token-file"), "{top:?}");
    let Some(python) = std::env::var_os("FUMEHOOD_PROMETHEUS_PARSER") else {
        return skip("prometheus", "FUMEHOOD_PROMETHEUS_PARSER names no Python with prometheus-client");
    };
    let file = bench.put("metrics.txt", &text);
    let program = "import sys\n\
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n\
        found = {s.name: s for f in parse(open(sys.argv[1]).read()) for s in f.samples}\n\
        print(sorted(found))";
    let parsed = Command::new(python).args(["-c", program]).arg(file).output().unwrap();
    let names = String::from_utf8_lossy(&parsed.stdout).into_owned();
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    for name in ["fumehood_calls_total", "fumehood_call_duration_seconds_bucket", "fumehood_call_fuel_sum"] {
        assert!(names.contains(name), "{names}");
    }
}

#[test]
fn running_calls_show_their_deadline_and_cost() {
    let bench = bench("");
    for isolation in ["in-process", "process"] {
        let arguments = ["countdown.wasm", "--no-auth", "--isolation", isolation, "--timeout", "60s"];
        let server = Server::start(&bench, &arguments);
        let waiting = server.count_down();
        let live = server.live_until(|live| live["calls"][0]["fuel"].as_u64() > Some(0));
        let call = &live["calls"][0];
        assert_eq!(
            (&call["tool"], &call["phase"], &live["running"]),
            (&json!("countdown__countdown"), &json!("running"), &json!(1))
        );
        assert!(call["deadline_ms"] == 60_000 && call["peak_memory"].as_u64() > Some(65_536), "{live}");
        drop(waiting);
        server.live_until(|live| live["outcomes"]["cancelled"] == 1);
        assert_eq!(server.live()["calls"], json!([]));
    }
}

#[test]
fn a_key_of_the_live_view_stops_a_call_once_it_is_confirmed() {
    let bench = bench("");
    let server = Server::start(&bench, &["countdown.wasm", "--no-auth", "--timeout", "60s"]);
    let mut waiting = server.count_down();
    let address = format!("http://{}", server.address);
    let mut top = TerminalCommand::on_screen(bench.command(&["top", &address, "--interval", "50ms"]));
    top.wait_for("countdown__countdown");
    top.type_in("x");
    top.wait_for("? y/n");
    top.type_in("n");
    top.wait_for("q quits");
    top.type_in("yx");
    top.wait_for("? y/n");
    assert_eq!(server.live()["running"], 1);
    top.type_in("y");
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"cancelled\""), "{answer}");
    top.type_in("q");
    assert_eq!(top.finish().0, Some(0));
}

#[test]
fn no_metrics_means_none() {
    let bench = bench("[telemetry]\nno_metrics = true\n");
    let server = Server::start(&bench, &["calculator.wasm", "--no-auth"]);
    for path in ["/metrics", "/v1/live"] {
        assert_eq!(server.ask("GET", path, "", "").0, 404, "{path}");
    }
}

#[test]
fn recorded_calls_are_summed_up_and_plotted() {
    let bench = bench("");
    for arguments in [["a=3", "b=5"], ["a=3", "b=x"]] {
        bench.run(&[&["call", "calculator.wasm", "add", "--log", "log.db"], &arguments[..]].concat());
    }
    let ran = bench.run(&["log", "stats", "--log", "log.db", "--json", "--plot", "plot.svg"]);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!(found[0]["tool"], "calculator__add");
    assert_eq!(found[0]["outcomes"], json!({"invalid_arguments": 1, "ok": 1}));
    let svg = std::fs::read_to_string(bench.path("plot.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("calculator__add") && svg.contains("invalid_arguments"), "{svg}");
    let ran = bench.run(&["log", "stats", "--log", "log.db", "--plot", "plot.png"]);
    assert!(ran.code == 2 && ran.stderr.contains(".svg or .html"), "{ran:?}");
}
