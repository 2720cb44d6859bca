//! A client that a public generator makes of the OpenAPI document, used against the running command.

use std::path::{Path, PathBuf};
use std::process::Command;

use fumehood_tests::skip::skip;

use super::serve_http::Server;
use super::workbench::Workbench;

const TOKEN: &str = "a-token-for-this-test";

/// Runs a program, and returns whether it succeeded with what it said.
fn run(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    (
        output.status.success(),
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
    )
}

#[test]
fn a_generated_client_calls_tools() {
    let python = std::env::var_os("FUMEHOOD_OPENAPI_VALIDATOR").map(PathBuf::from);
    let generator = ["-m", "openapi_python_client"];
    let has_generator = |python: &PathBuf| {
        python.exists() && Command::new(python).args(generator).arg("--version").output().unwrap().status.success()
    };
    let Some(python) = python.filter(has_generator) else {
        return skip("openapi", "FUMEHOOD_OPENAPI_VALIDATOR names no Python with openapi-python-client");
    };
    let bench = Workbench::new();
    bench.example("calculator");
    bench.example("countdown");
    let mut command = bench.command(&["serve", "http", "calculator.wasm", "countdown.wasm"]);
    command.args(["--listen", "127.0.0.1:0", "--log", "log.db"]).env("FUMEHOOD_MCP_TOKEN", TOKEN);
    let mut server = Server::run(command);
    TOKEN.clone_into(&mut server.token);
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("openapi.json");
    let client = folder.path().join("generated");
    std::fs::write(&document, server.get("/openapi.json").to_string()).unwrap();
    let mut generate = Command::new(&python);
    generate
        .args(generator)
        .args(["generate", "--meta", "none", "--path"])
        .arg(&document)
        .arg("--output-path")
        .arg(&client);
    let (is_generated, output) = run(&mut generate);
    assert!(is_generated && !output.contains("WARNING parsing"), "{output}");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/openapi/use_client.py");
    let url = format!("http://{}", server.address);
    let (works, output) = run(Command::new(&python).arg(script).arg(&client).args([url.as_str(), TOKEN]));
    assert!(works, "{output}");
}
