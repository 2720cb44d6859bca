//! Skills that a tool or a program implements, and skills whose result has a schema.

use super::workbench::{CommandOutput, Workbench};

const CONFIG: &str = r#"
[tools.sums]
component = "calculator.wasm"
approval = "off"
[skills.add]
description = "Adds two numbers."
implemented_by = { tool = "sums__add" }
[skills.total]
description = "Adds many numbers."
implemented_by = { program = { file = "total.js" }, tools = ["sums__add"] }
output_schema = "sum.json"
[skills.broken]
description = "Returns something else."
implemented_by = { program = "return 'eight'" }
output_schema = "sum.json"
[skills.ask]
description = "Works something out."
tools = ["sums__add"]
output_schema = "sum.json"
[channels.desk]
tools = ["sums__subtract"]
"#;

const TOTAL: &str = "let sum = 0;
for (const n of input.numbers) { sum = (await tools.sums.add({a: sum, b: n})).result }
return {sum}";

const SUM: &str = r#"{"type": "object", "required": ["sum"], "properties": {"sum": {"type": "integer"}}}"#;

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("fumehood.toml", CONFIG);
    bench.put("total.js", TOTAL);
    bench.put("sum.json", SUM);
    bench
}

fn run(bench: &Workbench, skill: &str, task: &str, more: &[&str]) -> CommandOutput {
    bench.run(&[&["run", "--skill", skill, task], more].concat())
}

#[test]
fn skill_of_a_tool_needs_no_model() {
    let bench = bench();
    let ran = run(&bench, "add", r#"{"a": 3, "b": 5}"#, &["--log", "e.db"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"result\":8}\n"), "{ran:?}");
    assert!(ran.stderr.contains("answered: 0 requests, 1 call"), "{ran:?}");
    let asked = bench.run(&["log", "--log", "e.db", "--kind", "model_asked", "--json"]);
    assert_eq!(asked.stdout.trim(), "[]", "{asked:?}");
    let ran = run(&bench, "add", r#"{"a": 3, "b": 5}"#, &["--json"]);
    let last: serde_json::Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    let found = (&last["ending"], &last["text"], &last["turns"], &last["calls"]);
    assert_eq!(found, (&"answered".into(), &"{\"result\":8}".into(), &0.into(), &1.into()), "{last}");
}

#[test]
fn skill_of_a_program_calls_its_tools_and_matches_its_schema() {
    let bench = bench();
    let ran = run(&bench, "total", r#"{"numbers": [1, 2, 3]}"#, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"sum\":6}\n"), "{ran:?}");
    let ran = run(&bench, "broken", "go", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    assert!(ran.stderr.contains("the result of the skill does not match its `output_schema`"), "{ran:?}");
}

#[test]
fn input_that_does_not_fit_says_what_would() {
    let bench = bench();
    for (skill, task, says) in [
        ("add", "three and five", r#"give its arguments as a JSON object, such as {"a": …, "b": …}"#),
        ("add", r#"{"a": 3}"#, "\"b\""),
        ("total", r#"{"numbers": "#, "is not a JSON object"),
        ("total", "numbers", "TypeError"),
    ] {
        let ran = run(&bench, skill, task, &[]);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
        assert!(ran.stderr.contains(says), "{says} is not in: {}", ran.stderr);
    }
    let ran = run(&bench, "add", r#"{"a": 3, "b": 5}"#, &["--channel", "desk"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
}

#[test]
fn answer_of_a_model_under_a_typed_skill_is_corrected() {
    let bench = bench();
    bench.put(
        "script.jsonl",
        "{\"text\": \"It is 8.\"}\n{\"text\": \"{\\\"sum\\\": 8}\", \"expect\": \"no JSON object\"}",
    );
    let ran = run(&bench, "ask", "What is 3 + 5?", &["--script", "script.jsonl"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"sum\":8}\n"), "{ran:?}");
    let ran = run(&bench, "ask", "Go", &["--script", "script.jsonl", "--output-schema", "sum.json"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("the skill `ask` already has an `output_schema`"), "{ran:?}");
    let ran = run(&bench, "ask", "Go", &[]);
    assert!(ran.code == 2 && ran.stderr.contains("no model is configured"), "a model is asked: {ran:?}");
}

#[test]
fn skill_of_a_tool_is_saved_and_goes_on() {
    let bench = bench();
    let ran = run(&bench, "add", r#"{"a": 3, "b": 5}"#, &["--log", "e.db", "--session", "sums"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let more = ["run", "--skill", "add", "--log", "e.db", "--resume", "sums", r#"{"a": 1, "b": 1}"#];
    let ran = bench.run(&more);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"result\":2}\n"), "{ran:?}");
    let shown = bench.run(&["sessions", "--log", "e.db", "show", "sums"]);
    assert_eq!(shown.code, 0, "{shown:?}");
}

#[test]
fn implementations_that_cannot_work_are_errors_of_the_configuration() {
    for (section, says) in [
        ("tools = [\"sums__add\"]\nimplemented_by = { tool = \"sums__add\" }", "has `implemented_by`"),
        ("implemented_by = { tool = \"sums__add\", program = \"return 1\" }", "both a `tool` and a `program`"),
        ("implemented_by = {}", "neither a `tool` nor a `program`"),
        ("implemented_by = { tool = \"sums__add\", tools = [\"sums__add\"] }", "`tools` works only with a `program`"),
        ("implemented_by = { tool = \"sums__ad\" }", "names the tool 'sums__ad', which is not registered"),
        ("implemented_by = { program = { file = \"none.js\" } }", "none.js cannot be read"),
        ("implemented_by = { tool = \"sums__add\" }\noutput_schema = \"none.json\"", "none.json cannot be read"),
    ] {
        let bench = bench();
        bench.put("fumehood.toml", format!("{CONFIG}[skills.wrong]\ndescription = \"Wrong.\"\n{section}\n"));
        let ran = run(&bench, "wrong", "{}", &[]);
        assert!(ran.code != 0 && ran.stderr.contains(says), "{section}: {ran:?}");
    }
}
