//! Jobs: calls whose clients prefer to come back for the result (`Prefer: respond-async`, RFC 7240).

use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood_core::job::{JobLimits, MemoryJobs};
use fumehood_server::http_api::ApiOptions;
use fumehood_server::{HttpOptions, JobOptions, Jobs};
use serde_json::{Value, json};

use super::api_server::{Answer, ApiServer, OTHER, PATIENCE};

pub(crate) const ASYNC: (&str, &str) = ("Prefer", "respond-async");
/// Waits as long as it takes.
const WAIT: [(&str, &str); 1] = [("Prefer", "wait=20")];

async fn served_with(options: JobOptions) -> ApiServer {
    serve(Jobs::new(Arc::new(MemoryJobs::default()), options)).await
}

pub(crate) async fn serve(jobs: Jobs) -> ApiServer {
    let api = ApiOptions { jobs: Some(jobs), ..ApiOptions::default() };
    let drain = Duration::from_millis(500);
    ApiServer::with_api(|options| HttpOptions { drain, ..options }, |tools| tools, api).await
}

/// Returns a server whose own rules make no call a job.
pub(crate) async fn served() -> ApiServer {
    served_with(JobOptions { after: PATIENCE, ..JobOptions::default() }).await
}

/// Begins a job, and returns its path.
async fn begin(served: &ApiServer, tool: &str, arguments: &str) -> String {
    let answer = served.call(tool, &[ASYNC], arguments).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.header("location").to_owned()
}

/// Waits for the end of a job.
pub(crate) async fn end_of(served: &ApiServer, path: &str) -> Value {
    let answer = served.send("GET", path, &WAIT, "").await;
    assert_eq!((answer.status, answer.header("retry-after")), (200, ""), "{answer:?}");
    answer.json()
}

