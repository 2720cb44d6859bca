//! Commands that people try in their first hour, and the hints that they get.

use super::server::{Response, Server};
use super::workbench::Workbench;

/// Checks that a command line is refused, with these words on standard error.
fn check(bench: &Workbench, arguments: &[&str], words: &[&str]) {
    let ran = bench.run(arguments);
    assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
    for word in words {
        assert!(ran.stderr.contains(word), "{arguments:?}: {word:?} is missing in {ran:?}");
    }
}

#[test]
fn usage_errors_say_how_it_is_written() {
    let bench = Workbench::new();
    bench.example("calculator");
    check(&bench, &["call", "calculator.wasm", "add", "--a", "3"], &["hint: ", "`a=3`"]);
    check(&bench, &["call", "calculator.wasm", "add", "--a=3", "--b", "5"], &["`a=3`"]);
    let ran = bench.run(&["call", "calculator.wasm", "add", "--a", "3"]);
    assert!(!ran.stderr.contains("--arg"), "{ran:?}");
    check(&bench, &["call", "calculator.wasm", "add", "--verbose"], &["`verbose=VALUE`"]);
    check(&bench, &["serve", "--port", "8080"], &["`--listen 127.0.0.1:8080`"]);
    check(&bench, &["serve", "http", "--http", "127.0.0.1:0"], &["`--listen 127.0.0.1:8080`"]);
    check(
        &bench,
        &["call", "calculator.wasm", "add", "--secret", "TOKEN"],
        &["give the source of the secret", "from = { env ="],
    );
    let json = bench.run(&["--json", "serve", "http", "--port", "1"]);
    assert!(json.code == 2 && json.stderr.contains("--listen"), "{json:?}");
    let json = bench.run(&["--json", "call", "calculator.wasm", "add", "--a", "3"]).json();
    assert!(json["error"]["message"].as_str().unwrap().ends_with("`a=3`"), "{json}");
}

#[test]
fn a_server_without_tools_makes_no_token() {
    let bench = Workbench::new();
    check(&bench, &["serve", "http", "--listen", "127.0.0.1:0"], &["nothing to serve; name components"]);
    let ran = bench.run(&["serve", "mcp", "--listen", "127.0.0.1:0"]);
    assert!(ran.code == 2 && !format!("{ran:?}").contains("oken"), "{ran:?}");
    bench.put("fumehood.toml", "[mcp.servers.time]\ncommand = [\"mcp-server-time\"]\n");
    check(&bench, &["serve", "http", "--listen", "127.0.0.1:0"], &["serve its MCP servers with `--servers`"]);
}

#[test]
fn the_former_name_of_listen_is_taken_with_a_hint() {
    let bench = Workbench::new();
    bench.example("calculator");
    // The port is refused, so that the command ends.
    for (option, is_former) in [("--http", true), ("--listen", false)] {
        let ran = bench.run(&["serve", "mcp", "calculator.wasm", option, "0.0.0.0:0", "--no-auth"]);
        let is_hinted = ran.stderr.contains("`--http ADDRESS` is now called `--listen ADDRESS`");
        assert!(ran.code != 0 && is_hinted == is_former && ran.stderr.contains("from other machines"), "{ran:?}");
    }
}

#[test]
fn names_of_the_configuration_are_inspected() {
    let bench = Workbench::new();
    bench.example("calculator");
    bench.put(
        "fumehood.toml",
        "[tools.sums]\ncomponent = \"calculator.wasm\"\n[mcp.servers.time]\ncommand = [\"mcp server\", \"-v\"]\n",
    );
    let by_name = bench.run(&["inspect", "sums", "--json"]).json();
    let by_file = bench.run(&["inspect", "calculator.wasm", "--json"]).json();
    assert_eq!(by_name, by_file);
    check(&bench, &["inspect", "sum"], &["no such file sum, and fumehood.toml has no component `sum`; it has: sums"]);
    check(&bench, &["inspect", "time"], &["is an MCP server", "`fumehood approve time --check --full`"]);
}

#[test]
fn a_denial_at_loopback_names_both_options() {
    let bench = Workbench::new();
    bench.example("fetch");
    let url = "url=http://127.0.0.1:1/";
    let ran = bench.run(&["call", "fetch.wasm", "get", url, "--no-log"]);
    let options = ["--allow-http", "GET http://127.0.0.1:1/**", "--allow-private", "127.0.0.1/32"];
    let [http, rule, private, network] = options;
    assert!(ran.stderr.contains(&format!("{http} '{rule}' {private} {network}")), "{ran:?}");
    let ran = bench.run(&[&["call", "fetch.wasm", "get", url, "--no-log"], &options[..]].concat());
    assert!(ran.code != 0 && !ran.stderr.contains("denied"), "{ran:?}");
}

#[test]
fn top_names_the_variable_of_the_token() {
    let server = Server::playing(vec![Response { status: 401, body: "{}".to_owned() }]);
    let ran = Workbench::new().run(&["top", server.url.trim_end_matches("v1/"), "--once"]);
    assert!(ran.code != 0 && ran.stderr.contains("set FUMEHOOD_MCP_TOKEN"), "{ran:?}");
}

#[test]
fn the_demo_ends_with_commands_that_work_here() {
    let bench = Workbench::new();
    bench.example("calculator");
    let ran = bench.run(&["demo"]);
    let next: Vec<&str> = ran.stdout.lines().skip_while(|line| *line != "Next:").skip(1).collect();
    assert_eq!(next.len(), 3, "{ran:?}");
    for command in &next[..2] {
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        assert_eq!(bench.run(&words).code, 0, "{command}");
    }
}
