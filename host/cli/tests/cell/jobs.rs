//! Jobs of a cell, as tasks of MCP and over HTTP: they outlive their client, their worker, their gateway and NATS.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::{self, Answer, call};
use super::harness::{Cell, PATIENCE, wait_until};

const COUNTDOWN: &str = "countdown__countdown";
const WRITE: &str = "files__write";

/// Starts a cell with a queue of jobs.
fn start(queue: &str) -> Option<Cell> {
    let mut cell = Cell::start_with_jetstream()?;
    cell.deadline = "60s";
    cell.keys_of_all = format!("jobs = true\n{queue}");
    cell.sections = "[jobs]\ntools = [\"*\"]\n".to_owned();
    Some(cell)
}

/// Sends a request of the stateless revision of MCP to a gateway, and returns the answer.
fn ask(address: &str, method: &str, mut params: Value) -> Value {
    let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default().to_owned();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\nMcp-Name: {name}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer).into_owned();
    let mut message = text.lines().filter_map(|line| {
        let line = line.strip_prefix("data: ").unwrap_or(line);
        serde_json::from_str::<Value>(line).ok().filter(|message| message.get("id").is_some())
    });
    message.next_back().unwrap_or_else(|| panic!("{text}"))
}

/// Begins a task, and returns its id.
fn begin(address: &str, tool: &str, arguments: Value) -> String {
    let answer = ask(address, "tools/call", json!({"name": tool, "arguments": arguments}));
    assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    answer["result"]["taskId"].as_str().unwrap().to_owned()
}

fn get(address: &str, task: &str) -> Value {
    ask(address, "tasks/get", json!({"taskId": task}))["result"].clone()
}

