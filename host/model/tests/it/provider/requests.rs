//! Requests as they are sent.

use fumehood_core::chat::{Image, Message, Request, ToolChoice};
use fumehood_model::{ProviderConfig, ReasoningEffort};
use serde_json::{Value, json};

use super::server::{ReceivedRequest, Server};
use super::{KEY, SERVICES, answered_conversation, ask, config, provider, question, stream};

/// Sends a request to a server that answers with text, and returns the request that arrived.
async fn sent(service: &str, request: &Request, change: impl FnOnce(&mut ProviderConfig)) -> ReceivedRequest {
    let kind = SERVICES.iter().find(|(name, _)| *name == service).map_or("sse", |(_, kind)| kind);
    let answers = if service == "compatible" { "openai" } else { service };
    let server = Server::start(vec![stream(&format!("{answers}/text.{kind}"))]).await;
    let mut config = config(&server);
    change(&mut config);
    let (answer, _) = ask(&provider(service, config), request).await;
    answer.unwrap_or_else(|error| panic!("{service}: {error}"));
    server.requests().remove(0)
}

#[tokio::test]
async fn ollama_is_posted_to_api_chat() {
    let asked = sent("ollama", &question(), |_| {}).await;
    assert!(asked.head.starts_with("POST /api/chat HTTP/1.1"), "{}", asked.head);
    assert!(!asked.head.contains(KEY));
    assert_eq!(asked.body["model"], "m");
}

#[tokio::test]
async fn no_temperature_is_sent_unless_somebody_says_so() {
    fn place(service: &str) -> &'static str {
        match service {
            "gemini" => "/generationConfig/temperature",
            "ollama" => "/options/temperature",
            _ => "/temperature",
        }
    }

    for (service, _) in SERVICES {
        let body = sent(service, &question(), |_| {}).await.body;
        assert_eq!(body.pointer(place(service)), None, "{service}");
        let found = sent(service, &question(), |config| config.temperature = Some(0.7)).await.body;
        assert_eq!(found.pointer(place(service)), Some(&json!(0.7)), "{service}");
        let with_both_parameters = Request { temperature: Some(0.0), max_tokens: Some(50), ..question() };
        let found = sent(service, &with_both_parameters, |_| {}).await.body.pointer(place(service)).cloned();
        assert_eq!(found, Some(json!(0.0)), "{service}");
    }
}

#[tokio::test]
async fn a_request_carries_model_messages_tools_and_the_key_in_a_header() {
    for (service, line, key) in [
        ("openai", "POST /chat/completions ", Some("authorization: Bearer test-key-1")),
        ("anthropic", "POST /messages ", Some("x-api-key: test-key-1")),
        ("gemini", "POST /models/other:streamGenerateContent?alt=sse ", Some("x-goog-api-key: test-key-1")),
        ("ollama", "POST /api/chat ", None),
        ("compatible", "POST /chat/completions ", Some("authorization: Bearer test-key-1")),
    ] {
        let request = Request { model: Some("other".to_owned()), ..question() };
        let asked = sent(service, &request, |_| {}).await;
        assert!(asked.head.starts_with(line), "{service}: {}", asked.head);
        assert_eq!(asked.head.contains(KEY), key.is_some(), "{service}");
        let head = asked.head.to_lowercase();
        assert!(key.is_none_or(|key| head.contains(&key.to_lowercase())), "{service}: {head}");
        let text = asked.body.to_string();
        for said in ["Use the calculator.", "(3 + 5) * 2", "What calculator__add does", "\"required\":[\"a\"]"] {
            assert!(text.contains(said), "{service}: {said}: {text}");
        }
        assert_eq!(asked.body["tools"].as_array().map(|tools| !tools.is_empty()), Some(true), "{service}");
    }
}

