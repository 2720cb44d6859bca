//! Third-party clients: the Inspector's command line, the client of the Python SDK, and those of frameworks.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::real_servers::everything;
use super::server_process::{FUMEHOOD, ServerProcess, example};
use super::tools::{ProgramOutput, folder, node, root, run};

const INSPECTOR: &str = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";

fn inspect(tools: &Path, target: &[&str], asked: &[&str]) -> Value {
    // It keeps settings in the home folder, and would find those of the user there.
    let home = tempfile::tempdir().unwrap();
    let mut command = node(tools, INSPECTOR);
    command.env("HOME", home.path()).env_remove("XDG_CONFIG_HOME").env_remove("XDG_CACHE_HOME");
    let ProgramOutput { succeeded, stdout, stderr } = run(command.args(["--cli"]).args(target).args(asked));
    assert!(succeeded, "{target:?} {asked:?}: {stdout}{stderr}");
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

#[test]
fn the_inspector_lists_and_calls() {
    let Some(tools) = folder("node", "the Inspector") else { return };
    let server = ServerProcess::fixture();
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
    let server = ServerProcess::fixture();
    let component = example("mcp-conformance");
    let program = [FUMEHOOD, "serve", "mcp", "--no-log", "--short-names", component.to_str().unwrap()];
    for target in [&program[..], &[server.url.as_str()]] {
        let mut command = Command::new(tools.join("python/bin/python"));
        let printed = run(command.arg(root().join("tests/mcp/clients/with_sdk.py")).args(target));
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

/// Runs a client's script against a gateway of the official server-everything, over standard streams and over HTTP.
fn use_gateway(language: &str, script: &str, program: &[&Path], expected: &[&str]) {
    let Some(tools) = folder(language, script) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = everything(&tools).written_to(folder.path());
    let command =
        [FUMEHOOD, "--trust-config", "--config", file.to_str().unwrap(), "serve", "mcp", "--servers", "--no-log"];
    let server = ServerProcess::gateway(&file);
    for target in [&command[..], &[server.url.as_str()]] {
        let mut command = Command::new(tools.join(program[0]));
        command.arg(root().join("tests/mcp/clients").join(script));
        command.args(program[1..].iter().map(|path| tools.join(path))).args(target);
        command.env("MCP_USE_ANONYMIZED_TELEMETRY", "false").env("XDG_STATE_HOME", folder.path());
        let printed = run(&mut command);
        assert!(printed.succeeded, "{target:?}: {printed:?}");
        // Some clients log to standard output before that.
        let lines: Vec<&str> = printed.stdout.lines().collect();
        assert!(lines.ends_with(expected), "{target:?}: {printed:?}");
        assert!(!printed.stderr.contains("termination failed"), "the end of a session is an error: {printed:?}");
    }
}

/// The question of a tool that asks, and what it gets.
const ASKED: [&str; 2] =
    ["asked: everything asks: Please provide inputs for the following fields:", "answered: - Name: Ann"];

/// The answer to a call with a text in place of a number.
const REFUSED: &str = "invalid_arguments: /b: expected a number, given the string \"x\"";

#[test]
fn fastmcp_lists_calls_answers_and_cancels() {
    let error = format!("error: True {REFUSED}");
    let expected = [
        "lists echo: True",
        "text: Echo: é",
        "structured: Cloudy",
        "progress: 2",
        &error,
        ASKED[0],
        ASKED[1],
        "cancelled",
        "text: Echo: after",
    ];
    use_gateway("python", "with_fastmcp.py", &[Path::new("python/bin/python")], &expected);
}

#[test]
fn langchain_lists_calls_and_answers() {
    let error = format!("error: {REFUSED}");
    let expected = ["lists echo: True", "text: Echo: é", "image: ['image/png']", &error, ASKED[0], ASKED[1]];
    use_gateway("python", "with_langchain.py", &[Path::new("python-sdk-1/bin/python")], &expected);
    let expected = ["lists echo: true", "text: Echo: é", "text: The sum of 1 and 2 is 3."];
    use_gateway("node", "with_langchain.mjs", &["bin/node", "node"].map(Path::new), &expected);
}

#[test]
fn mcp_use_lists_calls_and_answers() {
    let error = format!("error: True {REFUSED}");
    let expected = ["lists echo: True", "text: Echo: é", &error, ASKED[0], ASKED[1]];
    use_gateway("python", "with_mcp_use.py", &[Path::new("python-sdk-1/bin/python")], &expected);
}

#[test]
fn the_ai_sdk_lists_calls_answers_and_cancels() {
    let error = format!("error: true {REFUSED}");
    let expected = [
        "lists echo: true",
        "text: Echo: é",
        "structured: Cloudy",
        &error,
        ASKED[0],
        ASKED[1],
        "cancelled",
        "text: Echo: after",
    ];
    use_gateway("node", "with_ai_sdk.mjs", &["bin/node", "node"].map(Path::new), &expected);
}
