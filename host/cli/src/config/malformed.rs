//! Malformed configurations, key by key: each fault is reported with its file, its line and a fix.

use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::Value;
use toml::Table;
use toml::value::{Date, Datetime};

use super::{parse, schema};

const FILE: &str = "fumehood.toml";
/// Maximum depth of sections.
const MAX_DEPTH: usize = 10;

/// Returns the message for a text that is refused.
fn rejection(text: &str) -> String {
    match parse(Path::new(FILE), text) {
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

    for limit in ["connections", "bytes_out", "bytes_in"] {
        let line = format!("tcp = [\"db.example.com:5432\"]\ntcp_limits = {{ {limit} = 0 }}");
        check(&line, &[&format!("the limit `{limit}` of connections is zero"), "leave it out"]);
    }
    check("tcp_limits = { connections = 1 }", &["`tcp_limits` has no effect without `tcp`"]);
    check("tcp = [\"db.example.com\"]", &["for connections: expected a host and a port"]);
    check("tcp = [\"*.example.com:5432\"]", &["a star is not allowed"]);
    check("tcp = [\"127.0.0.1:5432\"]", &["can never match", "private_addresses = [\"127.0.0.1/32\"]"]);
    check("private_addresses = [\"127.0.0.1\"]", &["has no effect without `http` or `tcp`"]);

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
    assert!(parse(Path::new(FILE), "http_in_flight = 1\n").is_ok());
}

/// Checks all messages for a text.
fn check_text(text: &str, expected: Expect) {
    let found = match parse(Path::new(FILE), text) {
        Ok(_) => "fine".to_owned(),
        Err(faults) => faults.to_string(),
    };
    expected.assert_eq(&found);
}

#[test]
fn accepts_an_empty_file() {
    check_text("", expect!["fine"]);
}

#[test]
fn reports_unknown_keys_with_place_and_suggestion() {
    check_text(
        "[limit]\ndeadline = \"2s\"\n",
        expect![
            "fumehood.toml:1:2: unknown key `limit` in the file; did you mean `limits`?; known keys: agent, \
             approval, arguments, cell, channels, flows, guardrails, hooks, http_in_flight, jobs, \
             key_value_store, knowledge, limits, log, logging, mcp, model, prompts, registry, serve, skills, storage, \
             telemetry, tenants, tools, tools_in"
        ],
    );
    check_text(
        "[limits]\ndedline = \"2s\"\nfule = 1\n",
        expect![[r#"
        fumehood.toml:2:1: unknown key `dedline` in [limits]; did you mean `deadline`?; known keys: deadline, fuel, log, memory, output, string
        fumehood.toml:3:1: unknown key `fule` in [limits]; did you mean `fuel`?; known keys: deadline, fuel, log, memory, output, string"#]],
    );
    check_text(
        "[tools.notes]\ncomponent = \"n.wasm\"\nlimits = { mem = \"1MiB\" }\nallow-write = []\n",
        expect![[r#"
            fumehood.toml:3:12: unknown key `mem` in [tools.notes.limits]; known keys: deadline, fuel, log, memory, output, string
            fumehood.toml:4:1: unknown key `allow-write` in [tools.notes]; known keys: allow_slow_compile, app_origins, approval, apps, args, clock, command, component, env, http, http_limits, isolation, key_value, limits, persist, private_addresses, random_seed, read, reference, result_bytes, scratch, secrets, sink, source, state, strict_imports, tcp, tcp_limits, wit, write"#]],
    );
    check_text(
        "[model]\nkey = { envv = \"KEY\" }\n",
        expect![[r#"
        fumehood.toml:2:7: `model.key` needs one of: env, file, keyring
        fumehood.toml:2:9: unknown key `envv` in [model.key]; did you mean `env`?; known keys: env, file, keyring"#]],
    );
    check_text(
        "[[tools.a.secrets]]\nname = \"k\"\nform = 1\n",
        expect![[r#"
            fumehood.toml:1:1: [tools.a.secrets[0]] has no `for`; add it. The requests that get it, such as `https://api.example.com/**`. `http` must allow them too.
            fumehood.toml:1:1: [tools.a.secrets[0]] has no `from`; add it. The source of the value.
            fumehood.toml:1:9: [tools.a]: it has neither `component`, a file, nor `reference`; add one of them
            fumehood.toml:3:1: unknown key `form` in [tools.a.secrets[0]]; did you mean `for`?; known keys: for, from, header, name, query, value"#]],
    );
}

#[test]
fn reports_wrong_types_with_what_was_expected() {
    check_text(
        "[limits]\ndeadline = 2\nfuel = 1.5\nmemory = true\n",
        expect![[r#"
        fumehood.toml:2:12: `limits.deadline` is a whole number; expected a text; put it in quotes: "2". Maximum wall time of a call, such as "2s". Default: 10s.
        fumehood.toml:3:8: `limits.fuel` is a number; expected a text or a whole number. Maximum fuel of a call, about one unit per instruction, such as "500M". Default: 10G.
        fumehood.toml:4:10: `limits.memory` is true or false; expected a text or a whole number. Maximum memory of a call, such as "128MiB". Default: 64MiB."#]],
    );
    check_text(
        "[tools.a]\ncomponent = 5\nread = \"./docs:/docs\"\nwrite = [1, {}]\n",
        expect![[r#"
            fumehood.toml:1:1: [tools.a]: it has neither `component`, a file, nor `reference`; add one of them
            fumehood.toml:2:13: `tools.a.component` is a whole number; expected a text; put it in quotes: "5". The `.wasm` file, relative to this configuration. Set either `component` or `reference`.
            fumehood.toml:3:8: `tools.a.read` is a text; expected a list; write ["./docs:/docs"]. Folders that it may read, as "HOST:GUEST", such as "./docs:/docs".
            fumehood.toml:4:10: `tools.a.write[0]` is a whole number; expected a text or a table.
            fumehood.toml:4:13: [tools.a.write[1]] has no `folder`; add it. The folder on this machine, relative to this configuration.
            fumehood.toml:4:13: [tools.a.write[1]] has no `guest`; add it. The path at which the tool sees it, such as "/out"."#]],
    );
    check_text(
        "tools = []\n[agent]\ndriver = \"reakt\"\nsystem = 1\n",
        expect![[r#"
            fumehood.toml:1:9: `tools` is a list; expected a table. Components and their grants. The full name of a tool is NAME__TOOL.
            fumehood.toml:3:10: `agent.driver` is "reakt"; expected "native", "react", "batch"; did you mean `react`?
            fumehood.toml:4:10: `agent.system` is a whole number; expected a text or a table. The system prompt: a text, or { file = "PATH" }."#]],
    );
    check_text(
        "[tools]\na = 1\n[model]\nsupports_tools = 1979-05-27\nkey = {}\n",
        expect![[r#"
            fumehood.toml:2:5: `tools.a` is a whole number; expected a table.
            fumehood.toml:4:18: `model.supports_tools` is a date; expected true or false. Set to false if the model does not support tools. Default: true.
            fumehood.toml:5:7: `model.key` needs one of: env, file, keyring"#]],
    );
}

#[test]
fn reports_all_bad_values() {
    check_text(
        "[limits]\ndeadline = \"fast\"\nfuel = \"-1\"\n[tools.a]\ncomponent = \"a.wasm\"\nlimits = { memory = \"big\" }\n",
        expect![[r#"
            fumehood.toml:2:12: `limits.deadline`: invalid time `fast`; expected a number with a unit, such as `250ms`, `2s` or `1m 30s`
            fumehood.toml:3:8: `limits.fuel`: invalid count `-1`; expected a whole number, such as `500`, or with `k`, `M` or `G` for thousands, millions or billions
            fumehood.toml:6:21: `tools.a.limits.memory`: invalid size `big`; expected a number with a unit, such as `512KiB` or `64MiB`"#]],
    );
    check_text(
        "[limits]\ndeadline = \"0s\"\n[tools.\"A B\"]\ncomponent = \"a.wasm\"\n",
        expect![[r#"
        fumehood.toml:1:1: the deadline limit is zero, so no call could succeed; leave it out for the default
        fumehood.toml:3:1: [tools.A B]: the name `A B` contains 'A'; expected only `a-z`, `0-9`, `_` and `-`"#]],
    );
    check_text(
        "[model]\nname = \"llama\"\ntemperature = 3\n",
        expect![[r#"
        fumehood.toml:2:8: invalid model `llama`; expected PROVIDER:NAME, such as `ollama:llama3.2`, or scripted:FILE
        fumehood.toml:3:15: `model.temperature`: invalid value: floating point `3.0`, expected a number from 0 to 2, or "provider""#]],
    );
    check_text(
        "[serve]\nhttp = \"localhost:80\"\n",
        expect![[
            r#"fumehood.toml:2:8: invalid address `localhost:80`; expected an IP address and a port, such as "127.0.0.1:8080""#
        ]],
    );
    check_text(
        "[serve]\ndashboard = \"0.0.0.0:80\"\n",
        expect![[
            r#"fumehood.toml:2:13: 0.0.0.0:80 is reachable from other machines; expected a loopback address such as "127.0.0.1:8081""#
        ]],
    );
    check_text(
        "[serve]\nhttp = \"0.0.0.0:80\"\nno_token = true\n",
        expect!["fumehood.toml:3:12: 0.0.0.0:80 is reachable from other machines, which requires a token; set `token`"],
    );
    check_text(
        "[mcp.servers.a]\n[mcp.servers.b]\nurl = \"http://x\"\ncommand = [\"x\"]\n",
        expect![[r#"
        fumehood.toml:1:1: the MCP server `a` has neither `command` nor `url`; add command = ["PROGRAM", …] or url = "https://…"
        fumehood.toml:2:1: the MCP server `b` has both `command` and `url`; leave one of them out"#]],
    );
    check_text(
        "[agent]\nskill = \"x\"\n[skills.y]\ndescription = \"\"\nknowledge = [\"z\"]\n",
        expect![[r#"
        fumehood.toml:2:9: the skill `x` is not in [skills]; it has: y
        fumehood.toml:5:13: the skill `y` names the knowledge `z`, which is not in [knowledge]; it has none"#]],
    );
    check_text(
        "[prompts.p]\ntext = \"{a} {c}\"\nknowledge = [\"z\"]\narguments = { a = { description = \"\" }, b = { description = \"\" } }\n",
        expect![[r#"
            fumehood.toml:3:13: the prompt `p` names the knowledge `z`, which is not in [knowledge]; it has none
            fumehood.toml:4:45: the text of the prompt `p` does not contain {b}; remove the argument `b`"#]],
    );
}

#[test]
fn names_every_value_that_a_switch_or_word_can_have() {
    check_text(
        "[agent]\ncode = \"onyl\"\n[serve]\ncode = \"yes\"\n",
        expect![[r#"
        fumehood.toml:2:8: `agent.code` is "onyl"; expected true, false, "only"; did you mean `only`?
        fumehood.toml:4:8: `serve.code` is "yes"; expected true, false, "only""#]],
    );
    check_text(
        "[flows]\nper = \"run\"\naction = true\n[flows.tools.x]\nsource = \"secret\"\nzink = \"public\"\n",
        expect![[r#"
            fumehood.toml:2:7: `flows.per` is "run"; expected "session", "program"
            fumehood.toml:3:10: `flows.action` is true or false; expected a text. The action for a call that would send private data to the public: "ask" a person (default), or "deny". Calls are
            denied while no person can be asked.
            fumehood.toml:5:10: `flows.tools.x.source` is "secret"; expected "private", "public"
            fumehood.toml:6:1: unknown key `zink` in [flows.tools.x]; did you mean `sink`?; known keys: sink, source"#]],
    );
}

#[test]
fn reports_syntax_errors_with_their_place() {
    check_text("[limits\n", expect!["fumehood.toml:1:8: this is not TOML: unclosed table, expected `]`"]);
    check_text("a = 1\na = 2\n", expect!["fumehood.toml:2:1: this is not TOML: duplicate key"]);
    check_text(
        "[tools.a]\ncomponent = \"a\"\n[tools.a]\ncomponent = \"b\"\n",
        expect!["fumehood.toml:3:8: this is not TOML: duplicate key"],
    );
}

#[test]
fn grants_of_a_server_promise_only_what_its_jail_keeps() {
    check_text(
        "[mcp.servers.a]\ncommand = [\"x\"]\nhttp = [\"GET https://a.example/v1/**\"]\nlimits = { cpu = \"1ms\" }\n",
        expect![[r#"
            fumehood.toml:3:8: invalid rule `GET https://a.example/v1/**`: the method and path of an encrypted request of a program cannot be seen; write `* https://a.example/**` to allow all of them
            fumehood.toml:4:18: no program can run with this `cpu`; raise it, or leave it out for the default"#]],
    );
    check_text(
        "[mcp.servers.a]\ncommand = [\"x\"]\nprivate_addresses = [\"127.0.0.1\"]\n",
        expect!["fumehood.toml:3:21: `private_addresses` has no effect without `http`"],
    );
    check_text(
        "[mcp.servers.a]\ncommand = [\"x\"]\nisolation = \"none\"\nread = [\".\"]\n[mcp.servers.b]\nurl = \"http://x\"\nwrite = [\".\"]\n",
        expect![[r#"
            fumehood.toml:1:1: the MCP server `a` has isolation = "none", so `read`, `write`, `http`, `private_addresses` and `limits` have no effect; leave them out
            fumehood.toml:5:1: the MCP server `b` has a `url`, so `isolation`, `read`, `write`, `http`, `private_addresses` and `limits` have no effect; leave them out"#]],
    );
}
