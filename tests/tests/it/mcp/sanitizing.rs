//! Hidden characters: none from a tool, a knowledge file or a client reaches a reader of messages unescaped.

use std::sync::Arc;

use fumehood::mcp::{Entry, Library, LibraryError, Parameter, Prompt, ServerOptions, Source};
use fumehood::sanitize::{count_hidden, is_hidden};
use fumehood::{Host, Load};
use fumehood_tests::contract::{Answer, ToolDescription};
use serde_json::{Value, json};

use super::raw::{Raw, host};

/// One of each class: escape, C1, bidi, zero width, tag, variation selector, filler, separator, blanks, noncharacter.
const EVIL: &str = "e\u{1b}\u{9b}\u{202e}\u{200b}\u{e0041}\u{fe0f}\u{3164}\u{2028}\u{2800}\u{1d159}\u{16fe4}\u{fdd0}l";
/// Number of its characters that are escaped.
const COUNT: u64 = 12;

/// Creates a host with one tool for each answer, all with the same texts.
async fn evil_host(answers: &[(&str, Answer<'_>)], output: Option<&str>) -> Host {
    let host = host(&[], &[]).await;
    for (name, answer) in answers {
        let schema = json!({
            "type": "object", "title": EVIL, "additionalProperties": true,
            "properties": {EVIL: {"type": "string", "description": EVIL, "enum": [EVIL], "default": EVIL}},
        });
        let tool = ToolDescription {
            title: Some(EVIL.to_owned()),
            description: EVIL.to_owned(),
            ..ToolDescription::new("run")
        }
        .taking(&schema.to_string());
        let tool = output.map_or(tool.clone(), |schema| tool.returning(schema));
        let bytes = fumehood_tests::answering(&[tool], *answer).unwrap();
        host.load(Load::bytes(*name, bytes)).await.unwrap();
    }
    host
}

/// Asserts that no text in a message has hidden characters, after parsing as in a client.
#[track_caller]
fn assert_visible(message: &Value) {
    match message {
        Value::String(text) => assert_eq!(count_hidden(text), 0, "{text:?}"),
        Value::Array(items) => items.iter().for_each(assert_visible),
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            assert_eq!(count_hidden(name), 0, "{name:?}");
            assert_visible(value);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn the_evil_text_has_every_class() {
    assert_eq!(count_hidden(EVIL), COUNT);
    assert!(EVIL.chars().filter(|c| is_hidden(*c)).count() as u64 == COUNT);
}

#[tokio::test]
async fn nothing_is_hidden_in_a_list_of_tools() {
    let host = evil_host(&[("evil", Answer::Nothing)], Some(r#"{"type":"object","description":"\u202e"}"#)).await;
    let mut raw = Raw::open(&host).await;
    let listed = raw.request("tools/list", json!({})).await;
    assert_visible(&listed);
    let tool = &listed["result"]["tools"][0];
    assert!(tool["description"].as_str().unwrap().starts_with("e\\u{1b}\\u{9b}\\u{202e}"), "{tool}");
    assert!(tool["inputSchema"]["properties"].as_object().unwrap().keys().all(|name| name.contains("\\u{2800}")));
    assert_eq!(tool["title"], tool["description"]);
    assert_eq!(tool["outputSchema"]["description"], "\\u{202e}");
    // In the title, in the description, five times in one schema, and once in the other.
    assert_eq!(tool["_meta"]["fumehood/sanitized"], COUNT * 7 + 1);
    raw.leave().await;
}

#[tokio::test]
async fn nothing_is_hidden_in_results() {
    let quoted = Value::from(EVIL).to_string();
    let object = format!("{{{quoted}: [{quoted}], \"escaped\": \"\\u202e\\ud835\\udd59\"}}");
    let answers = [
        ("text", Answer::Text(EVIL.as_bytes())),
        ("json", Answer::Json(object.as_bytes())),
        ("string", Answer::Json(quoted.as_bytes())),
        ("link", Answer::Link(EVIL)),
        ("failure", Answer::Failure(1, EVIL)),
    ];
    let host = evil_host(&answers, None).await;
    let mut raw = Raw::open(&host).await;
    for (name, _) in answers {
        let result = raw.call(&format!("{name}__run"), json!({})).await;
        assert_visible(&result);
        assert!(result["_meta"]["fumehood/sanitized"].as_u64().unwrap() >= COUNT, "{name}: {result}");
        // A client that parses the text finds nothing hidden in there either.
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            assert_visible(&value);
        }
    }
    raw.leave().await;
}

#[tokio::test]
async fn structured_content_keeps_names_apart() {
    let object = "{\"a\u{200b}\": 1, \"a\\\\u{200b}\": 2, \"n\": 2.5}";
    let open = r#"{"type":"object","additionalProperties":true}"#;
    let host = evil_host(&[("json", Answer::Json(object.as_bytes()))], Some(open)).await;
    let mut raw = Raw::open(&host).await;
    let result = raw.call("json__run", json!({})).await;
    let expected = json!({"a\\u{200b} (2)": 1, "a\\u{200b}": 2, "n": 2.5});
    assert_eq!(result["structuredContent"], expected);
    assert_eq!(serde_json::from_str::<Value>(result["content"][0]["text"].as_str().unwrap()).unwrap(), expected);
    assert_eq!(result["_meta"]["fumehood/sanitized"], 1);
    raw.leave().await;
}

#[tokio::test]
async fn nothing_is_hidden_in_knowledge_and_prompts() {
    let entry = Entry {
        uri: "fumehood://knowledge/evil".to_owned(),
        name: EVIL.to_owned(),
        title: Some(EVIL.to_owned()),
        description: Some(EVIL.to_owned()),
        mime_type: format!("text/{EVIL}"),
        source: Source::text(EVIL),
    };
    let mut library = Library::default();
    library.add_entry(entry).unwrap();
    library.add_prompt(hidden_prompt("ask")).unwrap();
    assert!(matches!(library.add_prompt(hidden_prompt(EVIL)), Err(LibraryError::HiddenName(_))));
    let host = host(&["calculator"], &[]).await;
    let options = ServerOptions {
        library: Arc::new(library),
        instructions: Some(EVIL.to_owned()),
        name: EVIL.to_owned(),
        ..ServerOptions::default()
    };
    let mut raw = Raw::connect(&host, options);
    assert_visible(&raw.initialize("2025-11-25").await);
    for (method, params) in [
        ("resources/list", json!({})),
        ("resources/read", json!({"uri": "fumehood://knowledge/evil"})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "ask", "arguments": {"of": EVIL}})),
    ] {
        let answer = raw.request(method, params).await;
        assert_eq!(answer.get("error"), None, "{method}: {answer}");
        assert!(answer.to_string().contains("u{202e}"), "{method}: {answer}");
        assert_visible(&answer);
    }
    raw.leave().await;
}

fn hidden_prompt(name: &str) -> Prompt {
    Prompt {
        name: name.to_owned(),
        title: Some(EVIL.to_owned()),
        description: Some(EVIL.to_owned()),
        parameters: vec![Parameter { name: "of".to_owned(), description: EVIL.to_owned(), required: true }],
        entries: vec!["fumehood://knowledge/evil".to_owned()],
        text: Source::text(format!("{EVIL} {{of}}")),
    }
}

#[tokio::test]
async fn nothing_is_hidden_in_errors() {
    let host = host(&["calculator"], &[]).await;
    let mut raw = Raw::open(&host).await;
    for (method, params) in [
        (EVIL, json!({})),
        ("tools/call", json!({"name": EVIL})),
        ("tools/call", json!({"name": EVIL, "arguments": EVIL})),
        ("tools/call", json!({"name": "calculator__add", "arguments": {EVIL: EVIL}})),
        ("tools/list", json!({"cursor": EVIL})),
        ("resources/read", json!({"uri": EVIL})),
        ("prompts/get", json!({"name": EVIL})),
    ] {
        let answer = raw.request(method, params).await;
        assert_visible(&answer);
    }
    raw.line(&format!(r#"{{"jsonrpc":"2.0","id":99,"method":"ping","{EVIL}":1,"{EVIL}":2}}"#).replace('\u{1b}', ""))
        .await;
    assert_visible(&raw.next().await);
    raw.leave().await;
}

#[tokio::test]
async fn nothing_is_hidden_in_log_lines_and_progress() {
    let host = host(&[], &[]).await;
    let bytes = fumehood_tests::contract("forge-log").unwrap();
    host.load(Load::bytes("forge-log", bytes)).await.unwrap();
    let mut raw = Raw::open(&host).await;
    raw.notify("notifications/initialized", json!({})).await;
    let answer = raw.request("logging/setLevel", json!({"level": "debug"})).await;
    assert_eq!(answer.get("error"), None, "{answer}");
    let called = raw.call("forge-log__forge", json!({})).await;
    assert_visible(&called);
    assert!(!raw.news.is_empty());
    raw.news.iter().for_each(assert_visible);
    raw.leave().await;
}
