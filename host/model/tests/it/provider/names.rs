//! Tool names that are too long for providers, or contain dots.

use fumehood_core::chat::{Request, ToolChoice};

use super::server::Server;
use super::{SERVICES, answered_conversation, ask, config, fixture, provider, reply, stream};

/// Returns a conversation with tool names that no provider accepts.
fn conversation_with_long_names() -> (Request, [String; 2]) {
    let names = [format!("{}__add", "a".repeat(100)), "calc.multiply".to_owned()];
    let mut request = answered_conversation();
    for (tool, name) in request.tools.iter_mut().zip(&names) {
        tool.name.clone_from(name);
    }
    for (call, name) in request.messages.iter_mut().flat_map(|message| &mut message.tool_calls).zip(&names) {
        call.name.clone_from(name);
    }
    request.tool_choice = ToolChoice::Specific(names[0].clone());
    (request, names)
}

/// Returns all quoted names in a body.
fn quoted_names(body: &str, begins: &str) -> Vec<String> {
    let parts = body.split('"').filter(|part| part.starts_with(begins) && !part.contains(' '));
    parts.map(str::to_owned).collect()
}

#[tokio::test]
async fn aliases_names_in_requests_and_resolves_them_in_answers() {
    for (service, kind) in SERVICES {
        let (mut request, names) = conversation_with_long_names();
        let server = Server::start(vec![stream(&format!("{service}/text.{kind}"))]).await;
        ask(&provider(service, config(&server)), &request).await.0.unwrap();
        let body = server.requests().remove(0).body.to_string();
        assert!(!names.iter().any(|name| body.contains(&format!("\"{name}\""))), "{service}: {body}");
        let mut told: Vec<String> = quoted_names(&body, "aaaa");
        told.dedup();
        assert_eq!(told.len(), 1, "{service}: the tool, the call and the choice have one name: {told:?}");
        assert!(told[0].len() <= 64, "{service}");

        // The provider calls the alias, and the response has the original name.
        let multiply = quoted_names(&body, "calc_multiply_");
        request.tool_choice = ToolChoice::Auto;
        let calls = String::from_utf8(fixture(&format!("{service}/calls.{kind}"))).unwrap();
        // Only the chosen tool is sent to Ollama; the history holds the other alias.
        let calls = calls.replace("calculator__add", &told[0]).replace("calculator__multiply", &multiply[0]);
        let server = Server::start(vec![reply(200, "content-type: text/event-stream\r\n", calls)]).await;
        let answer = ask(&provider(service, config(&server)), &request).await.0.unwrap();
        let found: Vec<_> = answer.reply.calls().iter().map(|call| call.name.as_str()).collect();
        assert_eq!(found, names.each_ref().map(String::as_str), "{service}");
    }
}
