//! `fumehood log verify` and `head`: an incomplete check is not a success, and a checkpoint finds changes that no seal
//! can.

use std::os::unix::fs::PermissionsExt as _;

use super::workbench::{CommandOutput, Workbench};

/// Creates a folder with a log of some calls.
fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator");
    add(&bench);
    bench
}

fn add(bench: &Workbench) {
    let ran = bench.run(&["call", "calculator.wasm", "add", r#"{"a": 3, "b": 5}"#, "--log", "e.db"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn log(bench: &Workbench, arguments: &[&str]) -> CommandOutput {
    bench.run(&[&["log"], arguments, &["--log", "e.db"]].concat())
}

fn head(bench: &Workbench) -> String {
    let ran = log(bench, &["head"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 1), "{ran:?}");
    ran.stdout.trim().to_owned()
}

/// Checks the exit code, and that all words are on one of the streams.
fn check(ran: &CommandOutput, code: i32, words: &[&str]) {
    assert_eq!(ran.code, code, "{ran:?}");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    words.iter().for_each(|words| assert!(said.contains(words), "{words}: {ran:?}"));
}

fn tamper(bench: &Workbench, sql: &str) {
    rusqlite::Connection::open(bench.path("e.db")).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn without_its_key_a_log_is_not_in_order() {
    let bench = bench();
    check(&log(&bench, &["verify"]), 0, &["in order: ", "the key e.db.key is next to the log", "`--log-key FILE`"]);
    std::fs::remove_file(bench.path("e.db.key")).unwrap();
    // Anybody can compute the hashes anew.
    let ran = log(&bench, &["verify"]);
    check(&ran, 10, &["not verified: ", "the seals were not checked", "e.db.key is missing", "`--without-key`"]);
    assert!(!ran.stdout.contains("in order:") && !ran.stdout.contains("to keep elsewhere"), "{ran:?}");
    let json = log(&bench, &["verify", "--json"]);
    assert_eq!((json.code, &json.json()["status"]), (10, &"unverified".into()), "{json:?}");
    check(
        &log(&bench, &["verify", "--without-key"]),
        0,
        &["in order: ", "the seals were not checked (`--without-key`)"],
    );
    tamper(&bench, "UPDATE records SET body = '{}' WHERE seq = 2");
    check(&log(&bench, &["verify", "--without-key"]), 9, &["row 2 was edited"]);
}

#[test]
fn a_key_that_others_may_read_proves_nothing() {
    let bench = bench();
    let set = |mode| std::fs::set_permissions(bench.path("e.db.key"), std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o644);
    check(&log(&bench, &["verify"]), 10, &["other users can read the key e.db.key (mode 644)", "chmod 600"]);
    let ran = bench.run(&["call", "calculator.wasm", "add", r#"{"a": 3, "b": 5}"#, "--log", "e.db"]);
    assert_eq!(ran.stdout, "", "{ran:?}");
    check(&ran, 7, &["nothing was run", "other users can read"]);
    set(0o600);
    check(&log(&bench, &["verify"]), 0, &["in order: "]);
}

#[test]
fn a_key_elsewhere_is_used_and_not_warned_of() {
    let bench = Workbench::new();
    bench.example("calculator");
    std::fs::create_dir(bench.path("keys")).unwrap();
    let key = ["--log", "e.db", "--log-key", "keys/seal"];
    let call = ["call", "calculator.wasm", "add", r#"{"a": 3, "b": 5}"#];
    assert_eq!(bench.run(&[&call[..], &key].concat()).code, 0);
    assert!(bench.path("keys/seal").exists() && !bench.path("e.db.key").exists());
    let ran = bench.run(&[&["log", "verify"], &key[..]].concat());
    check(&ran, 0, &["in order: "]);
    assert_eq!(ran.stderr, "");
    check(&log(&bench, &["verify"]), 10, &["e.db.key is missing"]);
    // No tool can be granted the folder of the key.
    bench.program("files");
    let read = ["call", "files.wasm", "read", "{}", "--allow-read", "./keys:/keys"];
    check(&bench.run(&[&read[..], &key].concat()), 6, &["which has files of the host"]);
}

#[test]
fn a_log_cut_off_with_its_seals_is_found_by_a_checkpoint() {
    let bench = bench();
    add(&bench);
    let checkpoint = head(&bench);
    assert!(checkpoint.starts_with("fumehood-log-v1 "), "{checkpoint}");
    add(&bench);
    check(&log(&bench, &["verify", "--since", &checkpoint]), 0, &["consistent with the checkpoint"]);
    bench.put("witness.txt", format!("an older line that is not read\n{checkpoint}\n\n"));
    check(&log(&bench, &["verify", "--since", "@witness.txt"]), 0, &["consistent with the checkpoint"]);
    tamper(&bench, "DELETE FROM records WHERE seq > 5; DELETE FROM anchors WHERE seq > 5");
    check(&log(&bench, &["verify"]), 0, &["in order: 5 rows"]);
    check(&log(&bench, &["verify", "--since", &checkpoint]), 9, &["rows 6 to 10 were removed"]);
    let json = log(&bench, &["verify", "--json", "--since", &checkpoint]).json();
    assert_eq!((&json["status"], &json["finding"]["problem"]["missing"]["through"]), (&"tampered".into(), &10.into()));
}

#[test]
fn log_is_compared_with_all_its_checkpoints() {
    let bench = bench();
    let early = head(&bench);
    add(&bench);
    let late = head(&bench);
    let call = ["call", "calculator.wasm", "add", r#"{"a": 3, "b": 5}"#, "--log", "other.db"];
    assert_eq!(bench.run(&call).code, 0);
    let of_other = bench.run(&["log", "head", "--log", "other.db"]).stdout;
    bench.put("witness.txt", format!("{late}\n{early}\n{of_other}"));
    let verify = || log(&bench, &["verify", "--since", "@witness.txt"]);
    check(&verify(), 10, &["1 checkpoints of another log could not be compared"]);
    bench.put("witness.txt", format!("{late}\n{early}\n"));
    check(&verify(), 0, &["nothing up to row 10 was changed"]);
    tamper(&bench, "DELETE FROM records WHERE seq > 5; DELETE FROM anchors WHERE seq > 5");
    assert_eq!(head(&bench).split(' ').nth(3), early.split(' ').nth(3), "the log is as it was at row 5");
    check(&verify(), 9, &["rows 6 to 10 were removed"]);
    // Row 5 had another hash when it was kept first.
    let hash = early.split(' ').nth(3).unwrap();
    bench.put("witness.txt", format!("{}\n{early}\n", early.replace(hash, &"ab".repeat(32))));
    check(&verify(), 9, &["row 5 does not match the mark"]);
    bench.put("witness.txt", of_other);
    check(&verify(), 9, &["this is not the log of the checkpoint"]);
    // What was rolled back is found as well when the log has outgrown it and was marked again.
    add(&bench);
    add(&bench);
    bench.put("witness.txt", format!("{early}\n{late}\n{}\n", head(&bench)));
    check(&verify(), 9, &["row 10 does not match the mark"]);
}

#[test]
fn file_of_checkpoints_is_read_as_a_whole_or_refused() {
    let bench = bench();
    let checkpoint = head(&bench);
    let remarks = "a remark of some length, of which there are many\n".repeat(1 << 16);
    bench.put("witness.txt", format!("{remarks}{checkpoint}\n"));
    check(&log(&bench, &["verify", "--since", "@witness.txt"]), 0, &["consistent with the checkpoint"]);
    let file = std::fs::OpenOptions::new().write(true).open(bench.path("witness.txt")).unwrap();
    file.set_len((64 << 20) + 1).unwrap();
    let ran = log(&bench, &["verify", "--since", "@witness.txt"]);
    check(&ran, 2, &["witness.txt is larger than 64 MiB; keep its last lines only"]);
}

#[test]
fn another_log_with_its_own_key_is_found_by_a_checkpoint() {
    let bench = bench();
    let checkpoint = head(&bench);
    for file in ["e.db", "e.db.key"] {
        std::fs::remove_file(bench.path(file)).unwrap();
    }
    add(&bench);
    check(&log(&bench, &["verify"]), 0, &["in order: "]);
    check(&log(&bench, &["verify", "--since", &checkpoint]), 9, &["this is not the log of the checkpoint"]);
}

#[test]
fn retention_is_reported_and_proves_nothing() {
    let bench = bench();
    let early = head(&bench);
    bench.put("fumehood.toml", "[log]\nkeep_rows = 3\n");
    let call = ["call", "--config", "fumehood.toml", "calculator.wasm", "add", r#"{"a": 3, "b": 5}"#, "--log", "e.db"];
    assert_eq!(bench.run(&call).code, 0);
    let late = head(&bench);
    check(&log(&bench, &["verify", "--since", &late]), 0, &["retention removed rows up to 7"]);
    let ran = log(&bench, &["verify", "--since", &early]);
    check(&ran, 10, &["retention removed row 5 of the checkpoint", "a checkpoint after row 7"]);
    // A configuration that keeps all records cannot have removed any, so there is a warning.
    std::fs::remove_file(bench.path("fumehood.toml")).unwrap();
    check(&log(&bench, &["verify"]), 0, &["the configuration keeps all records"]);
}

#[test]
fn a_checkpoint_that_is_none_is_refused() {
    let bench = bench();
    check(&log(&bench, &["verify", "--since", "7:00"]), 2, &["unknown checkpoint format `7:00`"]);
    check(&log(&bench, &["verify", "--since", "@nowhere"]), 2, &["nowhere cannot be read"]);
    check(&log(&bench, &["verify", "--since", "fumehood-log-v1 00 1"]), 2, &["its hash is missing or malformed"]);
}
