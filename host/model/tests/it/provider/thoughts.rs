//! Thoughts that a provider requires to be sent back with the calls that followed from them.

use fumehood_core::chat::{Message, Reply, Request, Response, Thought};
use serde_json::{Value, json};

use super::server::{Play, Server};
use super::{ask, config, provider, question, reply, stream};

const SSE: &str = "content-type: text/event-stream\r\n";

/// Returns an answer of Anthropic with a signed and a redacted thought before two calls.
fn thinking_answer() -> String {
    fn block(index: u32, block: Value, delta: Option<Value>) -> String {
        let start = event("content_block_start", json!({"index": index, "content_block": block}));
        let deltas = delta.map(|delta| event("content_block_delta", json!({"index": index, "delta": delta})));
        format!("{start}{}{}", deltas.unwrap_or_default(), event("content_block_stop", json!({"index": index})))
    }

    fn input(text: &str) -> Option<Value> {
        Some(json!({"type": "input_json_delta", "partial_json": text}))
    }

    fn call(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "calculator__add", "input": {}})
    }

    fn event(kind: &str, mut data: Value) -> String {
        data["type"] = json!(kind);
        format!("event: {kind}\ndata: {data}\n\n")
    }

    let usage = json!({"input_tokens": 11, "output_tokens": 1});
    [
        event("message_start", json!({"message": {"id": "msg_1", "role": "assistant", "usage": usage}})),
        block(
            0,
            json!({"type": "thinking", "thinking": "Eight by two.", "signature": ""}),
            Some(json!({"type": "signature_delta", "signature": "c2ln"})),
        ),
        block(1, json!({"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"}), None),
        block(2, call("call_a"), input(r#"{"a":3}"#)),
        block(3, call("call_b"), input(r#"{"a":8}"#)),
        event("message_delta", json!({"delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}})),
        event("message_stop", json!({})),
    ]
    .concat()
}

/// Returns the conversation after a reply with calls, with a pair of messages for each call, as the agent builds it.
fn answered_conversation(response: &Response) -> Request {
    let mut request = question();
    let Reply::ToolCalls { calls, .. } = &response.reply else { panic!("{response:?}") };
    for call in calls {
        let mut asks = Message::assistant("");
        asks.tool_calls.push(call.clone());
        asks.thoughts.clone_from(&response.thoughts);
        request.messages.extend([asks, Message::tool(call.id.clone(), "8")]);
    }
    request
}

#[tokio::test]
async fn anthropic_gets_its_thinking_back_before_all_calls() {
    fn call(id: &str, a: u32) -> Value {
        json!({"type": "tool_use", "id": id, "name": "calculator__add", "input": {"a": a}})
    }

    let server = Server::start(vec![reply(200, SSE, thinking_answer()), stream("anthropic/text.sse")]).await;
    let provider = provider("anthropic", config(&server));
    let response = ask(&provider, &question()).await.0.unwrap();
    let signed = Thought::Signed { text: "Eight by two.".to_owned(), signature: "c2ln".to_owned() };
    let block = json!({"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"});
    assert_eq!(response.thoughts, [signed, Thought::Sealed { block: block.to_string() }]);

    ask(&provider, &answered_conversation(&response)).await.0.unwrap();
    let asked = server.requests();
    let messages = asked[1].body["messages"].as_array().unwrap();
    let thinking = json!({"type": "thinking", "thinking": "Eight by two.", "signature": "c2ln"});
    assert_eq!(messages[1]["content"], json!([thinking, block, call("call_a", 3), call("call_b", 8)]));
    let results = messages[2..].iter().flat_map(|message| message["content"].as_array().unwrap());
    let ids: Vec<_> = results.map(|result| result["tool_use_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["call_a", "call_b"]);
}

#[tokio::test]
async fn gemini_gets_the_signature_back_with_its_call() {
    fn part(name: &str, id: &str, signature: Option<&str>) -> Value {
        let mut part = json!({"functionCall": {"id": id, "name": name, "args": {"a": 3}}});
        if let Some(signature) = signature {
            part["thoughtSignature"] = json!(signature);
        }
        part
    }

    let parts = [part("calculator__add", "call_a", Some("c2ln")), part("calculator__multiply", "call_b", None)];
    let body = json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]});
    let server = Server::start(vec![reply(200, SSE, format!("data: {body}\n\n")), stream("gemini/text.sse")]).await;
    let provider = provider("gemini", config(&server));
    let response = ask(&provider, &question()).await.0.unwrap();
    let thought = Thought::Call { call: "call_a".to_owned(), signature: "c2ln".to_owned() };
    assert_eq!(response.thoughts, [thought]);

    ask(&provider, &answered_conversation(&response)).await.0.unwrap();
    let asked = server.requests();
    let parts = asked[1].body["contents"][1]["parts"].as_array().unwrap();
    assert_eq!((&parts[0]["thoughtSignature"], parts[1].get("thoughtSignature")), (&json!("c2ln"), None));
    assert_eq!(parts[1]["functionCall"]["id"], "call_b");
    assert_eq!(asked[1].body["contents"][2]["parts"].as_array().map(Vec::len), Some(2));
}

/// Returns an answer of a compatible server with unsigned thoughts before a call.
fn reasoning_answer() -> String {
    fn chunk(delta: Value, finish: Value) -> String {
        let choice = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        format!("data: {}\n\n", json!({"id": "1", "object": "chat.completion.chunk", "created": 1, "choices": choice}))
    }

    let function = json!({"name": "calculator__add", "arguments": "{\"a\":3}"});
    let call = json!({"tool_calls": [{"index": 0, "id": "call_a", "type": "function", "function": function}]});
    [
        chunk(json!({"reasoning_content": "Eight "}), Value::Null),
        chunk(json!({"reasoning_content": "by two."}), Value::Null),
        chunk(call, Value::Null),
        chunk(json!({}), json!("tool_calls")),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat()
}

#[tokio::test]
async fn unsigned_thoughts_go_back_only_on_demand() {
    fn text() -> Play {
        stream("openai/text.sse")
    }

    let server = Server::start(vec![reply(200, SSE, reasoning_answer()), text()]).await;
    let known = provider("compatible", config(&server));
    let response = ask(&known, &question()).await.0.unwrap();
    assert_eq!(response.thoughts, [Thought::Plain { text: "Eight by two.".to_owned() }]);
    let again = answered_conversation(&response);
    ask(&known, &again).await.0.unwrap();
    assert!(!server.requests()[1].body.to_string().contains("reasoning_content"));

    let missing = r#"{"error": {"message": "Missing `reasoning_content` field in the assistant message at index 2."}}"#;
    let refusal = reply(400, "content-type: application/json\r\n", missing);
    let server = Server::start(vec![refusal, text(), text()]).await;
    let strict = provider("compatible", config(&server));
    for _ in 0..2 {
        assert_eq!(ask(&strict, &again).await.0.unwrap().notices, [] as [String; 0]);
    }
    let asked = server.requests();
    let sent: Vec<_> = asked.iter().map(|asked| asked.body["messages"][2].get("reasoning_content")).collect();
    let thought = json!("Eight by two.");
    assert_eq!(sent, [None, Some(&thought), Some(&thought)]);
}
