//! `persist = "nothing"`: what is said in the calls of a tool is nowhere on disk, whoever calls it and however.

use std::path::Path;

use fumehood_tests::otlp_collector::Collector;
use serde_json::{Value, json};

use super::serve_http::Server;
use super::workbench::Workbench;

const QUERY: &str = "/v1/tools/json__query/calls";
const RUN_CODE: &str = "/v1/tools/run_code/calls";

fn bench(more: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("json").example("calculator");
    let config = "[tools.json]\ncomponent = \"json.wasm\"\napproval = \"off\"\npersist = \"nothing\"\n\
                  [tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n[serve]\ncode = true\n";
    bench.put("fumehood.toml", format!("{config}{more}"));
    bench
}

fn serve(bench: &Workbench) -> Server {
    Server::run(bench.command(&["serve", "http", "--listen", "127.0.0.1:0", "--no-auth"]))
}

/// Returns the files below a folder with this text in them.
fn files_with(folder: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else {
            let bytes = std::fs::read(&path).unwrap_or_default();
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                found.push(path);
            }
        }
    }
    found
}

fn check(bench: &Workbench, secret: &str) {
    assert_eq!(files_with(&bench.path("state"), secret), Vec::<std::path::PathBuf>::new(), "{secret}");
}

/// Arguments of a query that returns this text.
fn query(text: &str) -> String {
    json!({"document": [text], "expression": "[0]"}).to_string()
}

/// A program that makes such a query. The text stands in the program, or only in the call and the result.
fn program(text: &str, is_literal: bool) -> String {
    let text = if is_literal { format!("{text:?}") } else { format!("{:?} + {:?}", &text[..4], &text[4..]) };
    let code = format!("return await tools.json__query({{document: [{text}], expression: \"[0]\"}})");
    json!({ "code": code }).to_string()
}

fn ask(server: &Server, path: &str, headers: &str, body: &str) -> (u16, String) {
    let (status, _, body) = server.ask_with("POST", path, headers, body);
    (status, body)
}

#[test]
fn calls_programs_and_jobs_leave_nothing() {
    let bench = bench("");
    let server = serve(&bench);
    let job = "Prefer: respond-async\r\nIdempotency-Key: k\r\n";
    for (path, headers, body, secret) in [
        (QUERY, "", query("DIRECT-SECRET"), "DIRECT-SECRET"),
        (QUERY, job, query("JOB-SECRET"), "JOB-SECRET"),
        (RUN_CODE, "", program("PROGRAM-SECRET", false), "PROGRAM-SECRET"),
        (RUN_CODE, "", program("LITERAL-SECRET", true), "LITERAL-SECRET"),
        (RUN_CODE, "Prefer: respond-async\r\n", program("PROGRAM-JOB-SECRET", false), "PROGRAM-JOB-SECRET"),
    ] {
        let (status, answer) = ask(&server, path, headers, &body);
        assert!(matches!(status, 200 | 202), "{answer}");
        if status == 202 {
            let job: Value = serde_json::from_str(&answer).unwrap();
            let job =
                server.wait_for(&format!("/v1/jobs/{}", job["id"].as_str().unwrap()), |job| job["status"] != "working");
            assert!(job.to_string().contains(secret), "{job}");
        } else {
            assert!(answer.contains(secret), "{answer}");
        }
        check(&bench, secret);
    }
    let (_, answer) = ask(&server, "/v1/tools/calculator__add/calls", "", r#"{"a": 31337, "b": 1}"#);
    assert!(answer.contains("31338"), "{answer}");
    drop(server);
    assert!(!files_with(&bench.path("state"), "31337").is_empty(), "other tools are recorded");
    let listed = bench.run(&["log", "--json"]).json();
    let made = listed.as_array().unwrap().iter().filter(|call| call["tool"] == "json__query").count();
    assert_eq!(made, 5, "that they were made is recorded: {listed}");
}

fn call_reply(name: &str, arguments: String) -> String {
    json!({"calls": [{"name": name, "arguments": serde_json::from_str::<Value>(&arguments).unwrap()}]}).to_string()
}

#[test]
fn a_saved_session_leaves_nothing_and_goes_on_while_the_server_runs() {
    let bench = bench("[model]\nname = \"scripted:script.jsonl\"\n[agent]\ncode = true\n");
    let script = [
        json!({"text": "First."}).to_string(),
        call_reply("json__query", query("SESSION-SECRET")),
        json!({"text": "Second.", "expect": "SESSION-SECRET"}).to_string(),
        call_reply("run_code", program("PROGRAM-SECRET", false)),
        json!({"text": "Third.", "expect": "PROGRAM-SECRET"}).to_string(),
        json!({"text": "Last."}).to_string(),
    ];
    bench.put("script.jsonl", script.join("\n"));
    let server = serve(&bench);
    let (_, opened) = ask(&server, "/v1/sessions", "", "{}");
    let opened: Value = serde_json::from_str(&opened).unwrap();
    let session = format!("/v1/sessions/{}", opened["id"].as_str().unwrap());
    for text in ["First.", "Second.", "Third.", "Last."] {
        let (status, reply) = ask(&server, &format!("{session}/messages"), "", r#"{"text": "Go"}"#);
        let reply: Value = serde_json::from_str(&reply).unwrap();
        assert_eq!((status, &reply["text"]), (200, &json!(text)), "{reply}");
    }
    for secret in ["SESSION-SECRET", "PROGRAM-SECRET"] {
        check(&bench, secret);
    }
    drop(server);
    // Another process has no such memory.
    let shown = bench.run(&["sessions", "show", opened["id"].as_str().unwrap()]);
    assert!(shown.code != 0 && shown.stderr.contains("were not saved"), "{shown:?}");
    let server = serve(&bench);
    assert_eq!(server.get("/v1/sessions")["sessions"], json!([]));
}

#[test]
fn traces_have_nothing_of_programs_either() {
    let collector = Collector::start().unwrap();
    let telemetry = format!("[telemetry]\nendpoint = \"{}\"\ncontent = true\n", collector.endpoint());
    let bench = bench(&telemetry);
    let server = serve(&bench);
    assert_eq!(ask(&server, QUERY, "", &query("DIRECT-SECRET")).0, 200);
    assert_eq!(ask(&server, RUN_CODE, "", &program("LITERAL-SECRET", true)).0, 200);
    assert_eq!(ask(&server, "/v1/tools/calculator__add/calls", "", r#"{"a": 31337, "b": 1}"#).0, 200);
    collector.span("execute_tool calculator__add").expect("the last call");
    let metrics = server.ask("GET", "/metrics", "").1;
    let bodies = collector.exported().bodies;
    let exported: String = bodies.iter().map(|body| String::from_utf8_lossy(body)).chain([metrics.into()]).collect();
    assert!(exported.contains("31337"), "other tools have their content");
    for secret in ["DIRECT-SECRET", "LITERAL-SECRET"] {
        assert!(!exported.contains(secret), "{exported}");
    }
}
