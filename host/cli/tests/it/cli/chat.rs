//! `fumehood chat`: several messages in one session.

use super::workbench::Workbench;

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
fn the_end_of_input_exits_with_the_code_of_the_last_answer() {
    let bench = bench();
    let ran = bench.run_with_input(CHAT, "What is 3 + 5?");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\n"), "{ran:?}");
    let ran = bench.run_with_input(CHAT, "What is 3 + 5?\nand now?\n/what\n");
    assert_eq!(ran.code, 8, "{ran:?}");
    assert!(ran.stderr.contains("unknown command; `/help` lists the commands"), "{ran:?}");
    assert_eq!(bench.run_with_input(CHAT, "").code, 0);
}

#[test]
fn commands_help_and_start_over() {
    let bench = Workbench::new();
    bench.example("calculator").put("script.jsonl", "{\"text\": \"One.\"}\n{\"text\": \"Two.\"}\n");
    let ran = bench.run_with_input(CHAT, "/help\n/tools\nfirst\n/reset\nsecond\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "One.\nTwo.\n"), "{ran:?}");
    for expected in ["/reset", "│ calculator__add  Adds two numbers", "new conversation, in session s"] {
        assert!(ran.stderr.contains(expected), "{expected}: {ran:?}");
    }
    let sessions = bench.run(&["log", "--log", "e.db", "--of", "sessions", "--json"]).json();
    assert_eq!(sessions.as_array().unwrap().len(), 2, "{sessions}");
    let asked = bench.run(&["log", "--log", "e.db", "--kind", "model_asked", "--json"]).json();
    let messages: Vec<_> = asked.as_array().unwrap().iter().map(|row| row["body"]["messages"].clone()).collect();
    assert_eq!(messages[0], messages[1], "the second session knows nothing of the first: {asked}");
}
