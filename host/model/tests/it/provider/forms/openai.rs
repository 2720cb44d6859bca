//! OpenAI's form.

use fumehood_core::chat::{ModelFailure, StopReason};
use serde_json::{Value, json};

use super::{ReplyContent, check, events, failure, play};
use crate::provider::server::Play;

const DONE: &str = "data: [DONE]\n\n";

/// Returns an event with a piece of the reply.
fn piece(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

/// Returns an event with an entry of the list of calls.
fn call(index: Value, id: Value, function: Value) -> Value {
    let mut entry = json!({"type": "function", "function": function});
    for (field, value) in [("index", index), ("id", id)] {
        if value != json!("none") {
            entry[field] = value;
        }
    }
    piece(json!({"tool_calls": [entry]}))
}

fn end(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// Returns a stream of these events that ends with calls.
fn calling(pieces: &[Value]) -> String {
    format!("{}{DONE}", events(&[pieces, &[end("tool_calls")]].concat()))
}

fn add(arguments: &str) -> Value {
    json!({"name": "calculator__add", "arguments": arguments})
}

fn one() -> ReplyContent {
    ReplyContent::calls([["a", "calculator__add", r#"{"a":1}"#]])
}

fn two(first: &str, second: &str) -> ReplyContent {
    ReplyContent::calls([[first, "calculator__add", r#"{"a":1}"#], [second, "calculator__add", r#"{"a":2}"#]])
}

#[tokio::test]
async fn reads_calls_however_their_pieces_are_labelled() {
    let none = json!("none");
    let null = Value::Null;
    let first = add(r#"{"a":1}"#);
    let second = add(r#"{"a":2}"#);
    for (pieces, expected) in [
        (vec![call(none.clone(), json!("a"), first.clone())], one()),
        (vec![call(json!("0"), json!("a"), first.clone())], one()),
        (vec![call(json!(1), json!("a"), first.clone())], one()),
        (vec![call(none.clone(), json!("a"), first.clone()), call(none, json!("b"), second.clone())], two("a", "b")),
        (vec![call(json!(0), json!("a"), first.clone()), call(json!(0), json!("b"), second.clone())], two("a", "b")),
        (
            vec![call(json!(0), json!("a"), first.clone()), call(json!(1), json!("a"), second.clone())],
            two("a", "call_0"),
        ),
        (vec![call(json!(0), json!(""), first.clone()), call(json!(1), null, second)], two("call_0", "call_1")),
        (
            vec![
                call(json!(0), json!("a"), json!({"name": "calculator__", "arguments": ""})),
                call(json!(0), Value::Null, json!({"name": "add"})),
                call(json!(0), json!(""), json!({"name": "", "arguments": r#"{"a""#})),
                call(json!(0), json!("a"), json!({"name": "calculator__add", "arguments": ":1}"})),
            ],
            one(),
        ),
    ] {
        check("compatible", &calling(&pieces), &expected).await;
    }
    // What models of some servers put around a name.
    for name in ["functions.calculator__add", "functions.calculator__add:0", "default_api.calculator__add"] {
        let pieces = [call(json!(0), json!("a"), json!({"name": name, "arguments": r#"{"a":1}"#}))];
        check("compatible", &calling(&pieces), &one()).await;
    }
    // Both calls in one event, with one index.
    let both = piece(json!({"tool_calls": [
        {"index": 0, "id": "a", "function": add(r#"{"a":1}"#)},
        {"index": 0, "id": "b", "function": add(r#"{"a":2}"#)},
    ]}));
    check("openai", &calling(&[both]), &two("a", "b")).await;
    let legacy = [
        piece(json!({"function_call": {"name": "calculator__add", "arguments": ""}})),
        piece(json!({"function_call": {"arguments": r#"{"a":1}"#}})),
        end("function_call"),
    ];
    let legacy_call = ReplyContent::calls([["call_0", "calculator__add", r#"{"a":1}"#]]);
    check("compatible", &format!("{}{DONE}", events(&legacy)), &legacy_call).await;
}

#[tokio::test]
async fn reads_calls_in_other_places_than_the_usual_one() {
    fn said() -> ReplyContent {
        ReplyContent { text: "Let me see.".to_owned(), ..one() }
    }

    fn choices(choices: Value) -> Value {
        json!({ "choices": choices })
    }

    fn entry(id: &str, arguments: Value) -> Value {
        json!({"id": id, "function": {"name": "calculator__add", "arguments": arguments}})
    }

    let first = entry("a", json!(r#"{"a":1}"#));
    let second = entry("b", json!({"a": 2}));
    let look = json!({"delta": {"content": "Let me see."}, "finish_reason": null});
    for (event, expected) in [
        // In a choice beside that of the text, streamed or whole.
        (choices(json!([look, {"delta": {"tool_calls": [first]}}])), said()),
        (
            choices(
                json!([{"message": {"content": "Let me see."}}, {"message": {"content": "Or so.", "tool_calls": [first]}}]),
            ),
            said(),
        ),
        (choices(json!([{"delta": {}, "tool_calls": [first]}])), one()),
        (choices(json!({"delta": {"tool_calls": first}})), one()),
        (choices(json!([{"delta": {"tool_calls": {"0": first, "1": second}}}])), two("a", "b")),
        (piece(json!({"tool_calls": [{"id": "a", "function": "calculator__add", "arguments": {"a": 1}}]})), one()),
        (piece(json!({"tool_calls": [{"id": "a", "function": first["function"].to_string()}]})), one()),
        (
            piece(json!({"tool_calls": [{"id": "a", "function": {"name": " calculator__add ", "input": {"a": 1}}}]})),
            one(),
        ),
    ] {
        check("compatible", &calling(&[event]), &expected).await;
    }
}

#[tokio::test]
async fn reads_text_of_any_type_and_place() {
    fn text() -> ReplyContent {
        ReplyContent::text("It is 8.", StopReason::Done)
    }

    for choices in [
        [
            json!({"message": {"content": "It is "}, "finish_reason": null}),
            json!({"message": {"content": "8."}, "finish_reason": "stop"}),
        ],
        [json!({"text": "It is ", "finish_reason": null}), json!({"text": "8.", "finish_reason": "stop"})],
        [
            json!({"delta": {"content": "It is "}, "finish_reason": "stop"}),
            json!({"delta": {"content": "8."}, "finish_reason": "stop"}),
        ],
        [json!({"delta": {"content": "It is "}}), json!({"delta": {"content": "8.", "finish_reason": "stop"}})],
        [
            json!({"delta": {"content": ["It is "]}}),
            json!({"delta": {"content": {"type": "text", "text": "8."}}, "finish_reason": {"type": "stop"}}),
        ],
    ] {
        check("compatible", &events(&choices.map(|choice| json!({"choices": [choice]}))), &text()).await;
    }
    check(
        "compatible",
        &events(&[piece(json!({"content": 8})), end("stop")]),
        &ReplyContent::text("8", StopReason::Done),
    )
    .await;
    // What was cut stays cut.
    let cut = json!({"choices": [{"message": {"content": "It is "}, "finish_reason": null}]});
    assert_eq!(failure("compatible", &events(&[cut])).await.0, ModelFailure::Malformed);
}

#[tokio::test]
async fn reads_events_in_any_frame() {
    let text = ReplyContent::text("It is 8.", StopReason::Done);
    let data = [piece(json!({"content": "It is "})), piece(json!({"content": "8."})), end("stop")];
    let usual = format!("{}{DONE}", events(&data));
    for body in [
        usual.replace("\n\n", "\n"),
        usual.replace("data: ", "data: data: "),
        usual.replace("[DONE]", "[done]"),
        usual.replacen("\n\n", "\n\nevent: ping\ndata: ping\n\ndata: null\n\ndata: {}\n\n", 1),
        usual.replacen("null", "null,\"logprobs\":[NaN,-Infinity]", 1),
        data.iter().map(|event| format!("{event}\n")).collect(),
        json!(data).to_string(),
    ] {
        check("compatible", &body, &text).await;
    }
    let halves = usual.replace("is ", "is\\ud83d").replace("8.", "\\ude008.");
    check("compatible", &halves, &ReplyContent::text("It is\u{fffd}\u{fffd}8.", StopReason::Done)).await;
}

#[tokio::test]
async fn reads_arguments_that_need_no_guess() {
    fn with_arguments(arguments: Value) -> String {
        let function = json!({"name": "calculator__add", "arguments": arguments});
        calling(&[call(json!(0), json!("a"), function)])
    }

    check("openai", &with_arguments(json!({"a": 1})), &one()).await;
    check("openai", &with_arguments(json!(r#""{\"a\":1}""#)), &one()).await;
    check("openai", &with_arguments(json!("```json\n{\"a\":1}\n```")), &one()).await;
    let empty = ReplyContent::calls([["a", "calculator__add", "{}"]]);
    for arguments in [json!(""), Value::Null, json!("null"), json!({}), json!("{}")] {
        check("openai", &with_arguments(arguments), &empty).await;
    }
    let missing = calling(&[call(json!(0), json!("a"), json!({"name": "calculator__add"}))]);
    check("openai", &missing, &empty).await;
    for text in ["{'a': 1,}", r#"{"a":1}{}"#, r#"{"a":1,"a":2}"#, r#"{"a":9007199254740993.0}"#] {
        check("openai", &with_arguments(json!(text)), &ReplyContent::calls([["a", "calculator__add", text]])).await;
    }
}

#[tokio::test]
async fn reads_whole_messages() {
    fn whole(choice: Value) -> Value {
        json!({"object": "chat.completion", "choices": [choice]})
    }

    let message =
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "a", "function": add(r#"{"a":1}"#)}]});
    // A server that does not stream, and one that says no reason.
    check("compatible", &whole(json!({"message": message, "finish_reason": "tool_calls"})).to_string(), &one()).await;
    check("compatible", &whole(json!({"message": message})).to_string(), &one()).await;
    let last = json!({"choices": [{"delta": {}, "message": message, "finish_reason": "tool_calls"}]});
    check("compatible", &format!("{}{DONE}", events(&[last])), &one()).await;
    // A message that repeats the text of the stream.
    let repeated = json!({"choices": [{"delta": {}, "message": {"content": "It is 8."}, "finish_reason": "stop"}]});
    let body = events(&[piece(json!({"content": "It is "})), piece(json!({"content": "8."})), repeated]);
    check("compatible", &body, &ReplyContent::text("It is 8.", StopReason::Done)).await;
}

#[tokio::test]
async fn stream_is_complete_with_a_finish_reason() {
    let text = [piece(json!({"content": "It is 8."})), end("stop")];
    check("compatible", &events(&text), &ReplyContent::text("It is 8.", StopReason::Done)).await;
    check("compatible", &events(&[call(json!(0), json!("a"), add(r#"{"a":1}"#)), end("TOOL_CALLS")]), &one()).await;
    // The connection breaks off behind it.
    let (response, _) = play("compatible", Play::Cut(events(&text).into_bytes())).await.unwrap();
    assert_eq!(response.reply.text(), "It is 8.");
    let open = [call(json!(0), json!("a"), add(r#"{"a":1}"#))];
    assert_eq!(failure("compatible", &events(&open)).await.0, ModelFailure::Malformed);
    let empty = json!({"choices": [{"delta": {"content": "It is 8."}, "finish_reason": ""}]});
    assert_eq!(failure("compatible", &events(&[empty])).await.0, ModelFailure::Malformed);
}

#[tokio::test]
async fn event_without_content_changes_nothing() {
    let null = json!({"choices": [{"index": 0, "delta": null, "finish_reason": ""}], "error": null});
    let filter = json!({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]});
    let calls = [
        filter,
        null,
        piece(json!({"content": "", "tool_calls": null})),
        call(json!(0), json!("a"), add(r#"{"a":1}"#)),
    ];
    check("compatible", &format!(": PROCESSING\n\n{}", calling(&calls)), &one()).await;
    check("compatible", &calling(&calls).replace("data: ", "data:").replace('\n', "\r\n"), &one()).await;
}

#[tokio::test]
async fn error_with_status_200_is_that_error() {
    let error = json!({"message": "model not found", "type": "not_found"});
    for body in [
        json!({"error": error}).to_string(),
        events(&[json!({"error": error})]),
        format!("event: error\n{}", events(std::slice::from_ref(&error))),
        json!({"object": "error", "message": "model not found", "code": 404}).to_string(),
        events(&[json!({"choices": [{"delta": {}, "error": error, "finish_reason": "error"}]})]),
        json!({"success": false, "errors": [error]}).to_string(),
        json!({"error_code": 404, "error_msg": "model not found"}).to_string(),
        json!({"choices": null, "base_resp": {"status_code": 404, "status_msg": "model not found"}}).to_string(),
        json!({"title": "model not found", "status": 404}).to_string(),
    ] {
        let (kind, message) = failure("compatible", &body).await;
        assert_eq!(kind, ModelFailure::Refused, "{body}");
        assert_eq!(message, "compatible answered with an error: model not found", "{body}");
    }
    let (_, message) = failure("compatible", "event: error\ndata: out of memory\n\n").await;
    assert_eq!(message, "compatible answered with an error: out of memory");
    let late = [piece(json!({"content": "par"})), json!({"error": {"message": "upstream overloaded", "code": 502}})];
    let (kind, message) = failure("compatible", &events(&late)).await;
    assert_eq!(kind, ModelFailure::Unavailable);
    assert_eq!(message, "compatible interrupted its answer: upstream overloaded");
}

#[tokio::test]
async fn reads_thoughts_of_every_kind() {
    for deltas in [
        vec![json!({"reasoning_content": "hmm"}), json!({"content": "8"})],
        vec![json!({"reasoning": "hmm"}), json!({"content": "8"})],
        vec![json!({"thinking": "hmm"}), json!({"content": "8"})],
        vec![json!({"content": "<thi"}), json!({"content": "nk>hmm</thi"}), json!({"content": "nk>\n\n8"})],
        vec![
            json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hmm"}]}]}),
            json!({"content": [{"type": "text", "text": "8"}]}),
        ],
    ] {
        let pieces: Vec<Value> = deltas.into_iter().map(piece).chain([end("stop")]).collect();
        let expected = ReplyContent::text("8", StopReason::Done).thoughts("hmm");
        check("compatible", &format!("{}{DONE}", events(&pieces)), &expected).await;
    }
}

#[tokio::test]
async fn says_why_an_answer_is_incomplete() {
    for (reason, stop) in [
        ("length", StopReason::Length),
        ("MAX_TOKENS", StopReason::Length),
        ("content-filter", StopReason::Filtered),
        ("content_filter", StopReason::Filtered),
        ("error", StopReason::Failed),
        ("stop", StopReason::Done),
        ("eos", StopReason::Done),
    ] {
        let body = format!("{}{DONE}", events(&[piece(json!({"content": "par"})), end(reason)]));
        check("compatible", &body, &ReplyContent::text("par", stop)).await;
    }
    let refusal = [piece(json!({"refusal": "I can't "})), piece(json!({"refusal": "do that."})), end("stop")];
    let body = format!("{}{DONE}", events(&refusal));
    check("openai", &body, &ReplyContent::text("I can't do that.", StopReason::Refused)).await;
    let cut = [call(json!(0), json!("a"), add(r#"{"a":1"#)), end("length")];
    let expected =
        ReplyContent { stop: StopReason::Length, ..ReplyContent::calls([["a", "calculator__add", r#"{"a":1"#]]) };
    check("openai", &format!("{}{DONE}", events(&cut)), &expected).await;
}
