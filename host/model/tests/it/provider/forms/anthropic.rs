//! Anthropic's form.

use fumehood_core::chat::{ModelFailure, StopReason};
use serde_json::{Value, json};

use super::{Read, check, events, failure};

/// Returns the events of a block: its start, these deltas and its end.
fn block(start: Value, deltas: &[Value]) -> Vec<Value> {
    let start = json!({"type": "content_block_start", "index": 0, "content_block": start});
    let deltas = deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    let end = json!({"type": "content_block_stop", "index": 0});
    std::iter::once(start).chain(deltas).chain([end]).collect()
}

fn text(text: &str) -> Vec<Value> {
    block(json!({"type": "text", "text": ""}), &[json!({"type": "text_delta", "text": text})])
}

fn call(id: &str, deltas: &[Value]) -> Vec<Value> {
    block(json!({"type": "tool_use", "id": id, "name": "calculator__add", "input": {}}), deltas)
}

fn input(text: &str) -> Value {
    json!({"type": "input_json_delta", "partial_json": text})
}

/// Returns the data of a reply of these blocks that ends for this reason.
fn reply(blocks: &[Vec<Value>], reason: &str) -> Vec<Value> {
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let mut data = vec![json!({"type": "message_start", "message": {"content": [], "usage": usage}})];
    data.extend(blocks.concat());
    data.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}}));
    data.push(json!({"type": "message_stop"}));
    data
}

/// Returns a stream of events that are named, as the provider itself names them.
fn named(data: &[Value]) -> String {
    data.iter().map(|data| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn reads_calls_with_any_input() {
    let one = || Read::calls([["a", "calculator__add", r#"{"a":1}"#]]);
    let whole = json!({"type": "tool_use", "id": "a", "name": "calculator__add", "input": {"a": 1}});
    for blocks in [
        vec![call("a", &[input(""), input(r#"{"a""#), input(":1}")])],
        vec![block(whole, &[])],
        vec![call("a", &[json!({"type": "input_json_delta", "partial_json": {"a": 1}})])],
    ] {
        check("anthropic", &named(&reply(&blocks, "tool_use")), &one()).await;
        // Some servers leave the names and the last event out.
        check("anthropic", &events(&reply(&blocks, "TOOL_USE")[..blocks[0].len() + 2]), &one()).await;
    }
    let empty = Read::calls([["a", "calculator__add", "{}"]]);
    for deltas in [vec![], vec![input("")], vec![input("null")]] {
        check("anthropic", &named(&reply(&[call("a", &deltas)], "tool_use")), &empty).await;
    }
    let same = [call("a", &[input(r#"{"a":1}"#)]), call("a", &[input(r#"{"a":2}"#)]), call("", &[])];
    let expected = Read::calls([
        ["a", "calculator__add", r#"{"a":1}"#],
        ["call_0", "calculator__add", r#"{"a":2}"#],
        ["call_1", "calculator__add", "{}"],
    ]);
    check("anthropic", &named(&reply(&same, "tool_use")), &expected).await;
}

#[tokio::test]
async fn leaves_blocks_out_that_are_not_for_the_host() {
    let blocks = [
        block(json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}), &[input("{}")]),
        block(json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}), &[]),
        block(
            json!({"type": "text", "text": "It "}),
            &[json!({"type": "citations_delta", "citation": {}}), json!({"type": "text_delta", "text": "is 8."})],
        ),
    ];
    let mut data = reply(&blocks, "end_turn");
    data.insert(1, json!({"type": "ping"}));
    data.insert(1, json!({"type": "later_extension", "index": 0}));
    check("anthropic", &named(&data), &Read::text("It is 8.", StopReason::Done)).await;
}

#[tokio::test]
async fn reads_a_whole_message() {
    let content = json!([
        {"type": "thinking", "thinking": "hmm", "signature": "c2ln"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "a", "name": "calculator__add", "input": {"a": 1}},
    ]);
    let whole = json!({"type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use",
        "usage": {"input_tokens": 11, "output_tokens": 7}});
    let expected = Read { text: "Let me see.".to_owned(), ..Read::calls([["a", "calculator__add", r#"{"a":1}"#]]) };
    check("anthropic", &whole.to_string(), &expected.thoughts("hmm")).await;
}

#[tokio::test]
async fn error_with_status_200_is_that_error() {
    let error = json!({"type": "error", "error": {"type": "not_found_error", "message": "model: m"}});
    for body in [error.to_string(), named(std::slice::from_ref(&error)), events(&[error])] {
        let (kind, message) = failure("anthropic", &body).await;
        assert_eq!((kind, message.as_str()), (ModelFailure::Refused, "anthropic answered with an error: model: m"));
    }
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let mut data = reply(&[text("par")], "end_turn");
    data.truncate(3);
    data.push(error);
    let (kind, message) = failure("anthropic", &named(&data)).await;
    assert_eq!((kind, message.as_str()), (ModelFailure::Unavailable, "anthropic broke its answer off: Overloaded"));
}

#[tokio::test]
async fn says_why_an_answer_is_incomplete() {
    for (reason, stop) in [
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("refusal", StopReason::Refused),
        ("stop_sequence", StopReason::Done),
    ] {
        check("anthropic", &named(&reply(&[text("par")], reason)), &Read::text("par", stop)).await;
    }
}
