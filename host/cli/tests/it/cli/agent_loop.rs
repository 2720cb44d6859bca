//! The loop between model and tools, with every driver: its settings, the batches of the specification, budgets, and what a
//! model is told of a call that has to wait.

use std::path::Path;

use serde_json::{Value, json};

use super::server::{self, Server};
use super::workbench::{CommandOutput, Workbench};

const LIMITED: &str = r#"
[tools.calculator]
component = "calculator.wasm"
approval = "off"
[[hooks.rate_limit]]
tools = ["calculator__*"]
per_minute = 1
"#;

fn bench(config: &str, script: &[Value]) -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("fumehood.toml", config);
    bench.put("script.jsonl", lines(script));
    bench
}

fn lines(script: &[Value]) -> String {
    script.iter().map(|reply| format!("{reply}\n")).collect()
}

fn run(bench: &Workbench, more: &[&str]) -> CommandOutput {
    bench.run(&[&["run", "Go", "--script", "script.jsonl", "--no-log"], more].concat())
}

/// Returns a call of the calculator, as a reply of a script has it.
fn call(tool: &str, a: i64, b: i64) -> Value {
    json!({"name": format!("calculator__{tool}"), "arguments": {"a": a, "b": b}})
}

/// Returns a reply of the batch protocol with these calls of the calculator.
fn execute(calls: &[(&str, Value)]) -> Value {
    let calls: Vec<Value> =
        calls.iter().map(|(tool, args)| json!({"name": format!("calculator__{tool}"), "args": args})).collect();
    json!({"text": format!("<execute>{}</execute>", json!(calls))})
}

fn assert_done(more: &[&str], script: &[Value]) {
    let ran = run(&bench(LIMITED, script), more);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{more:?}: {ran:?}");
}

fn done_if(expect: Value) -> Value {
    json!({"text": "done", "expect": expect})
}

fn add_two_to(a: i64) -> Value {
    json!({"calls": [call("add", a, 2)]})
}

fn decide_to_add(a: i64) -> Value {
    let decision = json!({"thought": "", "type": "call_tool", "tool": "calculator__add", "args": {"a": a, "b": 2}});
    json!({"text": decision.to_string()})
}

fn batch_of_add(a: i64) -> Value {
    execute(&[("add", json!({"a": a, "b": 2}))])
}

#[test]
fn seconds_to_wait_reach_the_model_with_every_driver() {
    assert_done(
        &[],
        &[add_two_to(1), add_two_to(2), done_if(json!(["\nHint: call again later", "\nRetry after: ", " s"]))],
    );
    let answer = json!({"thought": "", "type": "final_answer", "answer": "done"}).to_string();
    let end = json!({"text": answer, "expect": ["Observation: ERROR - ", "\nRetry after: "]});
    assert_done(&["--driver", "react"], &[decide_to_add(1), decide_to_add(2), end]);
    assert_done(
        &["--driver", "batch"],
        &[batch_of_add(1), batch_of_add(2), done_if(json!("(call again later; retry after "))],
    );
    let code = "await tools.calculator.add({a: 1, b: 2}); \
                try { await tools.calculator.add({a: 2, b: 2}); } catch (error) { return error.message; }";
    let program = json!({"calls": [{"name": "run_code", "arguments": {"code": code}}]});
    assert_done(&["--code"], &[program, done_if(json!("call again later; retry after "))]);
}

#[test]
fn seconds_to_wait_of_a_skill_are_in_its_failure() {
    let config =
        format!("{LIMITED}[skills.add]\ndescription = \"Adds.\"\nimplemented_by = {{ tool = \"calculator__add\" }}\n");
    let bench = bench(&config, &[]);
    let ran =
        bench.run_with_input(&["chat", "--skill", "add", "--no-log"], "{\"a\": 1, \"b\": 2}\n{\"a\": 2, \"b\": 2}\n");
    assert!(ran.code == 1 && ran.stderr.contains("(call again later; retry after "), "{ran:?}");
}

