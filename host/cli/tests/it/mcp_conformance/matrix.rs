//! Servers of others behind the gateway: a client gets what it would get from the server itself.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::real_servers::{RealServer, large, small};
use super::server_process::FUMEHOOD;
use super::stdio_client::StdioClient;
use super::tools::{folder, root};

/// The annotations of tools that MCP defines.
const ANNOTATIONS: [&str; 5] = ["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// Returns a tool as the gateway lists it: under the name of its server, with a schema in the draft that all clients know,
/// without annotations that MCP does not define, and without `execution`, because the gateway has tasks of its own.
fn behind_gateway(server: &str, tool: &Value) -> Value {
    let mut tool = tool.clone();
    tool["name"] = format!("{server}__{}", tool["name"].as_str().unwrap()).into();
    tool.as_object_mut().unwrap().remove("execution");
    if let Some(annotations) = tool.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| ANNOTATIONS.contains(&name.as_str()));
    }
    if let Some(schema) = tool.get_mut("inputSchema").and_then(Value::as_object_mut) {
        schema.remove("$schema");
    }
    tool
}

/// Returns a result without what only one of the two sides writes: `isError: false`, which is the default, and the kind of an
/// error for programs.
fn essence(mut result: Value) -> Value {
    let members = result.as_object_mut().unwrap();
    if members.get("isError") == Some(&json!(false)) {
        members.remove("isError");
    }
    if let Some(meta) = members.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.remove("fumehood/error");
        if meta.is_empty() {
            members.remove("_meta");
        }
    }
    result
}

fn by_name(tools: Vec<Value>) -> Vec<Value> {
    let mut tools = tools;
    tools.sort_by_key(|tool| tool["name"].as_str().unwrap().to_owned());
    tools
}

/// Returns the places in which two values differ, one line for each.
fn differences(place: &str, direct: &Value, gateway: &Value) -> Vec<String> {
    match (direct, gateway) {
        (Value::Object(one), Value::Object(other)) => {
            let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
            names.flat_map(|name| differences(&format!("{place}/{name}"), &direct[name], &gateway[name])).collect()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs.flat_map(|(at, (one, other))| differences(&format!("{place}/{at}"), one, other)).collect()
        }
        _ if direct == gateway => Vec::new(),
        // A priority of 1 is one of 1.0.
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => Vec::new(),
        _ => vec![format!("{place}: {direct:.300} became {gateway:.300}")],
    }
}

/// Compares what a server and the gateway answer. Returns the number of tools.
fn compare(server: &RealServer, work: &Path) -> usize {
    let own = work.join(server.name);
    std::fs::create_dir_all(&own).unwrap();
    let mut direct = StdioClient::start(server.command().current_dir(&own));
    let file = server.written_to(&own);
    let mut gateway = Command::new(FUMEHOOD);
    gateway.arg("--config").arg(file).args(["serve", "mcp", "--servers", "--no-log"]);
    let mut gateway = StdioClient::start(gateway.env("XDG_STATE_HOME", &own).env_remove("FUMEHOOD_CONFIG"));
    let tools = by_name(direct.tools());
    let expected: Value = tools.iter().map(|tool| behind_gateway(server.name, tool)).collect();
    let mut different = differences("tools", &expected, &by_name(gateway.tools()).into());
    for (tool, arguments) in &server.calls {
        let expected = essence(direct.call(tool, arguments));
        let found = essence(gateway.call(&format!("{}__{tool}", server.name), arguments));
        different.extend(differences(tool, &expected, &found));
    }
    assert!(different.is_empty(), "{}: {}", server.name, different.join("\n"));
    tools.len()
}

/// Checks that the table of the documentation has this server and the number of its tools.
fn is_in_documentation(server: &RealServer, tools: usize) {
    let page = std::fs::read_to_string(root().join("docs/mcp-servers.md")).unwrap();
    let row = page.lines().find(|line| line.starts_with(&format!("| {} |", server.name)));
    let cells: Vec<&str> = row.unwrap_or_else(|| panic!("no row of {}", server.name)).split('|').collect();
    assert_eq!(cells[3].trim(), tools.to_string(), "{}: {row:?}", server.name);
}

fn run_git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(arguments);
    assert!(command.current_dir(folder).status().unwrap().success(), "{arguments:?}");
}

/// Makes a folder with a text and a repository of one commit.
fn work_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "line one\nzwölf\n").unwrap();
    run_git(folder.path(), &["init", "--quiet", "repo"]);
    run_git(folder.path(), &["-C", "repo", "commit", "--quiet", "--allow-empty", "--message", "one"]);
    folder
}

#[test]
fn a_client_of_the_gateway_gets_what_servers_write() {
    let Some(tools) = folder("node", "servers for Node") else { return };
    if folder("python", "servers in Python").is_none() {
        return;
    }
    let work = work_folder();
    let folder = work.path().canonicalize().unwrap();
    for server in small(&tools, &folder) {
        is_in_documentation(&server, compare(&server, &folder));
    }
}

#[test]
#[ignore = "its servers take 700 MB: `tests/mcp/setup target/mcp-tools large` installs them"]
fn large_servers_are_listed_as_they_are() {
    let Some(tools) = folder("node", "servers for Node") else { return };
    let work = tempfile::tempdir().unwrap();
    for server in large(&tools) {
        is_in_documentation(&server, compare(&server, work.path()));
    }
}
