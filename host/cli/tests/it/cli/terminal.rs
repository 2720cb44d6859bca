//! Questions at a terminal, and the effect of the answers.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::pty::{OpenptyResult, Winsize, openpty};

use super::workbench::Workbench;

/// Timeout of every wait, far above what any of them takes.
const PATIENCE: Duration = Duration::from_secs(60);

const ADD: &str = r#"{"calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}, "id": "sum"}]}"#;
const RUN: &[&str] = &["run", "Add", "--tool", "calculator.wasm", "--script", "script.jsonl", "--log", "e.db"];

fn bench(script: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("script.jsonl", script);
    bench
}

/// Returns both ends of a terminal.
fn terminal() -> (File, OwnedFd) {
    let size = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(Some(&size), None).unwrap();
    (File::from(master), slave)
}

/// A command whose standard input and error are a terminal.
pub(crate) struct TerminalCommand {
    child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    /// What was on the screen up to the last words that were waited for.
    pub(crate) passed: String,
}

impl TerminalCommand {
    fn start(bench: &Workbench, arguments: &[&str]) -> Self {
        Self::of(bench.command(arguments))
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let (master, slave) = terminal();
        command.env("TERM", "xterm").stdin(Stdio::from(slave.try_clone().unwrap())).stdout(Stdio::piped());
        command.stderr(Stdio::from(slave));
        Self::watch(command, master)
    }

    /// Like [`Self::of`], with standard output on the terminal as well.
    pub(crate) fn on_screen(mut command: Command) -> Self {
        let (master, slave) = terminal();
        command.env("TERM", "xterm").stdin(Stdio::from(slave.try_clone().unwrap()));
        command.stdout(Stdio::from(slave.try_clone().unwrap())).stderr(Stdio::from(slave));
        Self::watch(command, master)
    }

