//! A lock that came with a checkout: its entries are proposals until this user approves them, whatever command reads it.

use std::path::PathBuf;
use std::time::Duration;

use fumehood_tests::contract::{Answer, ToolDescription};
use fumehood_tests::fake_server;
use serde_json::json;

use super::session::Session;
use super::workbench::{CommandOutput, Workbench};

/// A component and a server, each of which would leave a trace.
const CONFIGURATION: &str = "\
    [tools.notes]\ncomponent = \"notes.wasm\"\nenv = { PLACE = \"home\" }\n\
    [mcp.servers.other]\ncommand = [\"sh\", \"server.sh\"]\nwrite = [\".\"]\nstart_timeout = \"60s\"\nenv.ON_START = 'touch started'\n";
const FILES: [&str; 4] = ["fumehood.toml", "fumehood.lock", "notes.wasm", "server.sh"];

fn answering(text: &str) -> Vec<u8> {
    fumehood_tests::answering(&[ToolDescription::new("read")], Answer::Text(text.as_bytes())).unwrap()
}

/// Returns the folder of somebody who approved everything there.
fn publisher(text: &str) -> Workbench {
    let bench = Workbench::new();
    bench.put("fumehood.toml", CONFIGURATION);
    bench.put("server.sh", fake_server::SCRIPT);
    bench.put("notes.wasm", answering(text));
    let approved = bench.run(&["approve", "--yes", "--by", "mallory"]);
    assert_eq!(approved.code, 0, "{approved:?}");
    let called = bench.run(&["call", "notes", "read"]);
    assert_eq!((called.code, called.stdout.trim()), (0, text), "approving in one's own folder is enough: {called:?}");
    std::fs::remove_file(bench.path("started")).unwrap();
    bench
}

fn pull(from: &Workbench, into: &Workbench) {
    for file in FILES {
        std::fs::copy(from.path(file), into.path(file)).unwrap();
    }
}

/// Returns the checkout of a user who trusts its configuration, and approved nothing.
fn checkout(publisher: &Workbench) -> Workbench {
    let bench = Workbench::new();
    pull(publisher, &bench);
    let trusted = run(&bench, &["trust", "--yes"]);
    assert_eq!(trusted.code, 0, "{trusted:?}");
    bench
}

fn run(bench: &Workbench, arguments: &[&str]) -> CommandOutput {
    Workbench::run_command(bench.command_without_trust(arguments))
}

