//! Malformed configurations, key by key: each fault is reported with its file, its line and a fix.

use std::path::Path;

use serde_json::Value;
use toml::Table;
use toml::value::{Date, Datetime};

use super::file::schema;
use super::read::read;

const FILE: &str = "fumehood.toml";
/// Maximum depth of sections.
const MAX_DEPTH: usize = 10;

/// Returns the message for a text that is refused.
fn rejection(text: &str) -> String {
    match read(Path::new(FILE), text) {
        Ok(_) => panic!("it should be refused:\n{text}"),
        Err(faults) => faults.to_string(),
    }
}

/// A step on the way from the outermost table to a value.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Key(String),
    First,
}

/// Collects every path that the schema has a key for.
fn places(root: &Value, at: &Value, path: &[Step], found: &mut Vec<Vec<Step>>) {
    assert!(path.len() < MAX_DEPTH, "{path:?}");
    if let Some(name) = at["$ref"].as_str() {
        let definition = root.pointer(name.trim_start_matches('#')).unwrap();
        places(root, definition, path, found);
    }
    for choices in ["anyOf", "oneOf", "allOf"] {
        for choice in at[choices].as_array().into_iter().flatten() {
            places(root, choice, path, found);
        }
    }
    let below = |step: Step| [path, &[step]].concat();
    let known = at["properties"].as_object().into_iter().flatten();
    let named = known.map(|(key, inner)| (below(Step::Key(key.clone())), inner));
    let any =
        at["additionalProperties"].as_object().map(|_| (below(Step::Key("x".to_owned())), &at["additionalProperties"]));
    let items = at["items"].as_object().map(|_| (below(Step::First), &at["items"]));
    for (path, inner) in named.chain(any).chain(items) {
        if !found.contains(&path) {
            found.push(path.clone());
        }
        places(root, inner, &path, found);
    }
}

/// Returns a configuration with a date at this path: no key takes one.
fn with_a_date(path: &[Step]) -> String {
    let date = Datetime { date: Some(Date { year: 1979, month: 5, day: 27 }), time: None, offset: None };
    let value = path.iter().rev().fold(toml::Value::Datetime(date), |inner, step| match step {
        Step::Key(key) => Table::from_iter([(key.clone(), inner)]).into(),
        Step::First => vec![inner].into(),
    });
    toml::to_string(value.as_table().unwrap()).unwrap()
}

/// Formats a path as messages have it.
fn format_path(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.push_str(&format!(".{key}")),
            Step::First => text.push_str("[0]"),
        }
    }
    text
}

#[test]
fn reports_every_wrong_type_with_its_line() {
    let schema = schema();
    let mut found = Vec::new();
    places(&schema, &schema, &[], &mut found);
    assert!(found.len() > 120, "{}", found.len());
    for path in &found {
        let text = with_a_date(path);
        let faults = rejection(&text);
        let name = format_path(path);
        let line = text.lines().position(|line| line.contains("1979-05-27")).unwrap() + 1;
        let begins = format!("{FILE}:{line}:");
        let is_reported = |message: &str| {
            message.contains(&begins)
                && message.contains(&format!("`{name}` is a date"))
                && message.contains("expected ")
        };
        assert!(faults.lines().any(is_reported), "{name}:\n{text}\n{faults}");
    }
}

#[test]
fn suggests_a_key_for_every_misspelt_one() {
    let schema = schema();
    let mut found = Vec::new();
    places(&schema, &schema, &[], &mut found);
    let is_key = |path: &&Vec<Step>| matches!(path.last(), Some(Step::Key(key)) if key != "x" && key.len() > 3);
    for path in found.iter().filter(is_key) {
        let Some((Step::Key(key), outer)) = path.split_last() else { continue };
        let misspelt = [outer, &[Step::Key(format!("{key}x"))]].concat();
        let faults = rejection(&with_a_date(&misspelt));
        assert!(faults.contains(&format!("unknown key `{key}x`")), "{faults}");
        assert!(faults.contains("did you mean `"), "{faults}");
    }
}

/// Checks the message for a line of `[tools.notes]`, which is the fourth line of the file.
fn check(line: &str, expected: &[&str]) {
    let text = format!("[tools.notes]\ncomponent = \"notes.wasm\"\n# The line:\n{line}\n");
    let faults = rejection(&text);
    let message = faults
        .lines()
        .find(|message| message.contains(&format!("{FILE}:4:")) || message.contains(&format!("{FILE}:5:")));
    let message = message.unwrap_or_else(|| panic!("{line}: {faults}"));
    for part in expected {
        assert!(message.contains(part), "{line}: {part:?} is missing in: {message}");
    }
}