#[tokio::test]
async fn compatible_server_without_a_key_gets_none() {
    let asked = sent("compatible", &question(), |config| config.key = None).await;
    assert!(asked.head.starts_with("POST /chat/completions "), "{}", asked.head);
    assert!(!asked.head.to_lowercase().contains("authorization"), "{}", asked.head);
}

#[tokio::test]
async fn a_model_without_tools_is_sent_none() {
    for (service, _) in SERVICES {
        let request = Request { tool_choice: ToolChoice::Required, ..question() };
        let body = sent(service, &request, |config| config.supports_tools = false).await.body;
        let text = body.to_string();
        for word in ["tools", "tool_choice", "toolConfig", "calculator__add"] {
            assert!(!text.contains(word), "{service}: {word}: {text}");
        }
        let none = Request { tools: Vec::new(), ..question() };
        assert_eq!(sent(service, &none, |_| {}).await.body.get("tools"), None, "{service}");
    }
}

#[tokio::test]
async fn the_tool_choice_is_said_in_each_providers_words() {
    let specific = ToolChoice::Specific("calculator__add".to_owned());
    let mode = "/toolConfig/functionCallingConfig/mode";
    for (service, choice, place, expected) in [
        ("openai", &ToolChoice::Auto, "/tool_choice", Value::Null),
        ("openai", &ToolChoice::Required, "/tool_choice", json!("required")),
        ("openai", &ToolChoice::None, "/tool_choice", json!("none")),
        ("openai", &specific, "/tool_choice/function/name", json!("calculator__add")),
        ("anthropic", &ToolChoice::Required, "/tool_choice/type", json!("any")),
        ("anthropic", &ToolChoice::None, "/tool_choice/type", json!("none")),
        ("anthropic", &specific, "/tool_choice/name", json!("calculator__add")),
        ("gemini", &ToolChoice::Required, mode, json!("ANY")),
        ("gemini", &ToolChoice::None, mode, json!("NONE")),
        ("gemini", &specific, "/toolConfig/functionCallingConfig/allowedFunctionNames/0", json!("calculator__add")),
        // Ollama has no tool choice: "none" sends no tools, a specific one only that tool.
        ("ollama", &ToolChoice::None, "/tools", Value::Null),
        ("ollama", &specific, "/tools/0/function/name", json!("calculator__add")),
        ("ollama", &specific, "/tools/1", Value::Null),
        ("ollama", &ToolChoice::Required, "/tools/1/function/name", json!("calculator__multiply")),
    ] {
        let request = Request { tool_choice: choice.clone(), ..question() };
        let body = sent(service, &request, |_| {}).await.body;
        let found = body.pointer(place).cloned().unwrap_or_default();
        assert_eq!(found, expected, "{service} {choice:?}: {body}");
    }
}

