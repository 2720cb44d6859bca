//! Traces from a client to the host calls of a tool, for every way to call it over HTTP.

use std::process::Command;

use fumehood_tests::otlp_collector::{Collector, ExportedTelemetry};
use serde_json::{Value, json};

use super::serve_http::Server;
use super::workbench::Workbench;

const WRITE: &str = "notes__write";
/// The span of the client.
const PARENT: &str = "b7ad6b7169203331";
const ISOLATIONS: [&str; 2] = ["in-process", "process"];
/// The keys of each tenant. Those with a budget of fuel run their calls in tasks.
const TENANTS: [&str; 4] =
    ["", "requests_per_minute = 600\n", "fuel_per_day = \"1000G\"\n", "decides_sampling = true\n"];
/// The first span below the client's for each way to call a tool.
const FACES: [(Face, &str); 5] = [
    (Face::Call, "POST /v1/tools/{name}/calls"),
    (Face::Job, "POST /v1/tools/{name}/calls"),
    (Face::Mcp, "tools/call notes__write"),
    (Face::McpTask, "tools/call notes__write"),
    (Face::Session, "POST /v1/sessions/{id}/messages"),
];

/// A way to call a tool.
#[derive(Debug, Clone, Copy)]
enum Face {
    Call,
    Job,
    Mcp,
    /// MCP of a client that takes tasks.
    McpTask,
    /// A message of a session, whose model makes the call.
    Session,
}

impl Face {
    /// Makes a call in a trace.
    fn call(self, server: &Server, traceparent: &str) {
        let header = format!("traceparent: {traceparent}\r\n");
        let path = format!("/v1/tools/{WRITE}/calls");
        let note = note();
        match self {
            Self::Call => ask(server, 200, &path, &header, &note),
            Self::Job => ask(server, 202, &path, &format!("{header}Prefer: respond-async\r\n"), &note),
            Self::Mcp => self.call_by_mcp(server, traceparent, &json!({})),
            Self::McpTask => {
                let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
                self.call_by_mcp(server, traceparent, &capabilities)
            }
            Self::Session => {
                let opened = ask(server, 201, "/v1/sessions", "", &json!({}));
                let path = format!("/v1/sessions/{}/messages", opened["id"].as_str().unwrap());
                let reply = ask(server, 200, &path, &header, &json!({"text": "Write"}));
                assert_eq!(reply["text"], "Written.", "{reply}");
                reply
            }
        };
    }

    fn call_by_mcp(self, server: &Server, traceparent: &str, capabilities: &Value) -> Value {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
            "traceparent": traceparent,
        });
        let params = json!({"name": WRITE, "arguments": note(), "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {WRITE}\r\n");
        ask(server, 200, "/mcp", &headers, &body)
    }
}

fn note() -> Value {
    json!({"title": "milk", "text": "buy some"})
}

/// Sends a request, and returns the answer if it is JSON.
fn ask(server: &Server, expected: u16, path: &str, headers: &str, body: &Value) -> Value {
    let (status, head, answer) = server.ask_with("POST", path, headers, &body.to_string());
    assert_eq!(status, expected, "{head}\n{answer}");
    serde_json::from_str(&answer).unwrap_or_default()
}

/// Writes a configuration with a model that makes one call in each session.
fn bench(collector: &Collector) -> Workbench {
    let bench = Workbench::new();
    let turn = json!({"calls": [{"name": WRITE, "arguments": note()}]}).to_string() + "\n{\"text\": \"Written.\"}\n";
    bench.example("notes").put("script.jsonl", turn.repeat(TENANTS.len()));
    let config = format!(
        "[telemetry]\nendpoint = {:?}\n[log]\npath = \"log.db\"\n[jobs]\n[model]\nname = \"scripted:script.jsonl\"\n\
         [tools.notes]\ncomponent = \"notes.wasm\"\napproval = \"off\"\nkey_value = \"1MiB\"\n",
        collector.endpoint()
    );
    bench.put("fumehood.toml", config);
    bench
}

/// Adds a tenant, and returns its token.
fn add_tenant(bench: &Workbench, name: &str, keys: &str) -> String {
    let made = bench.run(&["token", "new", name, "--json"]).json();
    let config = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    bench.put("fumehood.toml", format!("{config}[tenants.{name}]\ntokens = [{}]\n{keys}", made["digest"]));
    made["token"].as_str().unwrap().to_owned()
}

fn command(bench: &Workbench, isolation: &str, options: &[&str]) -> Command {
    let serve = ["--isolation", isolation, "serve", "--listen", "127.0.0.1:0"];
    let mut command = bench.command(&[&serve, options].concat());
    command.env("OTEL_BSP_SCHEDULE_DELAY", "20");
    command
}

/// Makes a call in every way, each in a trace whose id begins with `number`.
fn check(collector: &Collector, server: &Server, number: usize, row: &str) {
    for (index, (face, first)) in FACES.iter().enumerate() {
        let trace = format!("{number:016x}{:016x}", index + 1);
        face.call(server, &format!("00-{trace}-{PARENT}-01"));
        let path = collector.wait(|all| all.path(&trace, "host_call", PARENT));
        let path = path.unwrap_or_else(|| panic!("{row}, {face:?}: {:#?}", spans_of(&collector.exported(), &trace)));
        assert_eq!(path[..2], ["host_call", "execute_tool notes__write"], "{row}, {face:?}: {path:?}");
        assert_eq!(path.last().unwrap(), first, "{row}, {face:?}: {path:?}");
    }
}

fn spans_of<'a>(exported: &'a ExportedTelemetry, trace: &str) -> Vec<(&'a str, &'a str, &'a str)> {
    let spans = exported.spans.iter().filter(|span| span.trace == trace);
    spans.map(|span| (span.name.as_str(), span.id.as_str(), span.parent.as_str())).collect()
}

#[test]
fn every_call_is_one_trace_from_client_to_host_calls() {
    let collector = Collector::start().unwrap();
    for (at, isolation) in ISOLATIONS.into_iter().enumerate() {
        let server = Server::run(command(&bench(&collector), isolation, &["--no-auth"]));
        check(&collector, &server, 100 * (at + 1), &format!("{isolation} without tenants"));
        drop(server);

        let bench = bench(&collector);
        let tokens = TENANTS.iter().enumerate().map(|(number, keys)| add_tenant(&bench, &format!("t{number}"), keys));
        let tokens: Vec<String> = tokens.collect();
        let mut server = Server::run(command(&bench, isolation, &[]));
        for (number, token) in tokens.into_iter().enumerate() {
            server.token = token;
            let row = format!("{isolation}, tenant with `{}`", TENANTS[number].trim());
            check(&collector, &server, 100 * (at + 1) + number + 1, &row);
        }
    }
    // Nothing that a call did is in another trace.
    let is_of_call = |name: &str| name == "host_call" || name.starts_with("execute_tool") || name == "invoke_agent";
    let exported = collector.exported();
    let mut of_calls = exported.spans.iter().filter(|span| is_of_call(&span.name));
    let stray = of_calls.find(|span| !span.trace.starts_with("0000000000000") || span.parent.is_empty());
    assert!(stray.is_none(), "{stray:?}");
}
