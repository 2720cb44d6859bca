//! Names of tools that are longer than providers take, or have dots, on their way there and back.

use fumehood_core::chat::{Request, ToolChoice};

use super::server::Server;
use super::{SERVICES, answered, ask, config, fixture, provider, reply, stream};

/// The conversation, with tools of names that no provider takes.
fn renamed() -> (Request, [String; 2]) {
    let names = [format!("{}__add", "a".repeat(100)), "calc.multiply".to_owned()];
    let mut request = answered();
    for (tool, name) in request.tools.iter_mut().zip(&names) {
        tool.name.clone_from(name);
    }
    for (call, name) in request.messages.iter_mut().flat_map(|message| &mut message.tool_calls).zip(&names) {
        call.name.clone_from(name);
    }
    request.tool_choice = ToolChoice::Specific(names[0].clone());
    (request, names)
}

/// Every run of characters that a name may have and that stands between quotes.
fn quoted(body: &str, begins: &str) -> Vec<String> {
    let parts = body.split('"').filter(|part| part.starts_with(begins) && !part.contains(' '));
    parts.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_provider_is_told_names_that_it_takes_and_its_calls_have_ours() {
    for (service, kind) in SERVICES {
        let (mut request, names) = renamed();
        let server = Server::playing(vec![stream(&format!("{service}/text.{kind}"))]).await;
        ask(&provider(service, config(&server)), &request).await.0.unwrap();
        let body = server.asked().remove(0).body.to_string();
        assert!(!names.iter().any(|name| body.contains(&format!("\"{name}\""))), "{service}: {body}");
        let mut told: Vec<String> = quoted(&body, "aaaa");
        told.dedup();
        assert_eq!(told.len(), 1, "{service}: the tool, the call and the choice have one name: {told:?}");
        assert!(told[0].len() <= 64, "{service}");

        // It calls what it was told, and what comes back is what the loop knows.
        let multiply = quoted(&body, "calc_multiply_");
        request.tool_choice = ToolChoice::Auto;
        let calls = String::from_utf8(fixture(&format!("{service}/calls.{kind}"))).unwrap();
        // Ollama was shown only the chosen tool; what was told again has the other name.
        let calls = calls.replace("calculator__add", &told[0]).replace("calculator__multiply", &multiply[0]);
        let server = Server::playing(vec![reply(200, "content-type: text/event-stream\r\n", calls)]).await;
        let answer = ask(&provider(service, config(&server)), &request).await.0.unwrap();
        let found: Vec<_> = answer.reply.calls().iter().map(|call| call.name.as_str()).collect();
        assert_eq!(found, names.each_ref().map(String::as_str), "{service}");
    }
}
