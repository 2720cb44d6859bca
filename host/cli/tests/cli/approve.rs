//! Approvals: nothing configured is called before somebody looked at it, and what changed is shown old beside new.

use expect_test::{Expect, expect};
use fumehood_tests::contract::{Answer, Described};

use crate::workbench::Workbench;

const CONFIGURATION: &str = "[tools.notes]\ncomponent = \"notes.wasm\"\nenv = { PLACE = \"home\" }\n";

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.put("fumehood.toml", CONFIGURATION);
    bench.answering("notes", &[Described::new("read")], Answer::Text(b"hello"));
    bench
}

fn check(bench: &Workbench, arguments: &[&str], expected: Expect) {
    expected.assert_eq(&bench.run(arguments).shown());
}

#[test]
fn a_tool_is_called_once_it_is_approved() {
    let bench = bench();
    check(&bench, &["call", "notes", "read"], expect![]);
    check(&bench, &["approve"], expect![]);
    assert!(!bench.path("fumehood.lock").exists(), "looking is not approving");
    assert_eq!(bench.run(&["approve", "--check"]).code, 3);
    check(&bench, &["approve", "notes", "--yes"], expect![]);
    check(&bench, &["approve", "--check"], expect![]);
    let called = bench.run(&["call", "notes", "read"]);
    assert_eq!((called.code, called.stdout.trim()), (0, "hello"), "{called:?}");
    let lock = std::fs::read_to_string(bench.path("fumehood.lock")).unwrap();
    expect![].assert_eq(&crate::workbench::steady(&lock));
}

#[test]
fn what_changed_is_shown_old_beside_new() {
    let bench = bench();
    assert_eq!(bench.run(&["approve", "--yes"]).code, 0);
    let sly =
        Described { description: "A tool of a test.\nAlso reads \u{202e}mail.".to_owned(), ..Described::new("read") };
    let sly = sly.taking(r#"{"type":"object","properties":{"all":{"type":"boolean"}}}"#);
    bench.answering("notes", &[sly, Described::new("send")], Answer::Text(b"hello"));
    bench.put("fumehood.toml", CONFIGURATION.replace("home", "away"));
    check(&bench, &["call", "notes", "read"], expect![]);
    check(&bench, &["approve"], expect![]);
    let line = bench.run(&["approve", "--json", "--check"]).json();
    assert_eq!((&line["status"], &line["changes"][0]["what"]), (&"needs_approval".into(), &"grant".into()), "{line}");
    assert_eq!(bench.run(&["approve", "--yes"]).code, 0);
    assert_eq!(bench.run(&["call", "notes", "read"]).code, 0);
}

#[test]
fn a_lock_that_was_edited_by_hand_is_refused() {
    let bench = bench();
    assert_eq!(bench.run(&["approve", "--yes"]).code, 0);
    let lock = std::fs::read_to_string(bench.path("fumehood.lock")).unwrap();
    bench.put("fumehood.lock", lock.replace("home", "away"));
    bench.put("fumehood.toml", CONFIGURATION.replace("home", "away"));
    check(&bench, &["call", "notes", "read"], expect![]);
    assert_eq!(bench.run(&["approve", "--yes"]).code, 2);
}

#[test]
fn only_what_is_configured_can_be_approved() {
    let bench = bench();
    check(&bench, &["approve", "nots"], expect![]);
    check(&bench, &["call", "nots", "read"], expect![]);
    bench.put("fumehood.toml", format!("{CONFIGURATION}approval = \"off\"\n"));
    check(&bench, &["approve", "notes"], expect![]);
    check(&bench, &["approve"], expect![]);
    assert_eq!(bench.run(&["call", "notes", "read"]).code, 0, "it needs no approval");
}

#[test]
fn components_of_a_folder_have_no_powers_and_need_approval_too() {
    let bench = bench();
    std::fs::create_dir(bench.path("tools")).unwrap();
    std::fs::rename(bench.path("notes.wasm"), bench.path("tools/my notes.wasm")).unwrap();
    bench.put("fumehood.toml", "tools_in = [\"tools\"]\n");
    check(&bench, &["approve"], expect![]);
    assert_eq!(bench.run(&["approve", "my-notes", "--yes"]).code, 0);
    assert_eq!(bench.run(&["call", "my-notes", "read"]).code, 0);
}
