//! Rules about dependencies between crates and between modules.

use std::collections::{BTreeMap, BTreeSet};

use super::{PACKAGES, Package, before_tests, fail_on, sources};

/// Packages of the workspace, each with those of the workspace that it may depend on.
const STAR: &[(&str, &[&str])] = &[
    ("fumehood-core", &[]),
    ("fumehood-config", &["fumehood-core"]),
    ("fumehood-platform", &[]),
    ("fumehood-runtime", &["fumehood-core", "fumehood-platform"]),
    ("fumehood-agent", &["fumehood-core"]),
    ("fumehood-transport", &["fumehood-core"]),
    ("fumehood-model", &["fumehood-core", "fumehood-transport"]),
    ("fumehood-storage", &["fumehood-core", "fumehood-platform"]),
    ("fumehood-layers", &["fumehood-core", "fumehood-platform"]),
    ("fumehood-server", &["fumehood-core", "fumehood-layers", "fumehood-platform", "fumehood-transport"]),
    ("fumehood-mcp", &["fumehood-core", "fumehood-platform", "fumehood-server", "fumehood-transport"]),
    ("fumehood-registry", &["fumehood-core", "fumehood-platform", "fumehood-transport"]),
    ("fumehood-telemetry", &["fumehood-core", "fumehood-server", "fumehood-transport"]),
    ("fumehood-cell", &["fumehood-core", "fumehood-platform"]),
    (
        "fumehood",
        &[
            "fumehood-agent",
            "fumehood-cell",
            "fumehood-config",
            "fumehood-core",
            "fumehood-layers",
            "fumehood-mcp",
            "fumehood-model",
            "fumehood-platform",
            "fumehood-registry",
            "fumehood-runtime",
            "fumehood-server",
            "fumehood-storage",
            "fumehood-telemetry",
        ],
    ),
    ("fumehood-author", &["fumehood", "fumehood-platform"]),
    ("fumehood-cli", &["fumehood", "fumehood-author", "fumehood-config", "fumehood-platform", "fumehood-registry"]),
    // `fumehood_guest::testing` uses the core, behind a feature.
    ("fumehood-guest", &["fumehood-core", "fumehood-guest-macros"]),
    ("fumehood-guest-macros", &[]),
    ("fumehood-guest-http", &["fumehood-guest"]),
    ("fumehood-guest-hooks", &[]),
    ("fumehood-node", &["fumehood"]),
    ("fumehood-python", &["fumehood"]),
    ("fumehood-build-tools", &["fumehood-author"]),
    // The suite of key-value stores is written for the port.
    ("fumehood-tests", &["fumehood-core"]),
    (HACK, &[]),
];

/// Name of the package that unifies the features of all dependencies, and so names every one of them.
const HACK: &str = "fumehood-workspace-hack";

/// Prefix of the example tools, which depend on the guest SDK alone.
const EXAMPLE: &str = "fumehood-tool-";

/// Dependencies that only the listed packages may name.
const CONFINED: &[(&str, &[&str])] = &[
    // The builder runs the initialization of the interpreter, whose result it commits.
    ("wasmtime", &["fumehood-build-tools", "fumehood-runtime"]),
    ("wasmtime-wizer", &["fumehood-build-tools"]),
    ("wasmtime-wasi", &["fumehood-runtime"]),
    ("wasmtime-wasi-http", &["fumehood-runtime"]),
    ("cap-std", &["fumehood-cli", "fumehood-runtime"]),
    ("inotify", &["fumehood-cli"]),
    ("landlock", &["fumehood-runtime"]),
    ("libc", &["fumehood-runtime"]),
    ("rustix", &["fumehood-platform", "fumehood-runtime"]),
    ("seccompiler", &["fumehood-runtime"]),
    ("jsonschema", &["fumehood-core"]),
    ("rusqlite", &["fumehood-storage"]),
    ("tokio-postgres", &["fumehood-storage"]),
    ("genai", &["fumehood-model"]),
    ("rmcp", &["fumehood-mcp"]),
    ("axum", &["fumehood-server"]),
    ("utoipa", &["fumehood-server"]),
    ("utoipa-axum", &["fumehood-server"]),
    ("askama", &["fumehood-server"]),
    ("oci-client", &["fumehood-registry"]),
    ("opentelemetry", &["fumehood-telemetry"]),
    ("opentelemetry_sdk", &["fumehood-telemetry"]),
    ("opentelemetry-otlp", &["fumehood-telemetry"]),
    ("prometheus-client", &["fumehood-telemetry"]),
    ("plotters", &["fumehood-cli"]),
    ("ratatui", &["fumehood-cli"]),
    ("reqwest", &["fumehood-transport"]),
    ("async-nats", &["fumehood-cell"]),
    ("ring", &["fumehood-cell", "fumehood-registry", "fumehood-server"]),
    ("sigstore-bundle", &["fumehood-registry"]),
    ("sigstore-crypto", &["fumehood-registry"]),
    ("sigstore-types", &["fumehood-registry"]),
    ("keyring-core", &["fumehood"]),
    ("linux-keyutils-keyring-store", &["fumehood"]),
    ("rustyline", &["fumehood-cli"]),
    ("clap", &["fumehood-cli", "fumehood-config", "fumehood-build-tools"]),
    ("napi", &["fumehood-node"]),
    ("pyo3", &["fumehood-python"]),
];

fn is_ours(dependency: &str) -> bool {
    dependency != HACK && PACKAGES.iter().any(|package| package.name == dependency)
}