pub(crate) async fn list(served: &ApiServer, query: &str) -> Vec<String> {
    let page = served.get(&format!("/v1/jobs{query}")).await.json();
    page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_job_is_accepted_at_once_and_has_the_result_later() {
    let served = served().await;
    let accepted = served.call("echo", &[ASYNC], r#"{"a": 1}"#).await;
    assert_eq!((accepted.status, accepted.header("content-type")), (202, "application/json"), "{accepted:?}");
    assert_eq!((accepted.header("preference-applied"), accepted.header("retry-after")), ("respond-async", "1"));
    let path = accepted.header("location");
    let begun = accepted.json();
    assert_eq!(path, format!("/v1/jobs/{}", begun["id"].as_str().unwrap()));
    assert_eq!((&begun["tool"], &begun["status"]), (&json!("test__echo"), &json!("working")), "{begun}");
    assert!(begun["expires_at_ms"].as_u64() > begun["created_at_ms"].as_u64(), "{begun}");
    let ended = end_of(&served, path).await;
    assert_eq!((&ended["id"], &ended["status"]), (&begun["id"], &json!("completed")));
    assert_eq!((&ended["result"]["status"], &ended["result"]["value"]), (&json!("ok"), &json!({"a": 1})), "{ended}");
    assert!(ended["result"]["id"].as_str().unwrap().contains("-h"), "{ended}");
    assert_eq!(served.get(path).await.json(), ended, "its end does not change");
    let head = served.send("HEAD", path, &[], "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    served.end().await;
}

#[tokio::test]
async fn a_failed_call_is_a_completed_job() {
    let served = served().await;
    let path = begin(&served, "fail", r#"{"kind": "deadline"}"#).await;
    let ended = end_of(&served, &path).await;
    assert_eq!((&ended["status"], &ended["result"]["status"]), (&json!("completed"), &json!("error")), "{ended}");
    assert_eq!(ended["result"]["error"]["kind"], "deadline", "{ended}");
    let invalid = begin(&served, "echo", r#"{"a": "1"}"#).await;
    assert_eq!(end_of(&served, &invalid).await["result"]["error"]["kind"], "invalid_arguments");
    // What has no tool is no job.
    served.call("nothing", &[ASYNC], "{}").await.check_problem(404);
    served.end().await;
}

#[tokio::test]
async fn other_preferences_are_ignored() {
    let served = served().await;
    for prefer in ["wait=5", "respond-async=no", "return=minimal", "=;,\"", "respond-asynchronously"] {
        let answer = served.call("echo", &[("Prefer", prefer)], r#"{"a": 1}"#).await;
        assert_eq!((answer.status, answer.header("preference-applied")), (200, ""), "{prefer}: {answer:?}");
    }
    let events = served.call("echo", &[ASYNC, ("Accept", "text/event-stream")], r#"{"a": 1}"#).await;
    assert_eq!((events.status, events.header("content-type")), (200, "text/event-stream"), "a stream needs no job");
    assert!(list(&served, "").await.is_empty());
    // A wait that is malformed is no wait.
    let answer = served.call("wait", &[("Prefer", "respond-async, wait=-1")], "{}").await;
    assert_eq!((answer.status, answer.header("preference-applied")), (202, "respond-async"), "{answer:?}");
    served.end().await;
}

#[tokio::test]
async fn without_jobs_the_preference_is_ignored() {
    let served = ApiServer::new().await;
    let answer = served.call("echo", &[ASYNC], r#"{"a": 1}"#).await;
    assert_eq!((answer.status, answer.header("preference-applied")), (200, ""), "{answer:?}");
    for (method, path) in [("GET", "/v1/jobs"), ("GET", "/v1/jobs/x"), ("DELETE", "/v1/jobs/x")] {
        served.send(method, path, &[], "").await.check_problem(404);
    }
    assert_eq!(served.get("/openapi.json").await.json()["paths"].get("/v1/jobs"), None);
    served.end().await;
}

#[tokio::test]
async fn a_client_waits_for_as_long_as_it_prefers() {
    let served = served().await;
    let patient = [("Prefer", "respond-async, wait=20")];
    let quick = served.call("echo", &patient, r#"{"a": 1}"#).await;
    assert_eq!((quick.status, &quick.json()["value"]), (200, &json!({"a": 1})), "{quick:?}");
    served.call("fail", &patient, r#"{"kind": "deadline"}"#).await.check_problem(504);
    assert!(list(&served, "").await.is_empty(), "a call that ends in time is no job");
    let began = Instant::now();
    let slow = served.call("wait", &[("Prefer", "respond-async, wait=1")], "{}").await;
    assert_eq!((slow.status, slow.header("preference-applied")), (202, "respond-async, wait=1"), "{slow:?}");
    assert!((1..10).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    let again = served.send("GET", slow.header("location"), &[("Prefer", "wait=1")], "").await;
    assert_eq!((again.header("preference-applied"), again.header("retry-after")), ("wait=1", "1"));
    assert_eq!(again.json()["status"], "working");
    assert!(began.elapsed() >= Duration::from_secs(2));
    served.end().await;
}

#[tokio::test]
async fn jobs_of_the_operator_are_waited_for_as_well() {
    let served = served_with(JobOptions { at_once: Arc::new(|_| true), ..JobOptions::default() }).await;
    let patient = [("Prefer", "respond-async, wait=20")];
    let quick = served.call("echo", &patient, r#"{"a": 1}"#).await;
    assert_eq!((quick.status, &quick.json()["value"]), (200, &json!({"a": 1})), "{quick:?}");
    served.call("fail", &patient, r#"{"kind": "deadline"}"#).await.check_problem(504);
    assert_eq!(list(&served, "?status=completed").await.len(), 2);
    let slow = served.call("wait", &[("Prefer", "respond-async, wait=1")], "{}").await;
    assert_eq!((slow.status, &slow.json()["status"]), (202, &json!("working")), "{slow:?}");
    // Without the preference they are calls like any other.
    assert_eq!(served.call("echo", &[], r#"{"a": 1}"#).await.status, 200);
    assert_eq!(list(&served, "").await.len(), 3);
    served.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_before_there_is_a_job_cancels_its_call() {
    let served = served().await;
    let mut sender = served.connect().await;
    let patient = [("Prefer", "respond-async, wait=20")];
    let request = served.request("POST", "/v1/tools/test__wait/calls", &patient, "{}");
    let waiting = tokio::spawn(async move { sender.send_request(request).await.is_ok() });
    served.tools.started(1).await;
    waiting.abort();
    served.tools.stopped(1).await;
    assert!(list(&served, "").await.is_empty());
    served.end().await;
}

#[tokio::test]
async fn a_job_does_not_exist_for_another_client() {
    let served = served().await;
    let path = begin(&served, "wait", "{}").await;
    let bearer = format!("Bearer {OTHER}");
    let stranger = [("Authorization", bearer.as_str())];
    let unknown = format!("/v1/jobs/{}", "0".repeat(32));
    for method in ["GET", "DELETE"] {
        let refused = served.send(method, &path, &stranger, "").await.check_problem(404);
        assert_eq!(refused, served.send(method, &unknown, &stranger, "").await.check_problem(404));
    }
    assert_eq!(served.send("GET", "/v1/jobs", &stranger, "").await.json(), json!({"jobs": []}));
    assert_eq!(served.get(&path).await.json()["status"], "working");
    for wrong in ["/v1/jobs/x", "/v1/jobs/%20", &unknown, &path.to_uppercase().replace("/V1/JOBS", "/v1/jobs")] {
        served.get(wrong).await.check_problem(404);
        served.send("DELETE", wrong, &[], "").await.check_problem(404);
    }
    served.end().await;
}

#[tokio::test]
async fn large_arguments_of_a_job_are_checked_on_another_thread() {
    let served = served().await;
    let large = json!({"a": vec![0; 600]}).to_string();
    for (arguments, is_here) in [("{}", true), (large.as_str(), false)] {
        for preferences in ["respond-async", "respond-async, wait=20"] {
            let answer = served.call("thread", &[("Prefer", preferences)], arguments).await;
            let record = match answer.status {
                202 => end_of(&served, answer.header("location")).await["result"].clone(),
                _ => answer.json(),
            };
            let here = format!("{:?}", std::thread::current().id());
            assert_eq!(record["content"][0]["text"] == here, is_here, "{preferences}: {record}");
        }
    }
    served.end().await;
}

#[tokio::test]
async fn deleting_a_job_stops_its_call_and_then_removes_it() {
    let served = served().await;
    let path = begin(&served, "wait", "{}").await;
    served.tools.started(1).await;
    let stopping = served.send("DELETE", &path, &[], "").await;
    assert_eq!((stopping.status, stopping.body.as_str()), (202, ""));
    let ended = end_of(&served, &path).await;
    assert_eq!((&ended["status"], ended.get("result")), (&json!("cancelled"), None), "{ended}");
    served.tools.stopped(1).await;
    assert_eq!(served.send("DELETE", &path, &[], "").await.status, 204);
    served.get(&path).await.check_problem(404);
    served.send("DELETE", &path, &[], "").await.check_problem(404);
    served.end().await;
}

#[tokio::test]
async fn a_client_has_no_more_jobs_than_it_may_have() {
    let limits = JobLimits { owner_jobs: 1, ..JobLimits::default() };
    let served = served_with(JobOptions { after: PATIENCE, limits, ..JobOptions::default() }).await;
    let path = begin(&served, "wait", "{}").await;
    served.tools.started(1).await;
    for _ in 0..2 {
        // A refusal frees the key.
        let refused = served.call("echo", &[ASYNC, ("Idempotency-Key", "k")], r#"{"a": 1}"#).await;
        let problem = refused.check_problem(503);
        assert_eq!((&problem["kind"], refused.header("retry-after")), (&json!("unavailable"), "10"), "{problem}");
        assert!(
            problem["detail"].as_str().unwrap().contains("this client has 1 jobs, and the maximum is 1"),
            "{problem}"
        );
        assert!(problem["call"]["id"].as_str().unwrap().contains("-h"), "{problem}");
        assert_eq!(refused.header("idempotent-replayed"), "");
    }
    assert_eq!(served.call("echo", &[], r#"{"a": 1}"#).await.status, 200, "calls are no jobs");
    let bearer = format!("Bearer {OTHER}");
    let other = served.call("echo", &[ASYNC, ("Authorization", &bearer)], r#"{"a": 1}"#).await;
    assert_eq!(other.status, 202, "{other:?}");
    // A call that cannot become a job is waited for.
    let patient = [("Prefer", "respond-async, wait=20")];
    assert_eq!(served.call("echo", &patient, r#"{"a": 1}"#).await.status, 200);
    served.send("DELETE", &path, &[], "").await;
    end_of(&served, &path).await;
    assert_eq!(served.send("DELETE", &path, &[], "").await.status, 204);
    begin(&served, "echo", r#"{"a": 1}"#).await;
    served.end().await;
}

#[tokio::test]
async fn jobs_are_filtered_and_paged() {
    let served = served().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let path = begin(&served, "wait", "{}").await;
        ids.insert(0, path.strip_prefix("/v1/jobs/").unwrap().to_owned());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(list(&served, "").await, ids);
    let mut found = Vec::new();
    let mut query = "?limit=1".to_owned();
    loop {
        let page: Answer = served.get(&format!("/v1/jobs{query}")).await;
        let page = page.json();
        found.push(page["jobs"][0]["id"].as_str().unwrap().to_owned());
        match page["next"].as_str() {
            Some(next) => query = format!("?limit=1&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, ids, "every job once");
    served.send("DELETE", &format!("/v1/jobs/{}", ids[0]), &[], "").await;
    end_of(&served, &format!("/v1/jobs/{}", ids[0])).await;
    assert_eq!(list(&served, "?status=cancelled").await, ids[..1]);
    assert_eq!(list(&served, "?status=working&tool=test__wait").await, ids[1..]);
    assert!(list(&served, "?tool=test__echo").await.is_empty());
    let cursor = format!("cursor=after:1:{}", "0".repeat(31));
    for wrong in ["limit=0", "limit=501", "limit=x", "cursor=x", "cursor=before:7", "status", "outcome=ok", &cursor] {
        let answer = served.get(&format!("/v1/jobs?{wrong}")).await;
        match wrong {
            // No job has an empty status.
            "status" => assert_eq!(answer.json(), json!({"jobs": []})),
            _ => drop(answer.check_problem(400)),
        }
    }
    served.end().await;
}

#[tokio::test]
async fn a_job_is_gone_when_its_time_is_over() {
    let ttl = Duration::from_millis(300);
    let served = served_with(JobOptions { ttl, ..JobOptions::default() }).await;
    let path = begin(&served, "echo", r#"{"a": 1}"#).await;
    end_of(&served, &path).await;
    tokio::time::sleep(ttl).await;
    let gone = served.get(&path).await.check_problem(404);
    assert!(gone["detail"].as_str().unwrap().contains("removed when they expire"), "{gone}");
    assert!(list(&served, "").await.is_empty());
    served.end().await;
}

#[tokio::test]
async fn a_server_that_ends_lets_nobody_wait_for_a_job() {
    let served = served_with(JobOptions { after: PATIENCE, ..JobOptions::default() }).await;
    let path = begin(&served, "wait", "{}").await;
    let mut sender = served.connect().await;
    let request = served.request("GET", &path, &[("Prefer", "wait=60")], "");
    let waiting = tokio::spawn(async move { sender.send_request(request).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    let began = Instant::now();
    served.stop();
    let answer = tokio::time::timeout(PATIENCE, waiting).await.expect("it waits").unwrap();
    assert!(answer.is_ok_and(|answer| answer.status() == 200), "it was closed without an answer");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    served.end().await;
}