fn assert_ends(config: &str, more: &[&str], script: &[Value], code: i32, expected: &str) {
    let ran = run(&bench(config, script), &[&["--tool", "calculator.wasm"], more].concat());
    assert_eq!(ran.code, code, "{config} {more:?}: {ran:?}");
    assert!(ran.shown().contains(expected), "{config} {more:?}: {ran:?}");
}

fn text_reply(text: &str) -> Value {
    json!({ "text": text })
}

#[test]
fn tool_choice_is_set_by_key_and_option() {
    let add = json!({"calls": [call("add", 3, 5)], "expect": "You must call at least one of the tools."});
    let eight = json!({"text": "It is 8.", "expect": "8"});
    assert_ends("", &["--tool-choice", "required"], &[text_reply("8"), add.clone(), eight.clone()], 0, "It is 8.");
    let required = "[agent]\ntool_choice = \"required\"\n";
    assert_ends(required, &[], &[text_reply("8"), add, eight.clone()], 0, "It is 8.");
    assert_ends(required, &["--tool-choice", "auto"], &[text_reply("No need.")], 0, "No need.");
    let other = json!({"calls": [call("multiply", 3, 5)]});
    let add = json!({"calls": [call("add", 3, 5)], "expect": "You must call the tool `calculator__add`."});
    assert_ends("", &["--tool-choice", "calculator__add"], &[other.clone(), add, eight], 0, "It is 8.");
    let words = json!({"text": "In words.", "expect": "Tools are switched off"});
    assert_ends("", &["--tool-choice", "none"], &[other, words], 0, "In words.");
    let unknown = "`--tool-choice`: unknown tool `calculator__ad`; expected one of: calculator__";
    assert_ends("", &["--tool-choice", "calculator__ad"], &[text_reply("8")], 2, unknown);
    let foreign =
        "works only with the driver `native`, but the driver is `batch`; leave it out, or use `--driver native`";
    assert_ends(required, &["--driver", "batch"], &[text_reply("8")], 2, foreign);
}

fn assert_retries(driver: &str, config: &str, more: &[&str], bad: &str, good: &str, expected: [bool; 4]) {
    for (wrong, expected) in expected.into_iter().enumerate() {
        let mut script = vec![json!({ "text": bad }); wrong];
        script.push(json!({ "text": good }));
        let ran = run(&bench(config, &script), &[&["--driver", driver], more].concat());
        assert_eq!(ran.code, if expected { 0 } else { 8 }, "{driver} {config} {more:?} {wrong}: {ran:?}");
    }
}

fn up_to(retries: usize) -> [bool; 4] {
    std::array::from_fn(|wrong| wrong <= retries)
}

#[test]
fn retries_are_set_by_key_and_option() {
    let answer = r#"{"thought": "", "type": "final_answer", "answer": "8"}"#;
    let three = "[agent]\nretries = 3\n";
    for (driver, bad, good, usual) in
        [("native", " ", "8", 1), ("react", "no", answer, 2), ("batch", "<execute>[", "8", 2)]
    {
        assert_retries(driver, "", &[], bad, good, up_to(usual));
        assert_retries(driver, three, &[], bad, good, up_to(3));
        assert_retries(driver, three, &["--retries", "0"], bad, good, up_to(0));
    }
}

#[test]
fn first_failure_ends_the_run_if_asked_to() {
    let script = [json!({"calls": [call("divide", 1, 0), call("add", 1, 2)]}), json!({"text": "Told."})];
    for (config, more, code) in
        [("", &[][..], 0), ("", &["--stop-on-failure"], 1), ("[agent]\nstop_on_failure = true\n", &[], 1)]
    {
        let ran = run(&bench(config, &script), &[&["--tool", "calculator.wasm"], more].concat());
        assert_eq!((ran.code, ran.stdout.is_empty()), (code, code == 1), "{config} {more:?}: {ran:?}");
        assert_eq!(ran.stderr.contains("✓ calculator__add"), code == 0, "{config} {more:?}: {ran:?}");
        assert!(ran.stderr.contains("✗ calculator__divide"), "{ran:?}");
    }
}

fn script_with_block(rest: &str) -> [Value; 2] {
    [
        json!({"calls": [call("add", 1, 2), call("multiply", 1, 2), {"name": "other__add", "arguments": {"a": 5, "b": 6}}]}),
        json!({"text": "Told.", "expect": rest}),
    ]
}

