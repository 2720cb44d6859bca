//! A server of other people behind our client.

use std::process::Command;

use serde_json::Value;

use crate::served::FUMEHOOD;
use crate::tools::{Printed, folder, run};

fn ask(arguments: &[&str]) -> (Printed, Value) {
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
    let converted = called["content"][0]["value"]["target"]["datetime"].as_str().unwrap();
    assert!(converted.ends_with("T21:00:00+09:00"), "{called}");
    // Ours is the gate: what does not fit its schema never reaches it.
    let (_, refused) = call(r#"{"source_timezone": "UTC", "time": 12, "target_timezone": "Asia/Tokyo"}"#);
    assert_eq!(refused["error"]["kind"], "invalid_arguments", "{refused}");
    // What it refuses itself is a failure like any other tool's.
    let (_, failed) = call(r#"{"source_timezone": "Nowhere/AtAll", "time": "12:00", "target_timezone": "Asia/Tokyo"}"#);
    assert_eq!(failed["error"]["kind"], "tool_failed", "{failed}");
}
