//! Sessions over HTTP that outlive the server: their conversations, and the calls that wait for a person.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::serve_http::{PATIENCE, Server};
use super::workbench::Workbench;

const CALLS: &str = r#"{"calls": [{"name": "calculator__multiply", "arguments": {"a": 2, "b": 2}}, {"name": "calculator__add", "arguments": {"a": 3, "b": 5}}]}"#;
/// The script of a model that is not asked.
const UNUSED: &str = r#"{"text": "Unused."}"#;
const CONFIG: &str = r#"
[model]
name = "scripted:script.jsonl"
[guardrails]
ask = ["calculator__add"]
[tools.calculator]
component = "calculator.wasm"
approval = "off"
"#;

/// Starts a server whose model follows this script.
fn serve(bench: &Workbench, script: &str) -> Server {
    bench.put("script.jsonl", script);
    Server::run(bench.command(&["serve", "http", "--listen", "127.0.0.1:0", "--no-auth"]))
}

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("fumehood.toml", CONFIG);
    bench
}

fn post(server: &Server, path: &str, body: &Value) -> (u16, Value) {
    let (status, body) = server.ask("POST", path, &body.to_string());
    (status, serde_json::from_str(&body).unwrap_or_default())
}

/// Opens a session, and returns its path.
fn open(server: &Server) -> String {
    let (status, opened) = post(server, "/v1/sessions", &json!({}));
    assert_eq!(status, 201, "{opened}");
    format!("/v1/sessions/{}", opened["id"].as_str().unwrap())
}

fn say(server: &Server, session: &str, text: &str) -> Value {
    let (status, reply) = post(server, &format!("{session}/messages"), &json!({ "text": text }));
    assert_eq!(status, 200, "{reply}");
    reply
}

/// Returns the number of times that a tool was started.
fn started(bench: &Workbench, tool: &str) -> usize {
    let ran = bench.run(&["log", "export"]);
    let records = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["kind"] == "tool_started" && record["tool"] == tool).count()
}