fn assert_told(config: &str, more: &[&str], rest: &str) {
    let other = "[tools.other]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n";
    let ran = run(&bench(&format!("{config}{LIMITED}{other}"), &script_with_block(rest)), more);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Told.\n"), "{config} {more:?}: {ran:?}");
}

#[test]
fn first_block_skips_the_rest_if_asked_to() {
    let skipped = "the call was not made: the batch had ended before it";
    assert_told("", &[], "11");
    assert_told("", &["--stop-on-block"], skipped);
    assert_told("[agent]\nstop_on_block = true\n", &[], skipped);
}

fn asked_models(decision: &str, config: &str, more: &[&str]) -> Vec<String> {
    let server = Server::playing(vec![server::words(&[decision]), server::words(&["It is 8."])]);
    let bench = Workbench::new();
    bench.put("fumehood.toml", config);
    let model = ["run", "Go", "--no-log", "--driver", "react", "--model", "compatible:small"];
    let ran = bench.run(&[&model[..], &["--base-url", &server.url], more].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\n"), "{ran:?}");
    server.asked().iter().map(|body| body["model"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
}

#[test]
fn final_answer_can_be_of_another_model() {
    let decision = r#"{"thought": "", "type": "final_answer", "answer": "8"}"#;
    assert_eq!(asked_models(decision, "", &["--final-model", "large"]), ["small", "large"]);
    assert_eq!(asked_models(decision, "[agent]\nfinal_model = \"huge\"\n", &[]), ["small", "huge"]);
    assert_eq!(
        asked_models(decision, "[agent]\nfinal_model = \"huge\"\n", &["--final-model", "large"]),
        ["small", "large"]
    );
    let ran = run(&bench("", &[json!({"text": "8"})]), &["--final-model", "large"]);
    assert!(ran.code == 2 && ran.stderr.contains("works only with the driver `react`"), "{ran:?}");
}

#[test]
fn saved_session_goes_on_with_the_settings_of_its_driver() {
    let script = [json!({"text": "8"}), json!({"calls": [call("add", 3, 5)]}), json!({"text": "It is 8."})];
    let config = "[tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n";
    let bench = bench(config, &script);
    let usual = ["--script", "script.jsonl", "--log", "log.db"];
    let run = |more: &[&str]| bench.run(&[&["run", "Go"], more, &usual].concat());
    let ran = run(&["--session", "sums", "--tool-choice", "required", "--retries", "3"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\n"), "{ran:?}");
    let ran = run(&["--resume", "sums", "--tool-choice", "none"]);
    assert!(ran.code == 2 && ran.stderr.contains("the session started with `--tool-choice required`"), "{ran:?}");
    let ran = run(&["--resume", "sums", "--final-model", "large"]);
    assert!(ran.code == 2 && ran.stderr.contains("the session started without `--final-model`"), "{ran:?}");
    // Its replies are decided on again as they were, and its next message is under the same choice.
    let ran = run(&["--resume", "sums"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\n"), "{ran:?}");
}

fn reply_on_files(text: &str, expect: Value) -> Value {
    let names = [("\"read\"", "\"files__read\""), ("\"write\"", "\"files__write\""), ("\"content\":", "\"text\":")];
    let text = names.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    json!({"text": text.replace("\"file\": \"", "\"path\": \"/w/"), "expect": expect})
}

/// Returns the examples of the specification as replies of a script, with the names of the tools for files, and what the
/// model was told before each.
fn examples_on_files() -> [Value; 8] {
    [
        reply_on_files(
            r#"<think>reasoning about the problem, what steps to take</think>
<execute>
[
{"name": "read", "args": {"file": "config.json"}}
]
</execute>"#,
            json!([]),
        ),
        reply_on_files(
            r#"<execute>
[
{"name": "read", "args": {"file": "a.txt"}},
{"name": "write", "args": {"file": "b.txt", "content": "updated"}},
{"name": "read", "args": {"file": "missing.txt"}}
]
</execute>"#,
            json!(["<results>\n[\n{\"tool\": \"files__read\", \"status\": \"success\"", "old.com"]),
        ),
        reply_on_files(
            r#"<execute>
[
{"name": "write", "args": {"file": "index.html", "content": "<html><body>Hello</body></html>"}}
]
</execute>"#,
            json!(["a contents", "\"tool\": \"files__write\", \"status\": \"success\"", "\"status\": \"failure\""]),
        ),
        reply_on_files(
            r#"<execute>
[
{"name": "write", "args": {"file": "w.txt", "content": "Hello </write> world </execute> done"}}
]
</execute>"#,
            json!("\"bytes\":31"),
        ),
        reply_on_files(
            r#"<execute>
[
{"name": "write", "args": {"file": "q.txt", "content": "echo \"hello\" && echo 'world'"}}
]
</execute>"#,
            json!("\"status\": \"success\""),
        ),
        reply_on_files(
            r#"<think>API is old.com, need to update to new.com</think>
<execute>
[
{"name": "write", "args": {"file": "config.json", "content": "{\"api\": \"new.com\"}"}}
]
</execute>
<results>
[{"tool": "write", "status": "success", "content": {"made": "up"}}]
</results>
this text must not be an answer"#,
            json!("\"status\": \"success\""),
        ),
        reply_on_files(r#"<execute>[{"name": "read", "args": {"file": "config.json"}}]</execute>"#, json!("replaced")),
        reply_on_files("Configuration updated successfully.", json!(["success", "new.com"])),
    ]
}

fn assert_file(bench: &Workbench, file: &str, text: &str) {
    assert_eq!(std::fs::read_to_string(bench.path("w").join(Path::new(file))).unwrap(), text, "{file}");
}

#[test]
fn examples_of_the_specification_run_on_files() {
    let bench = bench(
        "[tools.files]\ncomponent = \"files.wasm\"\napproval = \"off\"\nwrite = [\"./w:/w\"]\n[agent.budget]\nturns = 20\n",
        &examples_on_files(),
    );
    bench.example("files");
    std::fs::create_dir(bench.path("w")).unwrap();
    bench.put("w/a.txt", "a contents");
    bench.put("w/config.json", "{\"api\": \"old.com\"}");
    let ran = run(&bench, &["--driver", "batch"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Configuration updated successfully.\n"), "{ran:?}");
    assert_file(&bench, "b.txt", "updated");
    assert_file(&bench, "index.html", "<html><body>Hello</body></html>");
    assert_file(&bench, "w.txt", "Hello </write> world </execute> done");
    assert_file(&bench, "q.txt", "echo \"hello\" && echo 'world'");
    assert_file(&bench, "config.json", "{\"api\": \"new.com\"}");
}

#[test]
fn faulty_elements_of_a_batch_fail_alone() {
    let batch = execute(&[
        ("add", json!({"a": 1})),
        ("add", json!({"a": "x", "b": 2})),
        ("nothing", json!({})),
        ("add", json!({"a": 5, "b": 2})),
    ]);
    let expect = json!([
        "Missing required parameters: b",
        "Tool 'calculator__nothing' not registered",
        "\"status\": \"success\", \"content\": {\"result\":7}}\n]\n</results>",
    ]);
    let bench = bench("", &[batch, json!({"text": "Seven.", "expect": expect})]);
    let ran = run(&bench, &["--tool", "calculator.wasm", "--driver", "batch", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ended: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds = ["tool_rejected", "tool_finished"].map(|kind| {
        let records = ended.iter().map(|line| &line["record"]).filter(|record| record["kind"] == kind);
        records.map(|record| record["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    });
    let [mut rejected, finished] = kinds;
    rejected.sort();
    assert_eq!(rejected, ["invalid_arguments", "invalid_arguments", "unknown_tool"]);
    assert_eq!(finished, ["ok"]);
}

fn assert_ends_with_budget(config: &str, more: &[&str], script: &[Value], ending: (&str, &str)) {
    let bench = bench(config, script);
    let usual = ["run", "Go", "--tool", "calculator.wasm", "--script", "script.jsonl", "--log", "log.db", "--json"];
    let ran = bench.run(&[&usual, more].concat());
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((ran.code, &last["ending"]), (4, &json!(ending.0)), "{more:?}: {last} {}", ran.stderr);
    assert!(last.to_string().contains(ending.1), "{more:?}: {last}");
    let kept = bench.run(&["log", "--log", "log.db", "--kind", "tool_result", "--json"]).json();
    assert!(kept[0]["body"]["result"].to_string().contains('3'), "{more:?}: {kept}");
}

fn paid_add(a: i64) -> Value {
    json!({"calls": [call("add", a, 2)], "usage": {"input": 50, "output": 50}})
}

#[test]
fn budgets_end_a_run_with_their_name_and_keep_what_was_done() {
    let script = [paid_add(1), paid_add(2), paid_add(3), json!({"text": "never"})];
    assert_ends_with_budget("", &["--max-turns", "1"], &script, ("budget_exhausted", "turns"));
    assert_ends_with_budget("[agent.budget]\ncalls_in_all = 1\n", &[], &script, ("budget_exhausted", "calls_in_all"));
    assert_ends_with_budget("", &["--tokens-in", "50"], &script, ("budget_exhausted", "tokens_in"));
    assert_ends_with_budget("", &["--tokens-out", "50"], &script, ("budget_exhausted", "tokens_out"));
    assert_ends_with_budget("", &["--fuel-in-all", "1"], &script, ("budget_exhausted", "fuel"));
    let slow = [paid_add(1), json!({"text": "never", "delay_ms": 60_000})];
    assert_ends_with_budget("", &["--wall", "4s"], &slow, ("budget_exhausted", "wall_time"));
    let same = vec![paid_add(1); 4];
    assert_ends_with_budget("", &[], &same, ("loop_detected", "calculator__add"));
}

fn call_without_arguments(name: &str) -> Value {
    json!({"name": name, "arguments": {}})
}

#[test]
fn knowledge_is_not_read_at_the_start_and_not_changed_by_tools() {
    let config = r#"
[tools.files]
component = "files.wasm"
approval = "off"
write = ["./texts:/w"]
[knowledge.rules]
description = "How amounts are rounded."
text = { file = "texts/rules.md" }
[knowledge.picture]
description = "Not a text."
text = { file = "texts/picture.png" }
[skills.sums]
description = "Sums."
tools = ["files__write"]
knowledge = ["rules", "picture"]
"#;
    let write = json!({"name": "files__write", "arguments": {"path": "/w/rules.md", "text": "Down."}});
    let script = [
        json!({"calls": [write]}),
        json!({"calls": [call_without_arguments("rules")], "expect": "Error in tool call: "}),
        json!({"calls": [call_without_arguments("picture")], "expect": "Up."}),
        json!({"text": "Done.", "expect": "it is not UTF-8 text; its operator must check it"}),
    ];
    let bench = bench(config, &script);
    bench.example("files");
    std::fs::create_dir(bench.path("texts")).unwrap();
    bench.put("texts/rules.md", "Up.");
    bench.put("texts/picture.png", [0x89, 0xff]);
    let ran = run(&bench, &["--skill", "sums"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Done.\n"), "{ran:?}");
    // A link that leads out of the folder is not followed, whoever made it.
    let outside = Workbench::new();
    let secret = outside.put("secret", "s3cret");
    std::fs::remove_file(bench.path("texts/rules.md")).unwrap();
    std::os::unix::fs::symlink(secret, bench.path("texts/rules.md")).unwrap();
    let ran = run(&bench, &["--skill", "sums"]);
    assert!(ran.code == 2 && ran.stderr.contains("rules.md cannot be read"), "{ran:?}");
}

#[test]
fn scripts_of_the_documentation_run_with_their_drivers() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scripts.md");
    let page = std::fs::read_to_string(page).unwrap();
    let scripts: Vec<&str> = page.split("```json\n").skip(1).filter_map(|block| block.split("```").next()).collect();
    assert_eq!(scripts.len(), 3);
    for (script, driver) in scripts.into_iter().zip(["native", "react", "batch"]) {
        let bench = bench("", &[]);
        bench.put("script.jsonl", script);
        let ran = run(&bench, &["--tool", "calculator.wasm", "--driver", driver]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\n"), "{driver}: {ran:?}");
    }
}
