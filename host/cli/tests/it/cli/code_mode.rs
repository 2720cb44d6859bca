//! `--code`: programs that call tools, for `run` and for `serve mcp`.

use serde_json::{Value, json};

use super::session::Session;
use super::workbench::{CommandOutput, Workbench};

const CODE: &str = "const sum = await tools.calculator.add({a: 3, b: 5}); console.log('sum', sum.result);\
                    return (await tools.calculator.multiply({a: sum.result, b: 2})).result";

fn bench() -> Workbench {
    let bench = Workbench::new();
    let calls = json!({"calls": [{"name": "run_code", "arguments": {"code": CODE}}]});
    let answer = json!({"text": "It is 16.", "expect": r#"{"result":16,"console":["sum 8"]}"#});
    bench.example("calculator").put("script.jsonl", format!("{calls}\n{answer}\n"));
    bench
}

fn run(bench: &Workbench, more: &[&str]) -> CommandOutput {
    let usual = ["run", "What is (3 + 5) * 2?", "--tool", "calculator.wasm", "--script", "script.jsonl"];
    bench.run(&[&usual, more].concat())
}

fn names(ran: &CommandOutput) -> Vec<Value> {
    let lines = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let records = lines.map(|mut line| line["record"].take());
    records.filter(|record| record["kind"] == "tool_started").map(|record| record["tool"].clone()).collect()
}

#[test]
fn a_program_calls_tools_and_each_call_is_shown() {
    let bench = bench();
    let ran = run(&bench, &["--code"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 16.\n"), "{ran:?}");
    for part in ["→ run_code", "✓ calculator__add {\"a\":3,\"b\":5}", "✓ calculator__multiply", "✓ run_code"] {
        assert!(ran.stderr.contains(part), "{part}: {ran:?}");
    }
    let ran = run(&bench, &["--code=only", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(names(&ran), ["run_code", "calculator__add", "calculator__multiply"]);
}

fn assert_no_program(ran: CommandOutput) {
    assert!(ran.code != 0 && ran.stderr.contains("run_code"), "{ran:?}")
}

#[test]
fn programs_are_off_unless_they_are_switched_on() {
    let bench = bench();
    assert_no_program(run(&bench, &[]));
    bench.put("fumehood.toml", "[agent]\ncode = \"only\"\n");
    assert_eq!(run(&bench, &[]).code, 0);
    assert_no_program(run(&bench, &["--code=off"]));
    bench.put("fumehood.toml", "[agent]\ncode = \"sometimes\"\n");
    let wrong = run(&bench, &[]);
    assert!(wrong.code == 2 && wrong.stderr.contains("expected true, false, \"only\""), "{wrong:?}");
}

#[test]
fn code_mode_and_tool_search_exclude_each_other() {
    let ran = run(&bench(), &["--code", "--tools", "search"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    assert!(ran.stderr.contains("use either code mode or tool search"), "{ran:?}");
}

#[test]
fn clients_run_programs_over_what_is_offered_and_all_of_it_is_recorded() {
    let bench = Workbench::new();
    bench.example("calculator").put(
        "fumehood.toml",
        "[tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n\
         [serve]\ntools = [\"calculator__add\", \"calculator__multiply\"]\n[log]\npath = \"log.db\"\n",
    );
    let mut session = Session::start(&bench, &["--code=only"]);
    assert_eq!(session.names(), ["run_code", "search_tools"]);
    session.call(1, "search_tools", json!({"query": "add"}));
    let found = session.next()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(found.contains("add(args:") && !found.contains("divide"), "{found}");
    session.call(2, "run_code", json!({"code": CODE}));
    assert_eq!(session.next()["result"]["content"][0]["text"], r#"{"result":16,"console":["sum 8"]}"#);
    for code in ["return await tools.calculator.divide({a: 1, b: 1})", "return await tools.host.run_code({code: ''})"] {
        session.call(3, "run_code", json!({"code": code}));
        let refused = session.next()["result"].clone();
        assert!(refused["isError"] == true && refused.to_string().contains("TypeError"), "{refused}");
    }
    session.call(4, "calculator__add", json!({"a": 1, "b": 2}));
    assert_eq!(session.next()["error"]["code"], -32602, "only programs call tools");
    session.call(5, "run_code", json!({"code": "while (true);"}));
    session.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}));
    session.call(6, "run_code", json!({"code": "return 1"}));
    while session.next()["id"] != 6 {}
    session.leave();
    let log = bench.run(&["log", "--json", "--log", "log.db"]);
    let rows = log.json().as_array().unwrap().clone();
    let count =
        |tool: &str, status: &str| rows.iter().filter(|row| row["tool"] == tool && row["status"] == status).count();
    let found = ["calculator__add", "calculator__multiply", "run_code"].map(|tool| count(tool, "ok"));
    assert_eq!(
        (found, count("run_code", "tool_failed"), count("run_code", "cancelled")),
        ([1, 1, 2], 2, 1),
        "{rows:?}"
    );

    let mut session = Session::start(&bench, &["--code"]);
    assert_eq!(session.names(), ["calculator__add", "calculator__multiply", "run_code", "search_tools"]);
    session.leave();
}
