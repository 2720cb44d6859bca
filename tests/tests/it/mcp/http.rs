//! Streamable HTTP: sessions, and messages that have one reading.

use fumehood::Stack;
use fumehood::flow::{FlowLabel, FlowLabels, FlowPolicy};
use fumehood::mcp::{Access, HttpListener, HttpOptions, Server, ServerOptions};
use serde_json::json;

use super::raw::host;
use crate::listener::test_server::{Face, OTHER, TOKEN, TestServer, initialize, stateless, tokens};

#[tokio::test]
async fn a_session_too_many_takes_the_room_of_the_oldest_abandoned_one() {
    let host = host(&[], &[]).await;
    let served = TestServer::new(Face::Mcp, &host, tokens()).await;
    let opened = async |token: &str| {
        let bearer = format!("Bearer {token}");
        served.send(&served.post(&[("Authorization", &bearer)], &initialize())).await.0
    };
    for at in 0..256 {
        assert_eq!(opened(TOKEN).await, 200, "{at}");
    }
    assert_eq!(opened(TOKEN).await, 200);
    assert_eq!(opened(OTHER).await, 200, "another has its own");
    served.end().await;
}

#[tokio::test]
async fn a_body_has_one_reading() {
    let host = host(&["calculator"], &[]).await;
    let served = TestServer::new(Face::Mcp, &host, Access::Anyone).await;
    let headers =
        [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "calculator__add")];
    let call = stateless("tools/call", json!({"name": "calculator__add", "arguments": {"a": 3, "b": 5}}));
    let twice = call.replace(r#"{"a":3,"b":5}"#, r#"{"a":3,"b":5,"a":4}"#);
    let (status, answer) = served.send(&served.post(&headers, &twice)).await;
    assert!(status == 200 && answer.contains(r#""kind":"invalid_arguments""#), "{answer}");
    let twice = call.replace(r#""name":"calculator__add""#, r#""name":"calculator__add","name":"calculator__divide""#);
    assert_ne!(twice, call);
    let (status, answer) = served.send(&served.post(&headers, &twice)).await;
    assert!(status == 400 && answer.contains("ambiguous"), "{answer}");
    // The same within a session.
    let (_, answer) = served.send(&served.post(&[], &initialize())).await;
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim().to_owned();
    let headers = [("Mcp-Session-Id", id.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"calculator__add","arguments":{"a":3,"b":5,"b":6}}}"#;
    let (_, answer) = served.send(&served.post(&headers, call)).await;
    assert!(answer.contains(r#""kind":"invalid_arguments""#), "{answer}");
    served.end().await;
}

#[tokio::test]
async fn a_session_that_is_ended_answers_204() {
    let host = host(&["calculator"], &[]).await;
    let served = TestServer::new(Face::Mcp, &host, Access::Anyone).await;
    let (_, answer) = served.send(&served.post(&[], &initialize())).await;
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim().to_owned();
    let headers = [("Mcp-Session-Id", id.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    let end = served.post(&headers, "").replacen("POST ", "DELETE ", 1);
    // The SDKs for Python and TypeScript take 200 and 204 for success, and the former warns of 202.
    assert_eq!(served.send(&end).await.0, 204);
    let list = served.post(&headers, r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    assert_eq!(served.send(&list).await.0, 404);
    served.end().await;
}

#[tokio::test]
async fn a_session_is_known_to_its_principal_only() {
    let host = host(&["calculator"], &[]).await;
    let served = TestServer::new(Face::Mcp, &host, tokens()).await;
    let own = format!("Bearer {TOKEN}");
    let other = format!("Bearer {OTHER}");
    let (_, answer) = served.send(&served.post(&[("Authorization", &own)], &initialize())).await;
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim().to_owned();
    assert!(id.len() >= 32, "{id}");
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    let asked = async |bearer: &str| {
        let headers = [("Authorization", bearer), ("Mcp-Session-Id", &id), ("MCP-Protocol-Version", "2025-11-25")];
        served.send(&served.post(&headers, &list)).await
    };
    assert_eq!(asked(&other).await.0, 404);
    let (status, answer) = asked(&own).await;
    assert!(status == 200 && answer.contains("calculator__add"), "{answer}");
    served.end().await;
}

#[tokio::test]
async fn the_stateless_revision_works_without_a_session() {
    let host = host(&["calculator"], &[]).await;
    let served = TestServer::new(Face::Mcp, &host, Access::Anyone).await;
    let call = stateless("tools/call", json!({"name": "calculator__add", "arguments": {"a": 3, "b": 5}}));
    let headers =
        [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "calculator__add")];
    let (status, answer) = served.send(&served.post(&headers, &call)).await;
    assert!(status == 200 && answer.contains(r#""structuredContent":{"result":8}"#), "{answer}");
    served.end().await;
}

#[tokio::test]
async fn sessions_have_separate_histories_of_flows() {
    let host = host(&["calculator"], &[]).await;
    let policy = FlowPolicy::new()
        .label_tool("calculator__add", FlowLabels::default().source(FlowLabel::Private))
        .label_tool("calculator__divide", FlowLabels::default().sink(FlowLabel::Public));
    let server = Server::new(Stack::new().flows(Some(policy)).around([host]), ServerOptions::default());
    let http = HttpOptions::new("127.0.0.1:0".parse().unwrap(), Access::Anyone);
    let served = TestServer::of(HttpListener::bind(&server, http).await.unwrap());
    let open = async || {
        let (_, answer) = served.send(&served.post(&[], &initialize())).await;
        answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim().to_owned()
    };
    let call = async |session: &str, tool: &str| {
        let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")];
        let params = json!({"name": tool, "arguments": {"a": 6, "b": 3}});
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).to_string();
        served.send(&served.post(&headers, &body)).await.1
    };
    let first = open().await;
    let second = open().await;
    assert!(!is_refused(&call(&first, "calculator__add").await));
    assert!(is_refused(&call(&first, "calculator__divide").await), "this client has read private data");
    assert!(!is_refused(&call(&second, "calculator__divide").await), "the other one has not");
    assert!(!is_refused(&call(&second, "calculator__add").await));
    assert!(is_refused(&call(&second, "calculator__divide").await), "now it has");
    served.end().await;
}

fn is_refused(answer: &str) -> bool {
    let is_refused = answer.contains(r#""kind":"needs_approval""#);
    assert_ne!(is_refused, answer.contains(r#""result":"#) && !answer.contains(r#""isError":true"#), "{answer}");
    is_refused
}
