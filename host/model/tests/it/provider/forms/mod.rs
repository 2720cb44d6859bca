//! Replies in forms that servers send beside the usual one of their provider.

mod anthropic;
mod gemini;
mod ollama;
mod openai;
mod paused;

use fumehood_core::chat::{Delta, ModelError, ModelFailure, Response, StopReason};
use serde_json::Value;

use super::server::{Play, Server};
use super::{ask, config, provider, question, reply};

/// The content of a reply.
#[derive(Debug, Default, PartialEq, Eq)]
struct ReplyContent {
    text: String,
    thoughts: String,
    calls: Vec<[String; 3]>,
    stop: StopReason,
}

impl ReplyContent {
    /// Creates a reply of text that ended for this reason.
    fn text(text: &str, stop: StopReason) -> Self {
        Self { text: text.to_owned(), stop, ..Self::default() }
    }

    /// Creates a reply of calls, each with id, name and arguments.
    fn calls<const N: usize>(calls: [[&str; 3]; N]) -> Self {
        Self { calls: calls.map(|call| call.map(str::to_owned)).to_vec(), ..Self::default() }
    }

    /// Sets the thoughts.
    fn thoughts(self, thoughts: &str) -> Self {
        Self { thoughts: thoughts.to_owned(), ..self }
    }

    fn of(response: &Response, heard: &[Delta]) -> Self {
        let thoughts = heard.iter().filter_map(|delta| match delta {
            Delta::Thought(text) => Some(text.as_str()),
            Delta::Text(_) => None,
        });
        let mut first = None;
        let calls = response.reply.calls().iter();
        let calls = calls.map(|call| [renumber(&call.id, &mut first), call.name.clone(), call.arguments.clone()]);
        Self {
            text: response.reply.text().to_owned(),
            thoughts: thoughts.collect(),
            calls: calls.collect(),
            stop: response.stop,
        }
    }
}

/// Returns an id that was made for a call, with a number that counts from the first one; any other id unchanged. The numbers
/// begin anywhere, so that no two replies of a conversation have the same.
fn renumber(id: &str, first: &mut Option<u64>) -> String {
    let at = id.rfind(['_', '#']).filter(|_| id.starts_with("call")).map_or(id.len(), |at| at + 1);
    let Ok(number) = id[at..].parse::<u64>() else { return id.to_owned() };
    let first = *first.get_or_insert(number);
    format!("{}{}", &id[..at], number - first)
}

/// Asks a model whose server plays this reply, once.
async fn play(service: &str, play: Play) -> Result<(Response, Vec<Delta>), ModelError> {
    let server = Server::start(vec![play]).await;
    let mut config = config(&server);
    config.retries.max_retries = 0;
    let (answer, heard) = ask(&provider(service, config), &question()).await;
    answer.map(|answer| (answer, heard))
}

/// Asks a model whose server sends this body, and compares the reply.
async fn check(service: &str, body: &str, expected: &ReplyContent) {
    let (response, heard) = play(service, reply(200, "content-type: text/event-stream\r\n", body))
        .await
        .unwrap_or_else(|error| panic!("{error}\n{body}"));
    assert_eq!(ReplyContent::of(&response, &heard), *expected, "{service}: {body}");
    let streamed: String = heard
        .iter()
        .filter_map(|delta| match delta {
            Delta::Text(text) => Some(text.as_str()),
            Delta::Thought(_) => None,
        })
        .collect();
    assert_eq!(streamed, expected.text, "{service}: the streamed text is the text: {body}");
}

/// Asks a model whose server sends this body, and returns the failure.
async fn failure(service: &str, body: &str) -> (ModelFailure, String) {
    let error = play(service, reply(200, "content-type: application/json\r\n", body)).await.expect_err(body);
    (error.failure, error.message)
}

/// Returns the events of a stream with these data.
fn events(data: &[Value]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}
