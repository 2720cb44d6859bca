//! The configuration: whether it is fine, what it may contain, and what is said of one that is not.

use expect_test::{Expect, expect};

use crate::workbench::Workbench;

fn check(bench: &Workbench, arguments: &[&str], expected: Expect) {
    expected.assert_eq(&bench.run(arguments).shown());
}

#[test]
fn a_good_file_is_fine() {
    let bench = Workbench::new();
    bench.put("fumehood.toml", "[tools.notes]\ncomponent = \"notes.wasm\"\n[mcp.servers.a]\ncommand = [\"a\"]\n");
    check(&bench, &["config", "check"], expect![]);
    let json = bench.run(&["config", "check", "--json"]).json();
    assert_eq!(json["tools"]["notes"]["approval"], "required");
}

#[test]
fn everything_that_is_wrong_is_said_with_its_place() {
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
    check(&bench, &["config", "check", "bad.toml"], expect![]);
    let called = bench.run(&["call", "notes", "read", "--config", "bad.toml"]);
    assert_eq!((called.code, called.stdout.as_str()), (2, ""), "{called:?}");
}

#[test]
fn what_is_no_configuration_is_said() {
    let bench = Workbench::new();
    check(&bench, &["config", "check"], expect![]);
    bench.put("large.toml", vec![b'#'; (1 << 20) + 1]);
    check(&bench, &["config", "check", "large.toml"], expect![]);
    bench.put("latin.toml", b"a = \"\xe9\"");
    check(&bench, &["config", "check", "latin.toml"], expect![]);
    check(&bench, &["config", "check", "."], expect![]);
    check(&bench, &["call", "notes", "read", "--config", "absent.toml"], expect![]);
}

#[test]
fn the_schema_is_printed() {
    let bench = Workbench::new();
    let schema = bench.run(&["config", "schema"]).json();
    assert_eq!(schema["title"], "fumehood.toml");
    assert!(schema["properties"]["tools"]["description"].as_str().unwrap().contains("Components"));
}
