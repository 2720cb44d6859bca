//! `dev`: a project that is edited while it is served.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fumehood_tests::skip::skip;
use rustix::process::{Pid, Signal, kill_process};

use super::author::root;
use super::author_languages::{install_packages, node, python_compiler, rust_compiler, shared_variables};
use super::serve_http::{PATIENCE, Server};
use super::workbench::Workbench;

/// Maximum time from Ctrl-C to the end.
const SOON: Duration = Duration::from_secs(8);
const SOURCE: &str = "city-facts/src/tool.c";

/// Starts the command for the project `city-facts`.
fn start(bench: &Workbench, variables: &[(&str, PathBuf)]) -> Server {
    let arguments = ["dev", "--project", "city-facts", "--no-log", "--listen", "127.0.0.1:0"];
    let mut command = bench.command(&[&arguments[..], &["--dashboard", "127.0.0.1:0"]].concat());
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    Server::spawn(command)
}

/// Presses Ctrl-C, and waits for a clean end.
fn interrupt(mut server: Server) {
    let pressed = Instant::now();
    kill_process(Pid::from_child(&server.child), Signal::INT).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0), "{}", server.said());
    assert!(pressed.elapsed() < SOON, "{:?}", pressed.elapsed());
    assert!(!server.said().contains("panicked"), "{}", server.said());
}

/// Waits until it serves clients, whose address comes after that of the dashboard. The first time, an interpreter is compiled.
fn find_address(server: &mut Server) {
    let started = Instant::now();
    while !server.said().contains("serving 1 tool at http://") {
        let has_ended = server.child.try_wait().unwrap().is_some();
        assert!(started.elapsed() < 5 * PATIENCE && !has_ended, "{}", server.said());
        std::thread::sleep(Duration::from_millis(20));
    }
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
    let mut server = start(&bench, &[]);
    server.wait_for_note("error: `the C compiler` failed");
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
    interrupt(server);
}

