//! Answers of a run for programs: JSON that matches a schema, and their cost.

use super::workbench::{CommandOutput, Workbench};

const SCHEMA: &str = r#"{"type": "object", "required": ["sum"], "properties": {"sum": {"type": "integer"}}}"#;

fn bench(script: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("script.jsonl", script);
    bench.put("sum.json", SCHEMA);
    bench
}

fn run(bench: &Workbench, more: &[&str]) -> CommandOutput {
    let usual = ["--tool", "calculator.wasm", "--script", "script.jsonl"];
    bench.run(&[more, &usual].concat())
}

const TASK: [&str; 4] = ["run", "What is 3 + 5?", "--output-schema", "sum.json"];

#[test]
fn answer_is_json_that_matches_the_schema() {
    let script = r#"{"calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}}]}
{"text": "It is 8."}
{"text": "```json\n{\n \"sum\": 8\n}\n```", "expect": "there is no JSON object in it"}"#;
    for driver in [&[][..], &["--driver", "batch"]] {
        let script = if driver.is_empty() { script.to_owned() } else { script.split_once('\n').unwrap().1.to_owned() };
        let ran = run(&bench(&script), &[&TASK[..], driver].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"sum\":8}\n"), "{ran:?}");
    }
    let ran = run(&bench(script), &[&TASK[..], &["--json"]].concat());
    let last: serde_json::Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["ending"], &last["text"]), (&"answered".into(), &"{\"sum\":8}".into()), "{last}");
}

#[test]
fn answer_that_never_matches_is_an_error() {
    let ran = run(&bench(&[r#"{"text": "{\"sum\": \"8\"}"}"#; 3].join("\n")), &TASK);
    assert_eq!((ran.code, ran.stdout.as_str()), (8, ""), "{ran:?}");
    let says = "the model's answer does not match the schema, even after retries: /sum: expected";
    assert!(ran.stderr.contains(says), "{ran:?}");
}

fn assert_schema_refused(bench: &Workbench, file: &str, says: &str) {
    let ran = run(bench, &["run", "Go", "--output-schema", file]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    assert!(ran.stderr.contains(says), "{says} is not in: {}", ran.stderr);
}

#[test]
fn schema_that_cannot_be_used_is_an_error_of_the_command_line() {
    let bench = bench(r#"{"text": "No."}"#);
    assert_schema_refused(&bench, "missing.json", "`--output-schema`: missing.json cannot be read");
    bench.put("text.json", "sum");
    bench.put("wrong.json", r#"{"type": "integr"}"#);
    assert_schema_refused(&bench, "text.json", "text.json is not JSON");
    assert_schema_refused(&bench, "wrong.json", "wrong.json is not a supported JSON Schema");
}

#[test]
fn saved_session_keeps_its_schema() {
    let bench = bench(r#"{"text": "{\"sum\": 8}"}"#);
    let ran = run(&bench, &[&TASK[..], &["--session", "s"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"sum\":8}\n"), "{ran:?}");
    bench.put("script.jsonl", "{\"text\": \"{ \\\"sum\\\": 9 }\"}");
    let again = ["run", "And plus 1?", "--resume", "s"];
    let ran = run(&bench, &[&again[..], &TASK[2..]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    assert!(ran.stderr.contains("leave `--output-schema` out"), "{ran:?}");
    let ran = run(&bench, &again);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"sum\":9}\n"), "{ran:?}");
}

#[test]
fn cost_is_shown_where_the_price_is_known() {
    let usage = r#"{"input": 1000, "output": 100, "cache_read": 600}"#;
    let bench = bench(&format!(r#"{{"text": "8", "usage": {usage}}}"#));
    bench
        .put("fumehood.toml", "[model]\nprice = { input = 10, output = 50.0, cache_read = 1.0, currency = \"EUR\" }\n");
    let ran = run(&bench, &["run", "Go"]);
    assert!(ran.stderr.contains("1000 tokens in (600 from the cache), 100 out, 0.0096 EUR"), "{ran:?}");
    let ran = run(&bench, &["run", "Go", "--json"]);
    let last: serde_json::Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["cost"]["currency"], "EUR", "{last}");
    assert!((last["cost"]["amount"].as_f64().unwrap() - 0.0096).abs() < 1e-9, "{last}");
    bench.put("fumehood.toml", "[model]\nprice = { input = -1, output = 50 }\n");
    let ran = run(&bench, &["run", "Go"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("invalid price -1; expected a number of at least 0"), "{ran:?}");
}
