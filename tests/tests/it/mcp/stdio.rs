//! A well-behaved client over stdio.

use fumehood::mcp::ServerOptions;
use fumehood::{Host, Load};
use fumehood_tests::contract::{Answer, ToolDescription};
use serde_json::{Value, json};

use super::raw::{Raw, host};

#[tokio::test]
async fn the_handshake_agrees_on_a_revision() {
    let host = host(&["calculator"], &[]).await;
    for (asked, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2024-11-05"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut raw = Raw::connect(&host, ServerOptions::default());
        let said = raw.initialize(asked).await;
        assert_eq!(said["protocolVersion"], agreed, "{said}");
        assert_eq!(said["serverInfo"]["name"], "fumehood");
        assert_eq!(said["capabilities"], json!({"logging": {}, "tools": {"listChanged": true}}));
        assert_eq!(raw.request("ping", json!({})).await["result"], json!({}));
        raw.leave().await;
    }
}

#[tokio::test]
async fn the_stateless_revision_needs_no_handshake() {
    let host = host(&["calculator"], &[]).await;
    let mut raw = Raw::connect(&host, ServerOptions::default());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let discovered = raw.request("server/discover", json!({"_meta": meta})).await;
    assert!(discovered["result"]["supportedVersions"].to_string().contains("2026-07-28"), "{discovered}");
    let call = json!({"name": "calculator__add", "arguments": {"a": 3, "b": 5}, "_meta": meta});
    let answer = raw.request("tools/call", call).await;
    assert_eq!(answer["result"]["structuredContent"], json!({"result": 8}), "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete");
    let wanted = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let listening = raw.ask("subscriptions/listen", wanted).await;
    assert_eq!(raw.next().await["method"], "notifications/subscriptions/acknowledged");
    host.unload("calculator");
    let told = raw.next().await;
    assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
    raw.notify("notifications/cancelled", json!({"requestId": listening})).await;
    raw.leave().await;
}

#[tokio::test]
async fn tools_are_listed_with_all_that_is_known_of_them() {
    let host = host(&["calculator"], &[]).await;
    let mut raw = Raw::open(&host).await;
    let listed = raw.request("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let add = tools.iter().find(|tool| tool["name"] == "calculator__add").unwrap();
    assert_eq!((&add["title"], &add["description"]), (&json!("Add"), &json!("Adds two numbers: a + b.")));
    assert_eq!(add["inputSchema"]["required"], json!(["a", "b"]));
    assert_eq!(add["outputSchema"]["type"], "object");
    assert_eq!(
        add["annotations"],
        json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false})
    );
    raw.leave().await;
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let host = host(&["calculator", "text"], &[]).await;
    let mut raw = Raw::connect(&host, ServerOptions { page: 2, ..ServerOptions::default() });
    raw.initialize("2025-11-25").await;
    let mut names = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = raw.request("tools/list", json!({"cursor": cursor})).await["result"].clone();
        let tools = page["tools"].as_array().unwrap();
        assert!(tools.len() <= 2);
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match page.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    let expected: Vec<_> = host.tools().iter().map(|tool| tool.full_name().to_owned()).collect();
    assert_eq!(names, expected);
    let refused = raw.request("tools/list", json!({"cursor": "7"})).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[tokio::test]
async fn a_call_answers_with_text_and_structure() {
    let host = host(&["calculator"], &[]).await;
    let mut raw = Raw::open(&host).await;
    let result = raw.call("calculator__add", json!({"a": 3, "b": 5})).await;
    let text = json!([{"type": "text", "text": "{\"result\":8}"}]);
    assert_eq!(result, json!({"content": text, "structuredContent": {"result": 8}, "isError": false}));
    raw.leave().await;
}

#[tokio::test]
async fn failures_of_tools_are_results_and_the_rest_are_errors() {
    let host = host(&["calculator"], &["traps"]).await;
    let mut raw = Raw::open(&host).await;
    let refused = raw.call("calculator__add", json!({"a": "3", "b": 5, "c": 1})).await;
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert_eq!(refused["isError"], true);
    assert!(text.starts_with("invalid_arguments: ") && text.contains("the tool did not run"), "{text}");
    assert_eq!(refused["_meta"]["fumehood/error"]["kind"], "invalid_arguments");
    let failed = raw.call("calculator__divide", json!({"a": 1, "b": 0})).await;
    assert_eq!((&failed["isError"], failed.get("structuredContent")), (&json!(true), None), "{failed}");

    for (method, params, code, says) in [
        ("tools/call", json!({"name": "calculator__ad"}), -32602, "Unknown tool: calculator__ad"),
        ("tools/call", json!({"name": "calculator__add", "arguments": [1]}), -32602, "invalid parameters"),
        ("tools/call", json!({}), -32602, "missing field `name`"),
        ("tools/fall", json!({}), -32601, "tools/fall"),
        ("resources/read", json!({"uri": "file:///etc/passwd"}), -32601, ""),
    ] {
        let answer = raw.request(method, params.clone()).await;
        let error = &answer["error"];
        assert_eq!(error["code"], code, "{method} {params}: {answer}");
        assert!(error["message"].as_str().unwrap().contains(says), "{method} {params}: {answer}");
    }
    raw.leave().await;
}

#[tokio::test]
async fn progress_is_told_to_those_who_asked() {
    let host = host(&["countdown"], &[]).await;
    let mut raw = Raw::open(&host).await;
    raw.call("countdown__countdown", json!({"from": 3, "step_ms": 1})).await;
    assert_eq!(raw.news, Vec::<Value>::new());
    let call = json!({
        "name": "countdown__countdown", "arguments": {"from": 4, "step_ms": 1}, "_meta": {"progressToken": "t"}
    });
    raw.request("tools/call", call).await;
    let reports: Vec<_> = raw.news.iter().map(|news| (&news["method"], &news["params"])).collect();
    assert_eq!(reports.len(), 4, "{reports:?}");
    for (at, (method, report)) in reports.into_iter().enumerate() {
        assert_eq!(method, "notifications/progress");
        let done = (at + 1) as f64 / 4.0;
        let expected = json!({
            "progressToken": "t", "progress": done, "total": 1.0, "message": format!("{} of 4", at + 1)
        });
        assert_eq!(report, &expected);
    }
    raw.leave().await;
}

#[tokio::test]
async fn clients_hear_of_changes() {
    let host = host(&["calculator"], &[]).await;
    let mut raw = Raw::open(&host).await;
    raw.request("ping", json!({})).await;
    host.unload("calculator");
    assert_eq!(raw.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(raw.request("tools/list", json!({})).await["result"]["tools"], json!([]));
    raw.leave().await;
}

#[tokio::test]
async fn long_names_are_listed_as_they_are_and_work() {
    let host = Host::builder().build().unwrap();
    let tool = "a".repeat(60);
    let bytes = fumehood_tests::answering(&[ToolDescription::new(&tool)], Answer::Text(b"here")).unwrap();
    host.load(Load::bytes("component", bytes)).await.unwrap();
    let mut raw = Raw::open(&host).await;
    let listed = raw.request("tools/list", json!({})).await;
    let name = listed["result"]["tools"][0]["name"].as_str().unwrap();
    assert_eq!(name, format!("component__{tool}"));
    let result = raw.call(name, json!({})).await;
    assert_eq!(result["content"], json!([{"type": "text", "text": "here"}]), "{result}");
    raw.leave().await;
}
