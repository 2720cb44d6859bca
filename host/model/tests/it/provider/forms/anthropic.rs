//! Anthropic's form.

use fumehood_core::chat::{ModelFailure, StopReason};
use serde_json::{Value, json};

use super::{ReplyContent, check, events, failure};

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
    fn one_call() -> ReplyContent {
        ReplyContent::calls([["a", "calculator__add", r#"{"a":1}"#]])
    }

    let whole = json!({"type": "tool_use", "id": "a", "name": "calculator__add", "input": {"a": 1}});
    for blocks in [
        vec![call("a", &[input(""), input(r#"{"a""#), input(":1}")])],
        vec![block(whole, &[])],
        vec![call("a", &[json!({"type": "input_json_delta", "partial_json": {"a": 1}})])],
    ] {
        check("anthropic", &named(&reply(&blocks, "tool_use")), &one_call()).await;
        // Some servers leave the names and the last event out.
        check("anthropic", &events(&reply(&blocks, "TOOL_USE")[..blocks[0].len() + 2]), &one_call()).await;
    }
    let empty = ReplyContent::calls([["a", "calculator__add", "{}"]]);
    for deltas in [vec![], vec![input("")], vec![input("null")]] {
        check("anthropic", &named(&reply(&[call("a", &deltas)], "tool_use")), &empty).await;
    }
    let same = [call("a", &[input(r#"{"a":1}"#)]), call("a", &[input(r#"{"a":2}"#)]), call("", &[])];
    let expected = ReplyContent::calls([
        ["a", "calculator__add", r#"{"a":1}"#],
        ["call_0", "calculator__add", r#"{"a":2}"#],
        ["call_1", "calculator__add", "{}"],
    ]);
    check("anthropic", &named(&reply(&same, "tool_use")), &expected).await;
}

#[tokio::test]
async fn reads_blocks_whose_events_are_interleaved() {
    fn is_stop(event: &Value) -> bool {
        event["type"] == "content_block_stop"
    }

    fn expected() -> ReplyContent {
        ReplyContent {
            text: "Or so.".to_owned(),
            ..ReplyContent::calls([["a", "calculator__add", r#"{"a":1}"#], ["b", "calculator__add", r#"{"a":2}"#]])
        }
    }

    fn at_index(index: u32, mut event: Value) -> Value {
        event["index"] = json!(index);
        event
    }

    let blocks = [call("a", &[input(r#"{"a":"#), input("1}")]), text("Or so."), call("b", &[input(r#"{"a":2}"#)])];
    let [first, said, second] =
        [0, 1, 2].map(|n: u32| blocks[n as usize].iter().map(|event| at_index(n, event.clone())).collect::<Vec<_>>());
    // Each begins before the one ahead of it ends; with and without the events that end blocks.
    let mixed = [&first[..2], &said[..1], &second[..1], &second[1..], &said[1..], &first[2..]].concat();
    let open: Vec<Value> = mixed.iter().filter(|event| !is_stop(event)).cloned().collect();
    for blocks in [mixed, open] {
        check("anthropic", &named(&reply(&[blocks], "tool_use")), &expected()).await;
    }
}

#[tokio::test]
async fn reads_text_in_other_places_than_the_usual_one() {
    fn expected() -> ReplyContent {
        ReplyContent::text("It is 8.", StopReason::Done)
    }

    let content = json!([{"type": "text", "text": "It is "}]);
    let mut early = reply(&[text("8.")], "end_turn");
    early[0]["message"]["content"] = content;
    check("anthropic", &named(&early), &expected()).await;
    // Without empty lines between events.
    let usual = reply(&[text("It is 8.")], "end_turn");
    check("anthropic", &named(&usual).replace("\n\n", "\n"), &expected()).await;
    let whole = json!({"role": "assistant", "content": "It is 8.", "stop_reason": "end_turn"});
    check("anthropic", &whole.to_string(), &expected()).await;
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
    check("anthropic", &named(&data), &ReplyContent::text("It is 8.", StopReason::Done)).await;
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
    let expected = ReplyContent {
        text: "Let me see.".to_owned(),
        ..ReplyContent::calls([["a", "calculator__add", r#"{"a":1}"#]])
    };
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
    assert_eq!((kind, message.as_str()), (ModelFailure::Unavailable, "anthropic interrupted its answer: Overloaded"));
}

#[tokio::test]
async fn says_why_an_answer_is_incomplete() {
    for (reason, stop) in [
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("refusal", StopReason::Refused),
        ("stop_sequence", StopReason::Done),
    ] {
        check("anthropic", &named(&reply(&[text("par")], reason)), &ReplyContent::text("par", stop)).await;
    }
}