    fn watch(mut command: Command, keys: File) -> Self {
        let child = command.spawn().unwrap();
        // The command owns a copy of the other end; once that is closed, reading ends.
        drop(command);
        let mut drawn = keys.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = drawn.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, screen, seen: String::new(), passed: String::new() }
    }

    /// Waits until these words are on the screen, after those of earlier waits.
    pub(crate) fn wait_for(&mut self, words: &str) {
        let started = Instant::now();
        while !self.seen.contains(words) {
            let left = PATIENCE.saturating_sub(started.elapsed());
            let more = self.screen.recv_timeout(left);
            let more = more.unwrap_or_else(|error| panic!("{error}; no {words:?} in {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
        let end = self.seen.find(words).unwrap() + words.len();
        self.passed.extend(self.seen.drain(..end));
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end. Returns the exit code, standard output, and the rest of the screen.
    pub(crate) fn finish(mut self) -> (Option<i32>, String, String) {
        let output = self.child.wait_with_output().unwrap();
        while let Ok(more) = self.screen.recv_timeout(Duration::from_millis(200)) {
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), self.seen)
    }
}

fn to_text(value: &serde_json::Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Returns the verdicts on the call, each with its source.
fn verdicts(bench: &Workbench) -> Vec<(String, String)> {
    let rows = bench.run(&["log", "--log", "e.db", "--kind", "verdict", "--json"]).json();
    rows.as_array().unwrap().iter().map(|row| (to_text(&row["body"]["by"]), to_text(&row["status"]))).collect()
}

#[test]
fn a_person_who_says_yes_lets_the_call_run() {
    let bench = bench(&format!("{ADD}\n{}", r#"{"text": "It is 8.", "expect": "8"}"#));
    let mut terminal = TerminalCommand::start(&bench, &[RUN, &["--ask", "calculator__add"]].concat());
    terminal.wait_for("may calculator__add run?");
    terminal.wait_for(r#"calculator__add {"a":3,"b":5}"#);
    terminal.wait_for("[y/N]");
    terminal.type_in("y\n");
    let (code, stdout, screen) = terminal.finish();
    assert_eq!((code, stdout.as_str()), (Some(0), "It is 8.\n"), "{screen}");
    assert!(screen.contains("✓ calculator__add"), "{screen}");
    let verdicts = verdicts(&bench);
    assert_eq!(verdicts.last(), Some(&("human".to_owned(), "allow".to_owned())), "{verdicts:?}");
}

#[test]
fn anything_but_yes_denies_and_the_model_gets_the_reason() {
    for typed in ["n\n", "\n", "\u{4}"] {
        let bench =
            bench(&format!("{ADD}\n{}", r#"{"text": "Then not.", "expect": "refused by the person at the terminal"}"#));
        let mut terminal = TerminalCommand::start(&bench, &[RUN, &["--ask", "calculator__add"]].concat());
        terminal.wait_for("[y/N]");
        terminal.type_in(typed);
        let (code, stdout, screen) = terminal.finish();
        assert_eq!((code, stdout.as_str()), (Some(0), "Then not.\n"), "{typed:?}: {screen}");
        assert!(screen.contains("✗ calculator__add → denied"), "{typed:?}: {screen}");
        assert_eq!(verdicts(&bench).last(), Some(&("human".to_owned(), "deny".to_owned())));
    }
}

#[test]
fn earlier_input_answers_no_question() {
    let slow = ADD.replace("]}", "], \"delay_ms\": 1500}");
    let bench =
        bench(&format!("{slow}\n{}", r#"{"text": "Then not.", "expect": "refused by the person at the terminal"}"#));
    let mut terminal = TerminalCommand::start(&bench, &[RUN, &["--ask", "calculator__add"]].concat());
    terminal.type_in("yes\ny\nyes\ny");
    terminal.wait_for("may calculator__add run?");
    terminal.wait_for("[y/N]");
    terminal.type_in("\n");
    let (code, stdout, screen) = terminal.finish();
    assert_eq!((code, stdout.as_str()), (Some(0), "Then not.\n"), "{screen}");
    assert_eq!(verdicts(&bench).last(), Some(&("human".to_owned(), "deny".to_owned())));
}

#[test]
fn a_yes_among_pasted_lines_is_no_answer() {
    let bench = bench(&format!("{ADD}\n{}", r#"{"text": "It is 8.", "expect": "8"}"#));
    let mut terminal = TerminalCommand::start(&bench, &[RUN, &["--ask", "calculator__add"]].concat());
    terminal.wait_for("[y/N]");
    terminal.type_in("yes\nand then\nyes\n");
    terminal.wait_for("type the answer on a separate line");
    terminal.wait_for("[y/N]");
    terminal.type_in("yes\n");
    let (code, stdout, screen) = terminal.finish();
    assert_eq!((code, stdout.as_str()), (Some(0), "It is 8.\n"), "{screen}");
}

fn section(name: &str) -> String {
    format!("[tools.{name}]\ncomponent = \"calculator.wasm\"\n")
}

#[test]
fn every_approval_has_an_answer_of_its_own() {
    let bench = bench("");
    bench.put("fumehood.toml", section("one") + &section("two"));
    let mut terminal = TerminalCommand::start(&bench, &["approve"]);
    terminal.type_in("y\ny\n");
    terminal.wait_for("Approve `one`?");
    terminal.wait_for("[y/N]");
    terminal.type_in("y\n");
    terminal.wait_for("Approve `two`?");
    terminal.wait_for("[y/N]");
    terminal.type_in("n\n");
    assert_eq!(terminal.finish().0, Some(3));
    let lock = std::fs::read_to_string(bench.path("fumehood.lock")).unwrap();
    assert!(lock.contains("\"one\"") && !lock.contains("\"two\""), "{lock}");
}

#[test]
fn all_of_a_call_stands_behind_the_bar_of_its_question() {
    let long = "x".repeat(900);
    let call =
        format!(r#"{{"calls": [{{"name": "calculator__evaluate", "arguments": {{"expression": "{long}END"}}}}]}}"#);
    let bench = bench(&format!("{call}\n{}", r#"{"text": "Then not."}"#));
    let mut terminal = TerminalCommand::start(&bench, &[RUN, &["--ask", "calculator__evaluate"]].concat());
    terminal.wait_for("│ may calculator__evaluate run?");
    terminal.wait_for("│ calculator__evaluate");
    terminal.wait_for("│ {\"expression\":\"x");
    terminal.wait_for("END");
    terminal.wait_for("[y/N]");
    terminal.type_in("n\n");
    assert_eq!(terminal.finish().0, Some(0));
}

#[test]
fn a_person_is_asked_for_more_turns_unless_that_is_not_wanted() {
    let bench = bench(&format!("{ADD}\n{}", r#"{"text": "It is 8."}"#));
    let mut terminal = TerminalCommand::start(&bench, &[RUN, &["--max-turns", "1"]].concat());
    terminal.wait_for("The model has not finished after 1 requests. Allow 1 more?");
    terminal.wait_for("[y/N]");
    terminal.type_in("yes\n");
    let (code, stdout, screen) = terminal.finish();
    assert_eq!((code, stdout.as_str()), (Some(0), "It is 8.\n"), "{screen}");
    bench.put("fumehood.toml", "[agent]\nask_for_turns = false\n");
    let terminal = TerminalCommand::start(&bench, &[RUN, &["--max-turns", "1"]].concat());
    let (code, _, screen) = terminal.finish();
    assert_eq!(code, Some(4), "{screen}");
    assert!(!screen.contains("[y/N]") && screen.contains("raise it with `--max-turns`"), "{screen}");
}

#[test]
fn a_conversation_is_typed_line_by_line() {
    let bench = bench(r#"{"text": "Hello to you."}"#);
    let mut terminal = TerminalCommand::start(&bench, &["chat", "--script", "script.jsonl", "--no-log"]);
    terminal.wait_for("`/quit` or Ctrl-D ends the session");
    terminal.wait_for("> ");
    terminal.type_in("Hello\n");
    terminal.wait_for("answered: 1 request");
    terminal.wait_for("> ");
    terminal.type_in("/quit\n");
    let (code, stdout, screen) = terminal.finish();
    assert_eq!((code, stdout.as_str()), (Some(0), "Hello to you.\n"), "{screen}");
}

const CHAT: &[&str] = &["chat", "--tool", "calculator.wasm", "--script", "script.jsonl", "--log", "e.db"];

fn understanding(expected: &str) -> String {
    format!("{{\"text\": \"Understood.\", \"expect\": {expected}}}")
}

#[test]
fn lines_of_a_chat_are_edited_go_on_and_are_kept() {
    let bench = bench(&understanding(r#""one\ntwo""#));
    let mut terminal = TerminalCommand::on_screen(bench.command(CHAT));
    terminal.wait_for("> ");
    // Deletes a wrong letter, and continues a line with a backslash; Enter sends a carriage return.
    terminal.type_in("onne\u{8}\u{8}e\\\rtwo\r");
    terminal.wait_for("Understood.");
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.finish().0, Some(0));
    // The next session has the message in its history.
    bench.put("script.jsonl", understanding(r#""one\ntwo""#));
    let mut terminal = TerminalCommand::on_screen(bench.command(CHAT));
    terminal.wait_for("> ");
    terminal.type_in("\u{1b}[A\r");
    terminal.wait_for("Understood.");
    terminal.wait_for("> ");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.finish().0, Some(0));
}

#[test]
fn a_paste_of_several_lines_is_one_message() {
    let bench = bench(r#"{"text": "Understood.", "expect": "one\ntwo"}"#);
    let mut terminal = TerminalCommand::on_screen(bench.command(CHAT));
    terminal.wait_for("> ");
    terminal.type_in("\u{1b}[200~one\ntwo\u{1b}[201~\r");
    terminal.wait_for("Understood.");
    terminal.wait_for("> ");
    terminal.type_in("\u{3}");
    terminal.wait_for("press Ctrl-C again, or Ctrl-D, to end the session");
    terminal.wait_for("> ");
    terminal.type_in("\u{3}");
    assert_eq!(terminal.finish().0, Some(130));
}

#[test]
fn ctrl_c_while_a_question_waits_ends_the_run() {
    let bench = bench(ADD);
    let mut terminal = TerminalCommand::start(&bench, &[RUN, &["--ask", "calculator__add"]].concat());
    terminal.wait_for("[y/N]");
    let pid = rustix::process::Pid::from_child(&terminal.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let (code, stdout, screen) = terminal.finish();
    assert_eq!((code, stdout.as_str()), (Some(130), ""), "{screen}");
    assert!(!screen.contains("✓ calculator__add"), "{screen}");
    assert_eq!(bench.run(&["log", "verify", "--log", "e.db"]).code, 0);
}
