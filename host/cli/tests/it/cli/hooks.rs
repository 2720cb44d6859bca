//! `[hooks]`: decisions on calls and results in `call`, `run` and `serve mcp`.

use serde_json::{Value, json};

use super::session::Session;
use super::workbench::{CommandOutput, Workbench};

/// A configuration with two tools, a hook, and patterns.
const CONFIG: &str = r#"
[tools.text]
component = "text.wasm"
approval = "off"

[tools.redact-email]
component = "redact-email.wasm"
approval = "off"

[[hooks.component]]
name = "redact-email"
tools = ["text__*"]
on = ["after"]

[[hooks.redact]]
pattern = '\b\d{3}-\d{4}\b'

[log]
path = "log.db"
"#;
const SEARCH: &str = r#"{"text": "ada@example.com or 555-1234", "pattern": ".+"}"#;

fn bench(config: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("text").example("redact-email").example("rate-limit").put("fumehood.toml", config);
    bench
}

/// Checks that a text has nothing of what hooks leave out.
fn check_redacted(text: &str) {
    assert!(text.contains("[e-mail address] or [redacted]"), "{text}");
    assert!(!text.contains("ada@") && !text.contains("555-1234"), "{text}");
}

#[test]
fn results_of_call_are_redacted_and_recorded_as_the_hooks_left_them() {
    let bench = bench(CONFIG);
    let ran = bench.run(&["call", "text__regex_search", SEARCH, "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    check_redacted(&ran.stdout);
    let export = bench.run(&["log", "export"]);
    let rows = export.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let results: Vec<Value> = rows.filter(|row| row["kind"] == "tool_result").collect();
    assert_eq!(results.len(), 1, "{export:?}");
    check_redacted(&results[0].to_string());
}

#[test]
fn results_for_models_and_for_mcp_clients_are_redacted() {
    let bench = bench(&format!("{CONFIG}\n[agent]\ncode = true\n[serve]\ncode = true\n"));
    let program = format!("return await tools.text.regex_search({SEARCH})");
    for call in [
        json!({"name": "text__regex_search", "arguments": serde_json::from_str::<Value>(SEARCH).unwrap()}),
        json!({"name": "run_code", "arguments": {"code": program}}),
    ] {
        let script = format!("{}\n{}\n", json!({"calls": [call]}), json!({"text": "done"}));
        bench.put("script.jsonl", script);
        let ran = bench.run(&["run", "Search.", "--script", "script.jsonl", "--allow", "text__regex_search", "--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let results = ran.stdout.lines().filter(|line| line.contains("\"tool_result\"")).collect::<String>();
        check_redacted(&results);
        let mut session = Session::start(&bench, &[]);
        let answer = session.request(1, "tools/call", call);
        check_redacted(&answer["result"].to_string());
    }
}

#[test]
fn calls_beyond_a_rate_are_refused_with_the_time_to_wait() {
    let config = "[tools.text]\ncomponent = \"text.wasm\"\napproval = \"off\"\n\
                  [[hooks.rate_limit]]\ntools = [\"text__*\"]\nper_minute = 2\n";
    let bench = bench(config);
    let mut session = Session::start(&bench, &["--no-log"]);
    let arguments: Value = serde_json::from_str(SEARCH).unwrap();
    let mut call =
        |id| session.request(id, "tools/call", json!({"name": "text__regex_search", "arguments": arguments}));
    let answers = [call(1), call(2), call(3)];
    let is_error = |answer: &Value| answer["result"]["isError"] == true;
    assert_eq!(answers.each_ref().map(is_error), [false, false, true], "{answers:?}");
    let refused = answers[2].to_string();
    assert!(refused.contains("more than 2 calls per minute") && refused.contains("rate_limit 1"), "{refused}");
}

#[test]
fn a_hook_with_powers_keeps_its_count_from_call_to_call() {
    let config = "key_value_store = \"kv.db\"\n\
                  [tools.text]\ncomponent = \"text.wasm\"\napproval = \"off\"\n\
                  [tools.rate-limit]\ncomponent = \"rate-limit.wasm\"\napproval = \"off\"\nkey_value = \"1MiB\"\n\
                  env = { PER_MINUTE = \"1\" }\n\
                  [[hooks.component]]\nname = \"rate-limit\"\non = [\"before\"]\n";
    let bench = bench(config);
    let call = || bench.run(&["call", "text__regex_search", SEARCH, "--no-log", "--actor", "ada"]);
    let codes: Vec<i32> = (0..4).map(|_| call().code).collect();
    // A new minute may begin in between.
    assert!(codes[0] == 0 && codes.iter().filter(|code| **code != 0).count() >= 2, "{codes:?}");
    let refused = (0..3).map(|_| call()).find(|ran| ran.code != 0).unwrap();
    assert!(refused.shown().contains("denied by the hook `rate-limit`: 1 calls in a minute"), "{refused:?}");
}

fn assert_unapproved(ran: CommandOutput) {
    let part = "`redact-email` was never approved";
    assert!(ran.code != 0 && ran.stdout.is_empty() && ran.stderr.contains(part), "{ran:?}");
}

#[test]
fn nothing_runs_before_the_hook_is_approved() {
    let config =
        CONFIG.replace("component = \"redact-email.wasm\"\napproval = \"off\"", "component = \"redact-email.wasm\"");
    let bench = bench(&config);
    assert_unapproved(bench.run(&["call", "text__regex_search", SEARCH]));
    assert_unapproved(bench.run(&["serve", "mcp"]));
    bench.put("script.jsonl", json!({"text": "done"}).to_string());
    assert_unapproved(bench.run(&["run", "Search.", "--script", "script.jsonl"]));
    let approved = bench.run(&["approve", "redact-email", "--yes"]);
    assert_eq!(approved.code, 0, "{approved:?}");
    assert_eq!(bench.run(&["call", "text__regex_search", SEARCH]).code, 0);
    // Other bytes are another hook.
    bench.put("redact-email.wasm", fumehood_tests::hook("ask").unwrap());
    let changed = bench.run(&["call", "text__regex_search", SEARCH]);
    assert!(changed.code != 0 && changed.stderr.contains("changed since it was approved"), "{changed:?}");
}

#[test]
fn a_hook_that_fails_refuses_the_call_and_names_itself() {
    let config = "[tools.text]\ncomponent = \"text.wasm\"\napproval = \"off\"\n\
                  [tools.judge]\ncomponent = \"judge.wasm\"\napproval = \"off\"\nlimits = { deadline = \"100ms\" }\n\
                  [[hooks.component]]\nname = \"judge\"\n";
    let bench = bench(config);
    bench.put("judge.wasm", fumehood_tests::hook("spin").unwrap());
    let ran = bench.run(&["call", "text__regex_search", SEARCH, "--no-log"]);
    let part = "the hook `judge` failed, so the call was refused: deadline: it did not decide within 100ms";
    assert!(ran.code != 0 && ran.shown().contains(part), "{ran:?}");
    let itself = bench.run(&["call", "judge", "hook_before", "{}"]);
    assert!(itself.code == 2 && itself.stderr.contains("has no tools to call"), "{itself:?}");
}

fn text_tool(name: &str) -> String {
    format!("[tools.{name}]\ncomponent = \"text.wasm\"\napproval = \"off\"\n")
}

fn assert_place_named(hooks: &str, part: &str) {
    let config = format!("{}{}{hooks}\n", text_tool("text"), text_tool("other"));
    let ran = bench(&config).run(&["call", "text__regex_search", SEARCH, "--no-log"]);
    assert!(ran.code == 2 && ran.stderr.contains(part) && ran.stderr.contains("fumehood.toml:"), "{hooks}: {ran:?}");
}

#[test]
fn wrong_hooks_are_reported_with_their_place() {
    assert_place_named("[[hooks.redact]]\npattern = '('", "unclosed group");
    assert_place_named("[[hooks.redact]]\npattern = 'x*'", "matches the empty text");
    assert_place_named("[[hooks.redact]]\npattern = '(?=x)'", "look-around");
    assert_place_named("[[hooks.redact]]\npattern = 'x'\ntools = [\"te xt\"]", "invalid pattern");
    assert_place_named("[[hooks.rate_limit]]\nper_minute = 0", "nonzero");
    assert_place_named("[[hooks.rate_limit]]\nper_minute = 5000000000", "per_minute");
    assert_place_named("[[hooks.rate_limit]]\ntools = [\"text__*\"]", "per_minute");
    assert_place_named("[[hooks.component]]\nname = \"gone\"", "the hook `gone` is not in [tools]");
    assert_place_named("[[hooks.component]]\nname = \"other\"", "is not a hook");
    assert_place_named("[[hooks.component]]\nname = \"text\"\non = []", "`on` of the hook");
    assert_place_named("[[hooks.component]]\nname = \"text\"\non = [\"during\"]", "during");
}
