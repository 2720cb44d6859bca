//! Telemetry at a collector of others: `oteltap`, from PyPI, which decodes what arrives with code of its own.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fumehood_tests::skip::skip;
use serde_json::Value;

use super::telemetry::Server;
use super::workbench::Workbench;

/// The program, as `tests/otlp/setup` installs it.
const PROGRAM: &str = "FUMEHOOD_OTLP_COLLECTOR";
/// Timeout of every wait, far above what any of them takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The collector, which ends when this is dropped. It prints each span and each metric as a line of JSON.
struct Collector {
    child: Child,
    endpoint: String,
    printed: PathBuf,
}

impl Collector {
    fn start(bench: &Workbench) -> Option<Self> {
        let program = std::env::var_os(PROGRAM).map(PathBuf::from).filter(|program| program.is_file());
        let Some(program) = program else {
            skip("otlp", &format!("{PROGRAM} names no collector; `tests/otlp/setup` installs one"));
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let printed = bench.path("collected");
        let mut command = Command::new(program);
        command.args(["--port", &port]).env("PYTHONUNBUFFERED", "1").stderr(Stdio::null());
        let child = command.stdout(std::fs::File::create(&printed).unwrap()).spawn().unwrap();
        let collector = Self { child, endpoint: format!("http://127.0.0.1:{port}"), printed };
        collector.wait("Listening for OTLP", |text| text.contains("Listening for OTLP").then_some(()));
        Some(collector)
    }

    /// Waits until `find` finds something in what was printed.
    fn wait<T>(&self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            let text = std::fs::read_to_string(&self.printed).unwrap();
            if let Some(found) = find(&text) {
                return found;
            }
            assert!(started.elapsed() < PATIENCE, "{what} never came: {text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for a span or a metric with this name.
    fn named(&self, name: &str) -> Value {
        self.wait(name, |text| {
            let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            lines.find(|line| line["name"] == name)
        })
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Returns the value of an attribute of a span, by its type.
fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let mut attributes = span["attributes"].as_array().unwrap().iter();
    &attributes.find(|attribute| attribute["key"] == key).unwrap()["value"]
}

#[test]
fn a_collector_of_others_takes_spans_and_metrics() {
    let bench = Workbench::new();
    bench.example("calculator");
    let Some(collector) = Collector::start(&bench) else { return };
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint.as_str()), ("OTEL_METRIC_EXPORT_INTERVAL", "100")];
    let server = Server::start_with(&bench, &["calculator.wasm", "--no-auth"], &variables);
    let (status, answer) = server.ask("POST", "/v1/tools/calculator__add/calls", "", r#"{"a": 3, "b": 1234567}"#);
    assert_eq!(status, 200, "{answer}");
    let span = collector.named("execute_tool calculator__add");
    assert_eq!((span["traceId"].as_str().unwrap().len(), span["kind"].as_i64()), (32, Some(1)), "{span}");
    assert_eq!(attribute(&span, "gen_ai.tool.name")["stringValue"], "calculator__add");
    // Collectors sum numbers up, and text not.
    assert!(attribute(&span, "fumehood.fuel_used").get("intValue").is_some(), "{span}");
    let request = collector.named("POST /v1/tools/{name}/calls");
    assert!(attribute(&request, "http.response.status_code").get("intValue").is_some(), "{request}");
    collector.named("gen_ai.execute_tool.duration");
    let printed = std::fs::read_to_string(&collector.printed).unwrap();
    assert!(
        !printed.contains("1234567") && !printed.contains("1234570"),
        "arguments and results are not exported: {printed}"
    );
}
