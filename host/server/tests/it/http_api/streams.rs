//! Events of calls.

use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::api_server::{ApiServer, PATIENCE};

const EVENTS: [(&str, &str); 1] = [("Accept", "text/event-stream")];

/// Returns the names and data of the events.
fn parse(text: &str) -> Vec<(String, Value)> {
    let events = text.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':'));
    let parsed = events.map(|event| {
        let (name, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        (name.to_owned(), serde_json::from_str(data).unwrap())
    });
    parsed.collect()
}

#[tokio::test]
async fn progress_and_log_lines_come_before_the_result() {
    let served = ApiServer::new().await;
    let answer = served.call("report", &EVENTS, r#"{"lines": 1}"#).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/event-stream"));
    let events = parse(&answer.body);
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["started", "log", "progress", "result"], "{answer:?}");
    assert_eq!(events[1].1, json!({"level": "info", "message": "line 0"}));
    let progress = &events[2].1;
    assert_eq!((&progress["fraction"], &progress["content"][0]["text"]), (&json!(0.5), &json!("pa\\u{200b}rt")));
    assert_eq!((&events[3].1["status"], &events[3].1["id"]), (&json!("ok"), &events[0].1["id"]));
    served.end().await;
}

#[tokio::test]
async fn a_failure_is_the_last_event() {
    let served = ApiServer::new().await;
    let events = parse(&served.call("fail", &EVENTS, r#"{"kind": "deadline"}"#).await.body);
    assert_eq!(events[1].0, "result");
    assert_eq!(events[1].1["error"]["kind"], "deadline");
    served.end().await;
}

#[tokio::test]
async fn the_oldest_events_are_dropped_and_counted() {
    let served = ApiServer::new().await;
    let events = parse(&served.call("report", &EVENTS, r#"{"lines": 500}"#).await.body);
    assert_eq!((events[1].0.as_str(), events.last().unwrap().0.as_str()), ("dropped", "result"));
    let dropped = events[1].1["events"].as_u64().unwrap();
    assert_eq!(dropped + events.len() as u64, 500 + 4, "{dropped}");
    served.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_cancels_its_call() {
    let served = ApiServer::new().await;
    let request = served.request("POST", "/v1/tools/test__wait/calls", &EVENTS, "{}");
    let (sender, mut response) = served.open(request).await;
    let first = tokio::time::timeout(PATIENCE, response.body_mut().frame()).await.unwrap().unwrap().unwrap();
    let events = parse(std::str::from_utf8(first.data_ref().unwrap()).unwrap());
    let id = events[0].1["id"].as_str().unwrap().to_owned();
    served.tools.started(1).await;
    assert_eq!(served.get(&format!("/v1/calls/{id}")).await.json()["status"], "running");
    drop((sender, response));
    served.tools.stopped(1).await;
    served.end().await;
}

#[tokio::test]
async fn a_stream_is_answered_again_by_its_key() {
    let served = ApiServer::new().await;
    let headers = [EVENTS[0], ("Idempotency-Key", "stream")];
    let events = parse(&served.call("report", &headers, "{}").await.body);
    let again = served.call("report", &headers, "{}").await;
    assert_eq!((again.header("content-type"), again.header("idempotent-replayed")), ("application/json", "true"));
    assert_eq!(again.json()["id"], events[0].1["id"]);
    served.end().await;
}
