//! `dev`: a project that is edited while it is served.

use std::time::{Duration, Instant};

use fumehood_tests::skip::skip;
use rustix::process::{Pid, Signal, kill_process};

use super::serve_http::{PATIENCE, Server};
use super::workbench::Workbench;

/// Maximum time from Ctrl-C to the end.
const SOON: Duration = Duration::from_secs(8);
const SOURCE: &str = "city-facts/src/tool.c";

/// Starts the command for the project `city-facts`, and waits until it has written this.
fn start(bench: &Workbench, note: &str) -> Server {
    let arguments = ["dev", "--project", "city-facts", "--no-log", "--listen", "127.0.0.1:0"];
    let server = Server::spawn(bench.command(&[&arguments[..], &["--dashboard", "127.0.0.1:0"]].concat()));
    server.wait_for_note(note);
    server
}

/// Waits until it serves clients, whose address comes after that of the dashboard.
fn find_address(server: &mut Server) {
    server.wait_for_note("serving 1 tool at http://");
    let said = server.said();
    let (_, rest) = said.split_once("serving 1 tool at http://").unwrap();
    server.address = rest.split_once('/').unwrap().0.to_owned();
}

/// Calls `greet`, and returns the body of the answer.
fn greet(server: &Server) -> String {
    server.ask("POST", "/v1/tools/city-facts__greet/calls", r#"{"name": "Ada"}"#).1
}

fn wait_for_answer(server: &Server, text: &str) {
    let started = Instant::now();
    while !greet(server).contains(text) {
        assert!(started.elapsed() < PATIENCE, "{}", server.said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn answers_follow_the_edits_of_a_project() {
    if std::env::var_os("FUMEHOOD_ZIG").is_none() && std::env::var_os("WASI_SDK_PATH").is_none() {
        return skip("languages", "a project in C: set FUMEHOOD_ZIG to the program of Zig to run it");
    }
    let bench = Workbench::new();
    assert_eq!(bench.run(&["new", "city-facts", "--lang", "c"]).code, 0);
    let source = std::fs::read_to_string(bench.path(SOURCE)).unwrap();
    bench.put(SOURCE, format!("{source}\nbroken("));
    let mut server = start(&bench, "error: `the C compiler` failed");
    assert!(!bench.path("city-facts/dist").exists());

    bench.put(SOURCE, &source);
    find_address(&mut server);
    assert!(server.said().contains("the dashboard is at http://127.0.0.1:"), "{}", server.said());
    assert!(greet(&server).contains("Hello, Ada."), "{}", server.said());
    server.wait_for_note("city-facts__greet ok");

    bench.put(SOURCE, source.replace("Hello, ", "Good day, "));
    wait_for_answer(&server, "Good day, Ada.");

    bench.put(SOURCE, format!("{source}\nbroken("));
    server.wait_for_note("the last good component stays served");
    assert!(greet(&server).contains("Good day, Ada."), "{}", server.said());
    server.wait_for_note("that was the last good component, because the build fails: `the C compiler` failed");

    bench.put(SOURCE, source.replace("Hello, ", "Welcome, "));
    wait_for_answer(&server, "Welcome, Ada.");

    let pressed = Instant::now();
    kill_process(Pid::from_child(&server.child), Signal::INT).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0), "{}", server.said());
    assert!(pressed.elapsed() < SOON, "{:?}", pressed.elapsed());
    assert!(!server.said().contains("panicked"), "{}", server.said());
}
