//! Parsing of a configuration, with all faults of the text.

use std::path::Path;

use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

use super::check;
use super::fault::{Fault, Faults, KeyFault};
use super::file::{Config, schema};
use super::keys;
use super::position::{self, Position};

/// Maximum number of faults that are reported.
const MAX_FAULTS: usize = 50;

/// Parses `text`, the content of `file`.
///
/// # Errors
/// All faults, in the order of the text.
pub(crate) fn read(file: &Path, text: &str) -> Result<Config, Faults> {
    let mut faults: Vec<(usize, String)> = Vec::new();
    let config = parse(text, &mut faults).map(|config| Config { origin: file.to_owned(), ..config });
    faults.sort();
    faults.dedup();
    faults.truncate(MAX_FAULTS);
    match config {
        Some(config) if faults.is_empty() => Ok(config),
        _ => {
            let placed = |(offset, message)| Fault { at: Position::from_offset(text, offset), message };
            Err(Faults { file: file.to_owned(), faults: faults.into_iter().map(placed).collect() })
        }
    }
}

/// Adds positions to faults of a text that was parsed.
pub(crate) fn locate(file: &Path, text: &str, broken: Vec<KeyFault>) -> Faults {
    let mut faults = Vec::new();
    for (path, message) in broken {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let at = place_of(text, &path).unwrap_or(Position { line: 1, column: 1 });
        faults.push(Fault { at, message });
    }
    faults.sort_by_key(|fault| fault.at);
    Faults { file: file.to_owned(), faults }
}

/// Returns the position of the value at the end of this path, or of the last value on the way to it; `None` if the text
/// is not TOML.
pub(crate) fn place_of(text: &str, path: &[&str]) -> Option<Position> {
    let path: Vec<String> = path.iter().map(|step| (*step).to_owned()).collect();
    let table = DeTable::parse(text).ok()?;
    Some(Position::from_offset(text, position::offset_of(table.get_ref(), &path)))
}

fn parse(text: &str, faults: &mut Vec<(usize, String)>) -> Option<Config> {
    let whole = match DeTable::parse(text) {
        Ok(whole) => whole,
        Err(error) => {
            let offset = error.span().map_or(0, |span| span.start);
            faults.push((offset, format!("this is not TOML: {}", one_line(error.message()))));
            return None;
        }
    };
    let mut pruned = whole.clone();
    faults.extend(keys::check(&schema(), &mut pruned));
    let config = read_values(pruned, faults)?;
    let broken = check::check(&config);
    faults.extend(broken.into_iter().map(|(path, message)| (position::offset_of(whole.get_ref(), &path), message)));
    Some(config)
}

