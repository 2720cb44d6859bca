//! Options of a run besides its task: the tools that it may use, the agent's state, the model's settings.

use serde_json::{Value, json};

use super::server::{self, Server};
use super::workbench::{CommandOutput, Workbench};

fn bench(script: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("script.jsonl", script);
    bench
}

fn run(bench: &Workbench, more: &[&str]) -> CommandOutput {
    let usual = ["run", "Go", "--tool", "calculator.wasm", "--script", "script.jsonl", "--no-log"];
    bench.run(&[&usual, more].concat())
}

/// Returns a reply that calls a tool of the calculator.
fn calling(tool: &str) -> String {
    format!(r#"{{"calls": [{{"name": "calculator__{tool}", "arguments": {{"a": 8, "b": 5}}}}]}}"#)
}

#[test]
fn allow_lists_the_only_tools() {
    let script = [calling("multiply"), calling("add"), r#"{"text": "13", "expect": "13"}"#.to_owned()].join("\n");
    for flag in ["--allow", "--only"] {
        let ran = run(&bench(&script), &[flag, "calculator__add"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "13\n"), "{ran:?}");
        assert!(ran.stderr.contains("✗ calculator__multiply → not_allowed"), "{ran:?}");
        assert!(ran.stderr.contains("✓ calculator__add"), "{ran:?}");
    }
}

#[test]
fn a_hidden_tool_is_refused_as_one_that_there_is_not() {
    let refusals = ["subtract", "subtrakt"].map(|tool| {
        let bench = bench(&format!("{}\n{}", calling(tool), r#"{"text": "No."}"#));
        let ran = run(&bench, &["--allow", "calculator__add", "--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let records = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["record"].take());
        let told = records.filter(|record| record["tool"].is_string());
        let told = told.map(|record| format!("{} {} {}", record["kind"], record["status"], record["body"]["error"]));
        told.collect::<Vec<_>>().join("\n").replace(tool, "NAME")
    });
    assert!(refusals[0].contains("not_allowed"), "{refusals:?}");
    assert_eq!(refusals[0], refusals[1]);
}

#[test]
fn a_short_name_is_answered_with_the_full_one() {
    let script = r#"{"calls": [{"name": "evaluate", "arguments": {"expression": "1+1"}}]}
{"text": "2", "expect": "did you mean `calculator__evaluate`?"}"#;
    let ran = run(&bench(script), &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "2\n"), "{ran:?}");
}

/// A call that is too early, a search, and the call again.
fn searching() -> String {
    let search = r#"{"calls": [{"name": "search_tools", "arguments": {"query": "adding numbers", "limit": 1}}], "expect": "`search_tools` first"}"#;
    let found = calling("add").replace("]}", r#"], "expect": "\"parameters\":\"a: number, b: number\""}"#);
    [calling("add"), search.to_owned(), found, r#"{"text": "13", "expect": "13"}"#.to_owned()].join("\n")
}

fn assert_found_and_called(bench: &Workbench, more: &[&str]) {
    let ran = run(bench, more);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "13\n"), "{ran:?}");
    assert!(ran.stderr.contains("✗ calculator__add → not_allowed"), "{ran:?}");
    assert!(ran.stderr.contains("✓ calculator__add"), "{ran:?}");
}

#[test]
fn a_model_that_has_to_search_calls_what_it_found() {
    assert_found_and_called(&bench(&searching()), &["--tools", "search"]);
    let configured = bench(&searching());
    configured.put("fumehood.toml", "[agent]\ntools = \"search\"\npinned = [\"calculator__subtract\"]\n");
    assert_found_and_called(&configured, &[]);
    let script = format!("{}\n{}", calling("add"), r#"{"text": "13", "expect": "13"}"#);
    configured.put("script.jsonl", &script);
    let ran = run(&configured, &["--tools", "all"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "13\n"), "{ran:?}");
    configured.put("fumehood.toml", "[agent]\ntools = \"search\"\npinned = [\"calculator__nope\"]\n");
    let ran = run(&configured, &[]);
    assert!(ran.code != 0 && ran.stderr.contains("the pinned tool 'calculator__nope' is not registered"), "{ran:?}");
}

/// Creates a folder with a tool that returns the agent's state.
fn telling(config: &str, reply: &str) -> Workbench {
    let bench = Workbench::new();
    bench.put("teller.wasm", fumehood_tests::contract("tell-context").unwrap());
    let call = r#"{"calls": [{"name": "teller__state", "arguments": {}}]}"#;
    bench.put("script.jsonl", format!("{call}\n{{\"text\": \"Seen.\", \"expect\": {reply:?}}}"));
    bench.put("fumehood.toml", config);
    bench
}

fn assert_state_seen(config: &str, more: &[&str], reply: &str) {
    let bench = telling(config, reply);
    bench.put("state.json", r#"{"mood": "good"}"#);
    let ran = bench.run(&[&["run", "Go", "--script", "script.jsonl", "--no-log"], more].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Seen.\n"), "{config} {more:?}: {ran:?}");
}

#[test]
fn the_state_reaches_tools_that_may_see_it() {
    let configured = "[tools.teller]\ncomponent = \"teller.wasm\"\napproval = \"off\"\nstate = true\n";
    let state = ["--state", r#"{"mood": "bad"}"#];
    assert_state_seen(configured, &state, "bad");
    assert_state_seen(configured, &["--state", "@state.json"], "good");
    assert_state_seen(&configured.replace("true", "false"), &state, "none");
    let typed = ["--tool", "teller.wasm", "--state", r#"{"mood": "bad"}"#];
    assert_state_seen("", &[&typed[..], &["--allow-state"]].concat(), "bad");
    assert_state_seen("", &typed, "none");
    let bench = telling("", "");
    let ran = bench.run(&["call", "teller.wasm", "state", "{}", "--allow-state", "--state", r#"{"mood": "bad"}"#]);
    assert_eq!((ran.code, ran.stdout.contains("bad")), (0, true), "{ran:?}");
    let ran = bench.run(&["call", "teller.wasm", "state", "{}", "--state", "bad"]);
    assert!(ran.code == 2 && ran.stderr.contains("`--state` is not JSON"), "{ran:?}");
}

fn assert_needs_knowledge(config: &str, more: &[&str], code: i32) {
    let bench = bench(r#"{"text": "Done."}"#);
    bench.put("fumehood.toml", config);
    let ran = run(&bench, more);
    assert_eq!((ran.code, ran.stdout.is_empty()), (code, code != 0), "{more:?}: {ran:?}");
    assert!(ran.stderr.contains("gone.md"), "{more:?}: {ran:?}");
    assert_eq!(ran.stderr.contains("warning: the knowledge `rules`"), code == 0, "{more:?}: {ran:?}");
}

#[test]
fn unreadable_knowledge_stops_only_runs_that_need_it() {
    let config = r#"
[knowledge.rules]
description = "How to add."
text = { file = "gone.md" }
[skills.adding]
description = "Adding numbers."
tools = ["calculator__add"]
knowledge = ["rules"]
[skills.taking]
description = "Taking away."
tools = ["calculator__subtract"]
[channels.adders]
skills = ["adding"]
"#;
    assert_needs_knowledge(config, &[], 0);
    assert_needs_knowledge(config, &["--skill", "taking"], 0);
    assert_needs_knowledge(config, &["--skill", "adding"], 2);
    assert_needs_knowledge(config, &["--channel", "adders"], 2);
}

#[test]
fn a_reply_that_is_no_decision_is_no_call() {
    let script = [r#"{"text": "no decision"}"#; 8].join("\n");
    let ran = run(&bench(&script), &["--driver", "react", "--max-calls", "1"]);
    assert_eq!(ran.code, 8, "{ran:?}");
    assert!(ran.stderr.contains(" 0 calls, "), "{ran:?}");
}

#[test]
fn six_calls_of_one_batch_are_all_made() {
    let calls: Vec<String> =
        (1..=6).map(|n| format!(r#"{{"name": "calculator__add", "args": {{"a": {n}, "b": 0}}}}"#)).collect();
    let block = format!("<think>All at once.</think><execute>[{}]</execute>", calls.join(","));
    let script = format!("{{\"text\": {}}}\n{{\"text\": \"Done.\"}}", Value::from(block));
    let ran = run(&bench(&script), &["--driver", "batch"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Done.\n"), "{ran:?}");
    assert_eq!(ran.stderr.matches("✓ calculator__add").count(), 6, "{ran:?}");
}

fn settings_asked(config: &str, more: &[&str]) -> [Value; 4] {
    let server = Server::playing(vec![server::words(&["Yes."])]);
    let bench = Workbench::new();
    bench.put("fumehood.toml", config);
    let model = ["run", "Go", "--no-log", "--model", "compatible:m", "--base-url", &server.url];
    let ran = bench.run(&[&model, more].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Yes.\n"), "{ran:?}");
    let mut body = server.asked().remove(0);
    let names = ["temperature", "max_tokens", "reasoning_effort", "top_p"];
    names.map(|name| body[name].take())
}

fn assert_setting_refused(config: &str, more: &[&str], words: &str) {
    let bench = bench(r#"{"text": "never"}"#);
    bench.put("fumehood.toml", config);
    let ran = run(&bench, more);
    assert!(ran.code == 2 && ran.stderr.contains(words), "{words}: {ran:?}");
}

#[test]
fn only_settings_that_are_set_reach_the_provider() {
    let none = [Value::Null, Value::Null, Value::Null, Value::Null];
    assert_eq!(settings_asked("", &[]), none);
    let config = "[model]\nname = \"compatible:m\"\ntemperature = 0.5\nmax_tokens = 100\nreasoning_effort = \"low\"\n\
                  options = { top_p = 0.9 }\n";
    assert_eq!(settings_asked(config, &[]), [json!(0.5), json!(100), json!("low"), json!(0.9)]);
    let typed = ["--temperature", "1", "--max-tokens", "7", "--reasoning-effort", "high"];
    assert_eq!(settings_asked(config, &typed), [json!(1.0), json!(7), json!("high"), json!(0.9)]);
    assert_setting_refused("", &["--temperature", "3"], "expected a number from 0 to 2");
    assert_setting_refused("", &["--max-tokens", "0"], "--max-tokens");
    assert_setting_refused("", &["--reasoning-effort", "huge"], "xhigh");
    assert_setting_refused("[model]\nreasoning_effort = \"huge\"\n", &[], "reasoning_effort");
    assert_setting_refused("[model]\nfirst_byte_timeout = \"1s\"\n", &[], "first_token_timeout");
}