/// Returns the packages of the workspace that this one may depend on.
fn allowed(package: &Package) -> Option<&'static [&'static str]> {
    if package.name.starts_with(EXAMPLE) {
        return Some(&["fumehood-guest", "fumehood-guest-hooks", "fumehood-guest-http"]);
    }
    STAR.iter().find(|(name, _)| *name == package.name).map(|(_, allowed)| *allowed)
}

#[test]
fn crates_depend_on_each_other_as_listed() {
    let mut broken = Vec::new();
    for package in PACKAGES.iter() {
        let Some(allowed) = allowed(package) else {
            broken.push(format!("{} is not in the list of packages", package.name));
            continue;
        };
        let ours = package.dependencies.iter().filter(|dependency| is_ours(dependency));
        let forbidden = ours.filter(|dependency| !allowed.contains(&dependency.as_str()));
        broken.extend(forbidden.map(|dependency| format!("{} depends on {dependency}", package.name)));
    }
    let gone = STAR.iter().filter(|(name, _)| PACKAGES.iter().all(|package| package.name != *name));
    broken.extend(gone.map(|(name, _)| format!("{name} is listed and is no package of the workspace")));
    fail_on("crates depend on each other as ARCHITECTURE.md says", &broken);
}

#[test]
fn engines_and_clients_are_confined() {
    let mut broken = Vec::new();
    for (confined, homes) in CONFINED {
        for package in PACKAGES.iter().filter(|package| package.name != HACK) {
            let names_it = package.dependencies.iter().any(|dependency| dependency == confined);
            if names_it && !homes.contains(&package.name.as_str()) {
                broken.push(format!("{} names {confined}, which belongs to {}", package.name, homes.join(" and ")));
            }
        }
        for home in *homes {
            let names_it = |package: &Package| package.dependencies.iter().any(|dependency| dependency == confined);
            if !PACKAGES.iter().any(|package| package.name == *home && names_it(package)) {
                broken.push(format!("{home} is listed for {confined} and does not name it"));
            }
        }
    }
    fail_on("engines and clients are named by the crates that they belong to", &broken);
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
            // Channels and cancellation need no executor.
            let line = line.replace("tokio::sync", "").replace("tokio_util::sync", "");
            if let Some(word) = forbidden.iter().find(|word| line.contains(*word)) {
                broken.push(format!("{name}:{}: {word}", number + 1));
            }
        }
    }
    fail_on("nothing in core reads a clock, a file or a socket", &broken);
}

#[test]
fn modules_do_not_go_in_circles() {
    let mut broken = Vec::new();
    for Package { name, folder, .. } in PACKAGES.iter() {
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (file, text) in sources(&format!("{folder}/src")) {
            let module = module_of(&file, folder);
            if module == "lib" || module == "main" {
                continue;
            }
            let named = named_modules(&code_of(&text), depth_of(&file, folder));
            let named = named.into_iter().filter(|used| *used != module);
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

/// Returns the top-level module of a file: `host/core/src/schema/gate/format.rs` is part of `gate`.
fn module_of(file: &str, folder: &str) -> String {
    let inside = file.strip_prefix(&format!("{folder}/src/")).unwrap();
    inside.split(['/', '.']).next().unwrap().to_owned()
}

/// Returns how deep the module of a file is in its crate: 1 for `src/schema.rs` and `src/schema/mod.rs`.
fn depth_of(file: &str, folder: &str) -> usize {
    let inside = file.strip_prefix(&format!("{folder}/src/")).unwrap().trim_end_matches(".rs").trim_end_matches("/mod");
    inside.split('/').count()
}

/// Returns the code of a file before its tests, without comments and white space.
fn code_of(text: &str) -> String {
    let code = before_tests(text).into_iter().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
}

/// Returns the top-level modules that code names, in a module of this depth: as `crate::module`, as one item of
/// `crate::{…}`, or with as many `super::` as lead out of its own.
fn named_modules(code: &str, depth: usize) -> Vec<String> {
    let out = "super::".repeat(depth);
    let starts = ["crate::", &out].map(|start| {
        // A longer chain of `super` would lead out of the crate.
        code.match_indices(start).map(|(at, found)| &code[at + found.len()..]).collect::<Vec<_>>()
    });
    let word = |rest: &str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned();
    let mut named = Vec::new();
    for rest in starts.into_iter().flatten() {
        match rest.strip_prefix('{') {
            Some(list) => named.extend(items(list).into_iter().map(word)),
            None => named.push(word(rest)),
        }
    }
    named.retain(|name| name.chars().next().is_some_and(char::is_lowercase) && name != "super" && name != "self");
    named
}

/// Returns the items of a list up to its closing brace, without those of lists inside it.
fn items(list: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                items.push(&list[start..at]);
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    items
}

#[test]
fn modules_are_found_however_they_are_named() {
    let check = |text: &str, depth, expected: &[&str]| assert_eq!(named_modules(&code_of(text), depth), expected);
    check("use crate::a::b;\n// crate::no\nfn f() { crate::c::d() }", 1, &["a", "c"]);
    check("use crate::{\n    a::{x, y},\n    b,\n    Type,\n};\nuse z;", 1, &["a", "b"]);
    check("use super::a::b;\nuse super::Type;", 1, &["a"]);
    check("use super::a;\nuse super::super::b;\nuse super::super::{c, d::e};", 2, &["b", "c", "d"]);
    check("use crate::a;\n#[cfg(test)]\nmod tests {\nuse crate::b;\n}", 1, &["a"]);
}

/// Returns the shortest cycle from a module to itself.
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
