//! The rules of the house that a compiler does not check. They are written down in ARCHITECTURE.md.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const MOST_LINES: usize = 400;
const MOST_FUNCTION_LINES: usize = 70;

/// A crate, where it is, and which crates of ours it may depend on.
const STAR: &[(&str, &str, &[&str])] = &[
    ("fumehood-core", "host/core", &[]),
    ("fumehood-runtime", "host/runtime", &["fumehood-core"]),
    ("fumehood-agent", "host/agent", &["fumehood-core"]),
    ("fumehood-model", "host/model", &["fumehood-core"]),
    ("fumehood-event-log", "host/event-log", &["fumehood-core"]),
    ("fumehood-key-value", "host/key-value", &["fumehood-core"]),
    (
        "fumehood",
        "host/fumehood",
        &[
            "fumehood-agent",
            "fumehood-core",
            "fumehood-event-log",
            "fumehood-key-value",
            "fumehood-model",
            "fumehood-runtime",
        ],
    ),
    ("fumehood-cli", "host/cli", &["fumehood"]),
    ("fumehood-guest", "guest-sdk", &["fumehood-guest-macros"]),
    ("fumehood-guest-macros", "guest-sdk/macros", &[]),
];

/// A crate that only one of ours may name, and which: a row for each, if there are two.
const CONFINED: &[(&str, &str)] = &[
    ("wasmtime", "host/runtime"),
    ("wasmtime-wasi", "host/runtime"),
    ("wasmtime-wasi-http", "host/runtime"),
    ("rusqlite", "host/event-log"),
    ("rusqlite", "host/key-value"),
    ("genai", "host/model"),
];

/// Files that may hold `unsafe` code: our own authenticated code cache, and generated bindings of guests.
const UNSAFE: &[&str] = &["host/runtime/src/cache/map.rs"];

/// Files that may use text of tools, servers and models as it was written: for digests, schemas, redaction and parsing, or for
/// JSON that programs read.
const RAW: &[&str] = &[
    "host/agent/src/native/inline.rs",
    "host/agent/src/native/leak.rs",
    "host/agent/src/react/decision.rs",
    "host/cli/src/commands/mcp/client.rs",
    "host/core/src/approval.rs",
    "host/core/src/content.rs",
    "host/core/src/definition.rs",
    "host/core/src/redact.rs",
    "host/core/src/result.rs",
    "host/core/src/untrusted.rs",
    "host/fumehood/src/host_tools.rs",
    "host/fumehood/src/load.rs",
    "host/fumehood/src/mcp_tool.rs",
    "host/fumehood/src/tool.rs",
    "host/mcp/src/client/foreign.rs",
    "host/mcp/src/client/result.rs",
    "host/mcp/src/client/tool_pins.rs",
    "host/runtime/src/isolation/convert.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files under a folder of the project, with their paths from its root.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((name, read(&path)));
            }
        }
    }
    found.sort();
    found
}

fn all_sources() -> Vec<(String, String)> {
    ["host", "guest-sdk", "example-tools", "tests"].iter().flat_map(|folder| sources(folder)).collect()
}

/// The lines before the unit tests.
fn before_tests(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let begins_tests = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].ends_with('{');
    let end = lines.windows(2).position(begins_tests).unwrap_or(lines.len());
    lines[..end].to_vec()
}

/// The names under `[dependencies]`, without those for tests and benches.
fn dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = read(&root().join(folder).join("Cargo.toml"));
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]")).unwrap_or_default();
    section.lines().skip(1).filter_map(|line| Some(line.split_once(['=', '.'])?.0.trim().to_owned())).collect()
}

fn fail_on(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}\n  {}", broken.join("\n  "));
}

#[test]
fn crates_depend_on_each_other_as_the_star_says() {
    let ours: BTreeSet<&str> = STAR.iter().map(|(name, ..)| *name).collect();
    let mut broken = Vec::new();
    for (name, folder, allowed) in STAR {
        for dependency in dependencies(folder).iter().filter(|dependency| ours.contains(dependency.as_str())) {
            if !allowed.contains(&dependency.as_str()) {
                broken.push(format!("{name} depends on {dependency}"));
            }
        }
    }
    fail_on("the star of crates", &broken);
}

#[test]
fn engines_and_clients_are_named_in_one_crate_each() {
    let mut broken = Vec::new();
    for (confined, home) in CONFINED {
        let is_home = |folder: &str| CONFINED.contains(&(*confined, folder));
        for (name, folder, _) in STAR.iter().filter(|(_, folder, _)| !is_home(folder)) {
            if dependencies(folder).contains(*confined) {
                broken.push(format!("{name} names {confined}, which belongs to {home}"));
            }
        }
    }
    fail_on("confined crates", &broken);
}

#[test]
fn core_does_no_input_or_output() {
    let forbidden = [
        "std::fs",
        "std::net",
        "std::env",
        "std::process",
        "std::thread",
        "Instant",
        "SystemTime",
        "tokio",
        "wasmtime::",
    ];
    let mut broken = Vec::new();
    for (name, text) in sources("host/core/src").into_iter().filter(|(name, _)| !name.contains("/tests")) {
        for (number, line) in before_tests(&text).iter().enumerate().filter(|(_, line)| !line.trim().starts_with("//"))
        {
            if let Some(word) = forbidden.iter().find(|word| line.contains(*word)) {
                broken.push(format!("{name}:{}: {word}", number + 1));
            }
        }
    }
    fail_on("nothing in core reads a clock, a file or a socket", &broken);
}

