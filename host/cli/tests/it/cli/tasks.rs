//! Tasks of MCP (revision 2026-07-28): calls that outlive their request, their client and their server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::serve_http::{PATIENCE, Server};
use super::session::Session;
use super::workbench::Workbench;
use crate::mcp_conformance::tools::{folder, root, run};

pub(super) const COUNTDOWN: &str = "countdown__countdown";
const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Returns a configuration with these keys of `[jobs]`.
pub(super) fn bench(jobs: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").example("countdown").program("spin");
    bench.put(
        "fumehood.toml",
        format!(
            "[limits]\ndeadline = \"60s\"\nfuel = \"900G\"\n[log]\npath = \"log.db\"\n\
             [tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n\
             [tools.countdown]\ncomponent = \"countdown.wasm\"\napproval = \"off\"\n\
             [tools.spin]\ncomponent = \"spin.wasm\"\napproval = \"off\"\n[jobs]\n{jobs}"
        ),
    );
    bench
}

/// Adds two tenants to the configuration. Returns their tokens.
pub(super) fn add_tenants(bench: &Workbench) -> Vec<String> {
    let mut tokens = Vec::new();
    let config = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    let tenants: String = ["one", "other"]
        .iter()
        .map(|name| {
            let made = bench.run(&["token", "new", name, "--json"]).json();
            tokens.push(made["token"].as_str().unwrap().to_owned());
            format!("[tenants.{name}]\ntokens = [{}]\n", made["digest"])
        })
        .collect();
    bench.put("fumehood.toml", format!("{config}{tenants}"));
    tokens
}

/// A client of the stateless revision over HTTP.
struct Client {
    server: Server,
    token: String,
}

impl Client {
    fn start(bench: &Workbench, more: &[&str]) -> Self {
        let serve = ["--isolation", "in-process", "serve", "--listen", "127.0.0.1:0"];
        Self { server: Server::run(bench.command(&[&serve, more].concat())), token: String::new() }
    }

    fn anyone(bench: &Workbench) -> Self {
        Self::start(bench, &["--no-auth"])
    }