#[test]
fn powers_that_cannot_be_granted_come_with_a_fix() {
    // Nothing, where that has no meaning.
    check("clock = \"0s\"", &["the clock resolution is zero", "expected 1us to 1s"]);
    check("clock = \"2s\"", &["1us to 1s"]);
    check("scratch = 0", &["a quota of zero bytes"]);
    check("key_value = 0", &["is too small", "expected at least 1.0 KiB"]);
    check("write = [{ folder = \"./o\", guest = \"/o\", bytes = 0 }]", &["a quota of zero bytes", "leave it out"]);
    check("write = [{ folder = \"./o\", guest = \"/o\", entries = 0 }]", &["zero", "leave it out"]);
    for limit in ["requests", "bytes_out", "bytes_in", "in_flight"] {
        let line = format!("http = [\"https://a.example/**\"]\nhttp_limits = {{ {limit} = 0 }}");
        check(&line, &[&format!("the limit `{limit}` of requests is zero"), "leave it out"]);
    }
    for limit in ["connect", "tls", "first_byte", "between_bytes"] {
        let line = format!("http = [\"https://a.example/**\"]\nhttp_limits = {{ {limit} = \"0s\" }}");
        check(&line, &[&format!("the limit `{limit}` of requests is zero"), "leave it out"]);
    }
    for limit in ["deadline", "memory", "fuel", "output"] {
        let zero = if limit == "deadline" { "\"0s\"" } else { "0" };
        check(&format!("limits = {{ {limit} = {zero} }}"), &[&format!("the {limit} limit is zero"), "leave it out"]);
    }
    check("http_limits = { requests = 1 }", &["`http_limits` has no effect without `http`"]);
    check("http_limits = { requests = \"5G\" }\nhttp = [\"https://a.example/**\"]", &["the maximum is 4294967295"]);

    // Patterns for everything, and for nothing.
    check("http = [\"GET https://*/**\"]", &["would allow every host", "name one"]);
    check("http = [\"GET *://a.example/**\"]", &["for requests:"]);
    check("http = [\"* https://a.example/**\"]", &["unknown method"]);
    check("http = [\"GET https://a.*.example/**\"]", &["for requests:"]);
    check("http = [\"GET https://a.example/*\"]", &["a star is allowed only as `/**`"]);
    check("http = [\"\"]", &["for requests:", "expected methods and a URL"]);
    check("private_addresses = [\"::/0\"]\nhttp = [\"https://a.example/**\"]", &["would allow every private address"]);

    // Addresses in the place of names, and names in other scripts.
    check("http = [\"http://127.0.0.1/**\"]", &["can never match", "private_addresses = [\"127.0.0.1/32\"]"]);
    check("http = [\"http://0x7f.1/**\"]", &["127.0.0.1"]);
    check("http = [\"http://[::1]/**\"]", &["can never match", "::1"]);
    check("http = [\"http://169.254.169.254/**\"]", &["can never match", "169.254.169.254"]);
    check(
        "http = [\"https://bücher.example/**\"]",
        &["means `xn--bcher-kva.example`", "write `xn--bcher-kva.example` instead"],
    );
    check("http = [\"https://раураl.example/**\"]", &["means `xn--"]);
    check("http = [\"https://exa\u{200b}mple.com/**\"]", &["means `example.com`"]);
    check("http = [\"https://１２７.0.0.1/**\"]", &["127.0.0.1"]);

    // The rest.
    check("read = [\"./docs\"]", &["has no path for the tool", "`./docs:/docs`"]);
    check("read = [\"~/x:/x\"]", &["starts with `~`"]);
    check("env = { \"A=B\" = \"1\" }", &["invalid variable name"]);
    check("args = [\"a\\u0000b\"]", &["zero"]);
    check("approval = \"never\"", &["expected \"required\", \"off\""]);
    check("random_seed = -1", &["random_seed"]);
    check("private_addresses = [\"example.com\"]\nhttp = [\"https://a.example/**\"]", &["invalid address"]);
}

#[test]
fn rejects_secrets_that_make_no_sense() {
    fn secret(more: &str) -> String {
        format!(
            "http = [\"https://api.example.com/**\"]\nsecrets = [{{ name = \"t\", from = {{ env = \"T\" }}, \
             for = \"https://api.example.com/**\", {more} }}]"
        )
    }
    check(&secret("header = \"Host\""), &["a secret cannot be sent in the header `host`"]);
    check(&secret("header = \"X-Key\", query = \"key\""), &["needs one of: header"]);
    check(&secret("value = \"{secret}\""), &["needs one of: header"]);
    check(&secret("query = \"key\", value = \"{secret}\""), &["`value` works only with `header`"]);
    check(&secret("header = \"X-Key\", value = \"plain\""), &["{secret}"]);
    let elsewhere = secret("header = \"X-Key\"").replace("for = \"https://api", "for = \"https://other");
    check(&elsewhere, &["`t` could never be used", "no rule allows a request to https://other.example.com/**"]);
    let wide = secret("header = \"X-Key\"").replace("for = \"https://api.example.com", "for = \"https://*");
    check(&wide, &["invalid target", "would allow every host"]);
}

#[test]
fn rejects_two_policies_for_one_tool() {
    let twice = rejection("[tools.a]\ncomponent = \"a\"\n[tools.a]\ncomponent = \"b\"\n");
    assert!(twice.contains("fumehood.toml:3:8: this is not TOML: duplicate key"), "{twice}");
    let folded = rejection("[tools.a-b]\ncomponent = \"a\"\n[tools.a_b]\ncomponent = \"b\"\n");
    assert!(folded.contains("fumehood.toml:3:1: `a-b` and `a_b` conflict"), "{folded}");
    let server = rejection("[tools.a-b]\ncomponent = \"a\"\n[mcp.servers.a_b]\ncommand = [\"x\"]\n");
    assert!(server.contains("fumehood.toml:3:1: `a-b` is in [tools]"), "{server}");
    let same = rejection("[tools.a]\ncomponent = \"a\"\n[mcp.servers.a]\ncommand = [\"x\"]\n");
    assert!(same.contains("`a` is in [tools] and in [mcp.servers]; rename one of them"), "{same}");
}

#[test]
fn http_in_flight_is_at_least_one() {
    for (value, shown) in [("0", "0"), ("\"5G\"", "5000000000")] {
        let faults = rejection(&format!("http_in_flight = {value}\n"));
        assert!(faults.contains(&format!("fumehood.toml:1:18: {shown} is out of range")), "{faults}");
    }
    assert!(read(Path::new(FILE), "http_in_flight = 1\n").is_ok());
}
