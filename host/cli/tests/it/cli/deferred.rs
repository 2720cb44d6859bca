//! Calls that wait for approval: answered from another terminal, by another program, or not at all.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::workbench::{CommandOutput, Workbench};

const CALLS: &str = r#"{"calls": [{"name": "calculator__multiply", "arguments": {"a": 2, "b": 2}}, {"name": "calculator__add", "arguments": {"a": 3, "b": 5}}]}"#;

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("calls.jsonl", format!("{CALLS}\n{{\"text\": \"Done.\"}}"));
    bench.put("answer.jsonl", r#"{"text": "Done."}"#);
    bench
}

fn agent(bench: &Workbench, arguments: &[&str], script: &str) -> CommandOutput {
    bench.run(&[arguments, &["--tool", "calculator.wasm", "--ask", "calculator__add", "--script", script]].concat())
}

/// Starts the session `s`, whose addition waits.
fn waiting() -> Workbench {
    let bench = bench();
    let ran = agent(&bench, &["run", "Go", "--session", "s"], "calls.jsonl");
    assert_eq!((ran.code, ran.stdout.as_str()), (11, ""), "{ran:?}");
    for part in ["s:1", "calculator__add is waiting for approval", "fumehood approve-call", "fumehood run --resume s"] {
        assert!(ran.stderr.contains(part), "{part} is not in: {}", ran.stderr);
    }
    bench
}

/// Returns the number of times that a tool was started.
fn started(bench: &Workbench, tool: &str) -> usize {
    let ran = bench.run(&["log", "export"]);
    let records = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["kind"] == "tool_started" && record["tool"] == tool).count()
}