#[test]
fn a_session_and_its_approvals_outlive_the_server() {
    let bench = bench();
    let server = serve(&bench, CALLS);
    let session = open(&server);
    let reply = say(&server, &session, "Go");
    assert_eq!(reply["status"], "waiting_for_approval", "{reply}");
    let call = reply["approvals"][0].as_str().unwrap().to_owned();
    let reply = say(&server, &session, "Another");
    assert_eq!((&reply["status"], &reply["approvals"][0]), (&json!("waiting_for_approval"), &json!(call)), "{reply}");
    assert!(reply["detail"].as_str().unwrap().contains("was not started"), "{reply}");
    // Killed, and not stopped.
    drop(server);

    let server = serve(&bench, r#"{"text": "Done.", "expect": "8"}"#);
    let listed = server.get("/v1/sessions");
    assert!(session.ends_with(listed["sessions"][0]["id"].as_str().unwrap()), "{listed}");
    let found = server.get(&session);
    assert_eq!(found["conversation"], json!([{ "role": "user", "text": "Go" }]), "{found}");
    let approvals = server.get("/v1/approvals");
    let approval = &approvals["approvals"][0];
    assert_eq!((&approval["id"], &approval["tool"]), (&json!(call), &json!("calculator__add")), "{approvals}");
    assert_eq!(approval["arguments"], json!({ "a": 3, "b": 5 }));
    assert_eq!((started(&bench, "calculator__multiply"), started(&bench, "calculator__add")), (1, 0));
    let path = format!("/v1/approvals/{call}");
    assert_eq!(server.get(&path)["question"], approval["question"]);
    assert_eq!(post(&server, &path, &json!({ "answer": "allow" })).0, 204);
    assert_eq!(post(&server, &path, &json!({ "answer": "deny" })).0, 404, "answers cannot be changed");
    assert_eq!(server.get("/v1/approvals")["approvals"], json!([]));
    let resume = format!("{session}/resume");
    let (status, reply) = post(&server, &resume, &Value::Null);
    assert_eq!((status, &reply["status"], &reply["text"]), (200, &json!("answered"), &json!("Done.")), "{reply}");
    assert_eq!(post(&server, &resume, &Value::Null).1["status"], "idle");
    assert_eq!((started(&bench, "calculator__multiply"), started(&bench, "calculator__add")), (1, 1));
    let found = server.get(&session);
    drop(server);

    let server = serve(&bench, UNUSED);
    let restored = server.get(&session);
    assert_eq!(restored["messages"], 1);
    assert_eq!(
        restored["conversation"],
        json!([{ "role": "user", "text": "Go" }, { "role": "assistant", "text": "Done." }])
    );
    assert_eq!(restored["created_at_ms"], found["created_at_ms"]);
    assert_eq!(server.ask("DELETE", &session, "").0, 204);
    assert_eq!(server.ask("GET", &session, "").0, 404);
    drop(server);
    let server = serve(&bench, UNUSED);
    assert_eq!(server.get("/v1/sessions")["sessions"], json!([]));
    assert_eq!(bench.run(&["log", "verify"]).code, 0);
}

#[test]
fn an_answer_of_another_process_counts() {
    let bench = bench();
    let server = serve(&bench, &format!("{CALLS}\n{}", r#"{"text": "Then not.", "expect": "too risky"}"#));
    let session = open(&server);
    let call = say(&server, &session, "Go")["approvals"][0].as_str().unwrap().to_owned();
    let ran = bench.run(&["approve-call", &call, "--no", "--reason", "too risky"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(server.get("/v1/approvals")["approvals"], json!([]));
    let (_, reply) = post(&server, &format!("{session}/resume"), &Value::Null);
    assert_eq!((&reply["status"], &reply["text"]), (&json!("answered"), &json!("Then not.")), "{reply}");
    assert_eq!(started(&bench, "calculator__add"), 0);
}

#[test]
fn budgets_of_a_session_outlive_the_server() {
    let bench = bench();
    bench.put("fumehood.toml", format!("[agent.budget]\ncalls_in_all = 1\n{CONFIG}"));
    let call = r#"{"calls": [{"name": "calculator__multiply", "arguments": {"a": 2, "b": 2}}]}"#;
    let server = serve(&bench, &format!("{call}\n{}", r#"{"text": "Four."}"#));
    let session = open(&server);
    assert_eq!(say(&server, &session, "Go")["text"], "Four.");
    drop(server);
    let server = serve(&bench, &format!("{call}\n{}", r#"{"text": "No more."}"#));
    let _reply = say(&server, &session, "Again");
    assert_eq!(started(&bench, "calculator__multiply"), 1);
}

#[test]
fn knowledge_is_read_when_it_is_asked_for() {
    let bench = bench();
    let config = "[model]\nname = \"scripted:script.jsonl\"\n[knowledge.rules]\ndescription = \"Rounding.\"\n\
                  text = { file = \"rules.md\" }\n[tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n";
    bench.put("fumehood.toml", config);
    bench.put("rules.md", "Up.");
    let ask = r#"{"calls": [{"name": "rules", "arguments": {}}]}"#;
    let said = |text: &str| format!("{ask}\n{}", json!({ "text": text, "expect": text }));
    bench.put("script.jsonl", format!("{}\n{}", said("Up."), said("Down.")));
    // One agent answers both messages, because nothing is saved.
    let server = Server::run(bench.command(&["serve", "http", "--listen", "127.0.0.1:0", "--no-auth", "--no-log"]));
    let session = open(&server);
    assert_eq!(say(&server, &session, "Go")["text"], "Up.");
    bench.put("rules.md", "Down.");
    assert_eq!(say(&server, &session, "Again")["text"], "Down.");
}

/// Sends a message, and returns the events of its reply: their names and data.
fn events(server: &Server, session: &str, text: &str) -> Vec<(String, Value)> {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = json!({ "text": text }).to_string();
    let request = format!(
        "POST {session}/messages HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n\
         Content-Type: application/json\r\nAccept: text/event-stream\r\n\r\n{body}",
        server.address,
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let mut events = Vec::new();
    let mut name = "";
    for line in answer.lines() {
        if let Some(found) = line.strip_prefix("event: ") {
            name = found;
        } else if let Some(data) = line.strip_prefix("data: ") {
            events.push((name.to_owned(), serde_json::from_str(data).unwrap()));
        }
    }
    events
}

fn events_of<'a>(events: &'a [(String, Value)], id: &str) -> Vec<(&'a str, &'a Value)> {
    let of_call = events.iter().filter(move |(_, data)| data["call"] == id);
    of_call.map(|(name, data)| (name.as_str(), data)).collect::<Vec<_>>()
}

fn model_call(id: &str, name: &str, arguments: Value) -> Value {
    json!({"id": id, "name": name, "arguments": arguments})
}

#[test]
fn events_of_a_session_tell_its_calls_apart() {
    let bench = bench();
    let config = r#"
[model]
name = "scripted:script.jsonl"
[tools.calculator]
component = "calculator.wasm"
approval = "off"
[tools.private]
component = "calculator.wasm"
approval = "off"
persist = "nothing"
[tools.countdown]
component = "countdown.wasm"
approval = "off"
"#;
    bench.example("countdown").put("fumehood.toml", config);
    let calls = json!({"calls": [
        model_call("c1", "countdown__countdown", json!({"from": "3"})),
        model_call("c2", "nothing", json!({})),
        model_call("c3", "calculator__divide", json!({"a": 1, "b": 0})),
        model_call("c4", "calculator__add", json!({"a": 1, "b": 0})),
        model_call("c5", "calculator__add", json!({"a": 3, "b": 5})),
        model_call("c6", "private__add", json!({"a": 12345, "b": 5})),
        model_call("c7", "countdown__countdown", json!({"from": 2, "step_ms": 10})),
    ]});
    let server = serve(&bench, &format!("{calls}\n{}", r#"{"text": "Done."}"#));
    let events = events(&server, &open(&server), "Go");
    let names = |id: &str| events_of(&events, id).iter().map(|(name, _)| *name).collect::<Vec<_>>();
    // What fits no schema did not begin, and what is refused by its name is between the model and the host.
    assert_eq!((names("c1"), names("c2")), (vec!["call_ended"], vec![]), "{events:?}");
    assert_eq!(events_of(&events, "c1")[0].1["status"], "invalid_arguments");
    for (id, arguments, status) in [
        ("c3", json!({"a": 1, "b": 0}), "tool_failed"),
        ("c4", json!({"a": 1, "b": 0}), "ok"),
        ("c5", json!({"a": 3, "b": 5}), "ok"),
    ] {
        let [(_, started), (_, ended)] = events_of(&events, id)[..] else { panic!("{id}: {events:?}") };
        assert_eq!((&started["arguments"], ended["status"].as_str()), (&arguments, Some(status)), "{id}");
        assert_eq!((&started["execution"], &started["tool"]), (&ended["execution"], &ended["tool"]), "{id}");
    }
    assert_ne!(events_of(&events, "c4")[0].1["execution"], events_of(&events, "c5")[0].1["execution"]);
    assert_eq!(
        (names("c6"), events_of(&events, "c6")[0].1.get("arguments")),
        (vec!["call_started", "call_ended"], None)
    );
    assert!(!format!("{events:?}").contains("12345"), "it is of a tool that keeps its calls to itself: {events:?}");
    let progress: Vec<&Value> =
        events_of(&events, "c7").into_iter().filter(|(name, _)| *name == "call_progress").map(|it| it.1).collect();
    assert!(progress.iter().any(|data| data["fraction"].is_number()), "{events:?}");
    assert!(progress.iter().any(|data| data["content"][0]["type"].is_string()), "{events:?}");
    assert_eq!(events.last().map(|(name, data)| (name.as_str(), &data["text"])), Some(("result", &json!("Done."))));
}
