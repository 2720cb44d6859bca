//! `[flows]` and labels: private data does not reach public sinks, by `run` and by `serve mcp`.

use fumehood_tests::fake_server;
use serde_json::{Value, json};

use super::session::Session;
use super::workbench::{CommandOutput, Workbench};

/// A server with a tool `t`, which claims nothing of itself, and a component that is labelled as a private source.
fn bench(labels: &str, more: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("server.sh", fake_server::SCRIPT);
    bench.put(
        "fumehood.toml",
        format!(
            "[tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n{labels}\n[mcp.servers.other]\n\
             command = [\"sh\", \"server.sh\"]\nwrite = [\".\"]\nstart_timeout = \"60s\"\napproval = \"off\"\n[log]\npath = \"log.db\"\n{more}"
        ),
    );
    bench
}

fn run(bench: &Workbench) -> CommandOutput {
    let add = json!({"calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}}]});
    let send = json!({"calls": [{"name": "other__t", "arguments": {}}]});
    bench.put("script.jsonl", format!("{add}\n{send}\n{}\n", json!({"text": "done"})));
    bench.run(&["run", "go", "--script", "script.jsonl"])
}

const LABEL: &str = "source = \"private\"";
const REFUSED: &str = "`calculator__add` (private: labelled as a private source) was called at call 1";

#[test]
fn a_run_refuses_to_send_private_data_where_that_is_labelled() {
    let ran = run(&bench("", ""));
    assert!(ran.code == 0 && !ran.stderr.contains("private data"), "{ran:?}");
    let ran = run(&bench(LABEL, ""));
    assert!(ran.code == 0 && ran.stderr.contains("other__t"), "{ran:?}");
    let shown: String = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("private data may become public"), "{shown}");
    let ran = run(&bench(LABEL, "[flows.tools.calculator__add]\nsource = \"public\"\n"));
    assert!(ran.code == 0 && !ran.stderr.contains("private data"), "{ran:?}");
    let ran = run(&bench(LABEL, "[flows.tools.other__t]\nsink = \"private\"\n"));
    assert!(ran.code == 0 && !ran.stderr.contains("private data"), "{ran:?}");
}

#[test]
fn a_label_of_no_tool_is_an_error_and_of_a_missing_server_a_warning() {
    let ran = run(&bench("", "[flows.tools.calculator__ad]\nsource = \"private\"\n"));
    assert!(ran.code == 2 && ran.stderr.contains("unknown tool `calculator__ad` in [flows.tools]"), "{ran:?}");
    let gone =
        "[mcp.servers.gone]\ncommand = [\"./nothing\"]\napproval = \"off\"\n[flows.tools.gone__x]\nsink = \"public\"\n";
    let ran = run(&bench("", gone));
    assert!(ran.code == 0 && ran.stderr.contains("`gone__x` in [flows.tools] has no effect"), "{ran:?}");
}

fn error(answer: &Value) -> String {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

fn call_named(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

#[test]
fn a_client_is_refused_and_that_is_recorded() {
    let bench = bench(LABEL, "[flows]\naction = \"deny\"\n");
    let mut session = Session::start(&bench, &["--servers"]);
    let sent = session.request(1, "tools/call", call_named("other__t", json!({})));
    assert_ne!(sent["result"]["isError"], true, "{sent}");
    session.request(2, "tools/call", call_named("calculator__add", json!({"a": 1, "b": 2})));
    let refused = error(&session.request(3, "tools/call", call_named("other__t", json!({}))));
    assert!(
        refused.contains("`calculator__add` (private: labelled as a private source) was called at call 2"),
        "{refused}"
    );
    session.leave();
    let log = bench.run(&["log", "--json", "--log", "log.db"]);
    let rows = log.json().as_array().unwrap().clone();
    let has = |status: &str| rows.iter().any(|row| row["tool"] == "other__t" && row["status"] == status);
    assert!(has("ok") && has("denied"), "{rows:?}");
}

#[test]
fn programs_of_clients_are_refused_and_their_calls_recorded_below_them() {
    let bench = bench(LABEL, "");
    let mut session = Session::start(&bench, &["--servers", "--code=only"]);
    let code =
        "await tools.calculator.add({a: 1, b: 2}); try { await tools.other.t({}) } catch (e) { return e.message }";
    let ran = session.request(1, "tools/call", json!({"name": "run_code", "arguments": {"code": code}}));
    assert!(ran["result"]["content"][0]["text"].as_str().unwrap().contains(REFUSED), "{ran}");
    let next = json!({"name": "run_code", "arguments": {"code": "await tools.other.t({})"}});
    let refused = error(&session.request(2, "tools/call", next));
    assert!(refused.contains(REFUSED), "{refused}");
    session.leave();
    let log = bench.run(&["log", "export", "--log", "log.db"]);
    let rows: Vec<Value> = log.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let record = |row: &Value| if row["record"].is_object() { row["record"].clone() } else { row.clone() };
    let rows: Vec<Value> = rows.iter().map(record).collect();
    let start = rows.iter().find(|row| row["kind"] == "tool_started" && row["tool"] == "run_code").unwrap();
    for tool in ["calculator__add", "other__t"] {
        let first = rows.iter().find(|row| row["tool"] == tool).unwrap();
        assert_eq!(first["parent"], start["id"], "{first}");
    }
}
