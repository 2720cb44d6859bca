//! Tools that a provider refuses: each is found, left out and named, and all others are still offered.

use fumehood_core::chat::{ModelFailure, Request, ToolChoice, ToolSpec};
use serde_json::{Value, json};

use super::server::{Play, ReceivedRequest, Server};
use super::{SERVICES, ask, config, provider, question, reply, stream};

const JSON: &str = "content-type: application/json\r\n";

fn refusal(message: &str) -> Play {
    reply(400, JSON, json!({"error": {"type": "invalid_request_error", "message": message}}).to_string())
}

fn text(service: &str) -> Play {
    let kind = SERVICES.iter().find(|(name, _)| *name == service).map_or("sse", |(_, kind)| kind);
    stream(&format!("{service}/text.{kind}"))
}

/// Returns a request with this many tools, `t0` and so on.
fn request_with(count: usize) -> Request {
    let tool = |index| ToolSpec {
        name: format!("t{index}"),
        alias: None,
        description: "Does it.".to_owned(),
        parameters: json!({"type": "object", "properties": {}}),
    };
    Request { tools: (0..count).map(tool).collect(), ..question() }
}

/// Returns the names of the tools in a request.
fn names(asked: &ReceivedRequest) -> Vec<String> {
    let tools = asked.body.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    let nested = tools.first().and_then(|first| first.get("functionDeclarations")).and_then(Value::as_array).cloned();
    let name = |tool: &Value| tool["name"].as_str().or_else(|| tool["function"]["name"].as_str()).unwrap().to_owned();
    nested.unwrap_or(tools).iter().map(name).collect()
}

#[tokio::test]
async fn named_tool_is_left_out_with_a_notice() {
    for (service, message) in [
        ("anthropic", "tools.1.custom.input_schema: input_schema does not support oneOf at the top level"),
        ("openai", "Invalid schema for function 't1': In context=(), object schema missing properties."),
        ("gemini", "* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties: odd"),
        ("ollama", "invalid tools[1].function.parameters"),
    ] {
        let server = Server::start(vec![refusal(message), text(service), text(service)]).await;
        let provider = provider(service, config(&server));
        let response = ask(&provider, &request_with(3)).await.0.unwrap();
        assert_eq!(response.reply.text(), "The result is 16 ✓.", "{service}");
        let [notice] = response.notices.as_slice() else { panic!("{service}: {:?}", response.notices) };
        let expected = format!("the tool `t1` is left out of requests to this model, because {service} refused");
        assert!(notice.starts_with(&expected) && notice.contains(message), "{notice}");
        // It stays left out, and each response says so: it may be the first one of another session.
        let later = ask(&provider, &request_with(3)).await.0.unwrap();
        assert_eq!(later.notices, response.notices);
        let asked: Vec<_> = server.requests().iter().map(names).collect();
        assert_eq!(asked, [vec!["t0", "t1", "t2"], vec!["t0", "t2"], vec!["t0", "t2"]], "{service}");
    }
}

#[tokio::test]
async fn changed_tool_is_offered_again() {
    let server = Server::start(vec![refusal("tools.0.custom: odd"), text("anthropic"), text("anthropic")]).await;
    let provider = provider("anthropic", config(&server));
    ask(&provider, &request_with(2)).await.0.unwrap();
    let mut changed = request_with(2);
    changed.tools[0].parameters = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    ask(&provider, &changed).await.0.unwrap();
    assert_eq!(names(&server.requests()[2]), ["t0", "t1"]);
}

#[tokio::test]
async fn unnamed_tool_is_found_by_halves() {
    // The tool is t5 of eight: refused are requests with it.
    fn odd() -> Play {
        refusal("the JSON schema of a function cannot be compiled")
    }

    let plays = vec![odd(), text("openai"), odd(), text("openai"), text("openai")];
    let server = Server::start(plays).await;
    let response = ask(&provider("openai", config(&server)), &request_with(8)).await.0.unwrap();
    assert!(response.notices[0].contains("`t5`"), "{:?}", response.notices);
    let asked: Vec<_> = server.requests().iter().map(|asked| names(asked).join(" ")).collect();
    assert_eq!(asked, ["t0 t1 t2 t3 t4 t5 t6 t7", "t0 t1 t2 t3", "t4 t5", "t4", "t0 t1 t2 t3 t4 t6 t7"]);
}

#[tokio::test]
async fn refusal_that_no_tool_explains_is_an_error_after_few_requests() {
    fn odd() -> Play {
        refusal("the JSON schema of a function cannot be compiled")
    }

    let server = Server::start((0..40).map(|_| odd()).collect()).await;
    let provider = provider("openai", config(&server));
    let error = ask(&provider, &request_with(8)).await.0.unwrap_err();
    assert_eq!((error.failure, error.status), (ModelFailure::Refused, Some(400)));
    let count = server.requests().len();
    assert!(count <= 16, "{count}");
    // No tool was to blame, so all are offered again.
    ask(&provider, &request_with(8)).await.0.unwrap_err();
    assert_eq!(names(&server.requests()[count]).len(), 8);

    let message = "tools.1.custom.input_schema: odd";
    let server = Server::start((0..60).map(|_| refusal(message)).collect()).await;
    let error = ask(&super::provider("anthropic", config(&server)), &request_with(40)).await.0.unwrap_err();
    assert_eq!((error.failure, server.requests().len()), (ModelFailure::Refused, 17));
}

#[tokio::test]
async fn choice_of_a_refused_tool_is_not_sent() {
    let server = Server::start(vec![refusal("tools.0.custom: odd"), text("anthropic")]).await;
    let request = Request { tool_choice: ToolChoice::Specific("t0".to_owned()), ..request_with(2) };
    ask(&provider("anthropic", config(&server)), &request).await.0.unwrap();
    assert_eq!(server.requests()[1].body.get("tool_choice"), None);
}

#[tokio::test]
async fn refusals_of_other_matters_leave_no_tool_out() {
    for message in [
        "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after",
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 200",
        "this conversation is not to my taste",
    ] {
        let server = Server::start(vec![refusal(message)]).await;
        let error = ask(&provider("openai", config(&server)), &request_with(4)).await.0.unwrap_err();
        assert_eq!((error.failure, server.requests().len()), (ModelFailure::Refused, 1), "{message}");
    }
}

#[tokio::test]
async fn refusals_with_another_status_leave_no_tool_out() {
    for status in [403, 404, 413] {
        let body = json!({"error": {"message": "tools.1.custom.input_schema: odd"}}).to_string();
        let server = Server::start(vec![reply(status, JSON, body)]).await;
        let error = ask(&provider("anthropic", config(&server)), &request_with(4)).await.0.unwrap_err();
        assert_eq!((error.status, server.requests().len()), (Some(status), 1));
    }
}

#[tokio::test]
async fn search_ends_if_a_probe_fails_for_another_reason() {
    let message = "the JSON schema of a function cannot be compiled";
    let server = Server::start(vec![refusal(message), reply(429, JSON, "{}"), text("openai")]).await;
    let provider = provider("openai", config(&server));
    let error = ask(&provider, &request_with(4)).await.0.unwrap_err();
    assert!(error.message.contains(message) && server.requests().len() == 2, "{error}");
    ask(&provider, &request_with(4)).await.0.unwrap();
    assert_eq!(names(&server.requests()[2]).len(), 4);
}
