//! Jobs over HTTP (`Prefer: respond-async`): calls that outlive their request and their server.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::serve_http::Server;
use super::tasks::{COUNTDOWN, add_tenants, bench};
use super::workbench::Workbench;

const ADD: &str = "calculator__add";
const ARGUMENTS: &str = r#"{"a": 3, "b": 5}"#;
const LONG: &str = r#"{"from": 100, "step_ms": 100}"#;
const ASYNC: &str = "Prefer: respond-async\r\n";

/// Serves the API with this command and these options.
fn serve(bench: &Workbench, options: &[&str]) -> Server {
    let serve = ["--isolation", "in-process", "serve", "http", "--listen", "127.0.0.1:0"];
    Server::run(bench.command(&[&serve, options].concat()))
}

/// Returns the header of a response, in lower case; empty if there is none.
fn header<'a>(head: &'a str, name: &str) -> &'a str {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
}

fn parse(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// Begins a job. Returns its path.
fn begin(server: &Server, tool: &str, arguments: &str) -> String {
    begin_with(server, tool, ASYNC, arguments)
}

fn begin_with(server: &Server, tool: &str, headers: &str, arguments: &str) -> String {
    let (status, head, body) = server.ask_with("POST", &format!("/v1/tools/{tool}/calls"), headers, arguments);
    assert_eq!(status, 202, "{head}\n{body}");
    let path = header(&head, "location").to_owned();
    assert_eq!(path, format!("/v1/jobs/{}", parse(&body)["id"].as_str().unwrap()), "{head}");
    path
}

/// Waits for the end of a job.
fn end_of(server: &Server, path: &str) -> Value {
    let (status, head, body) = server.ask_with("GET", path, "Prefer: wait=60\r\n", "");
    assert_eq!((status, header(&head, "retry-after")), (200, ""), "{head}\n{body}");
    parse(&body)
}

fn kill(mut server: Server) {
    server.child.kill().unwrap();
    server.child.wait().unwrap();
}

#[test]
fn a_client_that_left_comes_back_for_progress_and_result() {
    let bench = bench("");
    let server = serve(&bench, &["--no-auth"]);
    let path = begin(&server, COUNTDOWN, r#"{"from": 20, "step_ms": 50}"#);
    let working = server.wait_for(&path, |job| job["progress"].as_str().is_some_and(|text| text.contains(" of 20")));
    assert_eq!((&working["status"], &working["tool"]), (&json!("working"), &json!(COUNTDOWN)), "{working}");
    let ended = end_of(&server, &path);
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["value"], json!({"from": 20, "waited_ms": 1000}), "{ended}");
    assert!(ended["result"]["metadata"]["fuel_used"].as_u64() > Some(0), "{ended}");
    assert!(ended["created_at_ms"].as_u64() < ended["updated_at_ms"].as_u64(), "{ended}");
    // It is a call like any other, and found as one once its end is written.
    let call = format!("/v1/calls/{}", ended["result"]["id"].as_str().unwrap());
    let call = server.wait_for(&call, |call| call["status"] != "running");
    assert_eq!((&call["tool"], &call["status"]), (&json!(COUNTDOWN), &json!("ok")), "{call}");
    assert_eq!(server.get("/v1/jobs")["jobs"][0]["id"], ended["id"]);
}

#[test]
fn without_jobs_a_call_is_waited_for() {
    let bench = bench("off = true\n");
    let server = serve(&bench, &["--no-auth"]);
    let (status, head, body) = server.ask_with("POST", &format!("/v1/tools/{ADD}/calls"), ASYNC, ARGUMENTS);
    assert_eq!((status, header(&head, "preference-applied")), (200, ""), "{body}");
    assert_eq!(parse(&body)["value"], json!({"result": 8}));
    let (status, body) = server.ask("GET", "/v1/jobs", "");
    assert!(status == 404 && body.contains("[jobs]"), "{status}: {body}");
}

#[test]
fn deleting_a_job_stops_a_guest_that_computes() {
    let bench = bench("");
    let server = serve(&bench, &["--no-auth"]);
    let path = begin(&server, "spin__run", "{}");
    std::thread::sleep(std::time::Duration::from_millis(100));
    let began = std::time::Instant::now();
    assert_eq!(server.ask("DELETE", &path, "").0, 202);
    let ended = end_of(&server, &path);
    println!("a guest that computes was stopped {:?} after DELETE was sent", began.elapsed());
    assert_eq!(ended["status"], "cancelled", "{ended}");
    assert!(began.elapsed() < std::time::Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!((server.ask("DELETE", &path, "").0, server.ask("GET", &path, "").0), (204, 404));
}

#[test]
fn a_job_of_one_tenant_does_not_exist_for_another() {
    let bench = bench("");
    let tokens = add_tenants(&bench);
    let mut server = serve(&bench, &[]);
    server.token = tokens[0].clone();
    let path = begin(&server, COUNTDOWN, LONG);
    server.token = tokens[1].clone();
    let unknown = format!("/v1/jobs/{}", "0".repeat(32));
    for method in ["GET", "DELETE"] {
        let refused = server.ask(method, &path, "");
        assert!(refused.0 == 404 && refused == server.ask(method, &unknown, ""), "{refused:?}");
    }
    assert_eq!(server.get("/v1/jobs"), json!({"jobs": []}));
    server.token = "nobody".to_owned();
    assert_eq!(server.ask("GET", &path, "").0, 401);
    server.token = tokens[0].clone();
    assert_eq!(server.get(&path)["status"], "working");
}

#[test]
fn a_killed_server_answers_for_ended_and_interrupted_jobs() {
    let bench = bench("");
    let server = serve(&bench, &["--no-auth"]);
    let ended = begin(&server, ADD, ARGUMENTS);
    let before = end_of(&server, &ended);
    assert_eq!(before["result"]["value"], json!({"result": 8}), "{before}");
    let keyed = format!("{ASYNC}Idempotency-Key: order-17\r\n");
    let lost = begin_with(&server, COUNTDOWN, &keyed, LONG);
    kill(server);
    let server = serve(&bench, &["--no-auth"]);
    assert_eq!(server.get(&ended), before);
    // Its key does not run it again.
    assert_eq!(begin_with(&server, COUNTDOWN, &keyed, LONG), lost);
    let lost = server.get(&lost);
    assert_eq!((&lost["status"], &lost["error"]["kind"]), (&json!("failed"), &json!("interrupted")), "{lost}");
    assert!(lost["error"]["message"].as_str().unwrap().contains("it may have had its effect"), "{lost}");
    assert_eq!(server.get("/v1/jobs?status=failed")["jobs"].as_array().unwrap().len(), 1);
}

#[test]
fn jobs_of_a_server_that_is_told_to_end_were_interrupted() {
    let bench = bench("");
    let mut server = serve(&bench, &["--no-auth"]);
    let lost = begin(&server, COUNTDOWN, LONG);
    // One that has not begun would be refused.
    server.wait_for("/v1/live", |live| live["running"] == 1);
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
    let lost = serve(&bench, &["--no-auth"]).get(&lost);
    assert_eq!((&lost["status"], &lost["error"]["kind"]), (&json!("failed"), &json!("interrupted")), "{lost}");
}

fn request_of_mcp(server: &Server, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap().to_owned();
    let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\nMcp-Name: {name}\r\n");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let (status, _, body) = server.ask_with("POST", "/mcp", &headers, &body);
    assert_eq!(status, 200, "{body}");
    let mut lines = body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let line = lines.find(|line| line.contains("jsonrpc"));
    parse(line.unwrap_or_else(|| panic!("{body}")))["result"].clone()
}

#[test]
fn tasks_of_mcp_are_jobs_of_the_same_client() {
    let bench = bench("tools = [\"*\"]\n");
    let command = ["--isolation", "in-process", "serve", "--listen", "127.0.0.1:0", "--no-auth"];
    let server = Server::run(bench.command(&command));
    let path = begin(&server, ADD, ARGUMENTS);
    end_of(&server, &path);
    let task = request_of_mcp(&server, "tasks/get", json!({"taskId": path.strip_prefix("/v1/jobs/").unwrap()}));
    assert_eq!(task["result"]["structuredContent"], json!({"result": 8}), "{task}");
    let task = request_of_mcp(&server, "tools/call", json!({"name": ADD, "arguments": {"a": 1, "b": 1}}));
    let ended = end_of(&server, &format!("/v1/jobs/{}", task["taskId"].as_str().unwrap()));
    assert_eq!(ended["result"]["value"], json!({"result": 2}), "{ended}");
}
