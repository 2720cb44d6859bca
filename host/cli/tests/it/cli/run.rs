//! `fumehood run`: a task, from the command line to its answer.

use expect_test::expect;
use serde_json::Value;

use super::server::{self, Response, Server};
use super::workbench::{CommandOutput, Workbench};

const TASK: &str = "What is (3 + 5) * 2?";

const NATIVE: &str = r#"
{"calls": [{"name": "calculator__add", "arguments": {"a": "3", "b": 5}}], "text": "Let me see."}
{"calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}}], "expect": "expected a number"}
{"calls": [{"name": "calculator__multiply", "arguments": {"a": 8, "b": 2}}], "usage": {"input": 10, "output": 4}}
{"text": "It is 16.", "expect": "16"}
"#;

/// Creates a folder with the calculator and this script.
fn bench(script: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("script.jsonl", script);
    bench
}

fn run(bench: &Workbench, more: &[&str]) -> CommandOutput {
    let usual = ["run", TASK, "--tool", "calculator.wasm", "--script", "script.jsonl"];
    bench.run(&[&usual, more].concat())
}

/// Parses the JSON objects, one on each line.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn the_answer_is_on_stdout_and_each_call_on_stderr() {
    let ran = run(&bench(NATIVE), &[]);
    expect![[r#"
        ── stdout
        It is 16.
        ── stderr
        │ Let me see.
        ✗ calculator__add → invalid_arguments
            │ arguments did not match schema /a: expected a number, given the string "3" (write 3 without quotes)
        → calculator__add {"a":3,"b":5}
        ✓ calculator__add {"a":3,"b":5} → ok, 12 B  [time]
        → calculator__multiply {"a":8,"b":2}
        ✓ calculator__multiply {"a":8,"b":2} → ok, 13 B  [time]
        answered: 4 requests, 3 calls, 10 tokens in, 4 out, [time], session [session]
        ── exit 0
    "#]]
    .assert_eq(&ran.shown());
}

#[test]
fn arguments_that_are_repeated_as_text_are_shown_nowhere() {
    let script = r#"{"text": "{\"b\": 5, \"a\": 3}", "calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}}]}
{"text": "I go on with {\"a\": 8}.", "calls": [{"name": "calculator__multiply", "arguments": {"a": 8, "b": 2}}]}
{"text": "{\"sum\": 16}", "expect": "16"}"#;
    let ran = run(&bench(script), &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"sum\": 16}\n"), "{ran:?}");
    assert!(!ran.stderr.contains("│ {") && ran.stderr.contains("│ I go on with {\"a\": 8}.\n"), "{ran:?}");
}

#[test]
fn in_json_every_line_is_an_event_and_the_last_is_the_outcome() {
    let ran = run(&bench(NATIVE), &["--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let lines = lines(&ran.stdout);
    let (outcome, events) = lines.split_last().unwrap();
    assert_eq!(outcome["event"], "outcome");
    assert_eq!(outcome["status"], "ok");
    assert_eq!(outcome["ending"], "answered");
    assert_eq!(outcome["text"], "It is 16.");
    assert_eq!((&outcome["turns"], &outcome["calls"], &outcome["exit"]), (&4.into(), &3.into(), &0.into()));
    assert_eq!(outcome["usage"]["input"], 10);
    let kinds: Vec<&str> = events.iter().filter_map(|line| line["record"]["kind"].as_str()).collect();
    let expected = ["session_started", "user_message", "model_asked", "model_answered", "tool_rejected"];
    assert_eq!(kinds[..5], expected);
    let count = |kind: &str| kinds.iter().filter(|it| **it == kind).count();
    assert_eq!((count("tool_started"), count("tool_finished"), count("tool_result")), (2, 2, 2));
    let text: String = events.iter().filter(|it| it["event"] == "delta").filter_map(|it| it["text"].as_str()).collect();
    assert_eq!(text, "Let me see.It is 16.");
}

#[test]
fn every_driver_gets_to_the_answer() {
    let react = r#"
{"text": "{\"type\": \"call_tool\", \"tool\": \"calculator__add\", \"args\": {\"a\": 3, \"b\": 5}}"}
{"text": "{\"type\": \"final_answer\", \"answer\": \"It is 8.\"}", "expect": "8"}"#;
    let batch = r#"
{"text": "<think>hm</think><execute>[{\"name\": \"calculator__add\", \"args\": {\"a\": 3, \"b\": 5}}]</execute>"}
{"text": "It is 8.", "expect": "8"}"#;
    for (driver, script) in [("react", react), ("batch", batch)] {
        let ran = run(&bench(script), &["--driver", driver]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\n"), "{driver}: {ran:?}");
        assert!(ran.stderr.contains("✓ calculator__add"), "{driver}: {ran:?}");
    }
}

#[test]
fn a_separate_final_answer_is_shown_as_it_is_written() {
    let script = r#"
{"text": "{\"type\": \"call_tool\", \"tool\": \"calculator__add\", \"args\": {\"a\": 3, \"b\": 5}}"}
{"text": "{\"type\": \"final_answer\", \"answer\": \"8\"}", "expect": "8"}
{"text": "It is eight.", "expect": "Now write the final answer"}"#;
    let bench = bench(script);
    bench.put("fumehood.toml", "[agent]\ndriver = \"react\"\nseparate_answer = true\n");
    let ran = run(&bench, &["--json", "--no-log"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = lines(&ran.stdout);
    let text: String = lines.iter().filter(|it| it["event"] == "delta").filter_map(|it| it["text"].as_str()).collect();
    assert_eq!((text.as_str(), &lines.last().unwrap()["text"]), ("It is eight.", &"It is eight.".into()));
    let ran = run(&bench, &["--no-log"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is eight.\n"), "said once: {ran:?}");
}

fn assert_ends_as(script: &str, more: &[&str], code: i32, words: &str) {
    let ran = run(&bench(script), more);
    assert_eq!(ran.code, code, "{script}: {ran:?}");
    assert!(ran.stderr.contains(words), "{words}: {ran:?}");
}

#[test]
fn the_exit_code_says_how_it_ended() {
    let call = r#"{"calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}}]}"#;
    let thrice = [call; 3].join("\n");
    assert_ends_as(&thrice, &["--max-turns", "1"], 4, "raise it with `--max-turns`");
    assert_ends_as(&thrice, &[], 4, "the same call of calculator__add 3 times in a row");
    assert_ends_as(r#"{"text": "late", "delay_ms": 60000}"#, &["--wall", "200ms"], 4, "raise it with `--wall`");
    assert_ends_as(
        r#"{"error": {"failure": "unavailable", "message": "gone"}}"#,
        &[],
        8,
        "the model did not answer: gone",
    );
    assert_ends_as(
        r#"{"text": "8", "expect": "nothing"}"#,
        &[],
        8,
        "reply 1 (line 1) of the script expects \"nothing\"",
    );
    assert_ends_as(call, &[], 8, "the script has only 1 replies");
    assert_ends_as(
        r#"{"text": "no decision"}"#,
        &["--driver", "react", "--max-turns", "9"],
        8,
        "the model did not answer",
    );
    let failing = r#"{"calls": [{"name": "calculator__divide", "arguments": {"a": 1, "b": 0}}]}"#;
    let differently = |a: u8| failing.replace("1", &a.to_string());
    assert_ends_as(&[1, 2, 3].map(differently).join("\n"), &[], 1, "too many calls failed in a row");
}

#[test]
fn incomplete_answer_has_an_exit_code_of_its_own() {
    for (stop, words) in [
        ("length", "the answer was cut at its length limit; raise `--max-tokens` (`max_tokens` in [model])"),
        ("filtered", "the provider filtered the answer; rephrase the task"),
        ("refused", "the model refused to answer; change the task"),
        ("paused", "the provider paused the answer repeatedly; try again"),
        ("failed", "the provider reported that the answer failed; try again"),
    ] {
        let bench = bench(&format!(r#"{{"text": "The sum is", "stop": "{stop}"}}"#));
        let ran = run(&bench, &[]);
        assert_eq!((ran.code, ran.stdout.as_str()), (12, "The sum is\n"), "{ran:?}");
        assert!(ran.stderr.contains(words) && ran.stderr.contains("incomplete answer: 1 request"), "{ran:?}");
        let ran = run(&bench, &["--json"]);
        let outcome = lines(&ran.stdout).pop().unwrap();
        let field = |name: &str| outcome[name].as_str().unwrap_or_default().to_owned();
        assert_eq!([field("status"), field("ending"), field("stop")], ["error", "incomplete_answer", stop]);
        assert_eq!((ran.code, &outcome["exit"], &outcome["text"]), (12, &12.into(), &"The sum is".into()));
    }
}

fn assert_refused(arguments: &[&str], code: i32, words: &[&str]) {
    let ran = bench(NATIVE).run(arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{arguments:?}: {ran:?}");
    for words in words {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
}

#[test]
fn command_line_errors_are_reported_before_anything_runs() {
    assert_refused(
        &["run", "x"],
        2,
        &["no model is configured", "--model PROVIDER:NAME", "--script FILE", "FUMEHOOD_MODEL"],
    );
    assert_refused(&["run", "x", "--model", "llama"], 2, &["invalid model `llama`"]);
    assert_refused(&["run", "x", "--model", "grok:x"], 2, &["unknown provider `grok`; expected openai"]);
    assert_refused(&["run", "x", "--model", "openai:gpt"], 2, &["`openai:gpt`", "set OPENAI_API_KEY"]);
    assert_refused(&["run", "x", "--model", "anthropic:c"], 2, &["set ANTHROPIC_API_KEY"]);
    assert_refused(&["run", "x", "--model", "compatible:m"], 2, &["set OPENAI_COMPATIBLE_URL", "`--base-url URL`"]);
    assert_refused(&["run", "x", "--model", "ollama:m", "--base-url", "ftp://x"], 2, &["neither http nor https"]);
    assert_refused(&["run", "x", "--model", "ollama:m", "--script", "script.jsonl"], 2, &["cannot be used with"]);
    assert_refused(&["run", "x", "--script", "none.jsonl"], 2, &["cannot use the script `none.jsonl`", "No such file"]);
    assert_refused(&["run", "x", "--script", "calculator.wasm"], 2, &["not UTF-8"]);
    assert_refused(&["run", " ", "--script", "script.jsonl"], 2, &["the task is empty"]);
    assert_refused(&["run", "--script", "script.jsonl"], 2, &["<TASK>"]);
    assert_refused(&["run", "x", "--script", "script.jsonl", "--max-turns", "0"], 2, &["--max-turns"]);
    assert_refused(&["run", "x", "--script", "script.jsonl", "--wall", "soon"], 2, &["invalid time"]);
    assert_refused(
        &["run", "x", "--script", "script.jsonl", "--timeout", "0s"],
        2,
        &["--timeout: the deadline limit is zero"],
    );
    assert_refused(&["run", "x", "--script", "script.jsonl", "--driver", "magic"], 2, &["native, react, batch"]);
    assert_refused(&["run", "x", "--script", "script.jsonl", "--skill", "sums"], 2, &["unknown skill `sums`"]);
    assert_refused(
        &["run", "x", "--script", "script.jsonl", "--only", "a__b"],
        2,
        &["unknown tool `a__b`", "load a component with `--tool"],
    );
    assert_refused(&["run", "x", "--script", "script.jsonl", "--tool", "none.wasm"], 6, &["none.wasm"]);
    assert_refused(
        &["run", "x", "--script", "script.jsonl", "--log", "/proc/x/e.db"],
        7,
        &["/proc/x/e.db", "`--no-log`"],
    );
    assert_refused(&["run", "x", "--script", "script.jsonl", "--config", "none.toml"], 2, &["none.toml"]);
}

#[test]
fn in_json_an_error_of_the_command_line_is_one_object() {
    let ran = bench(NATIVE).run(&["run", "x", "--json", "--model", "openai:gpt"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (2, ""));
    assert_eq!(ran.json()["error"]["kind"], "usage");
}

#[test]
fn a_network_provider_calls_a_tool_and_streams_its_answer() {
    let server = Server::playing(vec![
        server::call("calculator__add", r#"{"a":3,"b":5}"#),
        server::words(&["It ", "is ", "8."]),
    ]);
    let bench = bench(NATIVE);
    let model = ["--model", "compatible:m", "--base-url", &server.url];
    let ran = bench
        .run(&[&["run", TASK, "--tool", "calculator.wasm", "--system", "Use the calculator."], &model[..]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\n"), "{ran:?}");
    assert!(ran.stderr.contains("2 requests, 1 call, 22 tokens in, 14 out"), "{ran:?}");
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0]["model"], "m");
    assert_eq!(asked[0]["messages"][0]["content"], "Use the calculator.");
    assert!(asked[0]["tools"].to_string().contains("calculator__add"), "{}", asked[0]);
    assert!(asked[1]["messages"].to_string().contains(r#"{\"result\":8}"#), "{}", asked[1]);
}

#[test]
fn a_missing_provider_and_one_that_refuses_are_distinguished() {
    let bench = bench(NATIVE);
    bench.put("fumehood.toml", "[model]\nretries = 0\n");
    let run = |url: &str| bench.run(&["run", "x", "--model", "compatible:m", "--base-url", url]);
    let refusal = r#"{"error": {"message": "no such model"}}"#.to_owned();
    let server = Server::playing(vec![Response { status: 404, body: refusal }]);
    let ran = run(&server.url);
    assert_eq!((ran.code, ran.stdout.as_str()), (8, ""), "{ran:?}");
    assert!(ran.stderr.contains("status 404: no such model") && ran.stderr.contains("--model"), "{ran:?}");
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ran = run(&format!("http://{gone}/v1"));
    assert_eq!((ran.code, ran.stdout.as_str()), (8, ""), "{ran:?}");
    assert!(ran.stderr.contains("cannot be reached") && ran.stderr.contains("`--base-url`"), "{ran:?}");
}

#[test]
fn only_the_tools_that_were_named_may_be_called() {
    let script = r#"{"calls": [{"name": "calculator__multiply", "arguments": {"a": 3, "b": 5}}]}
{"text": "I may not.", "expect": "not permitted"}"#;
    let ran = run(&bench(script), &["--only", "calculator__add"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "I may not.\n"), "{ran:?}");
    assert!(ran.stderr.contains("✗ calculator__multiply → not_allowed"), "{ran:?}");
}

#[test]
fn without_a_terminal_a_call_that_needs_approval_is_refused() {
    let script = r#"{"calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}}]}
{"text": "Nobody allows it.", "expect": "this call needs approval"}"#;
    let ran = run(&bench(script), &["--ask", "calculator__add"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Nobody allows it.\n"), "{ran:?}");
    assert!(ran.stderr.contains("✗ calculator__add → needs_approval"), "{ran:?}");
}

#[test]
fn the_configuration_sets_up_all_that_was_not_typed() {
    let script = r#"{"calls": [{"name": "sums__add", "arguments": {"a": 3, "b": 5}}, {"name": "sums__divide", "arguments": {"a": 3, "b": 5}}]}
{"calls": [{"name": "sums__multiply", "arguments": {"a": 3, "b": 5}}]}
{"text": "Done.", "expect": "not allowed for skill 'adding'"}"#;
    let bench = bench(script);
    bench.put(
        "fumehood.toml",
        r#"
[model]
name = "scripted:script.jsonl"
[tools.sums]
component = "calculator.wasm"
approval = "off"
[agent]
skill = "adding"
budget = { turns = 3 }
[skills.adding]
description = "Adding numbers."
tools = ["sums__add", "sums__divide"]
[guardrails]
deny = ["sums__divide"]
[log]
path = "kept.db"
"#,
    );
    let ran = bench.run(&["run", TASK]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Done.\n"), "{ran:?}");
    assert!(ran.stderr.contains("✓ sums__add") && ran.stderr.contains("✗ sums__divide → denied"), "{ran:?}");
    assert!(bench.path("kept.db").exists());
    let ran = bench.run(&["run", TASK, "--max-turns", "1", "--no-log"]);
    assert_eq!(ran.code, 4, "what was typed goes first: {ran:?}");
    let ran = bench.run(&["run", TASK, "--skill", "adding", "--script", "script.jsonl"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn the_task_may_come_on_standard_input() {
    let bench = bench(r#"{"text": "Hello.", "expect": "from a pipe"}"#);
    let ran = bench.run_with_input(&["run", "-", "--script", "script.jsonl"], "a task from a pipe\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Hello.\n"), "{ran:?}");
    let ran = bench.run_with_input(&["run", "-", "--script", "script.jsonl"], vec![0xff]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("is not UTF-8"), "{ran:?}");
}

#[test]
fn text_of_a_model_cannot_steer_the_terminal() {
    let bench = bench("{\"text\": \"a\\u001b]0;owned\\u0007b\"}");
    let ran = run(&bench, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "a\\u{1b}]0;owned\\u{7}b\n"), "{ran:?}");
}
