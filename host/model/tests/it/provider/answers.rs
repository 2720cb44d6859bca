//! Responses: text, calls, pieces and usage.

use fumehood_core::chat::{Delta, Reply, StopReason, Usage};
use fumehood_model::{ProviderConfig, Timeouts};

use super::server::{Play, Server};
use super::{SERVICES, answered_conversation, ask, config, fixture, provider, question, reply, stream};

#[tokio::test]
async fn every_provider_streams_text_and_says_what_it_cost() {
    fn text(delta: &Delta) -> bool {
        matches!(delta, Delta::Text(_))
    }

    for (service, kind) in SERVICES {
        let server = Server::start(vec![stream(&format!("{service}/text.{kind}"))]).await;
        let (answer, heard) = ask(&provider(service, config(&server)), &question()).await;
        let answer = answer.unwrap_or_else(|error| panic!("{service}: {error}"));
        assert_eq!(answer.reply, Reply::Text("The result is 16 ✓.".to_owned()), "{service}");
        assert_eq!(answer.usage, Usage::new(11, 7), "{service}");
        assert_eq!(answer.stop, StopReason::Done);
        assert_eq!(heard.iter().filter(|delta| text(delta)).count(), 2, "{service}: {heard:?}");
        let thinks = heard.contains(&Delta::Thought("Eight by two.".to_owned()));
        assert_eq!(thinks, matches!(service, "anthropic" | "ollama"), "{service}: {heard:?}");
    }
}

#[tokio::test]
async fn tokens_of_the_cache_are_part_of_the_request() {
    let cached = |service: &str, path: &str, from: &str, to: &str| {
        let text = String::from_utf8(fixture(path)).unwrap();
        assert!(text.contains(from), "{path}");
        let service = service.to_owned();
        let body = text.replace(from, to);
        async move {
            let server = Server::start(vec![reply(200, "content-type: text/event-stream\r\n", body)]).await;
            let (answer, _) = ask(&provider(&service, config(&server)), &question()).await;
            answer.unwrap().usage
        }
    };
    let usage = cached(
        "anthropic",
        "anthropic/text.sse",
        "\"input_tokens\":11",
        "\"input_tokens\":1,\"cache_read_input_tokens\":8,\"cache_creation_input_tokens\":2",
    );
    let expected = Usage { cache_read: 8, cache_creation: 2, ..Usage::new(11, 7) };
    assert_eq!(usage.await, expected);
    let details = "\"prompt_tokens\":11,\"prompt_tokens_details\":{\"cached_tokens\":8}";
    let usage = cached("openai", "openai/text.sse", "\"prompt_tokens\":11", details);
    assert_eq!(usage.await, Usage { cache_read: 8, ..Usage::new(11, 7) });
}

#[tokio::test]
async fn pieces_of_one_byte_are_the_same_answer() {
    for (service, kind) in SERVICES {
        let body = fixture(&format!("{service}/text.{kind}"));
        let play = Play::Reply { status: 200, headers: "content-type: text/event-stream\r\n", body, piece: 1 };
        let server = Server::start(vec![play]).await;
        let (answer, _) = ask(&provider(service, config(&server)), &question()).await;
        assert_eq!(answer.unwrap().reply.text(), "The result is 16 ✓.", "{service}");
    }
}

#[tokio::test]
async fn parallel_calls_come_in_the_order_asked() {
    for (service, kind) in SERVICES {
        let server = Server::start(vec![stream(&format!("{service}/calls.{kind}"))]).await;
        let (answer, _) = ask(&provider(service, config(&server)), &question()).await;
        let answer = answer.unwrap_or_else(|error| panic!("{service}: {error}"));
        let calls: Vec<_> = answer
            .reply
            .calls()
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .collect();
        let expected =
            [("call_a", "calculator__add", r#"{"a":3,"b":5}"#), ("call_b", "calculator__multiply", r#"{"a":8,"b":2}"#)];
        assert_eq!(calls, expected, "{service}");
        assert_eq!(answer.usage, Usage::new(11, 7), "{service}");
    }
}

#[tokio::test]
async fn without_tools_calls_in_an_answer_are_not_looked_for() {
    for (service, kind) in SERVICES {
        let server = Server::start(vec![stream(&format!("{service}/calls.{kind}"))]).await;
        let (answer, _) = ask(&provider(service, config(&server).supports_tools(false)), &question()).await;
        assert_eq!(answer.unwrap().reply, Reply::Text(String::new()), "{service}");
    }
}

#[tokio::test]
async fn large_call_index_allocates_nothing_and_duplicate_keys_stay() {
    let server = Server::start(vec![stream("openai/bomb.sse")]).await;
    let (answer, _) = ask(&provider("openai", config(&server)), &answered_conversation()).await;
    assert_eq!(answer.unwrap().reply.calls()[0].arguments, r#"{"a":1,"a":2}"#);
}

#[tokio::test]
async fn reports_an_answer_cut_by_its_token_limit() {
    let server = Server::start(vec![stream("openai/length.sse")]).await;
    let (answer, _) = ask(&provider("openai", config(&server)), &question()).await;
    assert_eq!(answer.unwrap().stop, StopReason::Length);
}

#[tokio::test]
async fn accepts_an_answer_of_two_megabytes() {
    let text = "x".repeat(2 << 20);
    let message = serde_json::json!({"message": {"role": "assistant", "content": text}, "done": true});
    let play = Play::Reply { status: 200, headers: "", body: format!("{message}\n").into_bytes(), piece: 8192 };
    let server = Server::start(vec![play]).await;
    let config = config(&server);
    // One line, so the first token is there when the whole of it is.
    let timeouts = Timeouts { first_token: config.timeouts.total, ..config.timeouts };
    let (answer, _) = ask(&provider("ollama", ProviderConfig { timeouts, ..config }), &question()).await;
    assert_eq!(answer.unwrap().reply, Reply::Text(text));
}
