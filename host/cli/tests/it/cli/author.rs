//! The commands of authors that take no toolchain: `new`, `test`, and what `build` says without one.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::workbench::Workbench;

/// The variables that name toolchains.
const TOOLS: [&str; 5] =
    ["FUMEHOOD_GUEST_RUSTC", "FUMEHOOD_COMPONENTIZE_PY", "FUMEHOOD_NODE", "FUMEHOOD_ZIG", "WASI_SDK_PATH"];

pub(crate) fn root() -> PathBuf {
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
    let next = "next: cd city-facts && python3 -m venv .venv && .venv/bin/pip install componentize-py==";
    assert!(ran.stdout.contains(next) && ran.stdout.contains(" && fumehood build && fumehood test"), "{ran:?}");
    for file in ["pyproject.toml", "app.py", "tests/greet.toml", "AGENTS.md", "LICENSE"] {
        assert!(bench.path("city-facts").join(file).is_file(), "{file}");
    }
    let again = bench.run(&["new", "city-facts", "--lang", "c"]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.stderr.contains("city-facts already exists"), "{again:?}");
    let lines = "in a fumehood.toml beside the project:\n  [tools.city-facts]\n  component = \"city-facts/dist/city-facts.wasm\"\n";
    assert!(ran.stdout.contains("then: fumehood dev") && ran.stdout.ends_with(lines), "{ran:?}");
    bench.put("city-facts/app.py", "mine");
    bench.put("city-facts/notes.py", "mine");
    assert_eq!(bench.run(&["new", "city-facts", "--lang", "python", "--force"]).code, 0);
    let read = |name: &str| std::fs::read_to_string(bench.path(name)).unwrap();
    assert!(read("city-facts/app.py").contains("@tool") && read("city-facts/notes.py") == "mine");
    let json: Value = serde_json::from_str(&bench.run(&["new", "other", "--agent", "--json"]).stdout).unwrap();
    assert!(json["files"].as_array().unwrap().contains(&"src/main.rs".into()), "{json}");
}

fn assert_new_refused(bench: &Workbench, arguments: &[&str], expected: &str) {
    let ran = bench.run(&[&["new"], arguments].concat());
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains(expected), "{ran:?}");
}