#[test]
fn call_that_waits_is_approved_and_runs_once() {
    let bench = waiting();
    let listed = bench.run(&["sessions", "list", "--json"]).json();
    assert_eq!((&listed[0]["state"], &listed[0]["waiting"][0]["id"]), (&"waiting_for_approval".into(), &"s:1".into()));
    assert!(bench.run(&["sessions", "list"]).stdout.contains("is waiting for approval: s:1 calculator__add"));
    let shown = bench.run(&["sessions", "show", "s"]).stdout;
    assert!(shown.contains("waiting for approval of s:1 calculator__add"), "{shown}");
    let calls = bench.run(&["approve-call", "--json"]).json();
    assert_eq!((&calls[0]["tool"], &calls[0]["arguments"]), (&"calculator__add".into(), &json!({"a": 3, "b": 5})));
    assert!(bench.run(&["approve-call"]).stdout.contains(r#"calculator__add {"a":3,"b":5}"#));
    let ran = bench.run(&["approve-call", "s:1"]);
    assert_eq!(ran.code, 11, "it is shown, and waits: {ran:?}");
    assert!(ran.stdout.contains("calculator__add"), "{ran:?}");

    // Nobody has answered: the session goes on waiting, and takes no other task.
    let ran = agent(&bench, &["run", "Another", "--resume", "s"], "answer.jsonl");
    assert_eq!(ran.code, 11, "{ran:?}");
    assert!(ran.stderr.contains("the task was not started"), "{ran:?}");

    let ran = bench.run(&["approve-call", "s:1", "--yes", "--by", "ada"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("resume the session with `fumehood run --resume s`"), "{ran:?}");
    assert_eq!((started(&bench, "calculator__add"), started(&bench, "calculator__multiply")), (0, 1));
    let ran = bench.run(&["approve-call", "s:1", "--no"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("was already answered with yes at 20"), "{ran:?}");

    bench.put("eight.jsonl", r#"{"text": "Done.", "expect": "8"}"#);
    let ran = agent(&bench, &["run", "--resume", "s"], "eight.jsonl");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Done.\n"), "{ran:?}");
    assert_eq!((started(&bench, "calculator__add"), started(&bench, "calculator__multiply")), (1, 1));
    let ran = bench.run(&["approve-call", "s:1", "--yes"]);
    assert!(ran.code == 2 && ran.stderr.contains("already answered"), "{ran:?}");
    // The log tells the whole story of the call under the id of the model: it waited, was allowed, and ran.
    let story = bench.run(&["log", "show", "call_1_2"]);
    let at = |part: &str| story.stdout.find(part).unwrap_or_else(|| panic!("{part}: {story:?}"));
    assert!(at("defer") < at("Answer") && at("Answer") < at("outcome  "), "{story:?}");
    let records = bench.run(&["log", "export"]).stdout;
    let verdict = records.lines().find(|line| line.contains(r#""question":"s:1""#)).unwrap();
    assert!(verdict.contains(r#""name":"ada""#), "{verdict}");
    assert_eq!(bench.run(&["log", "verify"]).code, 0);
}

#[test]
fn refused_call_is_told_with_the_reason() {
    let bench = waiting();
    assert_eq!(bench.run(&["approve-call", "s:1", "--no", "--reason", "not today"]).code, 0);
    bench.put("no.jsonl", r#"{"text": "Done.", "expect": "not today"}"#);
    let ran = agent(&bench, &["run", "--resume", "s"], "no.jsonl");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Done.\n"), "{ran:?}");
    assert_eq!(started(&bench, "calculator__add"), 0);
}

#[test]
fn one_of_two_answers_at_once_counts() {
    let bench = waiting();
    let answer = |flag: &str| {
        let output = (Stdio::null(), Stdio::piped());
        bench.command(&["approve-call", "s:1", flag]).stdout(output.0).stderr(output.1).spawn().unwrap()
    };
    let both: Vec<Child> = ["--yes", "--no", "--yes"].map(answer).into();
    let ended: Vec<_> = both.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let codes: Vec<i32> = ended.iter().map(|output| output.status.code().unwrap()).collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{ended:?}");
    for output in ended.iter().filter(|output| output.status.code() != Some(0)) {
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains("was already answered"), "{told}");
    }
}

#[test]
fn other_powers_or_code_are_asked_about_again() {
    let bench = waiting();
    assert_eq!(bench.run(&["approve-call", "s:1", "--yes"]).code, 0);
    std::fs::create_dir(bench.path("docs")).unwrap();
    let ran = agent(&bench, &["run", "--resume", "s", "--allow-read", "docs:/docs"], "answer.jsonl");
    assert_eq!(ran.code, 11, "{ran:?}");
    assert!(ran.stderr.contains("s:2"), "{ran:?}");
    assert_eq!(started(&bench, "calculator__add"), 0);
    assert_eq!(bench.run(&["approve-call", "s:2", "--yes"]).code, 0);
    let ran = agent(&bench, &["run", "--resume", "s", "--allow-read", "docs:/docs"], "answer.jsonl");
    assert_eq!((ran.code, started(&bench, "calculator__add")), (0, 1), "{ran:?}");
}

#[test]
fn calls_that_do_not_wait_are_said_to() {
    let bench = bench();
    let ran = bench.run(&["approve-call"]);
    assert!(ran.code == 2 && ran.stderr.contains("no event log"), "{ran:?}");
    assert_eq!(agent(&bench, &["run", "Go", "--session", "s"], "calls.jsonl").code, 11);
    for (arguments, says) in [
        (&["approve-call", "t:1", "--yes"][..], "waiting: s:1"),
        (&["approve-call", "s:7", "--yes"], "no call `s:7` is waiting"),
        (&["approve-call", "s", "--yes"], "no call `s` is waiting"),
        (&["approve-call", "s:1", "--yes", "--no"], "cannot be used with"),
        (&["approve-call", "--yes"], "ID"),
        (&["run", "Go", "--approve", "defer"], "name one with `--session ID`"),
        (&["run", "Go", "--approve", "json"], "needs `--json`"),
        (&["chat", "--approve", "json", "--json"], "works only with `run`"),
        (&["run", "-", "--approve", "json", "--json"], "give the task as an argument"),
    ] {
        let script: &[&str] = if arguments[0] == "approve-call" { &[] } else { &["--script", "calls.jsonl"] };
        let ran = bench.run(&[arguments, script].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        assert!(format!("{}{}", ran.stderr, ran.stdout).contains(says), "{says} is not in: {ran:?}");
    }
    // The session is removed: so are its calls.
    assert_eq!(bench.run(&["sessions", "rm", "s"]).code, 0);
    let ran = bench.run(&["approve-call", "s:1", "--yes"]);
    assert!(ran.code == 2 && ran.stderr.contains("none waits"), "{ran:?}");
}

#[test]
fn settings_say_what_happens_where_nobody_can_be_asked() {
    let told = "Done.\n";
    for (config, arguments, expected) in [
        ("", &["run", "Go"][..], (0, told)),
        ("", &["run", "Go", "--session", "a", "--approve", "refuse"], (0, told)),
        ("[agent]\napproval = \"refuse\"\n", &["run", "Go", "--session", "b"], (0, told)),
        ("[agent]\napproval = \"refuse\"\n", &["run", "Go", "--session", "c", "--approve", "defer"], (11, "")),
        ("[agent]\napproval = \"defer\"\n", &["run", "Go"], (0, told)),
        ("[agent]\napproval = \"defer\"\n", &["chat", "--session", "d"], (11, "")),
    ] {
        let bench = bench();
        bench.put("fumehood.toml", config);
        let options = ["--tool", "calculator.wasm", "--ask", "calculator__add", "--script", "calls.jsonl"];
        let ran = bench.run_with_input(&[arguments, &options].concat(), "Go\nMore\n");
        assert_eq!((ran.code, ran.stdout.as_str()), expected, "{config} {arguments:?}: {ran:?}");
        assert_eq!(started(&bench, "calculator__add"), 0, "{config} {arguments:?}");
    }
}

/// A run whose questions and answers are lines.
struct Lines {
    running: Child,
    lines: Box<dyn Iterator<Item = Value>>,
}

impl Lines {
    fn start(bench: &Workbench, more: &[&str]) -> Self {
        let usual =
            ["run", "Go", "--json", "--approve", "json", "--tool", "calculator.wasm", "--script", "calls.jsonl"];
        let ask = ["--ask", "calculator__add", "--ask", "calculator__multiply"];
        let mut command = bench.command(&[&usual, &ask[..], more].concat());
        let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(running.stdout.take().unwrap()).lines();
        let lines = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
        Self { running, lines: Box::new(lines) }
    }

    fn write(&mut self, line: &str) {
        writeln!(self.running.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn next(&mut self, event: &str) -> Value {
        self.lines.find(|line| line["event"] == event).unwrap()
    }

    /// Returns the outcome, and the exit code.
    fn end(mut self) -> (Value, i32) {
        let outcome = self.next("outcome");
        (outcome, self.running.wait().unwrap().code().unwrap())
    }
}

#[test]
fn program_answers_over_lines_of_json() {
    let bench = bench();
    let mut run = Lines::start(&bench, &[]);
    let questions = [run.next("approval_requested"), run.next("approval_requested")];
    let of = |tool: &str| questions.iter().find(|question| question["tool"] == tool).unwrap();
    let add = of("calculator__add");
    let multiply = of("calculator__multiply");
    assert_eq!((&add["about"], &add["arguments"]), (&"call".into(), &json!({"a": 3, "b": 5})));
    for (line, says) in [
        ("yes", "expected a line like"),
        (r#"{"approve": "q9", "yes": true}"#, "open: q1, q2"),
        (r#"{"approve": "q1", "yes": 1}"#, "expected a line like"),
        (&format!("\"{}\"", "x".repeat(100_000)), "expected a line like"),
    ] {
        run.write(line);
        let message = run.next("invalid_answer")["message"].take();
        assert!(message.as_str().unwrap().contains(says), "{line}: {message}");
    }
    run.write("");
    run.write(&json!({"approve": add["id"], "yes": true}).to_string());
    run.write(&json!({"approve": add["id"], "yes": true}).to_string());
    run.next("invalid_answer");
    run.write(&json!({"approve": multiply["id"], "yes": false, "reason": "why?"}).to_string());
    let (outcome, code) = run.end();
    assert_eq!((&outcome["ending"], code), (&"answered".into(), 0));
    assert_eq!((started(&bench, "calculator__add"), started(&bench, "calculator__multiply")), (1, 0));
}

#[test]
fn end_of_the_input_means_that_nobody_answers() {
    for (more, ending, code) in [(&[][..], "answered", 0), (&["--session", "s"], "waiting_for_approval", 11)] {
        let bench = bench();
        let mut run = Lines::start(&bench, more);
        run.next("approval_requested");
        drop(run.running.stdin.take());
        let (outcome, exit) = run.end();
        assert_eq!((&outcome["ending"], exit), (&ending.into(), code), "{outcome}");
        assert_eq!(started(&bench, "calculator__add") + started(&bench, "calculator__multiply"), 0);
        if exit == 11 {
            let ids: Vec<&str> =
                outcome["waiting"].as_array().unwrap().iter().map(|call| call["id"].as_str().unwrap()).collect();
            assert_eq!((ids, &outcome["status"]), (vec!["s:1", "s:2"], &"waiting".into()));
        }
    }
}

#[test]
fn arguments_that_are_not_recorded_are_not_in_the_outcome() {
    let bench = bench();
    bench.put(
        "fumehood.toml",
        "[tools.calculator]\ncomponent = \"calculator.wasm\"\npersist = \"nothing\"\n[guardrails]\nask = [\"calculator__add\"]\n",
    );
    assert_eq!(bench.run(&["approve", "--yes"]).code, 0);
    let ran = bench.run(&["run", "Go", "--session", "s", "--script", "calls.jsonl", "--json"]);
    assert_eq!(ran.code, 11, "{ran:?}");
    let outcome: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&outcome["waiting"][0]["id"], &outcome["waiting"][0]["arguments"]), (&"s:1".into(), &Value::Null));
    assert!(!bench.run(&["log", "export"]).stdout.contains(r#""a":3"#));
    // Whoever approves has to see all that runs, and it was in the memory of the run alone.
    let ran = bench.run(&["approve-call", "s:1", "--yes"]);
    assert!(
        ran.code == 7 && ran.stderr.contains("were not saved, because it called a tool with `persist = \"nothing\"`"),
        "{ran:?}"
    );
}
