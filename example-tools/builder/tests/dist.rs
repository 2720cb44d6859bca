//! The committed components: up to date, without traces of the machine that built them, and with the expected imports
//! and exports.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;

use fumehood_build_tools::{
    ExampleTool, INTERPRETER, REBUILD, Record, RustTarget, TOOLS, Workspace, interpreter_digest, source_digest,
};
use wasmparser::{Parser, Payload};

fn component(tool: &ExampleTool) -> Vec<u8> {
    let path = Workspace::current().dist().join(tool.file_name());
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `{REBUILD}`", path.display()))
}

/// Returns the names of the component's own imports or exports, without those of nested components.
fn outer_names(bytes: &[u8], names_of: fn(&Payload<'_>) -> Vec<String>) -> BTreeSet<String> {
    let mut depth = 0;
    let mut names = BTreeSet::new();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.expect("a valid component");
        match payload {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            _ if depth == 1 => names.extend(names_of(&payload)),
            _ => {}
        }
    }
    names
}

fn imports(bytes: &[u8]) -> BTreeSet<String> {
    outer_names(bytes, |payload| match payload {
        Payload::ComponentImportSection(section) => {
            section.clone().into_iter().map(|import| import.expect("an import").name.name.to_owned()).collect()
        }
        _ => Vec::new(),
    })
}

fn exports(bytes: &[u8]) -> BTreeSet<String> {
    outer_names(bytes, |payload| match payload {
        Payload::ComponentExportSection(section) => {
            section.clone().into_iter().map(|export| export.expect("an export").name.name.to_owned()).collect()
        }
        _ => Vec::new(),
    })
}

#[test]
fn committed_components_are_up_to_date() {
    let workspace = Workspace::current();
    let dist = workspace.dist();
    let record = Record::read(&dist).unwrap();
    let stale: Vec<String> = TOOLS
        .iter()
        .filter_map(|tool| {
            let sources = source_digest(&workspace, tool).unwrap();
            let staleness = record.staleness(&dist, tool.name, &sources).unwrap()?;
            Some(format!("example-tools/dist/{} is {staleness}: run `{REBUILD}`", tool.file_name()))
        })
        .collect();
    assert!(stale.is_empty(), "{}", stale.join("\n"));
}

fn interpreter() -> Vec<u8> {
    let path = Workspace::current().interpreters().join(INTERPRETER).with_extension("wasm");
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `{REBUILD}`", path.display()))
}

#[test]
fn committed_interpreter_is_up_to_date() {
    let workspace = Workspace::current();
    let dist = workspace.interpreters();
    let sources = interpreter_digest(&workspace).unwrap();
    let staleness = Record::read(&dist).unwrap().staleness(&dist, INTERPRETER, &sources).unwrap();
    if let Some(staleness) = staleness {
        panic!("the interpreter is {staleness}: run `{REBUILD}`");
    }
}

#[test]
fn interpreter_reaches_only_calls_and_console() {
    let bytes = interpreter();
    let expected = ["fumehood:code/calls@0.1.0", "fumehood:code/console@0.1.0"];
    assert_eq!(Vec::from_iter(imports(&bytes)), expected);
    assert_eq!(Vec::from_iter(exports(&bytes)), ["fumehood:code/interpreter@0.1.0"]);
    assert!(bytes.len() < 2 << 20, "{} bytes", bytes.len());
}

#[test]
fn dist_contains_nothing_else() {
    let present: BTreeSet<String> = fs::read_dir(Workspace::current().dist())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut expected: BTreeSet<String> = TOOLS.iter().map(ExampleTool::file_name).collect();
    expected.insert("digests.toml".to_owned());
    assert_eq!(present, expected);
}

#[test]
fn components_contain_no_build_paths() {
    let tools = TOOLS.iter().map(|tool| (tool.name, component(tool)));
    for (name, bytes) in tools.chain([(INTERPRETER, interpreter())]) {
        for trace in ["/root", "/home/", "/Users/", "/work", "/tmp", ".cargo", ".rustup", "index.crates"] {
            let found = bytes.windows(trace.len()).any(|window| window == trace.as_bytes());
            assert!(!found, "{name} contains `{trace}`");
        }
    }
}

#[test]
fn pure_tools_import_only_the_contract() {
    for tool in TOOLS.iter().filter(|tool| tool.target == RustTarget::Pure) {
        let names = imports(&component(tool));
        let is_contract = |name: &String| name.starts_with("fumehood:tool/");
        assert!(names.iter().all(is_contract), "{} imports {names:?}", tool.file_name());
    }
    let greeter = TOOLS.iter().find(|tool| tool.name == "typed-greeter").unwrap();
    assert_eq!(imports(&component(greeter)), BTreeSet::new(), "it does not depend on the host");
}

#[test]
fn components_export_the_contract() {
    for tool in TOOLS {
        let expected: &[&str] = match tool.name {
            "typed-greeter" => &["about", "example:greeter/greetings@1.0.0"],
            "chart" => &["fumehood:tool/resources@0.1.0", "fumehood:tool/tools@0.1.0"],
            "rate-limit" | "redact-email" => &["fumehood:hooks/hook@0.1.0"],
            "sections" => &["fumehood:tool/tools@0.2.0"],
            _ => &["fumehood:tool/tools@0.1.0"],
        };
        assert_eq!(Vec::from_iter(exports(&component(tool))), expected, "{}", tool.file_name());
    }
}

#[test]
fn typed_component_contains_its_documentation() {
    let greeter = TOOLS.iter().find(|tool| tool.name == "typed-greeter").unwrap();
    let bytes = component(greeter);
    let docs = Parser::new(0).parse_all(&bytes).filter_map(|payload| match payload.expect("a valid component") {
        Payload::CustomSection(section) if ["package-docs", "fumehood-docs"].contains(&section.name()) => {
            Some(String::from_utf8(section.data().to_vec()).unwrap())
        }
        _ => None,
    });
    let docs = docs.collect::<String>();
    for text in ["Greets somebody by name.", "Among friends.", "Says what this component is, in one sentence."] {
        assert!(docs.contains(text), "{docs}");
    }
}
