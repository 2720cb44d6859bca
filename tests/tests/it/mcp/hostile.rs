//! Attempts of hostile clients and hostile guests, all of which fail.

use std::time::{Duration, Instant};

use fumehood::mcp::ServerOptions;
use serde_json::{Value, json};

use super::raw::{PATIENCE, Raw, host, running};

/// Maximum time of an answer: the guest is stopped, so only the load of the machine counts.
const SOON: Duration = Duration::from_secs(2);

#[tokio::test]
async fn what_a_guest_prints_is_no_message() {
    let host = host(&["calculator"], &["stdout-flood"]).await;
    let mut raw = Raw::open(&host).await;
    let flood = raw.ask("tools/call", json!({"name": "stdout-flood__run"})).await;
    let sum = raw.call("calculator__add", json!({"a": 1, "b": 1})).await;
    assert_eq!(sum["structuredContent"], json!({"result": 2}));
    raw.notify("notifications/cancelled", json!({"requestId": flood})).await;
    running(&host, 0).await;
    assert_eq!(raw.news, Vec::<Value>::new());
    raw.leave().await;
}

#[tokio::test]
async fn no_guest_forges_a_message() {
    let host = host(&["calculator"], &["forge-message"]).await;
    let bytes = fumehood_tests::contract("forge-log").unwrap();
    host.load(fumehood::Load::bytes("forge-log", bytes)).await.unwrap();
    let mut raw = Raw::open(&host).await;
    for _ in 0..3 {
        // The answer to this call has the id that the guest forges.
        let called = raw.call("forge-message__run", json!({})).await;
        assert!(!called.to_string().contains("FORGED"), "{called}");
        assert_eq!(called["isError"], false);
    }
    raw.call("forge-log__forge", json!({})).await;
    for news in &raw.news {
        assert_eq!(news["method"], "notifications/message", "{news}");
        assert!(news["params"]["data"].is_string(), "{news}");
    }
    raw.leave().await;
}

