//! Failures and retries.

use std::time::{Duration, Instant};

use fumehood_core::chat::{Delta, ModelError, ModelFailure, Request};
use fumehood_model::{Key, Retries};

use super::server::{Play, Server};
use super::{KEY, SERVICES, ask, config, fixture, provider, question, reply, stream};

/// Sends a request to a server that plays these replies. Returns the error, and the number of requests that arrived.
async fn failure_of(service: &str, plays: Vec<Play>) -> (ModelError, usize) {
    let server = Server::start(plays).await;
    let (answer, _) = ask(&provider(service, config(&server)), &question()).await;
    let error = answer.expect_err(service);
    assert!(!format!("{error:?}").contains(KEY), "{service}: {error:?}");
    (error, server.requests().len())
}

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn a_400_that_says_that_there_are_no_tools_is_told_apart() {
    for (service, _) in SERVICES {
        let refusal = || reply(400, JSON, fixture(&format!("{service}/no-tools.json")));
        let (error, asked) = failure_of(service, vec![refusal()]).await;
        assert_eq!((error.failure, error.status), (ModelFailure::ToolsUnsupported, Some(400)), "{service}: {error}");
        assert_eq!(asked, 1, "the one retry without tools is the caller's");

        // The same message to a request without tools is an ordinary rejection.
        let server = Server::start(vec![refusal()]).await;
        let request = Request { tools: Vec::new(), ..question() };
        let (answer, _) = ask(&provider(service, config(&server)), &request).await;
        assert_eq!(answer.unwrap_err().failure, ModelFailure::Refused, "{service}");
    }
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_when_it_says() {
    for (service, kind) in SERVICES {
        let busy = reply(429, "content-type: application/json\r\nretry-after: 1\r\n", fixture("openai/rate.json"));
        let server = Server::start(vec![busy, stream(&format!("{service}/text.{kind}"))]).await;
        let start = Instant::now();
        let (answer, heard) = ask(&provider(service, config(&server)), &question()).await;
        assert_eq!(answer.unwrap().reply.text(), "The result is 16 ✓.", "{service}");
        assert!(start.elapsed() >= Duration::from_secs(1), "{service}: {:?}", start.elapsed());
        assert_eq!(heard.iter().filter(|delta| matches!(delta, Delta::Text(_))).count(), 2);
        let asked = server.requests();
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0].body, asked[1].body, "{service}");
    }
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_left_to_the_caller() {
    let busy = reply(429, "content-type: application/json\r\nretry-after: 3600\r\n", fixture("openai/rate.json"));
    let (error, asked) = failure_of("openai", vec![busy]).await;
    assert_eq!((error.failure, error.status), (ModelFailure::RateLimited, Some(429)));
    assert_eq!(error.retry_after, Some(Duration::from_secs(3600)));
    assert_eq!(error.message, "openai answered with status 429: Rate limit reached");
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn a_failing_provider_is_asked_four_times() {
    fn down() -> Play {
        reply(500, "", "oops \u{1b}[31m")
    }

    for (service, _) in SERVICES {
        let (error, asked) = failure_of(service, vec![down(), down(), down(), down()]).await;
        assert_eq!((error.failure, error.status), (ModelFailure::Unavailable, Some(500)), "{service}");
        assert_eq!(error.message, format!("{service} answered with status 500: oops \\u{{1b}}[31m"));
        assert_eq!(asked, 4, "{service}");
    }
}

#[tokio::test]
async fn rejected_key_is_not_retried_and_not_shown() {
    let (error, asked) = failure_of("openai", vec![reply(401, JSON, fixture("openai/bad-key.json"))]).await;
    assert_eq!((error.failure, asked), (ModelFailure::Refused, 1));
    let expected = "openai answered with status 401: Incorrect API key provided: (key).; check the API key";
    assert_eq!(error.message, expected);
}

#[tokio::test]
async fn does_not_follow_redirects() {
    let elsewhere = Server::start(vec![stream("openai/text.sse")]).await;
    let header: &'static str = Box::leak(format!("location: {}\r\n", elsewhere.url).into_boxed_str());
    for status in [301, 302, 307, 308] {
        let (error, _) = failure_of("openai", vec![reply(status, header, "")]).await;
        assert_eq!((error.failure, error.status), (ModelFailure::Refused, Some(status)));
        assert!(error.message.contains("redirects are not followed"), "{error}");
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn what_is_no_answer_is_malformed() {
    for (service, _) in SERVICES {
        for body in ["data: {\"cho\n\n", "data: hello\n\n", "<html>a login page</html>\n\n", "{\"ok\":true}\n", ""] {
            let (error, _) = failure_of(service, vec![reply(200, "content-type: text/event-stream\r\n", body)]).await;
            assert_eq!(error.failure, ModelFailure::Malformed, "{service} {body:?}: {error}");
        }
    }
}

/// Returns the first part of a text answer, up to the end of a frame in the middle.
fn beginning(service: &str, kind: &str) -> Vec<u8> {
    let whole = fixture(&format!("{service}/text.{kind}"));
    let marker = b"result ";
    let middle = whole.windows(marker.len()).position(|window| window == marker).unwrap();
    let separator: &[u8] = if kind == "sse" { b"\n\n" } else { b"\n" };
    let end = whole[middle..].windows(separator.len()).position(|window| window == separator).unwrap();
    whole[..middle + end + separator.len()].to_vec()
}

#[tokio::test]
async fn an_answer_that_is_cut_is_malformed_and_not_asked_for_twice() {
    for (service, kind) in SERVICES {
        let first = beginning(service, kind);
        for play in [Play::Cut(first.clone()), Play::Ends(first)] {
            let (error, asked) = failure_of(service, vec![play, stream(&format!("{service}/text.{kind}"))]).await;
            assert_eq!(error.failure, ModelFailure::Malformed, "{service}: {error}");
            assert_eq!(asked, 1, "{service}");
        }
    }
}

#[tokio::test]
async fn an_error_in_the_middle_is_not_an_answer() {
    // Retried only if no piece was passed on yet.
    for (service, path, words, times) in [
        ("openai", "openai/error.sse", "The server had an error", 1),
        ("anthropic", "anthropic/error.sse", "Overloaded", 4),
        ("ollama", "ollama/error.ndjson", "llama runner process has terminated", 4),
    ] {
        let (error, asked) = failure_of(service, vec![stream(path), stream(path), stream(path), stream(path)]).await;
        assert_eq!(error.failure, ModelFailure::Unavailable, "{service}: {error}");
        assert!(error.message.contains(words), "{service}: {error}");
        assert_eq!(asked, times, "{service}");
    }
}

#[tokio::test]
async fn a_provider_that_hangs_is_left() {
    for (service, kind) in SERVICES {
        let headers_only = fixture(&format!("{service}/text.{kind}"))[..40].to_vec();
        for (play, words, setting) in [
            (Play::Silent, "did not start to answer in time", "first_token_timeout"),
            (Play::Hangs(headers_only), "did not start to answer in time", "first_token_timeout"),
            (Play::Hangs(beginning(service, kind)), "stopped during its answer", "between_chunks_timeout"),
        ] {
            let start = Instant::now();
            let (error, asked) = failure_of(service, vec![play]).await;
            assert_eq!(error.failure, ModelFailure::Timeout, "{service}: {error}");
            assert!(error.message.contains(words), "{service}: {error}");
            assert_eq!(error.setting.as_deref(), Some(setting), "{service}");
            assert!(start.elapsed() < Duration::from_secs(5), "{service}: {:?}", start.elapsed());
            assert_eq!(asked, 1);
        }
    }
}

#[tokio::test]
async fn total_timeout_covers_retry_delays() {
    fn down() -> Play {
        reply(503, "retry-after: 2\r\n", "")
    }

    let server = Server::start(vec![down(), down()]).await;
    let mut config = config(&server);
    config.timeouts.total = Duration::from_millis(300);
    let (answer, _) = ask(&provider("ollama", config), &question()).await;
    let error = answer.unwrap_err();
    assert_eq!(error.failure, ModelFailure::Timeout);
    assert_eq!(error.message, "ollama did not complete its answer within 0.3 s");
}

#[tokio::test]
async fn closed_port_is_unavailable() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::start(Vec::new()).await;
    let mut config = config(&server).base_url(format!("http://{closed}/")).key(Key::new(KEY));
    config.retries = Retries { max_retries: 1, initial_delay: Duration::from_millis(1), ..Retries::default() };
    let (answer, _) = ask(&provider("ollama", config), &question()).await;
    let error = answer.unwrap_err();
    assert_eq!(error.failure, ModelFailure::Unavailable);
    assert!(error.message.starts_with("ollama cannot be reached: "), "{error}");
    assert!(error.message.ends_with("check that it is running, and the base URL"), "{error}");
}

#[tokio::test]
async fn stops_an_answer_over_its_size_limit() {
    let server = Server::start(vec![stream("openai/text.sse")]).await;
    let mut config = config(&server);
    config.max_reply_bytes = 10;
    let (answer, _) = ask(&provider("openai", config), &question()).await;
    let error = answer.unwrap_err();
    assert_eq!(error.failure, ModelFailure::Malformed);
    assert!(error.message.contains("max_reply_bytes"), "{error}");
}

#[tokio::test]
async fn https_rejects_an_untrusted_server() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    let first = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = vec![0; 4096];
        let read = tokio::io::AsyncReadExt::read(&mut stream, &mut bytes).await.unwrap();
        bytes.truncate(read);
        bytes
    });
    let server = Server::start(Vec::new()).await;
    let mut config = config(&server).base_url(url);
    config.retries.max_retries = 0;
    let provider = provider("openai", config);
    assert!(!format!("{provider:?}").contains(KEY));
    let (answer, _) = ask(&provider, &question()).await;
    assert_eq!(answer.unwrap_err().failure, ModelFailure::Unavailable);
    let first = first.await.unwrap();
    // 22 begins a TLS handshake.
    assert_eq!(first.first(), Some(&22));
    assert!(!first.windows(KEY.len()).any(|window| window == KEY.as_bytes()));
}
