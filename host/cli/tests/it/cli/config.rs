//! The configuration: its check, its schema, and the messages for faulty ones.

use expect_test::{Expect, expect};

use super::workbench::Workbench;

fn check(bench: &Workbench, arguments: &[&str], expected: Expect) {
    expected.assert_eq(&bench.run(arguments).shown());
}

#[test]
fn a_valid_file_is_accepted() {
    let bench = Workbench::new();
    bench.example("notes");
    bench.put("fumehood.toml", "[tools.notes]\ncomponent = \"notes.wasm\"\n[mcp.servers.a]\ncommand = [\"a\"]\n");
    check(
        &bench,
        &["config", "check"],
        expect![[r#"
        ── stdout
        fumehood.toml is fine: 1 component, 1 MCP server, 0 skills
        ── exit 0
    "#]],
    );
    let json = bench.run(&["config", "check", "--json"]).json();
    assert_eq!(json["tools"]["notes"]["approval"], "required");
}

#[test]
fn all_faults_are_reported_with_their_places() {
    let bench = Workbench::new();
    let text = r#"
[limits]
deadline = "soon"
dealine = "2s"

[tools.notes]
component = "notes.wasm"
read = ["./docs", "/:/everything", "~/x:/x"]
write = [{ folder = "./out", guest = "/out", bytes = "0" }]
http = ["GET https://*/**", "FETCH https://example.com/v1", "https://münchen.example/**", "GET https://a.example/*"]
private_addresses = ["0.0.0.0/0", "localhost"]
env = { "A B" = "1" }
clock = "0s"
key_value = "1"
scratch = "0"

[[tools.notes.secrets]]
name = "token"
from = { env = "TOKEN" }
for = "https://*.example.com/**"
header = "Host"

[tools.fetch]
component = "fetch.wasm"
private_addresses = ["10.0.0.0/8"]

[tools.local]
component = "fetch.wasm"
http = ["http://127.0.0.1:8080/**"]
"#;
    bench.put("bad.toml", text);
    check(
        &bench,
        &["config", "check", "bad.toml"],
        expect![[r#"
            ── stderr
            error: bad.toml:3:12: `limits.deadline`: invalid time `soon`; expected a number with a unit, such as `250ms`, `2s` or `1m 30s`
                bad.toml:4:1: unknown key `dealine` in [limits]; did you mean `deadline`?; known keys: deadline, fuel, log, memory, output, string
                bad.toml:8:9: `./docs` has no path for the tool; expected both paths, such as `./docs:/docs`
                bad.toml:8:36: `~/x` starts with `~`, which is not expanded here; write the whole path
                bad.toml:9:10: a quota of zero bytes allows no writes; leave it out for the default, or grant the folder for reading
                bad.toml:10:9: invalid rule `GET https://*/**` for requests: `*` would allow every host; name one, such as `api.example.com`, or use `*.example.com`
                bad.toml:10:29: unknown HTTP method `FETCH` in `FETCH https://example.com/v1`; did you mean `PATCH`?
                bad.toml:10:61: invalid rule `https://münchen.example/**` for requests: the host `münchen.example` means `xn--mnchen-3ya.example`; write `xn--mnchen-3ya.example` instead
                bad.toml:10:91: invalid rule `GET https://a.example/*` for requests: a star is allowed only as `/**` at the end of the path, and `.`, `..` and backslashes are not allowed
                bad.toml:11:35: invalid address `localhost`; expected one such as 127.0.0.1, or a network such as 10.1.0.0/16
                bad.toml:12:17: invalid variable name `A B`; expected letters, digits and `_`, not starting with a digit
                bad.toml:13:9: the clock resolution is zero; expected 1us to 1s, or leave it out for 1ms
                bad.toml:14:13: a store of 1 B is too small; expected at least 1.0 KiB, or leave it out
                bad.toml:15:11: a quota of zero bytes allows no writes; leave it out for the default, or grant the folder for reading
                bad.toml:17:1: a secret cannot be sent in the header `host`; expected one such as `authorization` or `x-api-key`
                bad.toml:25:21: `private_addresses` has no effect without `http` or `tcp`; add http = ["GET https://HOST/**"]
                bad.toml:29:8: the rule `GET,HEAD http://127.0.0.1:8080/**` can never match: 127.0.0.1 is a loopback address; allow it by private_addresses = ["127.0.0.1/32"]
            ── exit 2
        "#]],
    );
    let called = bench.run(&["call", "notes", "read", "--config", "bad.toml"]);
    assert_eq!((called.code, called.stdout.as_str()), (2, ""), "{called:?}");
}

#[test]
fn unusable_configurations_are_refused() {
    let bench = Workbench::new();
    check(
        &bench,
        &["config", "check"],
        expect![[r#"
        ── stderr
        error: cannot read fumehood.toml; name the configuration with `--config FILE`
          because: No such file or directory (os error 2)
        ── exit 2
    "#]],
    );
    bench.put("large.toml", vec![b'#'; (1 << 20) + 1]);
    check(
        &bench,
        &["config", "check", "large.toml"],
        expect![[r#"
        ── stderr
        error: large.toml is larger than 1 MiB, the maximum size of a configuration
        ── exit 2
    "#]],
    );
    bench.put("latin.toml", b"a = \"\xe9\"");
    check(
        &bench,
        &["config", "check", "latin.toml"],
        expect![[r#"
        ── stderr
        error: latin.toml is not UTF-8 text; expected TOML
        ── exit 2
    "#]],
    );
    check(
        &bench,
        &["config", "check", "."],
        expect![[r#"
        ── stderr
        error: . is not a regular file; expected a `fumehood.toml`
        ── exit 2
    "#]],
    );
    check(
        &bench,
        &["call", "notes", "read", "--config", "absent.toml"],
        expect![[r#"
        ── stderr
        error: cannot read absent.toml; name the configuration with `--config FILE`
          because: No such file or directory (os error 2)
        ── exit 2
    "#]],
    );
}

#[test]
fn the_schema_is_printed() {
    let bench = Workbench::new();
    let schema = bench.run(&["config", "schema"]).json();
    assert_eq!(schema["title"], "fumehood.toml");
    assert!(schema["properties"]["tools"]["description"].as_str().unwrap().contains("Components"));
}

#[test]
fn files_of_a_configuration_are_opened() {
    let bench = Workbench::new();
    bench.example("notes").put("file.txt", "Dear diary");
    let text = r#"
tools_in = ["absent"]
[tools.notes]
component = "notes.wasm"
read = [".:/here", "./gone:/gone"]
write = [{ folder = "./file.txt", guest = "/out" }]
[tools.other]
component = "other.wasm"
[tools.text]
component = "file.txt"
[mcp.servers.here]
command = ["./no-server"]
folder = "nowhere"
[agent]
system = { file = "system.md" }
[guardrails]
ignore_file = "."
"#;
    bench.put("fumehood.toml", text);
    check(
        &bench,
        &["config", "check"],
        expect![[r#"
            ── stderr
            error: fumehood.toml:2:13: cannot use the folder absent: No such file or directory (os error 2); create it, or correct the path
                fumehood.toml:5:20: cannot use the folder ./gone: No such file or directory (os error 2); create it, or correct the path
                fumehood.toml:6:10: ./file.txt is not a folder
                fumehood.toml:8:13: cannot read the component other.wasm: No such file or directory (os error 2); correct the path
                fumehood.toml:10:13: file.txt is not WebAssembly; expected a component, a `.wasm` file
                fumehood.toml:12:11: cannot read the program ./no-server: No such file or directory (os error 2); correct the path
                fumehood.toml:13:10: cannot use the folder nowhere: No such file or directory (os error 2); create it, or correct the path
                fumehood.toml:15:10: cannot read the text system.md: No such file or directory (os error 2); correct the path
                fumehood.toml:17:15: the ignore list . is not a regular file; correct the path
            ── exit 2
        "#]],
    );
    assert_eq!(bench.run(&["config", "check", "--json"]).json()["error"]["kind"], "usage");
    bench.put("fumehood.toml", "[tools.notes]\ncomponent = \"notes.wasm\"\nhttp = [\"GETT https://a.example/**\"]\n");
    check(
        &bench,
        &["config", "check"],
        expect![[r#"
        ── stderr
        error: fumehood.toml:3:9: unknown HTTP method `GETT` in `GETT https://a.example/**`; did you mean `GET`?
        ── exit 2
    "#]],
    );
}

/// A configuration with names that nothing has.
const WRONG_NAMES: &str = r#"
[tools.calculator]
component = "calculator.wasm"
[tools.redact-email]
component = "redact-email.wasm"
[tools.broken]
component = "broken.wasm"
[mcp.servers.time]
command = ["time"]
[agent]
auto_tools = ["calculator__evalute"]
tool_choice = "calculator__add"
[skills.sums]
description = "Sums."
tools = ["calculator__add", "calculator__ad", "time__now", "rules", "broken__any"]
[skills.product]
description = "Products."
implemented_by = { tool = "calculator__multipy" }
[channels.web]
tools = ["search", "memory_read"]
[knowledge.rules]
description = "Rules."
text = "None."
[guardrails]
deny = ["calculator__dvide"]
[[hooks.component]]
name = "redact-email"
tools = ["calculator__*", "calculater__*"]
[[hooks.component]]
name = "calculator"
[[hooks.rate_limit]]
tools = ["tim*", "web__*"]
per_minute = 1
[serve]
tools = ["calculator__ad", "time__any", "run_code"]
[flows.tools.calculator__subtrakt]
source = "private"
"#;

#[test]
fn names_of_tools_are_checked_against_the_components() {
    let bench = Workbench::new();
    bench.example("calculator").example("redact-email").put("broken.wasm", b"\0asm broken");
    bench.put("fumehood.toml", WRONG_NAMES);
    check(
        &bench,
        &["config", "check"],
        expect![[r#"
        ── stderr
        error: fumehood.toml:7:13: cannot load broken: this WebAssembly has an unknown version or layer ([20, 62, 72, 6f]); expected [0d, 00, 01, 00], a component
            fumehood.toml:11:15: [agent] names the unknown tool `calculator__evalute`; did you mean `calculator__evaluate`?
            fumehood.toml:15:29: the skill `sums` names the unknown tool `calculator__ad`; did you mean `calculator__add`?
            fumehood.toml:18:27: the skill `product` names the unknown tool `calculator__multipy`; did you mean `calculator__multiply`?
            fumehood.toml:20:10: the channel `web` names the unknown tool `search`; there are: calculator__add, calculator__divide, calculator__evaluate, calculator__multiply, calculator__subtract
            fumehood.toml:25:9: [guardrails] names the unknown tool `calculator__dvide`; did you mean `calculator__divide`?
            fumehood.toml:28:27: the pattern `calculater__*` in [[hooks.component]] matches no tool; did you mean `calculator__*`?
            fumehood.toml:30:8: [[hooks.component]] `calculator`: the component `calculator` is not a hook: it does not export `fumehood:hooks/hook`
            fumehood.toml:32:18: the pattern `web__*` in [[hooks.rate_limit]] matches no tool; there are: calculator__add, calculator__divide, calculator__evaluate, calculator__multiply, calculator__subtract
            fumehood.toml:35:10: `tools` of [serve] names the unknown tool `calculator__ad`; did you mean `calculator__add`?
            fumehood.toml:35:41: `tools` of [serve] names the unknown tool `run_code`; there are: calculator__add, calculator__divide, calculator__evaluate, calculator__multiply, calculator__subtract
            fumehood.toml:36:1: [flows.tools] names the unknown tool `calculator__subtrakt`; did you mean `calculator__subtract`?
        ── exit 2
    "#]],
    );
    let right =
        WRONG_NAMES.replace("[tools.broken]\ncomponent = \"broken.wasm\"\n", "").replace(", \"broken__any\"", "");
    let names = [
        ("evalute", "evaluate"),
        ("\"calculator__ad\", ", ""),
        ("multipy", "multiply"),
        ("\"search\", ", ""),
        ("dvide", "divide"),
        (", \"calculater__*\"", ""),
        ("[[hooks.component]]\nname = \"calculator\"\n", ""),
        (", \"web__*\"", ""),
        (", \"run_code\"", ""),
        ("subtrakt", "subtract"),
    ];
    let right = names.iter().fold(right, |text, (from, to)| text.replace(from, to));
    bench.put("fumehood.toml", right);
    assert_eq!(
        bench.run(&["config", "check"]).shown(),
        "── stdout\nfumehood.toml is fine: 2 components, 1 MCP server, 2 skills\n── exit 0\n"
    );
}

#[test]
fn missing_secrets_are_warnings() {
    let bench = Workbench::new();
    let text = "[mcp.servers.remote]\nurl = \"https://a.example/mcp\"\nbearer = { env = \"FUMEHOOD_TEST_UNSET\" }\n\
        [serve]\ntools = [\"typed__x\"]\ntoken = { file = \"absent\" }\n[limits]\ntimeout = \"2s\"\n";
    bench.put("fumehood.toml", text);
    let ran = bench.run(&["config", "check"]);
    assert!(ran.code == 2 && ran.stderr.contains("did you mean `deadline`?"), "{ran:?}");
    bench.put("fumehood.toml", text.replace("timeout", "deadline"));
    check(
        &bench,
        &["config", "check"],
        expect![[r#"
        ── stdout
        fumehood.toml is fine: 0 components, 1 MCP server, 0 skills
        ── stderr
        warning: `tools` of [serve] names `typed__x`, whose component is not in the configuration
        warning: [mcp.servers.remote] `bearer`: the variable "FUMEHOOD_TEST_UNSET" is not set; the server is left out without it
        warning: [serve] `token`: the file "absent" does not exist; `serve` needs it
        ── exit 0
    "#]],
    );
}
