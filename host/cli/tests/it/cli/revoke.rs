//! Approvals that are revoked, and those of components that are not configured any more.

use expect_test::{Expect, expect};
use fumehood_tests::contract::{Answer, ToolDescription};

use super::terminal::TerminalCommand;
use super::workbench::Workbench;

const BOTH: &str = "[tools.notes]\ncomponent = \"notes.wasm\"\n[tools.post]\ncomponent = \"post.wasm\"\n";
const NOTES: &str = "[tools.notes]\ncomponent = \"notes.wasm\"\n";

/// Creates a folder with two components, both approved.
fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.put("fumehood.toml", BOTH);
    bench.answering("notes", &[ToolDescription::new("read")], Answer::Text(b"hello"));
    bench.answering("post", &[ToolDescription::new("send")], Answer::Text(b"sent"));
    assert_eq!(bench.run(&["approve", "--yes"]).code, 0);
    bench
}

fn check(bench: &Workbench, arguments: &[&str], expected: Expect) {
    expected.assert_eq(&bench.run(arguments).shown());
}

fn lock(bench: &Workbench) -> String {
    std::fs::read_to_string(bench.path("fumehood.lock")).unwrap()
}

#[test]
fn a_revoked_component_is_not_called() {
    let bench = bench();
    assert_eq!(bench.run(&["call", "notes", "read"]).code, 0);
    check(
        &bench,
        &["approve", "--revoke", "notes"],
        expect![[r#"
            ── stdout
            revoked the approval of `notes` in fumehood.lock
            ── exit 0
        "#]],
    );
    check(
        &bench,
        &["call", "notes", "read"],
        expect![[r#"
            ── stderr
            error[needs_approval]: `notes` was never approved
              hint: an operator must review and approve it: `fumehood approve notes`
            ── exit 3
        "#]],
    );
    assert_eq!(bench.run(&["call", "post", "send"]).code, 0, "the other one is still approved");
    let line = bench.run(&["approve", "--json", "--revoke", "post"]).json();
    assert_eq!((&line["name"], &line["status"]), (&"post".into(), &"revoked".into()));
    assert!(line["pin"].as_str().unwrap().starts_with("sha256:"), "{line}");
    assert!(!lock(&bench).contains("approved.parts"), "{}", lock(&bench));
}

#[test]
fn all_that_is_named_is_revoked_or_nothing() {
    let bench = bench();
    let before = lock(&bench);
    check(
        &bench,
        &["approve", "--revoke", "notes", "nots"],
        expect![[r#"
            ── stderr
            error: fumehood.lock has no approval of `nots`; it has: notes, post
            ── exit 2
        "#]],
    );
    assert_eq!(lock(&bench), before);
    assert_eq!(bench.run(&["approve", "--revoke", "post", "notes", "post"]).code, 0);
    check(
        &bench,
        &["approve", "--revoke", "No Name\u{1b}"],
        expect![[r#"
            ── stderr
            error: fumehood.lock has no approval of `No Name\u{1b}`; it has none
            ── exit 2
        "#]],
    );
}

#[test]
fn a_broken_configuration_does_not_prevent_a_revocation() {
    let bench = bench();
    let file = bench.put("fumehood.toml", "[tools.notes\n");
    assert_eq!(bench.run(&["call", "notes", "read"]).code, 2);
    assert_eq!(bench.run(&["approve", "--revoke", "notes", "--config", file.to_str().unwrap()]).code, 0);
    assert!(!lock(&bench).contains("notes"), "{}", lock(&bench));
}

#[test]
fn a_revocation_needs_names() {
    let bench = bench();
    for arguments in [
        &["approve", "--revoke"][..],
        &["approve", "--revoke", "--yes", "notes"],
        &["approve", "--revoke", "--check", "notes"],
        &["approve", "--prune", "notes"],
        &["approve", "--prune", "--yes"],
        &["approve", "--prune", "--revoke", "notes"],
    ] {
        let before = lock(&bench);
        assert_eq!(bench.run(arguments).code, 2, "{arguments:?}");
        assert_eq!(lock(&bench), before);
    }
}

#[test]
fn approvals_of_nothing_are_named_and_pruned() {
    let bench = bench();
    check(
        &bench,
        &["approve", "--prune"],
        expect![[r#"
            ── stderr
            every approval in fumehood.lock belongs to a component
            ── exit 0
        "#]],
    );
    bench.put("fumehood.toml", NOTES);
    check(
        &bench,
        &["approve", "--check"],
        expect![[r#"
            ── stdout
            ✓ notes is approved
            ── stderr
            warning: fumehood.lock has approvals for components that fumehood.toml does not have: post; revoke them with `fumehood approve --prune`
            ── exit 0
        "#]],
    );
    let lines = bench.run(&["approve", "--check", "--json"]).stdout;
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said: Vec<_> =
        lines.iter().map(|line| (line["name"].as_str().unwrap(), line["status"].as_str().unwrap())).collect();
    assert_eq!(said, [("notes", "unchanged"), ("post", "stale")]);
    assert!(bench.run(&["approve", "notes"]).stderr.is_empty(), "whoever asks for one hears of that one");
    check(
        &bench,
        &["approve", "--prune"],
        expect![[r#"
            ── stdout
            revoked the approval of `post` in fumehood.lock
            ── exit 0
        "#]],
    );
    bench.put("fumehood.toml", BOTH);
    assert_eq!(bench.run(&["call", "notes", "read"]).code, 0);
    assert_eq!(bench.run(&["call", "post", "send"]).code, 3, "what comes back has to be approved again");
}

#[test]
fn components_in_a_folder_are_not_stale() {
    let bench = bench();
    std::fs::create_dir(bench.path("tools")).unwrap();
    std::fs::rename(bench.path("post.wasm"), bench.path("tools/post.wasm")).unwrap();
    bench.put("fumehood.toml", format!("tools_in = [\"tools\"]\n{NOTES}approval = \"off\"\n"));
    let before = lock(&bench);
    assert!(!bench.run(&["approve", "--check"]).stderr.contains("belong to no component"));
    assert_eq!(bench.run(&["approve", "--prune"]).code, 0);
    assert_eq!(lock(&bench), before, "one that needs no approval now may need it again");
}

#[test]
fn nothing_is_pruned_without_a_configuration() {
    let bench = bench();
    let before = lock(&bench);
    std::fs::remove_file(bench.path("fumehood.toml")).unwrap();
    check(
        &bench,
        &["approve", "--prune"],
        expect![[r#"
            ── stderr
            error: cannot tell which approvals are still needed, because fumehood.toml does not exist
            ── exit 2
        "#]],
    );
    bench.put("fumehood.toml", format!("tools_in = [\"gone\"]\n{NOTES}"));
    assert_eq!(bench.run(&["approve", "--prune"]).code, 2);
    assert_eq!(lock(&bench), before);
}

#[test]
fn a_revocation_during_another_approval_is_not_lost() {
    let bench = bench();
    bench.put("fumehood.toml", BOTH.replace("[tools.post]\n", "[tools.post]\nstate = true\n"));
    let mut approves = TerminalCommand::of(bench.command(&["approve", "post"]));
    // The command has read the lock by now.
    approves.wait_for("Approve `post`?");
    assert_eq!(bench.run(&["approve", "--revoke", "notes"]).code, 0);
    approves.type_in("y\n");
    let (code, _, screen) = approves.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(bench.run(&["call", "post", "send"]).code, 0);
    assert_eq!(bench.run(&["call", "notes", "read"]).code, 3, "{}", lock(&bench));
}

#[test]
fn a_lock_that_is_held_is_waited_for() {
    let bench = bench();
    let held = std::fs::File::open(bench.path(".")).unwrap();
    held.lock().unwrap();
    let children: Vec<_> = ["notes", "post"]
        .map(|name| bench.command(&["approve", "--revoke", name]).stdout(std::process::Stdio::null()).spawn().unwrap())
        .into();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(lock(&bench).contains("name = \"notes\""), "it is not written while another process holds it");
    held.unlock().unwrap();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert!(!lock(&bench).contains("name ="), "{}", lock(&bench));
}
