//! Rejected parameters: the request is repeated without them, and they are never sent again.

use fumehood_core::chat::{ModelFailure, Request};
use fumehood_model::{ProviderConfig, ReasoningEffort};
use serde_json::{Value, json};

use super::server::{Play, ReceivedRequest, Server};
use super::{SERVICES, ask, config, provider, question, reply, stream};

const JSON: &str = "content-type: application/json\r\n";

/// OpenAI's error message for a reasoning model.
const TEMPERATURE: &str = r#"{"error": {"message": "Unsupported value: 'temperature' does not support 0.7 with this model.", "type": "invalid_request_error", "param": "temperature", "code": "unsupported_value"}}"#;
/// OpenAI's error message for a small model.
const MAX_TOKENS: &str = r#"{"error": {"message": "max_tokens is too large: 20000. This model supports at most 16384 completion tokens.", "type": "invalid_request_error", "param": "max_tokens", "code": "invalid_value"}}"#;

fn refusal(body: &str) -> Play {
    reply(400, JSON, body)
}

/// Returns settings with both parameters.
fn with_both_parameters(server: &Server) -> ProviderConfig {
    ProviderConfig { temperature: Some(0.7), max_tokens: Some(20_000), ..config(server) }
}

fn parameters(asked: &ReceivedRequest) -> (Option<&Value>, Option<&Value>) {
    (asked.body.get("temperature"), asked.body.get("max_tokens"))
}

#[tokio::test]
async fn leaves_out_a_rejected_parameter_and_notifies_the_operator() {
    fn text() -> Play {
        stream("openai/text.sse")
    }

    let server = Server::start(vec![refusal(TEMPERATURE), refusal(MAX_TOKENS), text(), text()]).await;
    let provider = provider("openai", with_both_parameters(&server));
    let response = ask(&provider, &question()).await.0.unwrap();
    assert_eq!(response.reply.text(), "The result is 16 ✓.");
    let expected = "the request was repeated without `temperature`, because openai answered with status 400: \
                    Unsupported value: 'temperature' does not support 0.7 with this model.; change this setting";
    assert_eq!(response.notices[0], expected);
    assert!(response.notices[1].contains("without `max_tokens`"), "{:?}", response.notices);
    // A rejected parameter is not sent to that model again.
    assert_eq!(ask(&provider, &question()).await.0.unwrap().notices, [] as [String; 0]);
    let asked = server.requests();
    let found: Vec<_> = asked.iter().map(parameters).collect();
    let temperature = json!(0.7);
    let tokens = json!(20_000);
    assert_eq!(found, [(Some(&temperature), Some(&tokens)), (None, Some(&tokens)), (None, None), (None, None)]);
}

#[tokio::test]
async fn still_sends_a_parameter_that_another_model_rejected() {
    fn text() -> Play {
        stream("openai/text.sse")
    }

    let server = Server::start(vec![refusal(TEMPERATURE), text(), text()]).await;
    let provider = provider("openai", with_both_parameters(&server));
    ask(&provider, &question()).await.0.unwrap();
    let other = Request { model: Some("other".to_owned()), ..question() };
    ask(&provider, &other).await.0.unwrap();
    assert_eq!(server.requests()[2].body["temperature"], json!(0.7));
}

#[tokio::test]
async fn persistent_rejection_names_the_setting() {
    let server = Server::start(vec![refusal(TEMPERATURE), refusal(TEMPERATURE)]).await;
    let config = ProviderConfig { temperature: Some(0.7), ..config(&server) };
    let error = ask(&provider("openai", config), &question()).await.0.unwrap_err();
    assert_eq!((error.failure, error.setting), (ModelFailure::Refused, None), "it was not sent any more");
    assert_eq!(server.requests().len(), 2);

    // Anthropic requires a limit in every request: without the operator's, the library sends its own.
    let words =
        r#"{"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: 99999 > 64000"}}"#;
    let server = Server::start(vec![refusal(words), stream("anthropic/text.sse")]).await;
    let config = ProviderConfig { max_tokens: Some(99_999), ..super::config(&server) };
    ask(&provider("anthropic", config), &question()).await.0.unwrap();
    let tokens: Vec<_> = server.requests().iter().map(|asked| asked.body["max_tokens"].clone()).collect();
    assert_eq!(tokens, [json!(99_999), json!(64_000)]);
}

#[tokio::test]
async fn rejection_of_an_unsent_parameter_is_not_retried() {
    for (service, _) in SERVICES {
        let server = Server::start(vec![refusal(TEMPERATURE)]).await;
        let error = ask(&provider(service, config(&server)), &question()).await.0.unwrap_err();
        assert_eq!((error.failure, error.status, server.requests().len()), (ModelFailure::Refused, Some(400), 1));
    }
    // With another status a mention of the parameter does not count.
    let server = Server::start(vec![reply(403, JSON, TEMPERATURE)]).await;
    let error = ask(&provider("openai", with_both_parameters(&server)), &question()).await.0.unwrap_err();
    assert_eq!((error.status, server.requests().len()), (Some(403), 1));
}

#[tokio::test]
async fn leaves_out_unsupported_effort_and_options() {
    let thinking = r#"{"error": "\"m\" does not support thinking"}"#;
    let server = Server::start(vec![refusal(thinking), stream("ollama/text.ndjson")]).await;
    let config = ProviderConfig { reasoning_effort: Some(ReasoningEffort::High), ..config(&server) };
    let response = ask(&provider("ollama", config), &question()).await.0.unwrap();
    assert!(response.notices[0].contains("without `reasoning_effort`"), "{:?}", response.notices);
    assert_eq!(server.requests()[1].body.get("think"), None);

    let unknown = r#"{"error": {"message": "Unrecognized request argument supplied: top_k"}}"#;
    let server = Server::start(vec![refusal(unknown), stream("openai/text.sse")]).await;
    let options = json!({"top_k": 5, "top_p": 0.5}).as_object().unwrap().clone();
    let response = ask(&provider("openai", ProviderConfig { options, ..super::config(&server) }), &question()).await;
    assert!(response.0.unwrap().notices[0].contains("without `options.top_k`"));
    let body = server.requests().remove(1).body;
    assert_eq!((body.get("top_k"), &body["top_p"]), (None, &json!(0.5)));
}

#[tokio::test]
async fn falls_back_from_schema_to_json_and_from_json_to_text() {
    let schema = json!({"type": "object"});
    let request = Request { json: true, json_schema: Some(schema), tools: Vec::new(), ..question() };
    let no_schema = r#"{"error": {"message": "This response_format type is unavailable now"}}"#;
    let no_json = r#"{"error": "'response_format.type' must be 'json_schema' or 'text'"}"#;
    let server = Server::start(vec![refusal(no_schema), refusal(no_json), stream("openai/text.sse")]).await;
    let response = ask(&provider("compatible", config(&server)), &request).await.0.unwrap();
    assert_eq!(response.notices, [] as [String; 0], "nobody set it");
    let asked = server.requests();
    let kinds: Vec<_> = asked.iter().map(|asked| asked.body.pointer("/response_format/type")).collect();
    assert_eq!(kinds, [Some(&json!("json_schema")), Some(&json!("json_object")), None]);
}