    /// Sends a request whose client declares these extensions.
    fn send(&self, method: &str, mut params: Value, extensions: &Value) -> TcpStream {
        let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default().to_owned();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let mut stream = TcpStream::connect(&self.server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let token =
            if self.token.is_empty() { String::new() } else { format!("Authorization: Bearer {}\r\n", self.token) };
        let name = if name.is_empty() { String::new() } else { format!("Mcp-Name: {name}\r\n") };
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n{token}{name}\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n\r\n{body}",
            self.server.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Sends a request of a client that knows tasks, and returns the answer.
    fn ask(&self, method: &str, params: Value) -> Value {
        read(self.send(method, params, &json!({EXTENSION: {}})))
    }

    /// Calls a tool, which becomes a task. Returns its id.
    fn call(&self, tool: &str, arguments: Value) -> String {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        assert_eq!((&result["resultType"], &result["status"]), (&json!("task"), &json!("working")), "{answer}");
        result["taskId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn get(&self, task: &str) -> Value {
        self.ask("tasks/get", json!({"taskId": task}))
    }

    /// Asks for a task until its status is another.
    fn wait(&self, task: &str, while_status: &str) -> Value {
        let began = Instant::now();
        loop {
            let found = self.get(task);
            if found["result"]["status"] != while_status {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "{found}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks for the task of a call of [`COUNTDOWN`] from 100 until its tool has reported progress.
    fn wait_for_progress(&self, task: &str) {
        let began = Instant::now();
        loop {
            let found = self.get(task);
            if found["result"]["statusMessage"].as_str().unwrap_or_default().contains(" of 100") {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{found}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Reads the answer to a request: the last message, if it is a stream of events.
fn read(mut stream: TcpStream) -> Value {
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer).into_owned();
    let from = text.find("{\"jsonrpc\"").unwrap_or_else(|| panic!("{text}"));
    let mut messages = text[from..].lines().filter_map(|line| {
        let line = line.strip_prefix("data: ").unwrap_or(line);
        serde_json::from_str::<Value>(line).ok().filter(|message| message.get("id").is_some())
    });
    messages.next_back().unwrap_or_else(|| panic!("{text}"))
}

fn error_code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_client_that_left_comes_back_for_the_result() {
    let bench = bench("after = \"50ms\"\n");
    let client = Client::anyone(&bench);
    let discovered = client.ask("server/discover", json!({}));
    assert_eq!(discovered["result"]["capabilities"]["extensions"][EXTENSION], json!({}), "{discovered}");
    // A quick call is answered as any other.
    let quick = client.ask("tools/call", json!({"name": "calculator__add", "arguments": {"a": 3, "b": 5}}));
    assert_eq!(quick["result"]["structuredContent"], json!({"result": 8}), "{quick}");

    let task = client.call(COUNTDOWN, json!({"from": 20, "step_ms": 50}));
    let working = client.get(&task)["result"].clone();
    assert_eq!((&working["status"], &working["resultType"]), (&json!("working"), &json!("complete")), "{working}");
    assert_eq!(working["ttlMs"], 3_600_000, "{working}");
    assert!(working["pollIntervalMs"].as_u64().is_some() && working.get("result").is_none(), "{working}");
    let ended = client.wait(&task, "working")["result"].clone();
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["structuredContent"], json!({"from": 20, "waited_ms": 1000}), "{ended}");
    assert!(ended["createdAt"].as_str().unwrap() < ended["lastUpdatedAt"].as_str().unwrap(), "{ended}");
    // Its end is kept, and neither an update nor a cancellation changes it.
    let update = json!({"taskId": task, "inputResponses": {}});
    assert_eq!(client.ask("tasks/update", update)["result"]["resultType"], "complete");
    assert_eq!(client.ask("tasks/cancel", json!({"taskId": task}))["result"]["resultType"], "complete");
    assert_eq!(client.get(&task)["result"], ended);
}

#[test]
fn a_task_says_how_far_its_tool_is() {
    let bench = bench("after = \"0ms\"\n");
    let client = Client::anyone(&bench);
    let task = client.call(COUNTDOWN, json!({"from": 100, "step_ms": 100}));
    client.wait_for_progress(&task);
    client.ask("tasks/cancel", json!({"taskId": task}));
    assert_eq!(client.wait(&task, "working")["result"]["status"], "cancelled");
}

#[test]
fn cancelling_a_task_stops_its_guest_at_once() {
    let bench = bench("tools = [\"spin__*\"]\n");
    let client = Client::anyone(&bench);
    let task = client.call("spin__run", json!({}));
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    client.ask("tasks/cancel", json!({"taskId": task}));
    let ended = client.wait(&task, "working");
    let took = began.elapsed();
    assert_eq!(ended["result"]["status"], "cancelled", "{ended}");
    println!("a guest that computes was stopped {took:?} after tasks/cancel was sent");
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn a_client_without_the_extension_waits_for_its_call() {
    let bench = bench("after = \"0ms\"\ntools = [\"countdown__*\"]\n");
    let client = Client::anyone(&bench);
    let call = json!({"name": COUNTDOWN, "arguments": {"from": 2, "step_ms": 10}});
    let answer = read(client.send("tools/call", call, &json!({})));
    assert_eq!(answer["result"]["structuredContent"]["from"], 2, "{answer}");
    let task = json!({"taskId": "0".repeat(32)});
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let answer = read(client.send(method, task.clone(), &json!({})));
        assert_eq!(error_code(&answer), if method == "tasks/update" { -32602 } else { -32021 }, "{answer}");
        let unknown = json!({"taskId": "0".repeat(32), "inputResponses": {}});
        assert_eq!(error_code(&client.ask(method, unknown)), -32602);
        assert_eq!(error_code(&client.ask(method, json!({}))), -32602, "without an id");
    }
    // The revision has neither.
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(error_code(&client.ask(method, task.clone())), -32601);
    }
}

#[test]
fn without_jobs_there_are_no_tasks() {
    let bench = bench("off = true\n");
    let client = Client::anyone(&bench);
    let discovered = client.ask("server/discover", json!({}));
    assert_eq!(discovered["result"]["capabilities"].get("extensions"), None, "{discovered}");
    assert_eq!(error_code(&client.get(&"0".repeat(32))), -32601);
}

#[test]
fn a_task_of_one_tenant_does_not_exist_for_another() {
    let bench = bench("tools = [\"countdown__*\"]\n");
    let tokens = add_tenants(&bench);
    let mut client = Client::start(&bench, &[]);
    client.token = tokens[0].clone();
    let task = client.call(COUNTDOWN, json!({"from": 100, "step_ms": 100}));
    client.token = tokens[1].clone();
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let answer = client.ask(method, json!({"taskId": task, "inputResponses": {}}));
        let unknown = client.ask(method, json!({"taskId": "0".repeat(32), "inputResponses": {}}));
        // Not even that there is one can be learned.
        assert_eq!((error_code(&answer), &answer["error"]), (-32602, &unknown["error"]));
    }
    client.token = tokens[0].clone();
    assert_eq!(client.get(&task)["result"]["status"], "working");
    client.ask("tasks/cancel", json!({"taskId": task}));
    assert_eq!(client.wait(&task, "working")["result"]["status"], "cancelled");
}

#[test]
fn a_killed_server_still_answers_for_ended_tasks_and_owns_up_to_the_others() {
    let bench = bench("tools = [\"*\"]\n");
    let mut client = Client::anyone(&bench);
    let ended = client.call("calculator__add", json!({"a": 3, "b": 5}));
    let before = client.wait(&ended, "working")["result"].clone();
    assert_eq!(before["result"]["structuredContent"], json!({"result": 8}), "{before}");
    let lost = client.call(COUNTDOWN, json!({"from": 100, "step_ms": 100}));
    client.server.child.kill().unwrap();
    client.server.child.wait().unwrap();
    let client = Client::anyone(&bench);
    assert_eq!(client.get(&ended)["result"], before);
    let lost = client.get(&lost)["result"].clone();
    assert_eq!(lost["status"], "failed", "{lost}");
    assert_eq!(lost["error"]["code"], -32603, "{lost}");
    assert_eq!(lost["error"]["data"]["fumehood/error"]["kind"], "interrupted", "{lost}");
    assert!(lost["statusMessage"].as_str().unwrap().contains("it may have had its effect"), "{lost}");
}

#[test]
fn a_server_that_is_told_to_end_says_that_its_tasks_were_interrupted() {
    let bench = bench("tools = [\"*\"]\n");
    let mut client = Client::anyone(&bench);
    let lost = client.call(COUNTDOWN, json!({"from": 100, "step_ms": 100}));
    client.wait_for_progress(&lost);
    kill_process(Pid::from_child(&client.server.child), Signal::TERM).unwrap();
    assert!(client.server.child.wait().unwrap().success());
    let client = Client::anyone(&bench);
    let lost = client.get(&lost)["result"].clone();
    assert_eq!((&lost["status"], &lost["error"]["code"]), (&json!("failed"), &json!(-32603)), "{lost}");
}

#[test]
fn a_task_is_gone_when_its_time_is_over() {
    let bench = bench("tools = [\"*\"]\nkeep = \"1s\"\n");
    let client = Client::anyone(&bench);
    let task = client.call("calculator__add", json!({"a": 3, "b": 5}));
    assert_eq!(client.wait(&task, "working")["result"]["status"], "completed");
    std::thread::sleep(Duration::from_millis(1100));
    let gone = client.get(&task);
    assert_eq!(error_code(&gone), -32602, "{gone}");
}

#[test]
fn a_client_has_no_more_tasks_than_it_may_have() {
    let bench = bench("tools = [\"countdown__*\"]\nper_client = 2\n");
    let client = Client::anyone(&bench);
    let arguments = json!({"from": 100, "step_ms": 100});
    let tasks: Vec<String> = (0..2).map(|_| client.call(COUNTDOWN, arguments.clone())).collect();
    let refused = client.ask("tools/call", json!({"name": COUNTDOWN, "arguments": arguments}));
    let error = &refused["result"]["_meta"]["fumehood/error"];
    assert_eq!((&refused["result"]["isError"], &error["kind"]), (&json!(true), &json!("unavailable")), "{refused}");
    assert!(error["retry_after_ms"].as_f64().is_some(), "{refused}");
    // Other tools are called as before.
    let quick = client.ask("tools/call", json!({"name": "calculator__add", "arguments": {"a": 3, "b": 5}}));
    assert_eq!(quick["result"]["isError"], false, "{quick}");
    for task in tasks {
        client.ask("tasks/cancel", json!({"taskId": task}));
    }
}

#[test]
fn the_results_of_tools_that_are_not_recorded_are_never_on_disk() {
    let bench = bench("tools = [\"*\"]\n");
    let config = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    let section = "component = \"calculator.wasm\"\n";
    bench.put("fumehood.toml", config.replace(section, &format!("{section}persist = \"nothing\"\n")));
    let mut client = Client::anyone(&bench);
    let task = client.call("calculator__add", json!({"a": 3, "b": 5}));
    assert_eq!(client.wait(&task, "working")["result"]["result"]["structuredContent"], json!({"result": 8}));
    client.server.child.kill().unwrap();
    client.server.child.wait().unwrap();
    let client = Client::anyone(&bench);
    let found = client.get(&task)["result"].clone();
    assert_eq!(found["status"], "failed", "{found}");
    assert!(found["statusMessage"].as_str().unwrap().contains("results of this tool are not saved"), "{found}");
}

#[test]
fn a_client_over_pipes_has_tasks_in_a_session() {
    let bench = bench("tools = [\"calculator__*\"]\n");
    let extensions = json!({"extensions": {EXTENSION: {}}});
    let mut session = Session::start_with(&bench, &[], extensions.clone());
    let called = session.request(1, "tools/call", json!({"name": "calculator__add", "arguments": {"a": 3, "b": 5}}));
    assert_eq!(called["result"]["resultType"], "task", "{called}");
    let task = json!({"taskId": called["result"]["taskId"]});
    let began = Instant::now();
    let mut ended = session.request(2, "tasks/get", task.clone());
    while ended["result"]["status"] == "working" {
        assert!(began.elapsed() < PATIENCE, "{ended}");
        ended = session.request(3, "tasks/get", task.clone());
    }
    assert_eq!(ended["result"]["result"]["structuredContent"], json!({"result": 8}), "{ended}");
    session.leave();
    // The next process of the same client knows it.
    let mut session = Session::start_with(&bench, &[], extensions);
    assert_eq!(session.request(4, "tasks/get", task)["result"], ended["result"]);
}

#[test]
fn the_client_of_the_extension_uses_tasks() {
    let Some(tools) = folder("node", "the client of the Tasks extension") else { return };
    let bench = bench("after = \"100ms\"\n");
    let client = Client::anyone(&bench);
    let library = tools.join("node/node_modules/@modelcontextprotocol/ext-tasks/dist/client/index.js");
    let mut command = std::process::Command::new(tools.join("bin/node"));
    command.arg(root().join("tests/mcp/tasks.mjs")).arg(library).arg(format!("http://{}/mcp", client.server.address));
    let printed = run(&mut command);
    assert!(printed.succeeded, "{printed:?}");
    let lines: Vec<&str> = printed.stdout.lines().collect();
    let expected = [
        "quick: immediate {\"result\":8}",
        "long: task",
        "resumed: {\"from\":20,\"waited_ms\":1000}",
        "cancelled: cancelled",
    ];
    assert_eq!(lines, expected, "{printed:?}");
}