fn wait(address: &str, task: &str) -> Value {
    let began = Instant::now();
    loop {
        let found = get(address, task);
        if found["status"] != "working" {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{found}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a worker has begun a task, which its reports show.
fn wait_for_report(address: &str, task: &str) {
    wait_until("a report", || get(address, task)["statusMessage"].as_str().is_some_and(|text| text.contains(" of ")));
}

#[test]
fn a_job_runs_at_a_worker_and_any_gateway_answers_for_it() {
    let Some(mut cell) = start("") else { return };
    cell.worker("w1", 2);
    let first = cell.mcp_gateway("g1", "");
    let second = cell.mcp_gateway("g2", "");
    let began = Instant::now();
    let task = begin(&first, "calculator__add", json!({"a": 3, "b": 5}));
    let ended = wait(&first, &task);
    println!("a short job took {:?} from its submission to its result", began.elapsed());
    assert_eq!(ended["result"]["structuredContent"], json!({"result": 8}), "{ended}");
    assert_eq!(wait(&second, &task)["result"], ended["result"]);
    let long = begin(&second, COUNTDOWN, json!({"from": 40, "step_ms": 50}));
    assert_eq!(get(&first, &long)["status"], "working");
    assert_eq!(wait(&first, &long)["result"]["structuredContent"]["from"], 40);
    // Calls that nobody may come back for run as before.
    assert_eq!(call(&first, "calculator__add", r#"{"a": 1, "b": 1}"#).kind(), "ok");
}

#[test]
fn a_job_waits_until_there_is_a_worker() {
    let Some(mut cell) = start("") else { return };
    let gateway = cell.mcp_gateway("g1", "");
    let task = begin(&gateway, "calculator__add", json!({"a": 3, "b": 5}));
    let withdrawn = begin(&gateway, COUNTDOWN, json!({"from": 40, "step_ms": 50}));
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(get(&gateway, &task)["status"], "working");
    ask(&gateway, "tasks/cancel", json!({"taskId": withdrawn}));
    assert_eq!(wait(&gateway, &withdrawn)["status"], "cancelled");
    cell.worker("w1", 2);
    assert_eq!(wait(&gateway, &task)["result"]["structuredContent"], json!({"result": 8}));
    assert_eq!(get(&gateway, &withdrawn)["status"], "cancelled");
}

#[test]
fn a_job_whose_worker_is_killed_was_interrupted_and_never_begins_again() {
    let Some(mut cell) = start("") else { return };
    cell.worker("w1", 2);
    let gateway = cell.mcp_gateway("g1", "");
    let task = begin(&gateway, COUNTDOWN, json!({"from": 100, "step_ms": 100}));
    wait_for_report(&gateway, &task);
    cell.worker("w2", 2);
    cell.kill("w1");
    let began = Instant::now();
    let lost = wait(&gateway, &task);
    println!("the loss of a worker in a job was known after {:?}", began.elapsed());
    assert_eq!(lost["status"], "failed", "{lost}");
    assert_eq!(lost["error"]["data"]["fumehood/error"]["kind"], "interrupted", "{lost}");
    let message = lost["statusMessage"].as_str().unwrap();
    assert!(message.contains("`w1`") && message.contains("had begun"), "{lost}");
}

#[test]
fn a_repeatable_job_begins_once_more_where_policy_says_so() {
    let Some(mut cell) = start("retry_repeatable = true\n") else { return };
    cell.worker("w1", 2);
    let gateway = cell.mcp_gateway("g1", "");
    let task = begin(&gateway, COUNTDOWN, json!({"from": 50, "step_ms": 100}));
    wait_for_report(&gateway, &task);
    cell.worker("w2", 2);
    cell.kill("w1");
    let ended = wait(&gateway, &task);
    assert_eq!(ended["result"]["structuredContent"]["from"], 50, "{ended}");
}

#[test]
fn a_job_outlives_its_gateway() {
    let Some(mut cell) = start("") else { return };
    cell.worker("w1", 2);
    let first = cell.mcp_gateway("g1", "");
    let second = cell.mcp_gateway("g2", "");
    let task = begin(&first, COUNTDOWN, json!({"from": 40, "step_ms": 50}));
    let quick = begin(&first, "calculator__add", json!({"a": 3, "b": 5}));
    let ended = wait(&first, &quick);
    cell.kill("g1");
    let found = wait(&second, &task);
    assert_eq!(found["result"]["structuredContent"]["from"], 40, "{found}");
    assert_eq!(get(&second, &quick)["result"], ended["result"]);
    // The gateway itself, when it is back.
    let first = cell.mcp_gateway("g1", "");
    assert_eq!(get(&first, &task)["result"], found["result"]);
}

#[test]
fn a_job_outlives_a_restart_of_nats() {
    let Some(mut cell) = start("") else { return };
    cell.worker("w1", 2);
    let gateway = cell.mcp_gateway("g1", "");
    let task = begin(&gateway, COUNTDOWN, json!({"from": 60, "step_ms": 50}));
    wait_for_report(&gateway, &task);
    cell.worker("w2", 2);
    cell.stop_nats();
    std::thread::sleep(Duration::from_secs(5));
    cell.start_nats();
    let ended = wait(&gateway, &task);
    assert_eq!(ended["result"]["structuredContent"]["from"], 60, "{ended}");
    // The cell goes on.
    let next = begin(&gateway, "calculator__add", json!({"a": 3, "b": 5}));
    assert_eq!(wait(&gateway, &next)["result"]["structuredContent"], json!({"result": 8}));
}

#[test]
fn two_workers_share_the_queue_and_each_job_runs_once() {
    let Some(mut cell) = start("") else { return };
    cell.worker("w1", 2);
    cell.worker("w2", 2);
    let gateway = cell.mcp_gateway("g1", "");
    let tasks: Vec<String> = (0..24)
        .map(|number| begin(&gateway, WRITE, json!({"path": format!("/trace/{number}"), "text": "1"})))
        .collect();
    for task in &tasks {
        let ended = wait(&gateway, task);
        assert_eq!((&ended["status"], &ended["result"]["isError"]), (&json!("completed"), &json!(false)), "{ended}");
    }
    assert_eq!(std::fs::read_dir(cell.path("trace")).unwrap().count(), tasks.len());
}

#[test]
fn cancelling_a_job_reaches_its_guest_from_any_gateway() {
    let Some(mut cell) = start("") else { return };
    cell.worker("w1", 2);
    let first = cell.mcp_gateway("g1", "");
    let second = cell.mcp_gateway("g2", "");
    for gateway in [&first, &second] {
        let task = begin(&first, COUNTDOWN, json!({"from": 100, "step_ms": 100}));
        wait_for_report(&first, &task);
        let began = Instant::now();
        ask(gateway, "tasks/cancel", json!({"taskId": task}));
        let ended = wait(gateway, &task);
        println!("a job was cancelled {:?} after tasks/cancel was sent", began.elapsed());
        assert_eq!(ended["status"], "cancelled", "{ended}");
    }
}

#[test]
fn a_full_queue_says_so_at_once() {
    let Some(mut cell) = start("queue = 2\n") else { return };
    let gateway = cell.mcp_gateway("g1", "");
    let arguments = json!({"a": 3, "b": 5});
    let waiting: Vec<String> = (0..2).map(|_| begin(&gateway, "calculator__add", arguments.clone())).collect();
    let began = Instant::now();
    let refused = begin(&gateway, "calculator__add", arguments);
    let ended = wait(&gateway, &refused);
    assert!(began.elapsed() < Duration::from_secs(2), "{ended}");
    let error = &ended["result"]["_meta"]["fumehood/error"];
    assert_eq!((&ended["result"]["isError"], &error["kind"]), (&json!(true), &json!("unavailable")), "{ended}");
    assert!(error["retry_after_ms"].as_f64().is_some(), "{ended}");
    assert!(error["message"].as_str().unwrap().contains("did not run"), "{ended}");
    cell.worker("w1", 2);
    for task in waiting {
        assert_eq!(wait(&gateway, &task)["result"]["structuredContent"], json!({"result": 8}));
    }
}

#[test]
fn a_worker_that_is_told_to_end_lets_its_jobs_end() {
    let Some(mut cell) = start("") else { return };
    cell.worker("w1", 2);
    let gateway = cell.mcp_gateway("g1", "");
    let task = begin(&gateway, COUNTDOWN, json!({"from": 40, "step_ms": 50}));
    wait_for_report(&gateway, &task);
    cell.signal("w1", Signal::TERM);
    let ended = wait(&gateway, &task);
    assert_eq!(ended["result"]["structuredContent"]["from"], 40, "{ended}");
    assert!(cell.has_ended_well("w1"), "{}", cell.said("w1"));
}

/// Starts a cell with a queue of jobs, whose operator makes no call a job.
fn start_without_rules(queue: &str) -> Option<Cell> {
    let mut cell = start(queue)?;
    cell.sections = String::new();
    Some(cell)
}

/// Calls a tool over HTTP with these preferences.
fn prefer(address: &str, tool: &str, arguments: &Value, preferences: &str) -> Answer {
    let headers = format!("Prefer: {preferences}\r\n");
    client::ask(address, &format!("POST /v1/tools/{tool}/calls"), &headers, &arguments.to_string())
}

/// Begins a job over HTTP, and returns its path.
fn begin_over_http(address: &str, tool: &str, arguments: &Value) -> String {
    let answer = prefer(address, tool, arguments, "respond-async");
    assert_eq!((answer.status, &answer.body["status"]), (202, &json!("working")), "{answer:?}");
    format!("/v1/jobs/{}", answer.body["id"].as_str().unwrap())
}

/// Waits for the end of a job over HTTP.
fn end_over_http(address: &str, path: &str) -> Value {
    let ended = client::ask(address, &format!("GET {path}"), "Prefer: wait=60\r\n", "");
    assert_eq!(ended.status, 200, "{ended:?}");
    ended.body
}

fn wait_for_progress(address: &str, path: &str) {
    wait_until("progress", || client::ask(address, &format!("GET {path}"), "", "").body["progress"].is_string());
}

#[test]
fn a_job_over_http_outlives_its_gateway() {
    let Some(mut cell) = start_without_rules("") else { return };
    let first = cell.gateway("");
    let second = cell.gateway_of("g2", "", &["--no-auth"]);
    // It waits in the queue, because there is no worker yet.
    let waiting = begin_over_http(&first, "calculator__add", &json!({"a": 3, "b": 5}));
    cell.worker("w1", 2);
    let running = begin_over_http(&first, COUNTDOWN, &json!({"from": 40, "step_ms": 50}));
    wait_for_progress(&first, &running);
    cell.kill("g1");
    let ended = end_over_http(&second, &running);
    assert_eq!((&ended["status"], &ended["result"]["value"]["from"]), (&json!("completed"), &json!(40)), "{ended}");
    assert_eq!(end_over_http(&second, &waiting)["result"]["value"], json!({"result": 8}));
    let listed = client::ask(&second, "GET /v1/jobs?status=completed", "", "").body;
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 2, "{listed}");
    let first = cell.gateway("");
    assert_eq!(end_over_http(&first, &running), ended);
    assert_eq!(client::ask(&first, &format!("DELETE {running}"), "", "").status, 204);
    assert_eq!(client::ask(&second, &format!("GET {running}"), "", "").status, 404);
}

#[test]
fn a_job_over_http_whose_worker_is_killed_was_interrupted() {
    let Some(mut cell) = start_without_rules("") else { return };
    cell.worker("w1", 2);
    let gateway = cell.gateway("");
    let path = begin_over_http(&gateway, COUNTDOWN, &json!({"from": 100, "step_ms": 100}));
    wait_for_progress(&gateway, &path);
    cell.worker("w2", 2);
    cell.kill("w1");
    let lost = end_over_http(&gateway, &path);
    assert_eq!((&lost["status"], &lost["error"]["kind"]), (&json!("failed"), &json!("interrupted")), "{lost}");
    let message = lost["error"]["message"].as_str().unwrap();
    assert!(message.contains("`w1`") && message.contains("had begun"), "{lost}");
}

#[test]
fn deleting_a_job_over_http_reaches_its_guest_from_any_gateway() {
    let Some(mut cell) = start_without_rules("") else { return };
    cell.worker("w1", 2);
    let first = cell.gateway("");
    let second = cell.gateway_of("g2", "", &["--no-auth"]);
    for gateway in [&first, &second] {
        let path = begin_over_http(&first, COUNTDOWN, &json!({"from": 100, "step_ms": 100}));
        wait_for_progress(&first, &path);
        assert_eq!(client::ask(gateway, &format!("DELETE {path}"), "", "").status, 202);
        assert_eq!(end_over_http(gateway, &path)["status"], "cancelled");
    }
}

#[test]
fn a_client_over_http_waits_for_what_the_queue_says() {
    let Some(mut cell) = start_without_rules("queue = 1\n") else { return };
    cell.sections = "[jobs]\ntools = [\"*\"]\n".to_owned();
    let gateway = cell.gateway("");
    let arguments = json!({"a": 3, "b": 5});
    let add = "calculator__add";
    let waiting = prefer(&gateway, add, &arguments, "respond-async, wait=1");
    assert_eq!((waiting.status, waiting.retry_after), (202, true), "{waiting:?}");
    let refused = prefer(&gateway, add, &arguments, "respond-async, wait=20");
    assert_eq!((refused.status, refused.kind(), refused.retry_after), (503, "unavailable", true), "{refused:?}");
    assert!(refused.detail().contains("did not run") && refused.took < Duration::from_secs(2), "{refused:?}");
    cell.worker("w1", 2);
    let path = format!("/v1/jobs/{}", waiting.body["id"].as_str().unwrap());
    assert_eq!(end_over_http(&gateway, &path)["result"]["value"], json!({"result": 8}));
    let quick = prefer(&gateway, add, &arguments, "respond-async, wait=20");
    assert_eq!((quick.status, &quick.body["value"]), (200, &json!({"result": 8})), "{quick:?}");
}