#[tokio::test]
async fn calls_and_their_results_go_back_under_their_ids() {
    let body = sent("openai", &answered_conversation(), |_| {}).await.body;
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[2]["tool_calls"][0]["id"], "call_a");
    assert_eq!(messages[2]["tool_calls"][0]["function"]["arguments"], r#"{"a":3}"#);
    let wrapped = r#"{"malformed_arguments":"not json"}"#;
    assert_eq!(messages[2]["tool_calls"][1]["function"]["arguments"], wrapped);
    assert_eq!((&messages[3]["role"], &messages[3]["tool_call_id"]), (&json!("tool"), &json!("call_a")));
    assert_eq!((&messages[4]["content"], &messages[4]["tool_call_id"]), (&json!("malformed"), &json!("call_b")));

    let body = sent("anthropic", &answered_conversation(), |_| {}).await.body;
    let text = body.to_string();
    assert!(text.contains(r#""id":"call_a""#) && text.contains(r#""tool_use_id":"call_b""#), "{text}");

    let body = sent("gemini", &answered_conversation(), |_| {}).await.body;
    let response = body.pointer("/contents/2/parts/0/functionResponse/name");
    assert_eq!(response, Some(&json!("calculator__add")), "{body}");

    let body = sent("ollama", &answered_conversation(), |_| {}).await.body;
    assert_eq!(body["messages"][2]["tool_calls"][0]["function"]["arguments"], json!({"a": 3}), "{body}");
    assert_eq!((&body["messages"][3]["role"], &body["messages"][3]["content"]), (&json!("tool"), &json!("8")));
}

#[tokio::test]
async fn options_json_and_the_cached_context_are_passed_on() {
    let options = json!({"top_p": 0.5}).as_object().unwrap().clone();
    let request = Request { json: true, options, cache_breakpoints: vec![1], tools: Vec::new(), ..question() };
    let body = sent("openai", &request, |_| {}).await.body;
    assert_eq!((&body["response_format"]["type"], &body["top_p"]), (&json!("json_object"), &json!(0.5)));
    let body = sent("anthropic", &request, |_| {}).await.body;
    assert!(body["system"].to_string().contains("cache_control"), "{body}");
    let body = sent("ollama", &request, |_| {}).await.body;
    assert_eq!((&body["format"], &body["options"]["top_p"]), (&json!("json"), &json!(0.5)));
    let options = json!({"generationConfig": {"topP": 0.5}}).as_object().unwrap().clone();
    let body = sent("gemini", &Request { options, ..request }, |_| {}).await.body;
    assert_eq!(body["generationConfig"], json!({"topP": 0.5, "responseMimeType": "application/json"}));
}

#[tokio::test]
async fn breakpoints_of_the_cache_follow_the_conversation() {
    let request = answered_conversation();
    let count = request.messages.len();
    let request = Request { cache_breakpoints: vec![2, count], ..request };
    let body = sent("anthropic", &request, |_| {}).await.body;
    let messages = body["messages"].as_array().unwrap();
    let marked: Vec<bool> = messages.iter().map(|message| message.to_string().contains("cache_control")).collect();
    assert_eq!(marked, [true, false, true], "the question, the calls, and the results: {body}");
    for service in ["openai", "gemini", "ollama"] {
        let body = sent(service, &request, |_| {}).await.body;
        assert!(!body.to_string().contains("cache_control"), "{service} caches by itself: {body}");
    }
}

#[tokio::test]
async fn images_of_results_are_shown_to_models_that_take_them() {
    let mut request = answered_conversation();
    let image = Image { mime_type: "image/png".to_owned(), data: "aW1hZ2U=".into() };
    request.messages[3].images.push(image.clone());
    request.messages.push(Message { images: vec![image], ..Message::user("And this?") });
    for service in ["openai", "anthropic", "gemini", "ollama"] {
        let body = sent(service, &request, |_| {}).await.body.to_string();
        assert!(!body.contains("aW1hZ2U="), "{service} is sent none unless it takes them: {body}");
        let body = sent(service, &request, |config| config.supports_images = true).await.body;
        let text = body.to_string();
        assert_eq!(text.matches("aW1hZ2U=").count(), 2, "{service}: {body}");
        let [results, shown, asked] =
            ["malformed", "The images of the results above", "And this?"].map(|part| text.find(part));
        assert!(results < shown && shown < asked && results.is_some(), "{service}: {body}");
    }
}

#[tokio::test]
async fn provider_settings_are_defaults_of_a_request() {
    fn options(value: Value) -> serde_json::Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    let set = |config: &mut ProviderConfig| {
        config.max_tokens = Some(900);
        config.reasoning_effort = Some(ReasoningEffort::Low);
        config.options = options(json!({"top_p": 0.5, "seed": 7}));
    };
    let body = sent("openai", &question(), set).await.body;
    assert_eq!((&body["max_tokens"], &body["top_p"], &body["seed"]), (&json!(900), &json!(0.5), &json!(7)));
    assert_eq!(body["reasoning_effort"], "low");
    let request = Request { max_tokens: Some(50), options: options(json!({"top_p": 0.1})), ..question() };
    let body = sent("openai", &request, set).await.body;
    assert_eq!((&body["max_tokens"], &body["top_p"], &body["seed"]), (&json!(50), &json!(0.1), &json!(7)));
    let body = sent("ollama", &question(), set).await.body;
    assert_eq!((&body["options"]["num_predict"], &body["options"]["seed"]), (&json!(900), &json!(7)));
    assert_eq!(body["think"], "low");
    // Only Anthropic requires a limit; the library knows that of each model.
    for (service, _) in SERVICES.into_iter().filter(|(service, _)| *service != "anthropic") {
        let text = sent(service, &question(), |_| {}).await.body.to_string().to_lowercase();
        for word in ["max_tokens", "max_completion_tokens", "maxoutputtokens", "num_predict", "effort", "thinking"] {
            assert!(!text.contains(word), "{service}: {word}: {text}");
        }
    }
}

#[tokio::test]
async fn sends_a_schema_where_the_provider_supports_one() {
    let schema = json!({"type": "object", "properties": {"type": {"enum": ["call_tool", "final_answer"]}}});
    let request = Request { json: true, json_schema: Some(schema.clone()), tools: Vec::new(), ..question() };
    for service in ["openai", "compatible"] {
        let body = sent(service, &request, |_| {}).await.body;
        let expected =
            json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": false, "schema": schema}});
        assert_eq!(body["response_format"], expected, "{service}");
    }
    let body = sent("gemini", &request, |_| {}).await.body;
    assert_eq!(body["generationConfig"]["responseJsonSchema"], schema);
    let body = sent("ollama", &request, |_| {}).await.body;
    assert_eq!(body["format"], "json");
    let body = sent("anthropic", &request, |_| {}).await.body;
    assert!(body.get("output_config").is_none() && body.get("response_format").is_none(), "{body}");
}

#[tokio::test]
async fn rejects_an_option_that_cannot_be_sent() {
    for (service, options, expected) in [
        ("openai", json!({"tools": []}), "cannot send the option `tools`: the request already"),
        ("gemini", json!({"contents": []}), "cannot send the option `contents`"),
        ("ollama", json!({"mirostat": 1}), "cannot send the option `mirostat`: Ollama accepts only"),
        ("ollama", json!({"seed": "x"}), "cannot send the option `seed`: its value"),
    ] {
        let server = Server::start(Vec::new()).await;
        let request = Request { options: options.as_object().unwrap().clone(), ..question() };
        let (answer, _) = ask(&provider(service, config(&server)), &request).await;
        let error = answer.unwrap_err().message;
        assert!(error.contains(expected), "{service}: {error}");
    }
}

#[tokio::test]
async fn model_name_is_sent_unchanged() {
    for service in ["openai", "compatible"] {
        for (name, effort) in
            [("mistral-medium", Some(&Value::Null)), ("qwen-max", Some(&Value::Null)), ("gpt-4o", None)]
        {
            let request = Request { model: Some(name.to_owned()), ..question() };
            let body = sent(service, &request, |_| {}).await.body;
            assert_eq!((&body["model"], body.get("reasoning_effort")), (&json!(name), effort), "{service}");
        }
    }
    let options = json!({"reasoning_effort": "low"}).as_object().unwrap().clone();
    let request = Request { model: Some("a-high".to_owned()), options, ..question() };
    let body = sent("openai", &request, |_| {}).await.body;
    assert_eq!((&body["model"], &body["reasoning_effort"]), (&json!("a-high"), &json!("low")));

    let server = Server::start(Vec::new()).await;
    for (service, name) in [("gemini", "../../x"), ("openai", "groq::x"), ("ollama", "")] {
        let request = Request { model: Some(name.to_owned()), ..question() };
        let (answer, _) = ask(&provider(service, config(&server)), &request).await;
        assert!(answer.unwrap_err().message.contains("the model name of the request is invalid"), "{service}");
    }
}