fn assert_refused(bench: &Workbench, words: &str) {
    let ran = run(bench, &["call", "notes", "read"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stderr.contains(words) && ran.stdout.is_empty(), "{ran:?}");
}

/// Returns whether the tool of the server can be called, which starts it.
fn calls_server(bench: &Workbench, options: &[&str]) -> bool {
    bench.put("server.jsonl", "{\"calls\": [{\"name\": \"other__t\", \"arguments\": {}}]}\n{\"text\": \"done\"}\n");
    let ran = run(bench, &[options, &["run", "Call.", "--script", "server.jsonl"]].concat());
    ran.stderr.contains("✓ other__t")
}

#[test]
fn a_lock_of_somebody_else_starts_and_calls_nothing() {
    let bench = checkout(&publisher("one"));
    assert_refused(&bench, "`notes` has an approval in the lock, but not by you");
    let named = run(&bench, &["--config", "fumehood.toml", "call", "notes", "read"]);
    assert_eq!(named.code, 3, "naming a configuration says nothing of its lock: {named:?}");
    bench.put("script.jsonl", "{\"calls\": [{\"name\": \"notes__read\", \"arguments\": {}}]}\n{\"text\": \"done\"}\n");
    let ran = run(&bench, &["run", "Read.", "--script", "script.jsonl"]);
    assert!(ran.stderr.contains("MCP server `other`: its approval in the lock is not yours"), "{ran:?}");
    assert!(!ran.stderr.contains("✓ notes__read"), "{ran:?}");
    assert!(!calls_server(&bench, &[]));
    let mut session = Session::start(&bench, &["--servers"]);
    assert_eq!(session.names(), Vec::<String>::new());
    let answer = session.request(1, "tools/call", json!({"name": "notes__read", "arguments": {}}));
    assert_eq!(answer["result"]["_meta"]["fumehood/error"]["kind"], "needs_approval", "{answer}");
    session.leave();
    assert!(!bench.path("started").exists(), "no program was started");
    let audit = run(&bench, &["audit", "--json"]).json();
    assert_eq!(audit[0]["is_approved"], false, "{audit}");
}

#[test]
fn approve_shows_who_approved_and_keeps_the_lock_as_it_is() {
    let bench = checkout(&publisher("one"));
    let lock = std::fs::read(bench.path("fumehood.lock")).unwrap();
    let shown = run(&bench, &["approve", "--check"]);
    assert_eq!(shown.code, 3, "{shown:?}");
    for words in [
        "fumehood.lock was changed by another person: 0 of 2 are unchanged since you approved them; not approved by \
         you: `notes`, `other`",
        "fumehood.lock already has this approval, by another person",
    ] {
        assert!(shown.stderr.contains(words), "{words}: {shown:?}");
    }
    assert!(shown.stdout.contains("notes was approved by another person, but not by you"), "{shown:?}");
    assert!(
        shown.stdout.contains("env: PLACE = \"home\"") && shown.stdout.contains("│ read() — A tool of a test."),
        "{shown:?}"
    );
    assert_eq!(run(&bench, &["approve", "notes", "--yes"]).code, 0);
    assert_eq!(run(&bench, &["call", "notes", "read"]).stdout.trim(), "one");
    assert!(!calls_server(&bench, &[]) && !bench.path("started").exists());
    let approved = run(&bench, &["approve", "--yes"]);
    assert!(approved.stderr.contains("1 of 2 are unchanged since you approved"), "{approved:?}");
    assert!(calls_server(&bench, &[]));
    assert_eq!(std::fs::read(bench.path("fumehood.lock")).unwrap(), lock, "git has nothing to report");
    assert_eq!(run(&bench, &["approve", "--check"]).code, 0);
}

#[test]
fn a_pull_that_changes_the_lock_makes_proposals_of_it() {
    let bench = checkout(&publisher("one"));
    assert_eq!(run(&bench, &["approve", "--yes"]).code, 0);
    let upstream = publisher("two");
    std::fs::copy(upstream.path("notes.wasm"), bench.path("notes.wasm")).unwrap();
    assert_refused(&bench, "`notes` changed since it was approved: component");
    std::fs::copy(upstream.path("fumehood.lock"), bench.path("fumehood.lock")).unwrap();
    assert_refused(&bench, "`notes` changed since it was approved: component");
    let json = run(&bench, &["--json", "approve", "notes", "--check"]).json();
    assert_eq!((&json["status"], &json["proposed"]), (&"needs_approval".into(), &true.into()), "{json}");
    assert_eq!(json["changes"][0]["what"], "component", "compared with what this user approved: {json}");
    assert!(calls_server(&bench, &[]), "its entry is unchanged");
    assert_eq!(run(&bench, &["approve", "notes", "--yes"]).code, 0);
    assert_eq!(run(&bench, &["call", "notes", "read"]).stdout.trim(), "two");
}

#[test]
fn a_lock_that_changes_under_a_server_is_not_believed() {
    let bench = checkout(&publisher("one"));
    assert_eq!(run(&bench, &["approve", "notes", "--yes"]).code, 0);
    let upstream = publisher("two");
    let mut session = Session::start(&bench, &["--watch"]);
    assert_eq!(session.names(), ["notes__read"]);
    pull(&upstream, &bench);
    session.says("its tools are served after `fumehood approve notes`");
    while !session.is_quiet_for(Duration::from_millis(500)) {}
    let answer = session.request(1, "tools/call", json!({"name": "notes__read", "arguments": {}}));
    assert_eq!(answer["result"]["_meta"]["fumehood/error"]["kind"], "needs_approval", "{answer}");
    // What the lock proposes is approved without a change of the lock.
    assert_eq!(run(&bench, &["approve", "notes", "--yes"]).code, 0);
    assert_eq!(session.next()["method"], "notifications/tools/list_changed", "{}", session.said());
    while !session.is_quiet_for(Duration::from_millis(500)) {}
    assert_eq!(session.names(), ["notes__read"]);
    session.leave();
}

#[test]
fn a_revocation_holds_whatever_lock_comes_later() {
    let publisher = publisher("one");
    let bench = checkout(&publisher);
    assert_eq!(run(&bench, &["approve", "--yes"]).code, 0);
    assert_eq!(run(&bench, &["approve", "--revoke", "notes"]).code, 0);
    pull(&publisher, &bench);
    assert_refused(&bench, "`notes` has an approval in the lock, but not by you");
    let revoked = run(&bench, &["approve", "--revoke", "notes"]);
    assert_eq!(revoked.code, 0, "proposals can be taken out of the lock, too: {revoked:?}");
    assert_refused(&bench, "`notes` was never approved");
}

#[test]
fn services_and_automation_accept_a_lock_explicitly() {
    let bench = checkout(&publisher("one"));
    let run_accepted = |arguments: &[&str]| run(&bench, &[&["--accept-lock"], arguments].concat());
    assert_eq!(run_accepted(&["call", "notes", "read"]).stdout.trim(), "one");
    assert!(calls_server(&bench, &["--accept-lock"]));
    assert_eq!(run_accepted(&["approve", "--check"]).code, 0);
    assert_refused(&bench, "`--accept-lock`");
    bench.put("notes.wasm", answering("two"));
    assert_eq!(run_accepted(&["call", "notes", "read"]).code, 3, "what the lock does not have is not accepted");
}

/// Runs a command of a user who has no folder for state.
fn run_without_state(bench: &Workbench, state: Option<PathBuf>, arguments: &[&str]) -> CommandOutput {
    let mut command = bench.command(arguments);
    match state {
        Some(state) => command.env("XDG_STATE_HOME", state),
        None => command.env_remove("XDG_STATE_HOME").env("HOME", ""),
    };
    Workbench::run_command(command)
}

#[test]
fn a_place_without_state_says_how_to_accept() {
    let bench = checkout(&publisher("one"));
    bench.put("no-folder", "");
    let state = Some(bench.path("no-folder"));
    let refused = run_without_state(&bench, state.clone(), &["call", "notes", "read", "--no-log"]);
    assert!(refused.code == 3 && refused.stderr.contains("`--accept-lock`"), "{refused:?}");
    let approved = run_without_state(&bench, state.clone(), &["approve", "notes", "--yes"]);
    assert_eq!(approved.code, 2, "{approved:?}");
    for words in ["your approvals cannot be saved in", "nothing was changed", "`--accept-lock`"] {
        assert!(approved.stderr.contains(words), "{words}: {approved:?}");
    }
    let accepted = run_without_state(&bench, state.clone(), &["--accept-lock", "call", "notes", "read", "--no-log"]);
    assert_eq!((accepted.code, accepted.stdout.trim()), (0, "one"), "{accepted:?}");
    // A lock is made there for those who accept it.
    bench.put("notes.wasm", answering("two"));
    let approved = run_without_state(&bench, state.clone(), &["--accept-lock", "approve", "notes", "--yes"]);
    assert_eq!(approved.code, 0, "{approved:?}");
    let accepted = run_without_state(&bench, state, &["--accept-lock", "call", "notes", "read", "--no-log"]);
    assert_eq!((accepted.code, accepted.stdout.trim()), (0, "two"), "{accepted:?}");
}

fn run_signed(bench: &Workbench, arguments: &[&str]) -> CommandOutput {
    let mut command = bench.command(arguments);
    command.env("FUMEHOOD_KEY_PASSPHRASE", "correct horse battery");
    Workbench::run_command(command)
}

#[test]
fn signed_approvals_count_for_those_who_trust_the_key() {
    let team = publisher("one");
    assert_eq!(run_signed(&team, &["key", "new", "team"]).code, 0);
    let signed = run_signed(&team, &["approve", "--yes", "--sign", "team"]);
    assert!(signed.code == 0 && signed.stderr.contains("signed your approvals in fumehood.lock"), "{signed:?}");
    let pem = run_signed(&team, &["key", "export", "team"]).stdout;
    let key: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let bench = checkout(&team);
    assert_refused(&bench, "`notes` has an approval in the lock, but not by you");
    bench.put("fumehood.toml", format!("[approval]\nkeys = [\"{key}\"]\n{CONFIGURATION}"));
    assert_eq!(run(&bench, &["call", "notes", "read"]).code, 3, "keys are trusted with the configuration");
    let trusted = run(&bench, &["trust", "--yes"]);
    assert!(trusted.stdout.contains("approvals in the lock that are signed with the key"), "{trusted:?}");
    assert_eq!(run(&bench, &["call", "notes", "read"]).stdout.trim(), "one");
    assert!(calls_server(&bench, &[]));
    let lock = std::fs::read_to_string(bench.path("fumehood.lock")).unwrap();
    bench.put("fumehood.lock", lock.replacen("signature = \"M", "signature = \"N", 9));
    assert_refused(&bench, "`notes` has an approval in the lock, but not by you");
    bench.put("fumehood.lock", lock);
    std::fs::copy(publisher("two").path("notes.wasm"), bench.path("notes.wasm")).unwrap();
    assert_refused(&bench, "`notes` changed since it was approved: component");
}

#[test]
fn malformed_keys_of_approvals_are_faults() {
    let bench = Workbench::new();
    bench.put("fumehood.toml", "[approval]\nkeys = [\"AAAA\"]\n");
    let ran = bench.run(&["config", "check"]);
    assert!(ran.code == 2 && ran.stderr.contains("invalid public key"), "{ran:?}");
}
