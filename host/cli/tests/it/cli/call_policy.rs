//! Policies of calls in the configuration: the judge, the records, and the size of results.

use serde_json::Value;

use super::workbench::{CommandOutput, Workbench};

const SUMS: &str = "[tools.sums]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n[log]\npath = \"e.db\"\n";
const ADD: &str = r#"{"calls": [{"name": "sums__add", "arguments": {"a": 1234, "b": 5}, "id": "sum"}]}"#;

/// Runs a task. The judge is the model that answers, so its verdicts are in the script.
fn run(config: &str, script: &[&str]) -> (Workbench, CommandOutput) {
    let bench = Workbench::new();
    bench.example("calculator").put("script.jsonl", script.join("\n"));
    bench.put("fumehood.toml", format!("{SUMS}{config}"));
    let ran = bench.run(&["run", "Add 1000 and 5", "--script", "script.jsonl"]);
    (bench, ran)
}

fn records(bench: &Workbench, kind: &str) -> Vec<Value> {
    let rows = bench.run(&["log", "--kind", kind, "--json"]).json();
    rows.as_array().unwrap().clone()
}

const JUDGE: &str = "[guardrails.judge]\npolicy = \"Only small numbers may be added.\"\nalways = [\"sums__add\"]\n";

#[test]
fn a_judge_of_the_configuration_is_shown_the_policy_and_denies() {
    let verdict = r#"{"text": "{\"verdict\": \"deny\", \"reason\": \"1234 is large\"}", "expect": "sums__add", "usage": {"input": 70, "output": 9}}"#;
    let told = r#"{"text": "I may not.", "expect": "1234 is large", "usage": {"input": 10, "output": 2}}"#;
    let (bench, ran) = run(JUDGE, &[ADD, verdict, told]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "I may not.\n"), "{ran:?}");
    assert!(ran.stderr.contains("✗ sums__add → denied") && ran.stderr.contains("80 tokens in, 11 out"), "{ran:?}");
    let verdicts = records(&bench, "verdict");
    let judged = verdicts.iter().find(|row| row["body"]["by"] == "judge").unwrap();
    assert_eq!((&judged["status"], &judged["body"]["usage"]["input"]), (&"deny".into(), &70.into()));
}

#[test]
fn an_allowed_call_runs_and_the_judge_counts_in_the_budget() {
    let verdict = r#"{"text": "{\"verdict\": \"allow\"}", "usage": {"input": 70, "output": 9}}"#;
    let answer = r#"{"text": "1239.", "expect": "1239"}"#;
    let (_, ran) = run(JUDGE, &[ADD, verdict, answer]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1239.\n"), "{ran:?}");
    let small = format!("{JUDGE}[agent.budget]\ntokens_in = 70\n");
    let (_, ran) = run(&small, &[ADD, verdict, answer]);
    assert!(ran.code == 4 && ran.stderr.contains("the limit on tokens of requests was reached"), "{ran:?}");
}

#[test]
fn an_invalid_verdict_denies_and_never_judged_tools_run() {
    let (_, ran) = run(JUDGE, &[ADD, r#"{"text": "Sure!"}"#, r#"{"text": "No.", "expect": "gave no verdict"}"#]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "No.\n"), "{ran:?}");
    let never = "[guardrails.judge]\npolicy = \"Nothing.\"\nnever = [\"sums__add\"]\n";
    let (_, ran) = run(never, &[ADD, r#"{"text": "1239.", "expect": "1239"}"#]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1239.\n"), "{ran:?}");
}

#[test]
fn persist_nothing_records_no_arguments_and_hides_no_result() {
    let answer = r#"{"text": "Done.", "expect": "1239"}"#;
    let (bench, ran) = run("texts = true\n[tools.sums.limits]\n", &[ADD, answer]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(bench.run(&["log", "export"]).stdout.contains("1239"));
    let config = SUMS.replace("approval", "persist = \"nothing\"\napproval");
    let bench = Workbench::new();
    bench.example("calculator").put("script.jsonl", [ADD, answer].join("\n"));
    bench.put("fumehood.toml", format!("{config}texts = true\n"));
    let ran = bench.run(&["run", "Add 1000 and 5", "--script", "script.jsonl"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Done.\n"), "{ran:?}");
    let exported = bench.run(&["log", "export"]).stdout;
    assert!(exported.contains("\"model_call\":\"sum\"") && exported.contains("tool_finished"), "{exported}");
    // As whole numbers, because digests contain any digits.
    let told = regex::Regex::new(r"\b123[49]\b").unwrap();
    assert!(!told.is_match(&exported), "{exported}");
}

#[test]
fn only_so_much_of_a_result_is_shown() {
    let config = SUMS.replace("approval", "result_bytes = \"12\"\napproval");
    let bench = Workbench::new();
    bench.example("calculator").put("script.jsonl", [ADD, r#"{"text": "Cut.", "expect": "[truncated]"}"#].join("\n"));
    bench.put("fumehood.toml", config);
    let ran = bench.run(&["run", "Add 1000 and 5", "--script", "script.jsonl"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Cut.\n"), "{ran:?}");
}

fn play_as(bench: &Workbench, actor: &str, script: &str) {
    bench.put("script.jsonl", script);
    let ran = bench.run(&["run", "Go", "--script", "script.jsonl", "--no-log", "--actor", actor]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Done.\n"), "{ran:?}");
}

#[test]
fn notes_outlive_the_session_and_belong_to_one_actor() {
    let bench = Workbench::new();
    bench.put("fumehood.toml", "[agent]\nmemory = \"notes.db\"\n");
    let write = r#"{"calls": [{"name": "memory_write", "arguments": {"key": "milk", "text": "Buy milk."}}]}"#;
    let read = r#"{"calls": [{"name": "memory_read", "arguments": {"key": "milk"}}]}"#;
    play_as(&bench, "ann", &format!("{write}\n{}", r#"{"text": "Done."}"#));
    play_as(&bench, "ann", &format!("{read}\n{}", r#"{"text": "Done.", "expect": "Buy milk."}"#));
    play_as(&bench, "bob", &format!("{read}\n{}", r#"{"text": "Done.", "expect": "unknown note"}"#));
}
