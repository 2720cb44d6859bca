//! Channels: a tool that is not listed for one can neither be seen nor called there.

use super::workbench::{CommandOutput, Workbench};

const CONFIG: &str = r#"
[tools.sums]
component = "calculator.wasm"
approval = "off"
[skills.adding]
description = "Adding numbers."
tools = ["sums__add"]
knowledge = ["rules"]
[skills.taking]
description = "Taking away."
tools = ["sums__subtract"]
[channels.support]
tools = ["sums__multiply"]
skills = ["adding"]
[channels.open]
tools = ["sums__add", "sums__multiply"]
[knowledge.rules]
description = "How to add."
text = "Carry the one."
"#;

const ADD: &str = r#"{"calls": [{"name": "sums__add", "arguments": {"a": 3, "b": 5}}]}"#;
const DIVIDE: &str = r#"{"calls": [{"name": "sums__divide", "arguments": {"a": 8, "b": 2}}]}"#;

fn bench(script: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("fumehood.toml", CONFIG);
    bench.put("script.jsonl", script);
    bench
}

fn run(bench: &Workbench, more: &[&str]) -> CommandOutput {
    bench.run(&[&["run", "Go", "--script", "script.jsonl"], more].concat())
}

/// Returns the number of tools that the model was offered.
fn shown(more: &[&str]) -> u64 {
    let bench = bench(r#"{"text": "Nothing to do."}"#);
    let ran = run(&bench, &[&["--log", "e.db"], more].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let asked = bench.run(&["log", "--log", "e.db", "--kind", "model_asked", "--json"]).json();
    asked[0]["body"]["tools"].as_u64().unwrap()
}

#[test]
fn a_channel_has_its_tools_and_those_of_its_skills() {
    assert_eq!(shown(&["--channel", "support"]), 3);
    assert_eq!(shown(&["--channel", "open"]), 2);
    assert_eq!(shown(&["--channel", "support", "--skill", "adding"]), 2);
    assert_eq!(shown(&["--channel", "open", "--skill", "adding"]), 1);
    assert_eq!(shown(&["--channel", "open", "--skill", "taking"]), 0);
    assert!(shown(&[]) > 3);
}

#[test]
fn allow_narrows_a_channel_and_a_skill() {
    let add = ["--only", "sums__add", "--only", "sums__divide"];
    assert_eq!(shown(&[&add[..], &["--channel", "open"]].concat()), 1);
    assert_eq!(shown(&[&add[..], &["--skill", "adding"]].concat()), 1);
    assert_eq!(shown(&[&add[..], &["--skill", "taking"]].concat()), 0);
    assert_eq!(shown(&add), 2);
}

#[test]
fn what_is_not_listed_for_the_channel_is_refused_in_its_words() {
    let refused = r#"{"text": "I cannot.", "expect": "[error: tool 'sums__divide' is not permitted on this channel]"}"#;
    let bench = bench(&format!("{ADD}\n{DIVIDE}\n{refused}"));
    let ran = run(&bench, &["--channel", "open", "--no-log"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "I cannot.\n"), "{ran:?}");
    assert!(ran.stderr.contains("✓ sums__add") && ran.stderr.contains("✗ sums__divide → not_allowed"), "{ran:?}");
}

#[test]
fn the_channel_of_the_configuration_is_used_where_none_is_typed() {
    let bench = bench(&format!("{DIVIDE}\n{}", r#"{"text": "No.", "expect": "not permitted on this channel"}"#));
    bench.put("fumehood.toml", format!("{CONFIG}\n[agent]\nchannel = \"support\"\n"));
    let ran = bench.run_with_input(&["chat", "--script", "script.jsonl", "--no-log"], "Divide\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "No.\n"), "{ran:?}");
}

fn assert_channel_refused(config: &str, more: &[&str], words: &[&str]) {
    let bench = bench(r#"{"text": "never"}"#);
    bench.put("fumehood.toml", format!("{CONFIG}\n{config}"));
    let ran = run(&bench, &[&["--no-log"], more].concat());
    assert!(ran.code != 0 && ran.stdout.is_empty(), "{ran:?}");
    words.iter().for_each(|words| assert!(ran.stderr.contains(words), "{words}: {ran:?}"));
}

#[test]
fn a_channel_that_is_none_or_lacks_the_skill_is_refused() {
    assert_channel_refused("", &["--channel", "phone"], &["unknown channel `phone`", "it has: open, support"]);
    let words = "the skill `taking` cannot be used in the channel `support`, which has: adding";
    assert_channel_refused("", &["--channel", "support", "--skill", "taking"], &[words]);
    assert_channel_refused(
        "[channels.phone]\nskills = [\"singing\"]\n",
        &[],
        &["names the skill `singing`", "it has: adding, taking"],
    );
    assert_channel_refused(
        "[channels.phone]\ntools = [\"sums__ad\"]\n",
        &["--channel", "phone"],
        &["names the tool 'sums__ad'"],
    );
    assert_channel_refused("[agent]\nchannel = \"phone\"\n", &[], &["the channel `phone` is not in [channels]"]);
}
