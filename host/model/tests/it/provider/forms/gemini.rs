//! Gemini's form.

use fumehood_core::chat::{ModelFailure, StopReason};
use serde_json::{Value, json};

use super::{ReplyContent, check, events, failure, play};
use crate::provider::reply;

fn event(parts: Value, reason: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason}]})
}

fn call(function: Value) -> Value {
    json!([{"functionCall": function}])
}

#[tokio::test]
async fn reads_calls_without_ids_or_arguments() {
    // One call in each event.
    fn with(id: Value, a: u32) -> Value {
        call(json!({"id": id, "name": "calculator__add", "args": {"a": a}}))
    }

    fn stop() -> Value {
        event(json!([{"text": ""}]), json!("STOP"))
    }

    fn two_calls(first: &str, second: &str) -> ReplyContent {
        ReplyContent::calls([[first, "calculator__add", r#"{"a":1}"#], [second, "calculator__add", r#"{"a":2}"#]])
    }

    for function in [
        json!({"name": "calculator__add"}),
        json!({"name": "calculator__add", "args": null}),
        json!({"id": "", "name": "calculator__add", "args": {}}),
    ] {
        let expected = ReplyContent::calls([["call#calculator__add#0", "calculator__add", "{}"]]);
        check("gemini", &events(&[event(call(function), Value::Null), stop()]), &expected).await;
    }
    let body = [event(with(Value::Null, 1), Value::Null), event(with(Value::Null, 2), json!("")), stop()];
    check("gemini", &events(&body), &two_calls("call#calculator__add#0", "call#calculator__add#1")).await;
    let body = [event(with(json!("q"), 1), Value::Null), event(with(json!("q"), 2), json!("STOP"))];
    check("gemini", &events(&body), &two_calls("q", "call#calculator__add#0")).await;
}

#[tokio::test]
async fn reads_parts_in_other_forms() {
    fn one_call() -> ReplyContent {
        ReplyContent::calls([["call#calculator__add#0", "calculator__add", r#"{"a":1}"#]])
    }

    fn add() -> Value {
        json!({"name": "calculator__add", "args": {"a": 1}})
    }

    for candidates in [
        json!([{"content": {"parts": [{"function_call": add()}]}, "finish_reason": "STOP"}]),
        json!([{"content": [{"parts": {"functionCall": {"name": "calculator__add", "arguments": {"a": 1}}}}], "finishReason": 1}]),
        json!({"content": {"parts": [{"functionCall": {"name": "calculator__add", "args": "{\"a\":1}"}}]}, "finishReason": "stop"}),
        json!([{"content": {}, "finishReason": "STOP"}, {"content": {"parts": [{"text": "Or so."}, {"functionCall": add()}]}}]),
    ] {
        check("gemini", &events(&[json!({ "candidates": candidates })]), &one_call()).await;
    }
    for content in [json!("It is 8."), json!(["It is ", {"text": "8."}]), json!({"parts": ["It is ", null, "8."]})] {
        let candidate = json!({"content": content, "finishReason": "STOP"});
        let expected = ReplyContent::text("It is 8.", StopReason::Done);
        let event = json!({"candidates": [candidate]});
        check("gemini", &events(&[json!({ "response": event })]), &expected).await;
        check("gemini", &events(&[event]), &expected).await;
    }
}

#[tokio::test]
async fn reads_on_after_a_reason_with_every_event() {
    fn said(text: &str) -> Value {
        event(json!([{ "text": text }]), json!("STOP"))
    }

    let calling = event(call(json!({"name": "calculator__add", "args": {}})), json!("STOP"));
    let mut usage = said("8.");
    usage["usageMetadata"] = json!({"promptTokenCount": 7, "candidatesTokenCount": 2});
    let body = events(&[said("It is "), usage, calling]);
    let (response, _) = play("gemini", reply(200, "", body)).await.unwrap();
    assert_eq!((response.reply.text(), response.reply.calls().len()), ("It is 8.", 1));
    assert_eq!((response.usage.input, response.usage.output), (7, 2));
    let cut = [event(json!([{"text": "par"}]), json!(2)), said("t")];
    check("gemini", &events(&cut), &ReplyContent::text("part", StopReason::Length)).await;
}

#[tokio::test]
async fn reads_all_thoughts_and_facts_without_content() {
    let parts = json!([{"text": "h", "thought": true}, {"text": "m", "thought": true}, {"text": "8"}]);
    let usage = json!({"usageMetadata": {"promptTokenCount": 1}, "modelVersion": "m"});
    let data = [usage.clone(), event(parts, Value::Null), usage, event(json!([]), json!("STOP"))];
    let expected = ReplyContent::text("8", StopReason::Done).thoughts("hm");
    check("gemini", &events(&data), &expected).await;
    // A server that does not know `alt=sse`.
    check("gemini", &json!(data).to_string(), &expected).await;
    check("gemini", &format!("data: [DONE]\n\n{}", events(&data)), &expected).await;
}

#[tokio::test]
async fn error_with_status_200_is_that_error() {
    let error = json!({"error": {"code": 404, "message": "no such model", "status": "NOT_FOUND"}});
    for body in [error.to_string(), json!([error]).to_string(), events(&[error])] {
        let (kind, message) = failure("gemini", &body).await;
        assert_eq!((kind, message.as_str()), (ModelFailure::Refused, "gemini answered with an error: no such model"));
    }
}

#[tokio::test]
async fn says_why_an_answer_is_incomplete() {
    for (reason, stop) in [
        ("MAX_TOKENS", StopReason::Length),
        ("SAFETY", StopReason::Filtered),
        ("RECITATION", StopReason::Filtered),
        ("OTHER", StopReason::Failed),
    ] {
        check("gemini", &events(&[event(json!([{"text": "par"}]), json!(reason))]), &ReplyContent::text("par", stop))
            .await;
    }
    let malformed = json!({"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL",
        "finishMessage": "Malformed function call: print(x)"}]});
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 1}});
    for (body, stop, notice) in [
        (malformed, StopReason::Failed, "gemini explains: Malformed function call: print(x)"),
        (blocked, StopReason::Filtered, "gemini explains: the prompt was blocked, with the reason SAFETY"),
    ] {
        let (response, _) = play("gemini", reply(200, "", events(&[body]))).await.unwrap();
        assert_eq!((response.reply.text(), response.stop), ("", stop));
        assert_eq!(response.notices, [notice]);
    }
}