#[tokio::test]
async fn arguments_have_one_reading() {
    let host = host(&["calculator"], &[]).await;
    let mut raw = Raw::open(&host).await;
    for (arguments, says) in [(r#"{"a":1,"b":1,"a":2}"#, "/a: "), (r#"{"a":1,"b":1,"\u0061":2}"#, "/a: ")] {
        raw.line(&call_line(arguments)).await;
        let result = raw.answer(7).await["result"].clone();
        assert_eq!(result["_meta"]["fumehood/error"]["kind"], "invalid_arguments", "{arguments}: {result}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains(says), "{arguments}: {result}");
    }
    // The schema has the type `number`, so the nearest double is accepted.
    raw.line(&call_line(r#"{"a":0.1000000000000000055511151231257827,"b":1}"#)).await;
    assert_eq!(raw.answer(7).await["result"]["structuredContent"]["result"], json!(1.1));
    for message in [
        r#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a__b","name":"calculator__add"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{},"params":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{},"arguments":{"a":1}}}"#,
    ] {
        raw.line(message).await;
        let answer = raw.next().await;
        let code = answer["error"]["code"].as_i64().unwrap();
        assert!([-32600, -32602].contains(&code), "{message}: {answer}");
    }
    raw.line(&call_line(r#"{"a":0.1,"b":9007199254740993}"#)).await;
    assert_eq!(raw.answer(7).await["result"]["isError"], false);
    raw.leave().await;
}

fn call_line(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"calculator__add","arguments":{arguments}}}}}"#
    )
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_changes_nothing() {
    let host = host(&["calculator"], &[]).await;
    let mut raw = Raw::connect(&host, ServerOptions { message_bytes: 4096, ..ServerOptions::default() });
    // Also before the handshake.
    raw.line("hello").await;
    assert_eq!(raw.next().await["error"]["code"], -32700);
    raw.notify("notifications/cancelled", json!({"requestId": 1})).await;
    raw.initialize("2025-11-25").await;
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(5000));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (line, code, id) in [
        ("{", -32700, Value::Null),
        (deep.as_str(), -32700, Value::Null),
        ("[]", -32600, Value::Null),
        ("7", -32600, Value::Null),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, Value::Null),
        (r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600, Value::Null),
        (r#"{"id":5}"#, -32600, json!(5)),
        (long.as_str(), -32600, Value::Null),
    ] {
        raw.line(line).await;
        let answer = raw.next().await;
        assert_eq!(answer["error"]["code"], code, "{line:.80}: {answer}");
        assert_eq!(answer.get("id").unwrap_or(&Value::Null), &id, "{line:.80}: {answer}");
    }
    raw.line("").await;
    raw.line("\r").await;
    let sum = raw.call("calculator__add", json!({"a": 1, "b": 1})).await;
    assert_eq!(sum["structuredContent"], json!({"result": 2}));
    raw.leave().await;
}

#[tokio::test]
async fn cancelling_a_call_stops_its_guest() {
    let host = host(&[], &["spin", "sleep"]).await;
    let mut raw = Raw::open(&host).await;
    for tool in ["spin__run", "sleep__run"] {
        let call = raw.ask("tools/call", json!({"name": tool})).await;
        running(&host, 1).await;
        let cancelled = Instant::now();
        raw.notify("notifications/cancelled", json!({"requestId": call, "reason": "test"})).await;
        running(&host, 0).await;
        assert!(cancelled.elapsed() < SOON, "{tool}: {:?}", cancelled.elapsed());
    }
    assert_eq!(raw.request("ping", json!({})).await["result"], json!({}));
    assert_eq!(raw.news, Vec::<Value>::new(), "a cancelled call is not answered");
    raw.leave().await;
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_calls_along() {
    let host = host(&[], &["spin", "sleep"]).await;
    let mut raw = Raw::open(&host).await;
    for at in 0..8 {
        let tool = if at % 2 == 0 { "spin__run" } else { "sleep__run" };
        raw.ask("tools/call", json!({"name": tool})).await;
    }
    running(&host, 8).await;
    let left = Instant::now();
    raw.leave().await;
    running(&host, 0).await;
    assert!(left.elapsed() < SOON, "{:?}", left.elapsed());
}

#[tokio::test]
async fn spinning_calls_of_one_client_do_not_hold_up_another() {
    let host = host(&["calculator"], &["spin"]).await;
    for spinning in [2, 4, 8] {
        let mut hostile = Raw::open(&host).await;
        for _ in 0..spinning {
            hostile.ask("tools/call", json!({"name": "spin__run"})).await;
        }
        running(&host, spinning).await;
        let mut client = Raw::open(&host).await;
        let started = Instant::now();
        for _ in 0..20 {
            let sum = client.call("calculator__add", json!({"a": 1, "b": 1})).await;
            assert_eq!(sum["structuredContent"], json!({"result": 2}));
        }
        assert!(started.elapsed() < PATIENCE / 4, "{spinning}: {:?}", started.elapsed());
        hostile.leave().await;
        client.leave().await;
        running(&host, 0).await;
    }
}

#[tokio::test]
async fn a_full_host_says_so_at_once() {
    let host = host(&[], &["spin"]).await;
    let mut raw = Raw::open(&host).await;
    // As many calls as may run and wait.
    for _ in 0..32 {
        raw.ask("tools/call", json!({"name": "spin__run"})).await;
    }
    running(&host, 16).await;
    let refused = raw.call("spin__run", json!({})).await;
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("unavailable: ") && text.contains("call again"), "{text}");
    assert_eq!(refused["_meta"]["fumehood/error"]["retry_after_ms"], 100.0, "{refused}");
    raw.leave().await;
    running(&host, 0).await;
}

#[tokio::test]
async fn floods_of_progress_neither_stall_nor_bury_the_client() {
    let host = host(&[], &[]).await;
    let bytes = fumehood_tests::contract("flood-progress").unwrap();
    host.load(fumehood::Load::bytes("flood", bytes)).await.unwrap();
    let mut raw = Raw::open(&host).await;
    let tool = host.tools()[0].full_name().to_owned();
    let call = raw.ask("tools/call", json!({"name": tool, "_meta": {"progressToken": 1}})).await;
    let asked = Instant::now();
    raw.answer(call).await;
    let told = raw.news.len();
    assert!(told as f64 <= 100.0 + asked.elapsed().as_secs_f64() * 1000.0, "{told} in {:?}", asked.elapsed());
    raw.leave().await;
}
