//! Rules about files: their size, their first line, and code that only some of them may contain.

use std::collections::BTreeSet;
use std::path::Path;

use super::{GENERATED, all_sources, before_tests, fail_on, sources};

const MAX_LINES: usize = 800;
const MAX_FUNCTION_LINES: usize = 70;

/// Folders of the code that runs beside untrusted guests.
const HOST: [&str; 2] = ["host", "bindings"];

/// Files under these folders that may contain `unsafe` code: the authenticated code cache.
const UNSAFE: &[&str] = &["host/runtime/src/load/cache/map.rs"];

/// Files that may use the raw text of tools, servers and models: for digests, schemas, redaction and parsing, or for
/// JSON that programs read.
const RAW: &[&str] = &[
    "bindings/python/src/result.rs",
    "host/agent/src/code/value.rs",
    "host/agent/src/drivers/native/inline.rs",
    "host/agent/src/drivers/react/decision.rs",
    "host/agent/src/output_schema.rs",
    "host/cli/src/commands/mcp/client.rs",
    "host/cli/src/config/tool_names.rs",
    "host/core/src/policy/approval/library.rs",
    "host/core/src/policy/approval/mod.rs",
    "host/core/src/policy/approval/tool_manifest.rs",
    "host/core/src/call/content.rs",
    "host/core/src/call/mcp_members.rs",
    "host/core/src/tool/definition.rs",
    "host/core/src/tool/resource.rs",
    "host/core/src/policy/redact.rs",
    "host/core/src/call/result.rs",
    "host/core/src/tool/mod.rs",
    "host/core/src/text/untrusted.rs",
    "host/fumehood/src/hooks/component_hook.rs",
    "host/fumehood/src/hooks/protocol.rs",
    "host/fumehood/src/hooks/redaction.rs",
    "host/fumehood/src/load/load_tools.rs",
    "host/mcp/src/client/remote_tool.rs",
    "host/mcp/src/client/call_tool_result.rs",
    "host/mcp/src/client/tool_pins.rs",
    "host/runtime/src/isolation/convert.rs",
];

/// Text of code that makes a client of HTTP or a connection, with the files that may: the transport, the requests of tools, the
/// recorder that passes them on, and a test of the jail.
const CLIENTS: &[(&str, &[&str])] = &[
    (
        "reqwest::",
        &[
            "host/transport/src/client.rs",
            "host/transport/src/relay.rs",
            "host/transport/src/request.rs",
            "host/transport/src/response.rs",
        ],
    ),
    (
        "hyper::client",
        &[
            "host/author/src/cases/http_recorder.rs",
            "host/runtime/src/network/proxy.rs",
            "host/runtime/src/wasi/http/exchange.rs",
        ],
    ),
    ("hyper_util::client", &[]),
    (
        "TcpStream::connect",
        &[
            "host/author/src/cases/http_recorder.rs",
            "host/runtime/src/jail/tests.rs",
            "host/runtime/src/network/proxy.rs",
            "host/runtime/src/wasi/http/exchange.rs",
            "host/runtime/src/wasi/sockets/direct.rs",
        ],
    ),
    ("from_uri(", &[]),
];

#[test]
fn files_and_functions_are_short() {
    let mut broken = Vec::new();
    for (name, text) in all_sources().into_iter().filter(|(name, _)| !GENERATED.contains(&name.as_str())) {
        let lines = before_tests(&text);
        if lines.len() > MAX_LINES && !name.contains("/tests/") {
            broken.push(format!("{name}: {} lines before its tests; at most {MAX_LINES}", lines.len()));
        }
        broken.extend(long_functions(&name, &text));
    }
    fail_on("files and functions are short", &broken);
}

/// Finds functions that are too long. rustfmt puts the closing brace of a function at the indentation of its first
/// line.
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
        if let Some(length) = end.filter(|length| length + 1 > MAX_FUNCTION_LINES) {
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
    for (name, text) in HOST.into_iter().chain(["guest-sdk"]).flat_map(sources) {
        let is_code = |line: &&str| !line.trim_start().starts_with("//") && line.contains("unsafe ");
        let is_listed = UNSAFE.iter().chain(GENERATED).any(|listed| *listed == name);
        if !is_listed && before_tests(&text).iter().any(is_code) {
            broken.push(name);
        }
    }
    fail_on("unsafe code is in one file, and in generated bindings", &broken);
}

#[test]
fn generated_files_are_listed() {
    let is_generated = |text: &str| text.lines().any(|line| line.starts_with("// Generated by `wit-bindgen`"));
    let found: Vec<String> =
        all_sources().into_iter().filter(|(_, text)| is_generated(text)).map(|(name, _)| name).collect();
    assert_eq!(found, GENERATED, "files that are generated are listed, and no others");
}

#[test]
fn outgoing_requests_are_made_in_listed_files_only() {
    for (client, listed) in CLIENTS {
        let is_code = |line: &&str| !line.trim_start().starts_with("//") && line.contains(client);
        let found: BTreeSet<String> = HOST
            .into_iter()
            .flat_map(sources)
            .filter(|(name, text)| name.contains("/src/") && before_tests(text).iter().any(is_code))
            .map(|(name, _)| name)
            .collect();
        let listed: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
        let broken: Vec<String> = found.symmetric_difference(&listed).cloned().collect();
        fail_on(&format!("`{client}` is in the files that are listed, and in all of these"), &broken);
    }
}

#[test]
fn untrusted_text_is_exposed_in_listed_files_only() {
    let exposes = |text: &str| before_tests(text).iter().any(|line| line.contains("expose_raw"));
    let found: BTreeSet<String> = HOST
        .into_iter()
        .flat_map(sources)
        .filter(|(name, text)| name.contains("/src/") && exposes(text))
        .map(|it| it.0)
        .collect();
    let listed: BTreeSet<String> = RAW.iter().map(|name| (*name).to_owned()).collect();
    let broken: Vec<String> = found.symmetric_difference(&listed).cloned().collect();
    fail_on("raw text of others is used in the files that are listed, and in all of these", &broken);
    // A value that is serialized as a whole contains raw text. An error has none, and an answer of the protocol was sanitized.
    let mut broken = Vec::new();
    for (name, text) in sources("host/mcp/src/server") {
        let is_clean = |line: &str| line.contains("to_value(error)") || line.contains("to_value(answer)");
        let is_raw = |line: &&str| line.contains("serde_json::to_") && !is_clean(line);
        if before_tests(&text).iter().any(is_raw) {
            broken.push(name);
        }
    }
    fail_on("the MCP server writes no value of ours as a whole", &broken);
}