/// Reads the values. One that is wrong is noted and left out, so that the next one is found too.
fn read_values(mut table: Spanned<DeTable<'_>>, faults: &mut Vec<(usize, String)>) -> Option<Config> {
    loop {
        let error = match Config::deserialize(Deserializer::from(table.clone())) {
            Ok(config) => return Some(config),
            Err(error) => error,
        };
        let span = error.span().unwrap_or_default();
        let removed = position::remove(table.get_mut(), &span);
        // A field that is missing because it was removed is not reported.
        let is_reported = faults.iter().any(|(offset, _)| *offset == span.start);
        if faults.is_empty() || !(is_reported || error.message().starts_with("missing field")) {
            let path = removed.as_ref().map(|path| format!("`{path}`: ")).unwrap_or_default();
            faults.push((span.start, format!("{path}{}", one_line(error.message()))));
        }
        if removed.is_none() || faults.len() > MAX_FAULTS {
            return None;
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, expected: Expect) {
        let found = match read(Path::new("fumehood.toml"), text) {
            Ok(_) => "fine".to_owned(),
            Err(faults) => faults.to_string(),
        };
        expected.assert_eq(&found);
    }

    #[test]
    fn accepts_an_empty_file() {
        check("", expect!["fine"]);
    }

    #[test]
    fn reports_unknown_keys_with_place_and_suggestion() {
        check(
            "[limit]\ndeadline = \"2s\"\n",
            expect![
                "fumehood.toml:1:2: unknown key `limit` in the file; did you mean `limits`?; known keys: agent, \
                 approval, arguments, cell, channels, flows, guardrails, hooks, http_in_flight, jobs, \
                 key_value_store, knowledge, limits, log, mcp, model, prompts, registry, serve, skills, storage, \
                 telemetry, tenants, tools, tools_in"
            ],
        );
        check(
            "[limits]\ndedline = \"2s\"\nfule = 1\n",
            expect![[r#"
            fumehood.toml:2:1: unknown key `dedline` in [limits]; did you mean `deadline`?; known keys: deadline, fuel, log, memory, output, string
            fumehood.toml:3:1: unknown key `fule` in [limits]; did you mean `fuel`?; known keys: deadline, fuel, log, memory, output, string"#]],
        );
        check(
            "[tools.notes]\ncomponent = \"n.wasm\"\nlimits = { mem = \"1MiB\" }\nallow-write = []\n",
            expect![[r#"
                fumehood.toml:3:12: unknown key `mem` in [tools.notes.limits]; known keys: deadline, fuel, log, memory, output, string
                fumehood.toml:4:1: unknown key `allow-write` in [tools.notes]; known keys: allow_slow_compile, app_origins, approval, apps, args, clock, component, env, http, http_limits, isolation, key_value, limits, persist, private_addresses, random_seed, read, reference, result_bytes, scratch, secrets, sink, source, state, strict_imports, wit, write"#]],
        );
        check(
            "[model]\nkey = { envv = \"KEY\" }\n",
            expect![[r#"
            fumehood.toml:2:7: `model.key` needs one of: env, file, keyring
            fumehood.toml:2:9: unknown key `envv` in [model.key]; did you mean `env`?; known keys: env, file, keyring"#]],
        );
        check(
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
        check(
            "[limits]\ndeadline = 2\nfuel = 1.5\nmemory = true\n",
            expect![[r#"
            fumehood.toml:2:12: `limits.deadline` is a whole number; expected a text; put it in quotes: "2". Maximum wall time of a call, such as "2s". Default: 10s.
            fumehood.toml:3:8: `limits.fuel` is a number; expected a text or a whole number. Maximum fuel of a call, about one unit per instruction, such as "500M". Default: 10G.
            fumehood.toml:4:10: `limits.memory` is true or false; expected a text or a whole number. Maximum memory of a call, such as "128MiB". Default: 64MiB."#]],
        );
        check(
            "[tools.a]\ncomponent = 5\nread = \"./docs:/docs\"\nwrite = [1, {}]\n",
            expect![[r#"
                fumehood.toml:1:1: [tools.a]: it has neither `component`, a file, nor `reference`; add one of them
                fumehood.toml:2:13: `tools.a.component` is a whole number; expected a text; put it in quotes: "5". The `.wasm` file, relative to this configuration. Set either `component` or `reference`.
                fumehood.toml:3:8: `tools.a.read` is a text; expected a list; write ["./docs:/docs"]. Folders that it may read, as "HOST:GUEST", such as "./docs:/docs".
                fumehood.toml:4:10: `tools.a.write[0]` is a whole number; expected a text or a table.
                fumehood.toml:4:13: [tools.a.write[1]] has no `folder`; add it. The folder on this machine, relative to this configuration.
                fumehood.toml:4:13: [tools.a.write[1]] has no `guest`; add it. The path at which the tool sees it, such as "/out"."#]],
        );
        check(
            "tools = []\n[agent]\ndriver = \"reakt\"\nsystem = 1\n",
            expect![[r#"
                fumehood.toml:1:9: `tools` is a list; expected a table. Components and their grants. The full name of a tool is NAME__TOOL.
                fumehood.toml:3:10: `agent.driver` is "reakt"; expected "native", "react", "batch"; did you mean `react`?
                fumehood.toml:4:10: `agent.system` is a whole number; expected a text or a table. The system prompt: a text, or { file = "PATH" }."#]],
        );
        check(
            "[tools]\na = 1\n[model]\nsupports_tools = 1979-05-27\nkey = {}\n",
            expect![[r#"
                fumehood.toml:2:5: `tools.a` is a whole number; expected a table.
                fumehood.toml:4:18: `model.supports_tools` is a date; expected true or false. Set to false if the model does not support tools. Default: true.
                fumehood.toml:5:7: `model.key` needs one of: env, file, keyring"#]],
        );
    }

    #[test]
    fn reports_all_bad_values() {
        check(
            "[limits]\ndeadline = \"fast\"\nfuel = \"-1\"\n[tools.a]\ncomponent = \"a.wasm\"\nlimits = { memory = \"big\" }\n",
            expect![[r#"
                fumehood.toml:2:12: `limits.deadline`: invalid time `fast`; expected a number with a unit, such as `250ms`, `2s` or `1m 30s`
                fumehood.toml:3:8: `limits.fuel`: invalid count `-1`; expected a whole number, such as `500`, or with `k`, `M` or `G` for thousands, millions or billions
                fumehood.toml:6:21: `tools.a.limits.memory`: invalid size `big`; expected a number with a unit, such as `512KiB` or `64MiB`"#]],
        );
        check(
            "[limits]\ndeadline = \"0s\"\n[tools.\"A B\"]\ncomponent = \"a.wasm\"\n",
            expect![[r#"
            fumehood.toml:1:1: the deadline limit is zero, so no call could succeed; leave it out for the default
            fumehood.toml:3:1: [tools.A B]: the name `A B` contains 'A'; expected only `a-z`, `0-9`, `_` and `-`"#]],
        );
        check(
            "[model]\nname = \"llama\"\ntemperature = 3\n",
            expect![[r#"
            fumehood.toml:2:8: invalid model `llama`; expected PROVIDER:NAME, such as `ollama:llama3.2`, or scripted:FILE
            fumehood.toml:3:15: `model.temperature`: invalid value: floating point `3.0`, expected a number from 0 to 2, or "provider""#]],
        );
        check(
            "[serve]\nhttp = \"localhost:80\"\n",
            expect![[
                r#"fumehood.toml:2:8: invalid address `localhost:80`; expected an IP address and a port, such as "127.0.0.1:8080""#
            ]],
        );
        check(
            "[serve]\ndashboard = \"0.0.0.0:80\"\n",
            expect![[
                r#"fumehood.toml:2:13: 0.0.0.0:80 is reachable from other machines; expected a loopback address such as "127.0.0.1:8081""#
            ]],
        );
        check(
            "[serve]\nhttp = \"0.0.0.0:80\"\nno_token = true\n",
            expect![
                "fumehood.toml:3:12: 0.0.0.0:80 is reachable from other machines, which requires a token; set `token`"
            ],
        );
        check(
            "[mcp.servers.a]\n[mcp.servers.b]\nurl = \"http://x\"\ncommand = [\"x\"]\n",
            expect![[r#"
            fumehood.toml:1:1: the MCP server `a` has neither `command` nor `url`; add command = ["PROGRAM", …] or url = "https://…"
            fumehood.toml:2:1: the MCP server `b` has both `command` and `url`; leave one of them out"#]],
        );
        check(
            "[agent]\nskill = \"x\"\n[skills.y]\ndescription = \"\"\nknowledge = [\"z\"]\n",
            expect![[r#"
            fumehood.toml:2:9: the skill `x` is not in [skills]; it has: y
            fumehood.toml:5:13: the skill `y` names the knowledge `z`, which is not in [knowledge]; it has none"#]],
        );
        check(
            "[prompts.p]\ntext = \"{a} {c}\"\nknowledge = [\"z\"]\narguments = { a = { description = \"\" }, b = { description = \"\" } }\n",
            expect![[r#"
                fumehood.toml:3:13: the prompt `p` names the knowledge `z`, which is not in [knowledge]; it has none
                fumehood.toml:4:45: the text of the prompt `p` does not contain {b}; remove the argument `b`"#]],
        );
    }

    #[test]
    fn names_every_value_that_a_switch_or_word_can_have() {
        check(
            "[agent]\ncode = \"onyl\"\n[serve]\ncode = \"yes\"\n",
            expect![[r#"
            fumehood.toml:2:8: `agent.code` is "onyl"; expected true, false, "only"; did you mean `only`?
            fumehood.toml:4:8: `serve.code` is "yes"; expected true, false, "only""#]],
        );
        check(
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
        check("[limits\n", expect!["fumehood.toml:1:8: this is not TOML: unclosed table, expected `]`"]);
        check("a = 1\na = 2\n", expect!["fumehood.toml:2:1: this is not TOML: duplicate key"]);
        check(
            "[tools.a]\ncomponent = \"a\"\n[tools.a]\ncomponent = \"b\"\n",
            expect!["fumehood.toml:3:8: this is not TOML: duplicate key"],
        );
    }
}
