//! Third-party clients: the Inspector's command line, and the client of the Python SDK.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::served::{FUMEHOOD, Served, example};
use super::tools::{Printed, folder, node, root, run};

const INSPECTOR: &str = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";

fn inspect(tools: &Path, target: &[&str], asked: &[&str]) -> Value {
    // It keeps settings in the home folder, and would find those of the user there.
    let home = tempfile::tempdir().unwrap();
    let mut command = node(tools, INSPECTOR);
    command.env("HOME", home.path()).env_remove("XDG_CONFIG_HOME").env_remove("XDG_CACHE_HOME");
    let Printed { succeeded, stdout, stderr } = run(command.args(["--cli"]).args(target).args(asked));
    assert!(succeeded, "{target:?} {asked:?}: {stdout}{stderr}");
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

#[test]
fn the_inspector_lists_and_calls() {
    let Some(tools) = folder("node", "the Inspector") else { return };
    let server = Served::fixture();
    let component = example("mcp-conformance");
    let program = [FUMEHOOD, "serve", "mcp", "--no-log", "--short-names", component.to_str().unwrap()];
    let http = [server.url.as_str(), "--transport", "http"];
    for target in [&program[..], &http[..]] {
        let listed = inspect(&tools, target, &["--method", "tools/list"]);
        let names: Vec<_> =
            listed["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert!(names.contains(&"test_simple_text"), "{names:?}");
        let called = inspect(&tools, target, &["--method", "tools/call", "--tool-name", "test_simple_text"]);
        assert_eq!(called["content"][0]["text"], "This is a simple text response for testing.", "{called}");
    }
}

#[test]
fn the_python_client_lists_and_calls() {
    let Some(tools) = folder("python", "the Python client") else { return };
    let server = Served::fixture();
    let component = example("mcp-conformance");
    let program = [FUMEHOOD, "serve", "mcp", "--no-log", "--short-names", component.to_str().unwrap()];
    for target in [&program[..], &[server.url.as_str()]] {
        let mut command = Command::new(tools.join("python/bin/python"));
        let printed = run(command.arg(root().join("tests/mcp/client.py")).args(target));
        assert!(printed.succeeded, "{printed:?}");
        let lines: Vec<&str> = printed.stdout.lines().collect();
        assert_eq!(
            lines,
            [
                "lists test_simple_text: True",
                "text: This is a simple text response for testing.",
                "progress: [0.0, 0.5, 1.0]",
                "error: True tool_failed: This tool intentionally returns an error for testing",
            ],
            "{printed:?}"
        );
    }
}