#[test]
fn new_rejects_bad_names_and_languages() {
    let bench = Workbench::new();
    assert_new_refused(&bench, &["../up"], "invalid project name `../up`");
    assert_new_refused(&bench, &["Tool"], "such as `city-facts`");
    assert_new_refused(
        &bench,
        &["a", "--lang", "cobol"],
        "unknown language `cobol`; expected one of: rust, python, javascript, typescript, c",
    );
    assert_new_refused(&bench, &["a", "--lang", "c", "--dialect", "contract"], "its library has no JSON");
    assert_new_refused(&bench, &["a", "--sdk", "/nowhere"], "/nowhere has no guest-sdk/Cargo.toml");
    assert_new_refused(&bench, &["a", "--agent", "--lang", "rust"], "cannot be used with");
    let bare = std::fs::read_dir(bench.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(bare.into_iter().all(|name| name == "cache" || name == "state"), "nothing is left");
}

fn assert_toolchain_named(bench: &Workbench, language: &str, expected: &str) {
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
}

#[test]
fn build_says_in_one_line_how_to_get_a_toolchain() {
    let bench = Workbench::new();
    assert_toolchain_named(&bench, "rust", "install Rust with rustup");
    assert_toolchain_named(&bench, "python", ".venv/bin/pip install componentize-py==");
    assert_toolchain_named(&bench, "javascript", "install Node 20 or newer");
    assert_toolchain_named(&bench, "c", "pip install ziglang");
    let check = bench.run(&["build", "--check", "--project", "in-python"]);
    assert!(check.code == 2 && check.stderr.contains("two builds always differ; leave `--check` out"), "{check:?}");
}

#[test]
fn build_needs_a_project_that_can_be_read() {
    let bench = Workbench::new();
    assert!(bench.run(&["build"]).stderr.contains("is not the folder of a tool"));
    bench.put("tool.toml", "name = 'a'\n[build]\nworld = 'tools'\n");
    let ran = bench.run(&["build"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("[build] has no `sources`"), "{ran:?}");
    assert!(bench.run(&["test"]).stderr.contains("no such file dist/a.wasm; build it with `fumehood build`"));
}

/// Returns the variable that names a compiler which prints this, and fails.
fn failing_compiler(bench: &Workbench, messages: &str) -> (&'static str, PathBuf) {
    let path = bench.put("componentize-py", format!("#!/bin/sh\ncat >&2 <<'END'\n{messages}\nEND\nexit 1\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    ("FUMEHOOD_COMPONENTIZE_PY", path)
}

#[test]
fn a_component_of_older_sources_is_neither_tested_nor_published() {
    let bench = Workbench::new();
    assert_eq!(bench.run(&["new", "tool", "--lang", "python"]).code, 0);
    std::fs::create_dir(bench.path("tool/dist")).unwrap();
    let component = std::fs::read(root().join("example-tools/dist/calculator.wasm")).unwrap();
    let component = std::fs::File::open(bench.put("tool/dist/tool.wasm", component)).unwrap();
    component.set_modified(SystemTime::now() - Duration::from_secs(1)).unwrap();
    let app = std::fs::read_to_string(bench.path("tool/app.py")).unwrap();
    let edited =
        std::fs::OpenOptions::new().write(true).open(bench.put("tool/app.py", app + "def broken(:\n")).unwrap();
    // So that it is the newest also where the clock of the file system has coarse steps.
    edited.set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
    let line = std::fs::read_to_string(bench.path("tool/app.py")).unwrap().lines().count();
    let compiler = failing_compiler(&bench, &format!("Traceback\n  SyntaxError: invalid syntax (app.py, line {line})"));
    let mut build = bench.command(&["build", "--project", "tool"]);
    build.envs([compiler]);
    let built = Workbench::run_command(build);
    // Shown by the Python of this machine first, if it has one.
    assert!(built.code == 1 && built.stderr.contains(&format!("tool/app.py:{line}: ")), "{built:?}");
    assert!(!built.stderr.contains("Traceback"), "{built:?}");
    for arguments in [&["test", "--project", "tool"][..], &["publish", "oci://a.invalid/b:1", "--project", "tool"]] {
        let refused = bench.run(arguments);
        let expected =
            "tool/dist/tool.wasm is older than tool/app.py, so it may lack your changes; run `fumehood build`";
        assert!(refused.code == 2 && refused.stderr.contains(expected), "{refused:?}");
    }
    let named = bench.run(&["test", "--project", "tool", "--component", "tool/dist/tool.wasm"]);
    assert!(named.code == 1 && named.stdout.contains("failed"), "{named:?}");
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
    assert!(bench.run(&["test", "--update"]).stdout.contains("all cases are up to date"));

    let record = ["test", "--record", "divide", "--arguments", r#"{"a": 1, "b": 0}"#, "--name", "by zero"];
    assert_eq!(bench.run(&record).code, 0);
    assert_eq!(bench.run(&record).code, 2, "a name is recorded once");
    let report = test_cases(&bench);
    assert_eq!((report["passed"].clone(), report["failed"].clone()), (2.into(), 0.into()), "{report}");
    assert!(bench.path("tests/divide.toml").is_file());
    let unknown = bench.run(&["test", "--record", "devide", "--arguments", r#"{"a": 1, "b": 0}"#]);
    assert_eq!(unknown.code, 3, "{unknown:?}");
    assert!(
        unknown.stderr.contains("dist/calculator.wasm has no tool `devide`, and no case was written"),
        "{unknown:?}"
    );
    assert!(unknown.stderr.contains("; did you mean `divide`?"), "{unknown:?}");
    assert!(!bench.path("tests/devide.toml").exists());
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

/// Serves these answers on loopback, one for each connection, and then is gone. Returns its address.
fn serve_once(answers: &'static [&'static str]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for answer in answers {
            let mut stream = listener.accept().unwrap().0;
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap();
            assert!(String::from_utf8_lossy(&head[..read]).contains("\r\n\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn recorded_case_plays_what_servers_answered() {
    let bench = Workbench::new();
    example(&bench, "fetch", "");
    let address = serve_once(&[
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nset-cookie: c=d\r\ncontent-length: 7\r\n\r\n{\"n\":1}",
        "HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\nBearer s3cret-token",
    ]);
    let rule = format!("GET http://{address}/**");
    let typed = format!("{{\"url\": \"http://{address}/v1?a=b\"}}");
    let powers = ["--allow-http", rule.as_str(), "--allow-private", "127.0.0.1/32"];
    let record = ["test", "--record", "get", "--arguments", typed.as_str()];
    let ran = bench.run(&[&record[..], &powers].concat());
    assert!(ran.code == 0 && ran.stdout.contains("to tests/get.toml (recorded answers of servers: 1)"), "{ran:?}");
    let text = std::fs::read_to_string(bench.path("tests/get.toml")).unwrap();
    assert!(text.contains("json = { n = 1 }\n") && text.contains("private_addresses = "), "{text}");
    assert!(text.contains("\nseed = 1\n") && !text.contains("cookie") && !text.contains("apps"), "{text}");
    let secret = format!(
        "name='t', from={{env='TOKEN'}}, for='http://{address}/**', header='Authorization', value='Bearer {{secret}}'"
    );
    let mut echoing = bench.command(&[&record[..], &powers, &["--name", "b", "--secret", &secret]].concat());
    let ran = echoing.env("TOKEN", "s3cret-token").output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.contains("no case was written, because an address or an answer contains the secret `t`"), "{said}");

    // The server is gone.
    let ran = bench.run(&[&record[..], &powers, &["--name", "c"]].concat());
    assert!(
        ran.code == 3 && ran.stderr.contains("no case was written, because an exchange cannot be recorded"),
        "{ran:?}"
    );
    let tested = bench.run(&["test"]);
    assert!(tested.code == 0 && tested.stdout.contains("1 passed, 0 failed"), "{tested:?}");
    let private =
        ["test", "--record", "get", "--arguments", r#"{"url": "http://localhost:1/"}"#, "--into", "private.toml"];
    let private = bench.run(&[&private[..], &["--allow-http", "GET http://localhost:1/**"]].concat());
    assert!(private.stderr.contains("the case gives another result when it is played"), "{private:?}");
    let misplaced = bench.run(&[&["test"], &powers[..]].concat());
    assert!(
        misplaced.code == 2 && misplaced.stderr.contains("powers are for a call that is recorded"),
        "{misplaced:?}"
    );
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
    assert!(ran.stdout.contains("+ GET https://api.example.com/other: no [[case.http]] for this request"), "{ran:?}");
    assert!(ran.stdout.contains("- GET https://api.example.com/: the tool did not send this request"), "{ran:?}");
}

fn seconds_case(name: &str, now: &str) -> String {
    format!("[[case]]\nname = \"{name}\"\ntool = \"seconds\"\n{now}\nexpect = {{ json = 1800000000 }}\n")
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
    let cases = seconds_case("fixed", "now = 2027-01-15T08:00:00Z") + &seconds_case("of today", "");
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

fn assert_case_refused(bench: &Workbench, case: &str, expected: &str) {
    example(bench, "calculator", &format!("[[case]]\nname = \"a\"\ntool = \"add\"\n{case}\n"));
    let ran = bench.run(&["test"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains(expected), "{ran:?}");
}

#[test]
fn bad_cases_are_named_with_a_remedy() {
    let bench = Workbench::new();
    assert_case_refused(&bench, "argument = {}", "unknown field `argument`");
    assert_case_refused(
        &bench,
        "grant = { approval = \"off\" }",
        "`grant`: unknown field `approval`, expected one of `state`, `read`",
    );
    assert_case_refused(&bench, "grant = { http = [\"nonsense\"] }", "`grant`: http");
    assert_case_refused(&bench, "grant = { clock = 5 }", "`grant`");
    assert_case_refused(&bench, "store = { \"\" = \"x\" }", "`store`");
    assert_case_refused(
        &bench,
        "http = [{ request = \"GET https://a.example/\", headers = { \"b c\" = \"\" } }]",
        "is not valid",
    );
}

#[test]
fn a_failed_case_shows_what_its_tool_wrote() {
    let bench = Workbench::new();
    let call = "[[case]]\nname = \"logs\"\ntool = \"test_tool_with_logging\"\n";
    example(&bench, "mcp-conformance", &format!("{call}[case.expect]\ntext = \"other\"\n"));
    let ran = bench.run(&["test"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("FAIL logs") && ran.stdout.contains("     info: "), "{ran:?}");
    let output = &test_cases(&bench)["cases"][0]["output"];
    assert!(output[0].as_str().is_some_and(|line| line.starts_with("info: ")), "{output}");
    assert_eq!(bench.run(&["test", "--update"]).code, 0);
    let passed = bench.run(&["test"]);
    assert!(passed.code == 0 && !passed.stdout.contains("info: "), "{passed:?}");
}

#[test]
fn test_prints_the_schema_of_cases() {
    let schema: Value = serde_json::from_str(&Workbench::new().run(&["test", "--schema"]).stdout).unwrap();
    assert_eq!(schema["properties"]["case"]["items"]["$ref"], "#/$defs/case");
}
