//! `fumehood chat`: several messages in one session.

use crate::workbench::Workbench;

const SCRIPT: &str = r#"
{"calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}}]}
{"text": "It is 8."}
{"text": "As I said: 8.", "expect": "again?"}
"#;

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("script.jsonl", SCRIPT);
    bench
}

const CHAT: &[&str] = &["chat", "--tool", "calculator.wasm", "--script", "script.jsonl", "--log", "e.db"];

#[test]
fn messages_share_a_session_until_quit() {
    let bench = bench();
    let ran = bench.run_with_input(CHAT, "What is 3 + 5?\n\nagain?\n/quit\nnever asked\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\nAs I said: 8.\n"), "{ran:?}");
    let sessions = bench.run(&["log", "--log", "e.db", "--of", "sessions", "--json"]).json();
    assert_eq!(sessions.as_array().unwrap().len(), 1);
    assert_eq!((&sessions[0]["status"], &sessions[0]["calls"]), (&"answered".into(), &1.into()));
    let said = bench.run(&["log", "--log", "e.db", "--kind", "user_message", "--json"]).json();
    assert_eq!(said.as_array().unwrap().len(), 2);
}

#[test]
fn the_end_of_the_input_ends_the_session_and_the_code_is_that_of_the_last_answer() {
    let bench = bench();
    let ran = bench.run_with_input(CHAT, "What is 3 + 5?");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\n"), "{ran:?}");
    let ran = bench.run_with_input(CHAT, "What is 3 + 5?\nand now?\n/what\n");
    assert_eq!(ran.code, 8, "{ran:?}");
    assert!(ran.stderr.contains("there is no such command; `/quit` ends the session"), "{ran:?}");
    assert_eq!(bench.run_with_input(CHAT, "").code, 0);
}
