//! `fumehood log`: records can be found, and a change of them is detected.

use std::path::Path;
use std::process::Stdio;

use expect_test::expect;
use serde_json::Value;

use super::workbench::{CommandOutput, Workbench};

const SCRIPT: &str = r#"
{"calls": [{"name": "calculator__add", "arguments": {"a": "3", "b": 5}, "id": "first"}]}
{"calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}, "id": "second"}]}
{"text": "It is 8, said the tool.", "expect": "8"}
"#;

/// Creates a folder with a log of one session, with one call that was refused and one that ran.
fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("script.jsonl", SCRIPT);
    let run = ["run", "Add 3 and 5", "--tool", "calculator.wasm", "--script", "script.jsonl", "--actor", "ada"];
    let ran = bench.run(&[&run[..], &["--log", "e.db"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    bench
}

fn log(bench: &Workbench, arguments: &[&str]) -> CommandOutput {
    bench.run(&[&["log"], arguments, &["--log", "e.db"]].concat())
}

fn rows(ran: &CommandOutput) -> Vec<Value> {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    ran.json().as_array().unwrap().clone()
}

#[test]
fn calls_are_listed_the_newest_first() {
    let bench = bench();
    let rows = rows(&log(&bench, &["--json"]));
    let told: Vec<[&str; 4]> = rows
        .iter()
        .map(|row| ["model_call", "tool", "status", "actor"].map(|name| row[name].as_str().unwrap()))
        .collect();
    let tool = "calculator__add";
    assert_eq!(told, [["second", tool, "ok", "ada"], ["first", tool, "invalid_arguments", "ada"]]);
    assert!(rows[0]["duration_ms"].is_number() && rows[1].get("duration_ms").is_none());
    let ran = log(&bench, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let id = rows[0]["call"].as_str().unwrap();
    assert!(!ran.stdout.contains(&id[..12]), "ids are short: {ran:?}");
    for words in ["when (UTC)", &id[..7], "invalid_arguments", "ada"] {
        assert!(ran.stdout.contains(words), "{words}: {ran:?}");
    }
    assert_eq!(log(&bench, &["list", "--json"]).stdout, log(&bench, &["--json"]).stdout);
}

#[test]
fn sessions_are_listed_with_their_messages() {
    let rows = rows(&log(&bench(), &["--of", "sessions", "--json"]));
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0]["status"], &rows[0]["calls"]), (&"answered".into(), &2.into()));
    assert_eq!(rows[0]["message"], "Add 3 and 5");
}

fn assert_row_count(bench: &Workbench, arguments: &[&str], expected: usize) {
    let ran = log(bench, &[arguments, &["--json"]].concat());
    assert_eq!(rows(&ran).len(), expected, "{arguments:?}: {ran:?}");
}

#[test]
fn filters_leave_what_fits() {
    let bench = bench();
    assert_row_count(&bench, &["--status", "ok"], 1);
    assert_row_count(&bench, &["--status", "deadline"], 0);
    assert_row_count(&bench, &["--tool", "calculator__add"], 2);
    assert_row_count(&bench, &["--tool", "calculator__divide"], 0);
    assert_row_count(&bench, &["--actor", "ada"], 2);
    assert_row_count(&bench, &["--actor", "bob"], 0);
    assert_row_count(&bench, &["--session", "nowhere"], 0);
    assert_row_count(&bench, &["--since", "1h"], 2);
    assert_row_count(&bench, &["--since", "2999-01-01"], 0);
    assert_row_count(&bench, &["--until", "2000-01-01T00:00:00Z"], 0);
    assert_row_count(&bench, &["--limit", "1"], 1);
    assert_row_count(&bench, &["--kind", "tool_rejected"], 1);
    assert_row_count(&bench, &["--of", "records", "--kind", "model_asked"], 3);
    assert_row_count(&bench, &["--of", "sessions", "--status", "answered"], 1);
    assert_row_count(&bench, &["--of", "sessions", "--status", "cancelled"], 0);
    let none = log(&bench, &["--actor", "bob"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
    assert!(none.stderr.contains("no matching records"), "{none:?}");
}

fn kinds_of(call: &Value, part: &str) -> Vec<String> {
    let rows = call[part].as_array().unwrap();
    rows.iter().map(|row| row["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_call_is_shown_with_its_causal_chain() {
    let bench = bench();
    let ran = log(&bench, &["show", "second"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for words in [
        "  calculator__add",
        "alias      second",
        "actor      ada",
        "digest     sha256:",
        "outcome    ok",
        r#"arguments  {"a":3,"b":5}"#,
        r#"result     {"result":8}"#,
        "fuel",
        "Before the call",
        "session_started",
        "Add 3 and 5",
        "The call",
        "tool_started",
        "tool_finished",
        "tool_result",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    let calls = log(&bench, &["show", "second", "--json"]).json();
    assert_eq!(kinds_of(&calls[0], "before")[..2], ["session_started", "user_message"]);
    assert_eq!(kinds_of(&calls[0], "call"), ["verdict", "tool_started", "tool_finished", "tool_result"]);
    let ran = log(&bench, &["show", "first"]);
    assert!(ran.stdout.contains("outcome    invalid_arguments"), "{ran:?}");
}

#[test]
fn a_call_is_found_by_its_own_id_where_a_model_used_one_twice() {
    let bench = bench();
    let again = ["run", "Add 3 and 5", "--tool", "calculator.wasm", "--script", "script.jsonl", "--log", "e.db"];
    assert_eq!(bench.run(&again).code, 0);
    let ids: Vec<String> = rows(&log(&bench, &["--json"]))
        .iter()
        .filter(|row| row["model_call"] == "second")
        .map(|row| row["call"].as_str().unwrap().to_owned())
        .collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    let ran = log(&bench, &["show", "second"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(ids.iter().all(|id| ran.stderr.contains(&format!("  {}  20", &id[..7]))), "{ran:?}");
    for id in &ids {
        let calls = log(&bench, &["show", id, "--json"]).json();
        assert_eq!(calls.as_array().unwrap().len(), 1, "{calls}");
        let shown = log(&bench, &["show", id]).stdout;
        assert!(
            shown.starts_with(&format!("{}  calculator__add", &id[..7])) && shown.contains(&format!("id         {id}"))
        );
        assert_eq!(log(&bench, &["show", &id[..7]]).stdout, shown, "a prefix that no other id has");
    }
}

#[test]
fn a_prefix_of_several_ids_is_answered_with_their_list() {
    let bench = bench();
    let run = ["run", "Add 3 and 5", "--tool", "calculator.wasm", "--script", "script.jsonl", "--log", "e.db"];
    // Of eighteen ids, two begin with the same of sixteen digits.
    (0..8).for_each(|_| assert_eq!(bench.run(&run).code, 0));
    let mut ids: Vec<String> =
        rows(&log(&bench, &["--json"])).iter().map(|row| row["call"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    let alike: Vec<&String> =
        ids.iter().filter(|id| ids.iter().filter(|other| other[..1] == id[..1]).count() > 1).collect();
    let first = &alike[0][..1];
    let alike: Vec<&&String> = alike.iter().filter(|id| id.starts_with(first)).collect();
    let ran = log(&bench, &["show", first]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    let message = format!("error: {} calls have ids that start with `{first}`; type more characters:\n", alike.len());
    assert!(ran.stderr.starts_with(&message), "{ran:?}");
    assert!(alike.iter().all(|id| ran.stderr.contains(&format!("  {}  20", &id[..7]))), "{ran:?}");
    assert_eq!(ran.stderr.matches("calculator__add").count(), alike.len(), "{ran:?}");
    assert_eq!(log(&bench, &["show", first, "--session", "nowhere"]).code, 2);
}

#[test]
fn a_call_that_is_not_there_is_an_error() {
    let bench = bench();
    expect![[r#"
        ── stderr
        error: unknown call `third`; `fumehood log` lists calls with their ids
        ── exit 2
    "#]]
    .assert_eq(&log(&bench, &["show", "third"]).shown());
    let ran = log(&bench, &["show", "first", "--session", "nowhere"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn an_export_is_one_record_on_each_line() {
    let bench = bench();
    let ran = log(&bench, &["export"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let records: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seqs: Vec<u64> = records.iter().map(|row| row["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=records.len() as u64).collect::<Vec<_>>());
    assert_eq!(records[0]["kind"], "session_started");
    assert_eq!(records.last().unwrap()["kind"], "session_finished");
    let session = records[0]["session"].as_str().unwrap();
    assert_eq!(log(&bench, &["export", "--session", session]).stdout, ran.stdout);
    assert_eq!(log(&bench, &["export", "--session", "nowhere"]).stdout, "");
    assert_eq!(log(&bench, &["export", "-n", "2"]).stdout.lines().count(), 2);
}

#[test]
fn following_prints_what_is_there_and_what_comes() {
    let bench = bench();
    let arguments = ["log", "follow", "--json", "-n", "1", "--idle", "30s", "--kind", "user_message", "--log", "e.db"];
    let mut child = bench.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["body"]["text"], "Add 3 and 5");
    let run = ["run", "And now?", "--tool", "calculator.wasm", "--script", "script.jsonl", "--log", "e.db"];
    assert_eq!(bench.run(&run).code, 0);
    assert_eq!(next()["body"]["text"], "And now?");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let ran = log(&bench, &["follow", "--idle", "10ms"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("session_finished"), "{ran:?}");
}

/// Replaces text in the file by other text of the same length.
fn change(path: &Path, from: &str, to: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    let places: Vec<usize> = (0..bytes.len()).filter(|place| bytes[*place..].starts_with(from.as_bytes())).collect();
    assert!(!places.is_empty(), "{from}");
    for place in places {
        bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn an_edited_row_is_named_and_the_exit_code_says_so() {
    let bench = bench();
    let ran = log(&bench, &["verify", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report = ran.json();
    assert_eq!((&report["status"], &report["finding"]), (&"ok".into(), &Value::Null));
    assert_eq!(report["rows"], report["sealed_up_to"]);
    let mark = report["mark"].as_str().unwrap();
    assert_eq!(log(&bench, &["verify", "--mark", mark]).code, 0);
    let other = format!("{}:{}", mark.split_once(':').unwrap().0, "00".repeat(32));
    let ran = log(&bench, &["verify", "--mark", &other]);
    assert!(ran.code == 9 && ran.stdout.contains("does not match the mark"), "{ran:?}");

    change(&bench.path("e.db"), "It is 8, said", "It is 9, said");
    let ran = log(&bench, &["verify"]);
    assert_eq!(ran.code, 9, "{ran:?}");
    assert!(ran.stdout.contains("was edited: it does not match its hash"), "{ran:?}");
    let report = log(&bench, &["verify", "--json"]).json();
    assert_eq!((&report["status"], &report["finding"]["problem"]), (&"tampered".into(), &"edited".into()));
}

fn assert_log_refused(bench: &Workbench, arguments: &[&str], code: i32, words: &[&str]) {
    let ran = bench.run(arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{arguments:?}: {ran:?}");
    words.iter().for_each(|words| assert!(ran.stderr.contains(words), "{words}: {ran:?}"));
}

#[test]
fn a_missing_or_foreign_log_is_an_error_with_a_hint() {
    let bench = Workbench::new();
    bench.put("notes.txt", "these are my notes, not a database. ".repeat(40));
    assert_log_refused(&bench, &["log", "--log", "none.db"], 2, &["no event log at none.db", "`--log FILE`"]);
    assert_log_refused(
        &bench,
        &["log"],
        2,
        &["state/fumehood/events.db", "`fumehood run` and `fumehood call` create it"],
    );
    assert_log_refused(&bench, &["log", "verify", "--log", "notes.txt"], 7, &["notes.txt", "is not a database"]);
    assert!(!bench.path("none.db").exists() && !bench.path("state").exists(), "nothing is made by looking");
}

#[test]
fn a_damaged_log_is_reported() {
    let bench = bench();
    let path = bench.path("e.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    for arguments in [&["verify"][..], &["export"], &[]] {
        let ran = log(&bench, arguments);
        assert_eq!(ran.code, 7, "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains("damaged"), "{arguments:?}: {ran:?}");
    }
}

fn assert_arguments_refused(bench: &Workbench, arguments: &[&str], words: &str) {
    let ran = log(bench, arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}: {ran:?}");
    assert!(ran.stderr.contains(words), "{words}: {ran:?}");
}

#[test]
fn invalid_arguments_are_refused() {
    let bench = bench();
    assert_arguments_refused(&bench, &["--kind", "tool"], "expected one of session_started");
    assert_arguments_refused(&bench, &["--since", "yesterday"], "a duration (`2h` for two hours ago)");
    assert_arguments_refused(&bench, &["--of", "calls", "--kind", "verdict"], "add `--of records`");
    assert_arguments_refused(&bench, &["--of", "sessions", "--tool", "x"], "sessions cannot be selected by tool");
    assert_arguments_refused(&bench, &["--tool", "x", "export"], "write filters after the action");
    assert_arguments_refused(&bench, &["verify", "--mark", "1:2"], "expected ROW:HASH");
    assert_arguments_refused(&bench, &["verify", "--tool", "x"], "unexpected argument '--tool'");
    assert_arguments_refused(&bench, &["show"], "<CALL>");
}

#[cfg(unix)]
#[test]
fn the_usual_log_is_made_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Workbench::new();
    bench.put("script.jsonl", r#"{"text": "Hello."}"#);
    assert_eq!(bench.run(&["run", "Hello", "--script", "script.jsonl"]).code, 0);
    let mode = |path: &str| std::fs::metadata(bench.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("state/fumehood"), mode("state/fumehood/events.db")), (0o700, 0o600));
    assert_eq!(rows(&bench.run(&["log", "--of", "sessions", "--json"])).len(), 1);
    assert_eq!(bench.run(&["run", "Hello", "--script", "script.jsonl", "--no-log"]).code, 0);
    assert_eq!(rows(&bench.run(&["log", "--of", "sessions", "--json"])).len(), 1, "nothing was added");
}

#[test]
fn a_denied_call_shows_what_was_refused() {
    let bench = Workbench::new();
    bench.example("files");
    let ran = bench.run(&["call", "files.wasm", "read", "path=/docs/rules.txt", "--log", "e.db"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let id = rows(&log(&bench, &["--json"]))[0]["call"].as_str().unwrap().to_owned();
    let shown = log(&bench, &["show", &id]);
    assert!(shown.stdout.contains("files: opening a folder was refused, because"), "{shown:?}");
    let head = log(&bench, &["head"]);
    bench.put("checkpoint.txt", &head.stdout);
    let ran = log(&bench, &["verify", "--since", "checkpoint.txt"]);
    assert!(ran.code == 2 && ran.stderr.contains("write `@checkpoint.txt`"), "{ran:?}");
}