#[test]
fn a_python_project_is_not_compiled_again() {
    let Some(compiler) = python_compiler() else { return };
    let bench = Workbench::new();
    assert_eq!(bench.run(&["new", "city-facts", "--lang", "python"]).code, 0);
    let source = std::fs::read_to_string(bench.path("city-facts/app.py")).unwrap();
    let mut server = start(&bench, &[shared_variables(), compiler.to_vec()].concat());
    find_address(&mut server);
    assert!(greet(&server).contains("Hello, Ada."), "{}", server.said());
    assert!(!bench.path("city-facts/dist").exists(), "nothing is made for others");

    // With a module of the project, one of the library that is imported late, and another schema.
    bench.put("city-facts/words.py", "import statistics\n\nWORD = \"Good day\"\nMEAN = statistics.mean([1, 3])\n");
    let edited = source.replace("Hello, {name}.", "{WORD}, {name}, {MEAN}.");
    let edited = edited.replace("from typing", "from words import MEAN, WORD\nfrom typing");
    bench.put("city-facts/app.py", edited.replace("Greets somebody", "Welcomes somebody"));
    wait_for_answer(&server, "Good day, Ada, 2.");
    server.wait_for("/v1/tools", |page| page["tools"][0]["description"].as_str().unwrap().starts_with("Welcomes"));

    bench.put("city-facts/app.py", format!("import nonsense\n{source}"));
    server.wait_for_note("app.py:1: ModuleNotFoundError: No module named 'nonsense'");
    assert!(greet(&server).contains("Good day, Ada, 2."), "{}", server.said());

    bench.put("city-facts/app.py", source.replace("if not 1", "assert times < 5\n    if not 1"));
    wait_for_answer(&server, "Hello, Ada.");
    let (status, failed) = server.ask("POST", "/v1/tools/city-facts__greet/calls", r#"{"name": "Ada", "times": 7}"#);
    assert!(status == 502 && failed.contains("AssertionError"), "{failed}");
    server.wait_for_note("File \"app.py\", line");
    interrupt(server);
}

#[test]
fn a_javascript_project_is_not_compiled_again() {
    let bench = Workbench::new();
    assert_eq!(bench.run(&["new", "city-facts", "--lang", "js"]).code, 0);
    if !install_packages(&bench.path("city-facts")) {
        return;
    }
    let source = std::fs::read_to_string(bench.path("city-facts/tool.js")).unwrap();
    let mut server = start(&bench, &[shared_variables(), node()].concat());
    find_address(&mut server);
    assert!(greet(&server).contains("Hello, Ada."), "{}", server.said());
    assert!(!bench.path("city-facts/dist").exists(), "nothing is made for others");
    assert_eq!(std::fs::read_to_string(bench.path("city-facts/.fumehood/dev/.gitignore")).unwrap(), "*\n");

    // With a module, a constant that waits, a use of the host, and another description.
    bench.put(
        "city-facts/words.ts",
        "import { kv } from \"fumehood-tool\";\nexport const word: string = await Promise.resolve(\"Good day\");\n\
         export const has = (name: string) => typeof kv.get(name);\n",
    );
    let edited = source.replace("`Hello, ${name}.`", "`${word}, ${name}, ${Math.random() < 1}.`");
    let edited = edited.replace("const MAX", "import { word } from \"./words.ts\";\n\nconst MAX");
    bench.put("city-facts/tool.js", edited.replace("Greets somebody", "Welcomes somebody"));
    wait_for_answer(&server, "Good day, Ada, true.");
    server.wait_for("/v1/tools", |page| page["tools"][0]["description"].as_str().unwrap().starts_with("Welcomes"));

    bench.put("city-facts/tool.js", format!("{source}\n[].at(0).name;\n"));
    server.wait_for_note("tool.js:31: TypeError: ");
    assert!(greet(&server).contains("Good day, Ada, true."), "{}", server.said());

    bench.put("city-facts/tool.js", source.replace("if (times < 1", "if (times > 5) null.f();\n    if (times < 1"));
    wait_for_answer(&server, "Hello, Ada.");
    let (status, failed) = server.ask("POST", "/v1/tools/city-facts__greet/calls", r#"{"name": "Ada", "times": 7}"#);
    assert!(status == 502 && failed.contains("TypeError: can't access property"), "{failed}");
    server.wait_for_note("at run (tool.js:24)");
    interrupt(server);
}

#[test]
fn drafts_in_rust_stay_out_of_the_folder_for_users() {
    let Some(compiler) = rust_compiler() else {
        return skip("languages", "a project in Rust: there is no compiler for WebAssembly");
    };
    let bench = Workbench::new();
    // A hook, because its SDK has the fewest crates.
    let made = bench.run(&["new", "city-facts", "--hook", "--sdk", root().to_str().unwrap()]);
    assert_eq!(made.code, 0, "{made:?}");
    std::fs::copy(root().join("Cargo.lock"), bench.path("city-facts/Cargo.lock")).unwrap();
    let mut server = start(&bench, &[compiler, shared_variables()].concat());
    let started = Instant::now();
    while !server.said().contains("serving 0 tools at") {
        let has_ended = server.child.try_wait().unwrap().is_some();
        assert!(started.elapsed() < 5 * PATIENCE && !has_ended, "{}", server.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(bench.path("city-facts/.fumehood/dev/city-facts.wasm").is_file());
    assert!(!bench.path("city-facts/dist").exists(), "a draft is not published by mistake");
    let source = std::fs::read_to_string(bench.path("city-facts/src/lib.rs")).unwrap();
    bench.put("city-facts/src/lib.rs", format!("{source}\nbroken("));
    server.wait_for_note("the last good component stays served");
    interrupt(server);
}

#[test]
fn watched_cases_run_after_each_change() {
    if std::env::var_os("FUMEHOOD_ZIG").is_none() && std::env::var_os("WASI_SDK_PATH").is_none() {
        return skip("languages", "a project in C: set FUMEHOOD_ZIG to the program of Zig to run it");
    }
    let bench = Workbench::new();
    assert_eq!(bench.run(&["new", "city-facts", "--lang", "c"]).code, 0);
    let source = std::fs::read_to_string(bench.path(SOURCE)).unwrap();
    let mut command = bench.command(&["test", "--watch", "--project", "city-facts", "by name"]);
    let results = std::fs::File::create(bench.path("results")).unwrap();
    let mut child = command.stdout(results).stderr(std::process::Stdio::null()).spawn().unwrap();
    let wait_for = |text: &str| {
        let started = Instant::now();
        while !std::fs::read_to_string(bench.path("results")).unwrap().contains(text) {
            assert!(started.elapsed() < PATIENCE, "{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("1 passed, 0 failed");
    bench.put(SOURCE, source.replace("Hello, ", "Good day, "));
    wait_for("0 passed, 1 failed");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
