//! Turns of Anthropic that are paused and continued.

use fumehood_core::chat::{Reply, StopReason, Thought, Usage};
use serde_json::{Value, json};

use crate::provider::server::{Play, Server};
use crate::provider::{ask, config, provider, question, reply};

/// Returns a reply of these blocks, whole.
fn turn(content: Value, reason: &str) -> Play {
    let usage = json!({"input_tokens": 10, "output_tokens": 2});
    let whole = json!({"type": "message", "content": content, "stop_reason": reason, "usage": usage});
    reply(200, "content-type: application/json\r\n", whole.to_string())
}

#[tokio::test]
async fn continues_a_paused_turn_with_its_own_content() {
    let search = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "8"}});
    let thinking = json!({"type": "thinking", "thinking": "hmm", "signature": "c2ln"});
    let content = json!([thinking, {"type": "text", "text": "I look: "}, search]);
    let call = json!({"type": "tool_use", "id": "a", "name": "calculator__add", "input": {"a": 1}});
    let rest = json!([{"type": "text", "text": "found."}, call]);
    let server = Server::start(vec![turn(content.clone(), "pause_turn"), turn(rest, "tool_use")]).await;
    let (response, _) = ask(&provider("anthropic", config(&server)), &question()).await;
    let response = response.unwrap();
    assert_eq!(response.stop, StopReason::Done);
    assert_eq!(response.usage, Usage::new(20, 4));
    let Reply::ToolCalls { text, calls } = &response.reply else { panic!("{response:?}") };
    assert_eq!((text.as_str(), calls.len(), calls[0].arguments.as_str()), ("I look: found.", 1, r#"{"a":1}"#));
    assert_eq!(response.thoughts, [Thought::Sealed { block: thinking.to_string() }]);

    let asked = server.requests();
    assert_eq!(asked.len(), 2);
    let [first, second] = [0, 1].map(|at| asked[at].body["messages"].as_array().unwrap());
    assert_eq!(second[..first.len()], first[..]);
    assert_eq!(second[first.len()..], [json!({"role": "assistant", "content": content})]);
}

#[tokio::test]
async fn text_that_is_sent_back_ends_without_white_space() {
    let paused = turn(json!([{"type": "text", "text": "par \n"}]), "pause_turn");
    let server = Server::start(vec![paused, turn(json!([{"type": "text", "text": "done"}]), "end_turn")]).await;
    let (response, _) = ask(&provider("anthropic", config(&server)), &question()).await;
    assert_eq!(response.unwrap().reply, Reply::Text("par \ndone".to_owned()));
    let sent = server.requests()[1].body["messages"].as_array().unwrap().last().cloned().unwrap();
    assert_eq!(sent["content"], json!([{"type": "text", "text": "par"}]));
}

#[tokio::test]
async fn turn_that_is_paused_without_end_is_incomplete() {
    let paused = || turn(json!([{"type": "text", "text": "x"}]), "pause_turn");
    let server = Server::start(std::iter::repeat_with(paused).take(20).collect()).await;
    let (response, _) = ask(&provider("anthropic", config(&server)), &question()).await;
    let response = response.unwrap();
    assert_eq!((response.stop, response.reply.text()), (StopReason::Paused, "xxxxxxxxx"));
    assert_eq!(server.requests().len(), 9);
}
