//! Calls: results, failures, idempotency, cancelling, and lists.

use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::{Call, CallContext};
use fumehood_server::Tenant;
use fumehood_server::http_api::{ApiOptions, CallDetail, CallList, CallQuery, CallStore, CallSummary, PortError};
use serde_json::{Value, json};

use super::api_server::{ApiServer, OTHER};

#[tokio::test]
async fn a_result_is_a_record() {
    let served = ApiServer::new().await;
    let answer = served.call("echo", &[], r#"{"a": 1.50}"#).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"), "{answer:?}");
    let record = answer.json();
    assert_eq!((&record["status"], &record["tool"]), (&json!("ok"), &json!("test__echo")));
    // With the digits of the caller.
    let value: Value = serde_json::from_str(r#"{"a": 1.50}"#).unwrap();
    assert_eq!(record["value"], value);
    assert_eq!(record["content"], json!([{"type": "json", "value": value}]));
    assert_eq!(record["metadata"]["fuel_used"], 7);
    assert!(record["metadata"]["duration_ms"].is_number() && record["metadata"]["peak_memory"].is_number());
    served.end().await;
}

#[tokio::test]
async fn every_kind_of_failure_has_its_status() {
    let served = ApiServer::new().await;
    for &kind in ErrorKind::ALL {
        let answer = served.call("fail", &[], &json!({ "kind": kind }).to_string()).await;
        let problem = answer.check_problem(kind.http_status());
        assert_eq!(problem["type"], format!("urn:fumehood:error:{kind}"));
        assert_eq!(problem["kind"], json!(kind));
        assert_eq!(problem["detail"], "it \\u{1b}failed; try less");
        assert_eq!(problem["call"]["error"]["kind"], json!(kind));
        assert_eq!(problem["instance"], format!("/v1/calls/{}", problem["call"]["id"].as_str().unwrap()));
        let retry_after = match kind {
            ErrorKind::Quota => "2",
            ErrorKind::Unavailable | ErrorKind::Cancelled => "1",
            _ => "",
        };
        assert_eq!(answer.header("retry-after"), retry_after, "{kind}");
    }
    served.end().await;
}

#[tokio::test]
async fn invalid_arguments_are_explained() {
    let served = ApiServer::new().await;
    for (arguments, part) in
        [(r#"{"a": "1"}"#, "number"), ("{}", "a"), (r#"{"a":1,"a":2}"#, "a"), ("{", "JSON"), ("", "JSON")]
    {
        let problem = served.call("echo", &[], arguments).await.check_problem(422);
        assert_eq!(problem["kind"], "invalid_arguments", "{arguments}");
        assert!(problem["detail"].as_str().unwrap().contains(part), "{arguments}: {problem}");
    }
    served.call("echo", &[], "[1]").await.check_problem(422);
    served.call("nothing", &[], "{}").await.check_problem(404);
    assert_eq!(served.call("pending", &[], "{}").await.check_problem(403)["kind"], "needs_approval");
    served.end().await;
}

#[tokio::test]
async fn hidden_characters_of_a_tool_are_escaped() {
    let served = ApiServer::new().await;
    let answer = served.call("hidden", &[], "{}").await;
    let record = answer.json();
    assert_eq!(record["content"][0]["text"], "a\\u{202e}b");
    assert_eq!(record["value"], json!({"k\\u{200b}": "\\u{1b}[1m"}));
    assert_eq!(record["metadata"]["sanitized"], 3);
    served.end().await;
}

#[tokio::test]
async fn a_call_with_a_key_runs_once() {
    let served = ApiServer::new().await;
    let key = [("Idempotency-Key", "one")];
    let first = served.call("echo", &key, r#"{"a": 1}"#).await;
    let again = served.call("echo", &key, r#"{"a": 1}"#).await;
    assert_eq!((first.status, first.body.as_str()), (200, again.body.as_str()));
    assert_eq!((first.header("idempotent-replayed"), again.header("idempotent-replayed")), ("", "true"));
    let other = served.call("echo", &[], r#"{"a": 1}"#).await;
    assert_ne!(other.json()["id"], first.json()["id"], "without the key it is another call");
    served.call("echo", &key, r#"{"a": 2}"#).await.check_problem(422);
    served.call("hidden", &key, r#"{"a": 1}"#).await.check_problem(422);
    let bearer = format!("Bearer {OTHER}");
    let stranger = served.call("echo", &[key[0], ("Authorization", &bearer)], r#"{"a": 2}"#).await;
    assert_eq!(stranger.status, 200, "keys of others are not known: {stranger:?}");
    served.call("echo", &[("Idempotency-Key", &"k".repeat(256))], r#"{"a": 1}"#).await.check_problem(400);
    served.call("echo", &[("Idempotency-Key", "a b")], r#"{"a": 1}"#).await.check_problem(400);
    served.end().await;
}

#[tokio::test]
async fn a_running_call_is_found_and_cancelled_by_its_client_only() {
    let served = ApiServer::new().await;
    let (waiting, id) = served.start_waiting(1).await;
    let path = format!("/v1/calls/{id}");
    let call = served.get(&path).await.json();
    assert_eq!((&call["id"], &call["status"], &call["tool"]), (&json!(id), &json!("running"), &json!("test__wait")));
    let bearer = format!("Bearer {OTHER}");
    let stranger = [("Authorization", bearer.as_str())];
    served.send("GET", &path, &stranger, "").await.check_problem(404);
    served.send("DELETE", &path, &stranger, "").await.check_problem(404);
    assert_eq!(served.send("GET", "/v1/calls", &stranger, "").await.json(), json!({"calls": []}));
    served.send("DELETE", &format!("{path}?by=x"), &[], "").await.check_problem(400);
    assert_eq!(served.send("DELETE", &path, &[], "").await.status, 202);
    let answer = waiting.await.unwrap();
    assert_eq!(answer.check_problem(503)["kind"], "cancelled");
    served.tools.stopped(1).await;
    served.get(&path).await.check_problem(404);
    served.send("DELETE", &path, &[], "").await.check_problem(404);
    served.end().await;
}

/// Recorded calls of models that count from `call_1` in each session.
struct SeveralSessions;

impl SeveralSessions {
    fn summaries() -> Vec<CallSummary> {
        let summary = |(position, (id, model_call)): (usize, (&str, &str))| CallSummary {
            id: id.to_owned(),
            model_call: Some(model_call.to_owned()),
            tool: "test__echo".to_owned(),
            status: "ok".to_owned(),
            started_at_ms: 1_700_000_000_000,
            duration_ms: Some(1.0),
            actor: None,
            client: None,
            position: position as u64,
        };
        [("c3", "c1"), ("c2", "call_1"), ("c1", "call_1")].into_iter().enumerate().map(summary).collect()
    }
}

impl CallStore for SeveralSessions {
    fn list(&self, query: CallQuery) -> BoxFuture<'_, Result<CallList, PortError>> {
        let calls = Self::summaries().into_iter().filter(|call| call.model_call == query.model_call);
        let found = CallList { calls: calls.take(query.limit).collect(), next: None };
        Box::pin(std::future::ready(Ok(found)))
    }

    fn find(&self, id: String, _: Option<String>) -> BoxFuture<'_, Result<Option<CallDetail>, PortError>> {
        let found = Self::summaries().into_iter().find(|call| call.id == id);
        let arguments = Some(json!({ "of": id }));
        let detail = found.map(|summary| CallDetail { summary, arguments, result: None, error: None, usage: None });
        Box::pin(std::future::ready(Ok(detail)))
    }
}

#[tokio::test]
async fn an_id_that_several_calls_have_is_answered_with_their_list() {
    let api = ApiOptions { calls: Some(Arc::new(SeveralSessions)), ..ApiOptions::default() };
    let served = ApiServer::with_api(|options| options, |tools| tools, api).await;
    // A model chose the id of the first call for another one: an id of a call goes before one of a model.
    let first = served.get("/v1/calls/c1").await;
    let call = first.json();
    assert_eq!((first.status, &call["id"], &call["model_call"]), (200, &json!("c1"), &json!("call_1")), "{first:?}");
    assert_eq!(call["arguments"], json!({ "of": "c1" }));
    let several = served.get("/v1/calls/call_1").await;
    assert_eq!((several.status, several.header("content-type")), (300, "application/json"), "{several:?}");
    let list = several.json();
    let ids: Vec<&Value> = list["calls"].as_array().unwrap().iter().map(|call| &call["id"]).collect();
    assert_eq!(ids, ["c2", "c1"]);
    served.get("/v1/calls/call_2").await.check_problem(404);
    served.end().await;
}

#[tokio::test]
async fn a_running_call_is_cancelled_by_an_id_that_is_its_own() {
    let served = ApiServer::new().await;
    let tenant = served.tenants.all().into_iter().find(|tenant| &*tenant.name == "one").unwrap();
    let start = |tenant: &Arc<Tenant>| {
        let tools = served.shared.of(tenant);
        let context = CallContext { id: "call_1".to_owned(), ..CallContext::default() };
        tokio::spawn(async move { tools.dispatch(Call { context, ..Call::new("test__wait", "{}") }).await })
    };
    let one = start(&tenant);
    served.tools.started(1).await;
    let only = served.get("/v1/calls/call_1").await.json();
    assert_eq!((&only["model_call"], &only["status"]), (&json!("call_1"), &json!("running")));
    let two = start(&tenant);
    served.tools.started(2).await;
    for method in ["GET", "DELETE"] {
        let several = served.send(method, "/v1/calls/call_1", &[], "").await;
        assert_eq!((several.status, several.json()["calls"][1]["id"] == only["id"]), (300, true), "{several:?}");
    }
    assert!(!one.is_finished() && !two.is_finished());
    let path = format!("/v1/calls/{}", only["id"].as_str().unwrap());
    assert_eq!(served.send("DELETE", &format!("{path}?by=operator"), &[], "").await.status, 202);
    let stopped = one.await.unwrap();
    let error = stopped.error().unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Cancelled, "an operator stopped the call"));
    assert!(!two.is_finished());
    assert_eq!(served.send("DELETE", "/v1/calls/call_1", &[], "").await.status, 202, "the other one has ended");
    two.await.unwrap();
    served.end().await;
}

fn ids_and_next(answer: super::api_server::Answer) -> (Vec<String>, Option<String>) {
    let page = answer.json();
    let ids: Vec<String> =
        page["calls"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect();
    (ids, page["next"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn running_calls_are_filtered_and_paged() {
    let served = ApiServer::new().await;
    let (one, first) = served.start_waiting(1).await;
    let (two, second) = served.start_waiting(2).await;
    let (page, next) = ids_and_next(served.get("/v1/calls?limit=1").await);
    assert_eq!(page, std::slice::from_ref(&second));
    let (page, next) = ids_and_next(served.get(&format!("/v1/calls?limit=1&cursor={}", next.unwrap())).await);
    assert_eq!(page, std::slice::from_ref(&first));
    assert_eq!(ids_and_next(served.get(&format!("/v1/calls?cursor={}", next.unwrap())).await), (vec![], None));
    assert_eq!(ids_and_next(served.get("/v1/calls?tool=test__echo").await).0.len(), 0);
    assert_eq!(ids_and_next(served.get("/v1/calls?outcome=running&since=0&tool=test__wait").await).0.len(), 2);
    for wrong in ["limit=0", "limit=501", "limit=x", "cursor=x", "since=x", "colour=red"] {
        served.get(&format!("/v1/calls?{wrong}")).await.check_problem(400);
    }
    for id in [first, second] {
        assert_eq!(served.send("DELETE", &format!("/v1/calls/{id}"), &[], "").await.status, 202);
    }
    for waiting in [one, two] {
        waiting.await.unwrap().check_problem(503);
    }
    served.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_call() {
    let served = ApiServer::new().await;
    let key = [("Idempotency-Key", "left")];
    let mut sender = served.connect().await;
    let request = served.request("POST", "/v1/tools/test__wait/calls", &key, "{}");
    let waiting = tokio::spawn(async move { sender.send_request(request).await.is_ok() });
    served.tools.started(1).await;
    served.call("wait", &key, "{}").await.check_problem(409);
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    served.tools.stopped(1).await;
    // It may have had effects, so it is not run again under its key.
    assert_eq!(served.call("wait", &key, "{}").await.check_problem(503)["kind"], "cancelled");
    assert_eq!(served.get("/v1/calls").await.json(), json!({"calls": []}));
    served.end().await;
}

#[tokio::test]
async fn a_trace_context_is_returned() {
    let served = ApiServer::new().await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let answer = served.call("echo", &[("traceparent", parent)], r#"{"a": 1}"#).await;
    assert_eq!(answer.header("traceparent"), parent);
    let answer = served.call("echo", &[("traceparent", "00-0-0-00")], r#"{"a": 1}"#).await;
    assert_eq!((answer.status, answer.header("traceparent")), (200, ""));
    served.end().await;
}
