//! Third-party servers behind our client.

use std::process::Command;

use serde_json::Value;

use super::server_process::FUMEHOOD;
use super::tools::{ProgramOutput, folder, root, run};

fn ask(arguments: &[&str]) -> (ProgramOutput, Value) {
    let printed = run(Command::new(FUMEHOOD).args(arguments));
    let value = serde_json::from_str(&printed.stdout).unwrap_or_else(|error| panic!("{error}: {printed:?}"));
    (printed, value)
}

#[test]
fn a_server_from_elsewhere_is_listed_and_called() {
    let Some(tools) = folder("python", "the server mcp-server-time") else { return };
    let program = tools.join("python/bin/mcp-server-time");
    let server = [program.to_str().unwrap(), "--local-timezone=Europe/Berlin"];
    let (_, listed) = ask(&[&["--json", "mcp", "list"], &server[..]].concat());
    let names: Vec<_> = listed["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["convert_time", "get_current_time"], "{listed}");
    let call =
        |arguments: &str| ask(&[&["--json", "mcp", "call", "convert_time", arguments, "--"], &server[..]].concat());
    let (_, called) = call(r#"{"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}"#);
    assert_eq!(called["status"], "ok", "{called}");
    let parts = called["content"].as_array().unwrap();
    let value = parts.iter().find(|part| part["type"] == "json").map(|part| &part["value"]);
    // The server writes structured content, or text with the same JSON.
    let text = || serde_json::from_str(parts[0]["text"].as_str().unwrap()).unwrap();
    let value: Value = value.cloned().unwrap_or_else(text);
    let converted = value["target"]["datetime"].as_str().unwrap();
    assert!(converted.ends_with("T21:00:00+09:00"), "{called}");
    // Our gate rejects arguments that do not match the schema before the server receives them.
    let (_, refused) = call(r#"{"source_timezone": "UTC", "time": 12, "target_timezone": "Asia/Tokyo"}"#);
    assert_eq!(refused["error"]["kind"], "invalid_arguments", "{refused}");
    // Arguments that the server itself rejects are a failure of the tool.
    let (_, failed) = call(r#"{"source_timezone": "Nowhere/AtAll", "time": "12:00", "target_timezone": "Asia/Tokyo"}"#);
    assert_eq!(failed["error"]["kind"], "tool_failed", "{failed}");
}

/// Returns the tools of a server, from a list that was recorded.
fn tools_in_list(name: &str) -> Vec<String> {
    let list = std::fs::read_to_string(root().join(format!("tests/mcp/tool-lists/{name}.json"))).unwrap();
    let tools: Vec<Value> = serde_json::from_str(&list).unwrap();
    let mut names: Vec<String> = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn official_servers_lose_no_tool() {
    let Some(tools) = folder("node", "the official servers") else { return };
    let node = tools.join("bin/node");
    for name in ["filesystem", "memory", "everything", "sequential-thinking"] {
        let script = tools.join(format!("node/node_modules/@modelcontextprotocol/server-{name}/dist/index.js"));
        let work = tempfile::tempdir().unwrap();
        let mut server = vec![node.to_str().unwrap(), script.to_str().unwrap()];
        server.extend(work.path().to_str().filter(|_| name == "filesystem"));
        let folder = work.path().to_str().unwrap();
        let (printed, listed) =
            ask(&[&["--json", "mcp", "list", "--timeout", "60s", "--write", folder], &server[..]].concat());
        let mut names: Vec<_> =
            listed["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, tools_in_list(name), "{name}: {printed:?}");
        assert!(!printed.stderr.contains("ignored ") && !printed.stderr.contains("only partly checked"), "{printed:?}");
    }
}

#[test]
fn a_large_file_is_written_through_the_official_server() {
    let Some(tools) = folder("node", "the filesystem server") else { return };
    let script = tools.join("node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().canonicalize().unwrap();
    let node = tools.join("bin/node");
    let file = folder.join("a.txt");
    let server = [node.to_str().unwrap(), script.to_str().unwrap(), folder.to_str().unwrap()];
    let content = "x".repeat(11_000);
    let arguments = serde_json::json!({"path": file, "content": content}).to_string();
    let call = ["--json", "mcp", "call", "--write", folder.to_str().unwrap(), "write_file", &arguments, "--"];
    let (printed, written) = ask(&[&call, &server[..]].concat());
    assert_eq!(written["status"], "ok", "{printed:?}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), content);
}
