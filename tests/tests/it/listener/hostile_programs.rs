//! Every hostile program over each protocol: its outcome has the documented kind and status, and an honest client beside it is
//! always answered correctly.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fumehood::ErrorKind;
use serde_json::{Value, json};

use super::test_server::{Face, OTHER, TOKEN, TestServer, bearer, tokens};
use crate::corpus::{CANARY, DEADLINE, armed_host, attacks, named};
use crate::mcp::raw::PATIENCE;

/// Returns the status of each kind, as `docs/http.md` has it.
fn documented_statuses() -> BTreeMap<String, u16> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/http.md");
    let text = std::fs::read_to_string(page).unwrap();
    let table = text.lines().skip_while(|line| *line != "| `kind` | status |").skip(2);
    let mut statuses = BTreeMap::new();
    for line in table.take_while(|line| line.starts_with('|')) {
        let [kinds, status] = line.trim_matches('|').split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let status: u16 = status.trim()[..3].parse().unwrap();
        statuses.extend(kinds.split('`').skip(1).step_by(2).map(|kind| (kind.to_owned(), status)));
    }
    statuses
}

#[test]
fn every_kind_has_its_documented_status() {
    let statuses = documented_statuses();
    let expected = ErrorKind::ALL.iter().map(|kind| (kind.to_string(), kind.http_status()));
    assert_eq!(statuses, expected.collect());
}

/// Parses the body of a response: JSON, or an event of a stream that has it.
fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let event = || body.lines().filter_map(|line| line.strip_prefix("data:")).find(|data| data.contains('{'));
    serde_json::from_str(body).or_else(|_| serde_json::from_str(event().unwrap_or_default())).unwrap_or_default()
}

/// Reads the outcome of a call. Returns the kind of its failure, if it failed.
fn outcome(face: Face, status: u16, answer: &str, statuses: &BTreeMap<String, u16>) -> Option<ErrorKind> {
    let body = body(answer);
    let kind = match face {
        Face::Mcp => {
            assert_eq!(status, 200, "{answer}");
            let result = &body["result"];
            let is_error = &body["result"]["isError"];
            assert!(is_error.is_boolean(), "{answer}");
            assert_eq!(result["_meta"]["fumehood/error"].is_null(), *is_error == false, "{answer}");
            result["_meta"]["fumehood/error"]["kind"].clone()
        }
        Face::Http => {
            let documented = body["kind"].as_str().map_or(200, |kind| statuses[kind]);
            assert_eq!(status, documented, "{answer}");
            assert_eq!(body["call"]["error"]["kind"], body["kind"], "{answer}");
            let record = if body["kind"].is_null() { &body } else { &body["call"] };
            let expected = if body["kind"].is_null() { "ok" } else { "error" };
            assert_eq!(record["status"], expected, "{answer}");
            body["kind"].clone()
        }
    };
    serde_json::from_value(kind).unwrap()
}

/// Calls a tool. A body of undeclared length ends with the connection in HTTP/1.0.
async fn call(served: &TestServer, token: &str, tool: &str, arguments: &Value) -> (u16, String) {
    let token = bearer(token);
    let request = served.call(&[("Authorization", token.as_str())], tool, arguments);
    served.send(&request.replacen("HTTP/1.1", "HTTP/1.0", 1)).await
}

async fn attack(
    served: Arc<TestServer>,
    program: &str,
    tool: &str,
    arguments: Value,
    allowed: &[ErrorKind],
    statuses: Arc<BTreeMap<String, u16>>,
) {
    let began = Instant::now();
    let (status, answer) = call(&served, OTHER, &format!("{}__{tool}", named(program)), &arguments).await;
    let face = served.face;
    match outcome(face, status, &answer, &statuses) {
        // So many run at once that any of them may reach its deadline first.
        Some(kind) => {
            assert!(kind == ErrorKind::Deadline || allowed.contains(&kind), "{face:?} {program}: {answer:?}");
        }
        None => assert!(allowed.is_empty(), "{face:?} {program} should fail: {answer:?}"),
    }
    assert!(began.elapsed() < DEADLINE + PATIENCE, "{face:?} {program}: {:?}", began.elapsed());
    assert!(!answer.contains(CANARY), "{face:?} {program}");
}

/// Calls the honest tool until `stop` is set, and returns the number of calls.
async fn honest(served: Arc<TestServer>, stop: Arc<AtomicBool>, statuses: Arc<BTreeMap<String, u16>>) -> u32 {
    let mut number = 0;
    while !stop.load(Relaxed) {
        let (status, answer) = call(&served, TOKEN, "honest__add", &json!({"a": number, "b": 1})).await;
        assert_eq!(outcome(served.face, status, &answer, &statuses), None, "{answer:?}");
        let expected = json!({"result": number + 1});
        let value = match served.face {
            Face::Mcp => body(&answer)["result"]["structuredContent"].clone(),
            Face::Http => body(&answer)["value"].clone(),
        };
        assert_eq!(value, expected, "{answer:?}");
        number += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    number
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_face_contains_hostile_programs() {
    let root = tempfile::tempdir().unwrap();
    let host = armed_host(root.path()).await;
    let statuses = Arc::new(documented_statuses());
    for face in Face::ALL {
        let served = Arc::new(TestServer::new(face, &host, tokens()).await);
        let stop = Arc::<AtomicBool>::default();
        let neighbour = tokio::spawn(honest(Arc::clone(&served), Arc::clone(&stop), Arc::clone(&statuses)));
        let mut running = tokio::task::JoinSet::new();
        for (program, tool, arguments, allowed) in attacks() {
            let statuses = Arc::clone(&statuses);
            running.spawn(attack(Arc::clone(&served), program, tool, arguments, allowed, statuses));
        }
        while let Some(attacked) = running.join_next().await {
            attacked.unwrap();
        }
        stop.store(true, Relaxed);
        assert!(neighbour.await.unwrap() > 5, "it was called all the while");
        Arc::into_inner(served).unwrap().end().await;
    }
    assert_eq!(std::fs::read_to_string(root.path().join("canary")).unwrap(), CANARY);
}