#[test]
fn files_and_functions_are_short() {
    let mut broken = Vec::new();
    for (name, text) in all_sources() {
        let lines = before_tests(&text);
        if lines.len() > MOST_LINES && !name.contains("/tests/") {
            broken.push(format!("{name}: {} lines before its tests; at most {MOST_LINES}", lines.len()));
        }
        broken.extend(long_functions(&name, &text));
    }
    fail_on("files and functions are short", &broken);
}

/// rustfmt puts the brace that ends a function under its beginning.
fn long_functions(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut long = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let words: Vec<&str> = code.split_whitespace().take_while(|word| *word != "fn").collect();
        let is_function = code.split_whitespace().any(|word| word == "fn")
            && words.iter().all(|word| word.starts_with("pub") || ["const", "async", "extern"].contains(word));
        if !is_function || code.ends_with(['}', ';']) {
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        let end = lines[start..].iter().position(|line| *line == format!("{indent}}}"));
        if let Some(length) = end.filter(|length| length + 1 > MOST_FUNCTION_LINES) {
            long.push(format!("{name}:{}: a function of {} lines", start + 1, length + 1));
        }
    }
    long
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = |(name, text): (String, String)| (!text.starts_with("//! ")).then_some(name);
    let broken: Vec<_> = all_sources().into_iter().filter_map(silent).collect();
    fail_on("every file begins with `//!` and what it is for", &broken);
}

#[test]
fn no_file_is_named_after_nothing() {
    let vague = ["utils", "util", "helpers", "helper", "manager", "internal", "common", "misc"];
    let stem = |name: &str| Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let broken: Vec<_> = all_sources()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| stem(name).is_some_and(|stem| vague.contains(&stem.as_str())))
        .collect();
    fail_on("files are named after their concern", &broken);
}

#[test]
fn unsafe_code_is_in_one_file() {
    let mut broken = Vec::new();
    for (name, text) in sources("host") {
        let is_code = |line: &&str| !line.trim_start().starts_with("//") && line.contains("unsafe ");
        if !UNSAFE.contains(&name.as_str()) && before_tests(&text).iter().any(is_code) {
            broken.push(name);
        }
    }
    fail_on("unsafe code is in one file", &broken);
}

#[test]
fn untrusted_text_is_exposed_in_listed_files_only() {
    let exposes = |text: &str| before_tests(text).iter().any(|line| line.contains("expose_raw"));
    let found: BTreeSet<String> = sources("host")
        .into_iter()
        .filter(|(name, text)| name.contains("/src/") && exposes(text))
        .map(|it| it.0)
        .collect();
    let listed: BTreeSet<String> = RAW.iter().map(|name| (*name).to_owned()).collect();
    let broken: Vec<String> = found.symmetric_difference(&listed).cloned().collect();
    fail_on("raw text of others is used in the files that are listed, and in all of these", &broken);
    // What is serialized as a whole has the raw text in it. A failure has none.
    let mut broken = Vec::new();
    for (name, text) in sources("host/mcp/src/server") {
        let is_raw = |line: &&str| line.contains("serde_json::to_") && !line.contains("to_value(error)");
        if before_tests(&text).iter().any(is_raw) {
            broken.push(name);
        }
    }
    fail_on("the MCP server writes no value of ours as a whole", &broken);
}

#[test]
fn modules_do_not_go_in_circles() {
    let mut broken = Vec::new();
    for (name, folder, _) in STAR {
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (file, text) in sources(&format!("{folder}/src")) {
            let module = module_of(&file, folder);
            if module == "lib" || module == "main" {
                continue;
            }
            let named = before_tests(&text).into_iter().flat_map(named_modules).filter(|used| *used != module);
            uses.entry(module.clone()).or_default().extend(named);
        }
        for module in uses.keys() {
            if let Some(path) = way_back(module, &uses) {
                broken.push(format!("{name}: {}", path.join(" → ")));
            }
        }
    }
    fail_on("modules do not go in circles", &broken);
}

/// `host/core/src/gate/words.rs` → `gate`: what is inside a folder is one concern.
fn module_of(file: &str, folder: &str) -> String {
    let inside = file.strip_prefix(&format!("{folder}/src/")).unwrap();
    inside.split(['/', '.']).next().unwrap().to_owned()
}

/// The modules that a line of code names as `crate::module`.
fn named_modules(line: &str) -> Vec<String> {
    if line.trim_start().starts_with("//") {
        return Vec::new();
    }
    let word = |rest: &str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned();
    let mut named = Vec::new();
    for rest in line.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(list) => named.extend(list.split(',').map(|item| word(item.trim_start()))),
            None => named.push(word(rest)),
        }
    }
    named.retain(|name| name.chars().next().is_some_and(char::is_lowercase));
    named
}

/// The shortest way from a module to itself.
fn way_back(module: &str, uses: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut ways = vec![vec![module.to_owned()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in uses.get(way.last()?).into_iter().flatten() {
                let mut way = way.clone();
                way.push(next.clone());
                if next == module {
                    return Some(way);
                }
                if seen.insert(next.clone()) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}
