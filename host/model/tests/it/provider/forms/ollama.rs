//! Ollama's form.

use fumehood_core::chat::{ModelFailure, StopReason};
use serde_json::{Value, json};

use super::{ReplyContent, check, failure};

fn lines(data: &[Value]) -> String {
    data.iter().map(|line| format!("{line}\n")).collect()
}

fn calling(calls: Value) -> String {
    let message = json!({"role": "assistant", "content": "", "tool_calls": calls});
    lines(&[json!({"message": message, "done": false}), json!({"message": {"content": ""}, "done": true})])
}

#[tokio::test]
async fn reads_calls_with_any_arguments_and_ids() {
    fn function(arguments: Value) -> Value {
        json!({"name": "calculator__add", "arguments": arguments})
    }

    let empty = ReplyContent::calls([["call_0", "calculator__add", "{}"]]);
    for function in [
        json!({"name": "calculator__add"}),
        json!({"name": "calculator__add", "arguments": null}),
        json!({"name": "calculator__add", "arguments": {}}),
        json!({"name": "calculator__add", "arguments": ""}),
        json!({"name": "calculator__add", "parameters": {}}),
    ] {
        check("ollama", &calling(json!([{"function": function}])), &empty).await;
        check("ollama", &calling(function), &empty).await;
    }
    let calls = json!([
        {"id": "a", "function": function(json!({"a": 1}))},
        {"id": "a", "function": function(json!(r#"{"a":2}"#))},
        {"id": "", "function": function(json!({"a": 3}))},
    ]);
    let expected = ReplyContent::calls([
        ["a", "calculator__add", r#"{"a":1}"#],
        ["call_0", "calculator__add", r#"{"a":2}"#],
        ["call_1", "calculator__add", r#"{"a":3}"#],
    ]);
    check("ollama", &calling(calls), &expected).await;
}

#[tokio::test]
async fn reads_other_places_types_and_frames() {
    fn said(content: Value) -> Value {
        json!({"message": { "content": content }, "done": false})
    }

    let text = ReplyContent::text("It is 8.", StopReason::Done);
    let usual = [said(json!("It is ")), said(json!("8.")), json!({"message": {"content": ""}, "done": true})];
    for body in [
        lines(&[json!({"response": "It is ", "done": false}), json!({"response": "8.", "done": "true"})]),
        lines(&[said(json!([{"type": "text", "text": "It is "}, "8."])), json!({"done": true})]),
        usual.iter().map(|line| format!("event: x\ndata: {line}\n\n")).collect(),
        lines(&usual).replacen("false", "false,\"load\":NaN", 1),
    ] {
        check("ollama", &body, &text).await;
    }
    let function = json!({"name": "calculator__add", "arguments": {"a": 1}});
    let legacy = json!({"message": { "function_call": function }, "done": true});
    check("ollama", &lines(&[legacy]), &ReplyContent::calls([["call_0", "calculator__add", r#"{"a":1}"#]])).await;
    let numbered = calling(json!({"0": { "function": function }}));
    check("ollama", &numbered, &ReplyContent::calls([["call_0", "calculator__add", r#"{"a":1}"#]])).await;
}

#[tokio::test]
async fn error_with_status_200_is_that_error() {
    for error in [json!("out of memory"), json!({"message": "out of memory"})] {
        let (kind, message) = failure("ollama", &lines(&[json!({"error": error})])).await;
        assert_eq!(kind, ModelFailure::Unavailable);
        assert_eq!(message, "ollama answered with an error: out of memory");
    }
}

#[tokio::test]
async fn says_why_an_answer_is_incomplete() {
    for (end, stop) in [
        (json!({"done": true, "done_reason": "length"}), StopReason::Length),
        (json!({"done": true, "done_reason": "stop"}), StopReason::Done),
        (json!({"done_reason": "LENGTH"}), StopReason::Length),
        (json!({"done": true, "done_reason": ""}), StopReason::Done),
    ] {
        let body = lines(&[json!({"message": {"content": "<think>hm</think>par"}}), end]);
        check("ollama", &body, &ReplyContent::text("par", stop).thoughts("hm")).await;
    }
}
