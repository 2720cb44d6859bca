//! Sessions that are saved, and go on after any stop of the program.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use fumehood::event_log::{EventLog, Options};
use serde_json::Value;

use super::server::{self, Response, Server};
use super::workbench::{CommandOutput, Workbench};

const TASK: &str = "Add up the numbers.";
const SCRIPT: &str = r#"{"calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}}]}
{"text": "It is 8."}"#;
/// Number of calls that the model makes before it answers.
const CALLS: usize = 3;

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("script.jsonl", SCRIPT);
    bench
}

fn scripted(bench: &Workbench, arguments: &[&str]) -> CommandOutput {
    bench.run(&[arguments, &["--tool", "calculator.wasm", "--script", "script.jsonl"]].concat())
}

/// Returns the messages of a request after the last one of the user.
fn since_the_message(request: &Value) -> Vec<Value> {
    let messages = request["messages"].as_array().unwrap();
    let last = messages.iter().rposition(|message| message["role"] == "user").unwrap();
    messages[last + 1..].to_vec()
}

/// Answers as the conversation says: with one call after the other, and then with the number of results.
fn adding(request: &Value) -> Response {
    let told = since_the_message(request);
    let results = told.iter().filter(|message| message["role"] == "tool").count();
    match results {
        CALLS => server::words(&[&format!("{results} results.")]),
        _ => server::call("calculator__add", &format!(r#"{{"a":{results},"b":1}}"#)),
    }
}

fn shown(bench: &Workbench, id: &str) -> Value {
    let ran = bench.run(&["sessions", "show", id, "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.json()
}

/// Returns whether a session is saved with its message. Asked in this process, since 200 programs take their time.
fn is_there(bench: &Workbench, id: &str) -> bool {
    let log = EventLog::open_read_only(bench.path("state/fumehood/events.db"), &Options::default());
    log.unwrap().saved_sessions().unwrap().iter().any(|saved| saved.session == id && saved.entries > 1)
}

#[test]
fn saved_session_is_listed_shown_continued_and_removed() {
    let bench = bench();
    let ran = scripted(&bench, &["run", TASK, "--session", "sums"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\n"), "{ran:?}");

    let listed = bench.run(&["sessions", "list", "--json"]).json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["session"]), (1, &"sums".into()));
    assert!(bench.run(&["sessions", "list"]).stdout.contains("sums"));
    let text = bench.run(&["sessions", "show", "sums"]).stdout;
    for part in [TASK, "calculator__add  ok", "It is 8.", "continue with `fumehood chat"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }

    let server = Server::answering(|request| {
        assert!(request.to_string().contains("It is 8."), "the first answer is part of the conversation");
        server::words(&["Still 8."])
    });
    let model = ["--tool", "calculator.wasm", "--model", "compatible:m", "--base-url", &server.url];
    let ran = bench.run(&[&["run", "And now?", "--resume", "sums"], &model[..]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Still 8.\n"), "{ran:?}");
    let runs = shown(&bench, "sums")["transcript"]["runs"].as_array().unwrap().len();
    assert_eq!(runs, 2);
    let verified = bench.run(&["log", "verify"]);
    assert_eq!(verified.code, 0, "{verified:?}");

    assert_eq!(bench.run(&["sessions", "rm", "sums"]).code, 0);
    assert_eq!(bench.run(&["sessions", "list", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn session_that_was_stopped_before_its_message_begins_again() {
    let bench = bench();
    assert_eq!(scripted(&bench, &["run", TASK, "--session", "sums"]).code, 0);
    let log = rusqlite::Connection::open(bench.path("state/fumehood/events.db")).unwrap();
    let copied = log.execute(
        "INSERT INTO session_entries SELECT 'cut', number, at, replace(content, '\"id\":\"sums\"', '\"id\":\"cut\"')
         FROM session_entries WHERE session = 'sums' AND number = 0",
        [],
    );
    assert_eq!(copied, Ok(1));
    drop(log);
    let ran = scripted(&bench, &["run", "--resume", "cut"]);
    assert!(ran.code == 0 && ran.stderr.contains("no interrupted run; give it a task"), "{ran:?}");
    let ran = scripted(&bench, &["run", TASK, "--session", "cut"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\n"), "{ran:?}");
    assert_eq!(scripted(&bench, &["run", TASK, "--session", "cut"]).code, 2, "now there is something in it");
}

fn chat_with(bench: &Workbench, input: &str) -> CommandOutput {
    let arguments = ["chat", "--session", "talk", "--tool", "calculator.wasm", "--script", "script.jsonl"];
    bench.run_with_input(&arguments, input)
}

#[test]
fn chat_begins_a_session_and_goes_on_with_it() {
    let bench = bench();
    for expected in 1..=2 {
        let ran = chat_with(&bench, "What is 3 + 5?\n/quit\n");
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\n"), "{ran:?}");
        assert_eq!(shown(&bench, "talk")["transcript"]["runs"].as_array().unwrap().len(), expected);
    }
}

fn assert_session_refused(bench: &Workbench, arguments: &[&str], says: &str) {
    let ran = scripted(bench, arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}: {ran:?}");
    assert!(ran.stderr.contains(says), "{says} is not in: {}", ran.stderr);
}

#[test]
fn session_that_does_not_fit_is_refused_in_words() {
    let bench = bench();
    assert_eq!(scripted(&bench, &["run", TASK, "--session", "sums"]).code, 0);
    assert_session_refused(&bench, &["run", TASK, "--session", "sums"], "resume it with `--resume sums`");
    assert_session_refused(
        &bench,
        &["run", TASK, "--resume", "others"],
        "`fumehood sessions list` lists the saved sessions",
    );
    assert_session_refused(&bench, &["run", TASK, "--session", "a b"], "1 to 64 of");
    assert_session_refused(&bench, &["run", TASK, "--session", "new", "--no-log"], "leave `--no-log` out");
    assert_session_refused(&bench, &["run"], "TASK");
    assert_session_refused(&bench, &["run", "--resume", "sums", "--actor", "ada"], "use the same actor");
    assert_session_refused(
        &bench,
        &["run", "--resume", "sums", "--driver", "react"],
        "it was started with the driver `native`",
    );
    for command in ["show", "rm"] {
        let ran = bench.run(&["sessions", command, "others"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains("unknown session `others`"), "{ran:?}");
    }
    let ran = scripted(&bench, &["run", "--resume", "sums"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    assert!(ran.stderr.contains("no interrupted run"), "{ran:?}");
}

#[test]
fn call_that_was_under_way_is_told_as_interrupted() {
    let bench = Workbench::new();
    bench.program("sleep").put("script.jsonl", r#"{"calls": [{"name": "sleep__run", "arguments": {}}]}"#);
    let options = ["--tool", "sleep.wasm", "--timeout", "60s", "--json"];
    let begin = [&["run", TASK, "--session", "s", "--script", "script.jsonl"], &options[..]].concat();
    let mut running = bench.command(&begin).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("tool_started")), "the call starts");
    running.kill().unwrap();
    running.wait().unwrap();
    let state = bench.run(&["sessions", "show", "s"]).stdout;
    assert!(state.contains("a run is active or was interrupted, with calls of sleep__run"), "{state}");

    let server = Server::answering(|request| match since_the_message(request).last() {
        Some(told) if told.to_string().contains("interrupted: the program stopped") => server::words(&["I see."]),
        told => panic!("{told:?}"),
    });
    let model = ["--model", "compatible:m", "--base-url", &server.url];
    let ran = bench.run(&[&["run", "--resume", "s"], &model[..], &options[..4]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "I see.\n"), "{ran:?}");
}

#[test]
fn saved_run_is_suspended_by_a_signal_and_goes_on() {
    let code = r#"const one = await tools.calculator.add({a: 3, b: 5}); await tools.sleep.run({}); return one.result"#;
    let reply = serde_json::json!({"calls": [{"name": "run_code", "arguments": {"code": code}}]});
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let bench = Workbench::new();
        bench.example("calculator").program("sleep").put("script.jsonl", reply.to_string());
        let options = ["--tool", "calculator.wasm", "--tool", "sleep.wasm", "--timeout", "60s", "--code=only"];
        let begin = [&["run", TASK, "--session", "s", "--script", "script.jsonl", "--json"], &options[..]].concat();
        let mut running = bench.command(&begin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(running.stdout.take().unwrap()).lines().map(Result::unwrap);
        let starts = |line: &String| line.contains("tool_started") && line.contains("sleep__run");
        assert!(lines.any(|line| starts(&line)), "the call of the program starts");
        rustix::process::kill_process(rustix::process::Pid::from_child(&running), signal).unwrap();
        let last: Value = serde_json::from_str(&lines.last().unwrap()).unwrap();
        assert_eq!(
            (&last["event"], &last["status"], &last["ending"]),
            (&"outcome".into(), &"suspended".into(), &"suspended".into())
        );
        assert_eq!(running.wait().unwrap().code(), Some(130));
        assert!(bench.run(&["sessions", "show", "s"]).stdout.contains("a run is active or was interrupted"));

        let server = Server::answering(|request| {
            let told = since_the_message(request).last().unwrap().to_string();
            assert!(told.contains("interrupted: the program stopped during the call"), "{told}");
            server::words(&["I see."])
        });
        let model = ["--model", "compatible:m", "--base-url", &server.url];
        let ran = bench.run(&[&["run", "--resume", "s"], &model[..], &options[..]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "I see.\n"), "{ran:?}");
        // What had a result was not made again.
        let log = bench.run(&["log", "list", "--json"]).stdout;
        assert_eq!(log.matches("\"calculator__add\"").count(), 1, "{log}");
    }
}

#[test]
fn suspended_run_says_how_to_go_on_and_one_that_is_not_saved_is_cancelled() {
    for (session, says) in [
        (&["--session", "s"][..], "suspended; resume it with `fumehood run --resume s`"),
        (&[][..], "interrupted; stopped sleep__run"),
    ] {
        let bench = Workbench::new();
        bench.program("sleep").put("script.jsonl", r#"{"calls": [{"name": "sleep__run", "arguments": {}}]}"#);
        let options = ["run", TASK, "--tool", "sleep.wasm", "--timeout", "60s", "--script", "script.jsonl"];
        let begin = [&options[..], session].concat();
        let mut running = bench.command(&begin).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(running.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("sleep__run")), "the call is shown");
        rustix::process::kill_process(rustix::process::Pid::from_child(&running), rustix::process::Signal::INT)
            .unwrap();
        let rest: Vec<String> = lines.collect();
        assert!(rest.iter().any(|line| line.contains(says)), "{says} is not in: {rest:?}");
        assert_eq!(running.wait().unwrap().code(), Some(130));
    }
}

#[test]
fn resumed_session_has_the_model_and_the_restrictions_that_it_began_with() {
    let bench = bench();
    let server = Server::answering(|request| {
        assert_eq!(request["model"], "chosen", "{request}");
        adding(request)
    });
    let config = format!("[model]\nname = \"compatible:usual\"\nbase_url = \"{}\"\n", server.url);
    bench.put("fumehood.toml", config);
    let tools = ["--tool", "calculator.wasm"];
    let begin = ["run", TASK, "--session", "s", "--model", "compatible:chosen", "--ask", "calculator__add"];
    let ran = bench.run(&[&begin[..], &tools].concat());
    assert_eq!(ran.code, 11, "{ran:?}");

    let refused = bench.run(&["run", "--resume", "s"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{refused:?}");
    assert!(refused.stderr.contains("repeat the options: --tool calculator.wasm"), "{refused:?}");
    let ran = bench.run(&[&["run", "--resume", "s", "--approve", "refuse"], &tools[..]].concat());
    assert_eq!(ran.code, 11, "calls that waited go on waiting: {ran:?}");
    assert_eq!(bench.run(&["approve-call", "s:1", "--yes"]).code, 0);
    // The next call is asked about, too: the list of `--ask` went on.
    let ran = bench.run(&[&["run", "--resume", "s"], &tools[..]].concat());
    assert_eq!(ran.code, 11, "{ran:?}");

    std::fs::rename(bench.path("fumehood.toml"), bench.path("other.toml")).unwrap();
    let refused = bench.run(&[&["run", "--resume", "s"], &tools[..]].concat());
    assert!(refused.code == 2 && refused.stderr.contains("started with another configuration"), "{refused:?}");
}

#[test]
fn session_goes_on_after_200_kills() {
    const KILLS: u32 = 200;
    let bench = bench();
    let server = Server::answering(adding);
    // In one process, whose start is most of the time that 200 runs take.
    let isolation = ["--isolation", "in-process"];
    let options =
        [&["--tool", "calculator.wasm", "--model", "compatible:m", "--base-url", &server.url], &isolation[..]].concat();
    let mut whole = Duration::ZERO;
    // The second run has the compiled component, like all that follow.
    for id in ["first", "second"] {
        let began = Instant::now();
        let ran = bench.run(&[&["run", TASK, "--session", id], &options[..]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "3 results.\n"), "{ran:?}");
        whole = began.elapsed().min(Duration::from_secs(2));
    }

    let mut kills = 0;
    let mut sessions = 0;
    let mut resumed = 0;
    while kills < KILLS {
        sessions += 1;
        let id = format!("s{sessions}");
        let mut is_saved = false;
        loop {
            let begin = if is_saved { ["run", "--resume", &id] } else { ["run", "--session", &id] };
            let task: &[&str] = if is_saved { &[] } else { &[TASK] };
            let arguments = [&begin[..], task, &options[..]].concat();
            let output = (Stdio::null(), Stdio::null());
            let mut running = bench.command(&arguments).stdout(output.0).stderr(output.1).spawn().unwrap();
            // Spread over the whole run, and beyond its end.
            std::thread::sleep(whole * (kills * 37 % KILLS) / KILLS * 6 / 5);
            let _ = running.kill();
            let ended = running.wait().unwrap();
            kills += 1;
            is_saved = is_there(&bench, &id);
            resumed += u32::from(is_saved);
            if ended.success() {
                break;
            }
            if is_saved && kills % 3 == 0 {
                let ran = bench.run(&[&["run", "--resume", &id], &options[..]].concat());
                assert_eq!(ran.code, 0, "{id}: {ran:?}");
                break;
            }
        }
        let session = shown(&bench, &id);
        let runs = session["transcript"]["runs"].as_array().unwrap();
        assert_eq!((runs.len(), &session["current"]), (1, &Value::Null), "{id}");
        assert_eq!(runs[0]["ending"]["text"], "3 results.", "{id}: {}", runs[0]["ending"]);
    }
    assert!(resumed > KILLS / 10, "{resumed} of {kills} kills left something to go on with");
    let verified = bench.run(&["log", "verify"]);
    assert_eq!(verified.code, 0, "{verified:?}");
}
