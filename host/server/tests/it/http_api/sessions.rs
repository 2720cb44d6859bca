//! Sessions and approvals as resources, with an agent of the test.

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::{Call, CancellationToken};
use fumehood_core::time::Timestamp;
use fumehood_server::http_api::{
    ApiOptions, ApprovalAnswer, ApprovalQuestion, NewSession, SavedSessionInfo, SessionAgent, SessionAgents,
    SessionCall, SessionError, SessionEvent, SessionEvents, SessionReply,
};
use fumehood_server::{Access, Tenant, Token};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::api_server::{Answer, ApiServer, OTHER, PATIENCE, TOKEN, tenant};

/// Agents that do what the message says: `wait`, `ask`, `call TOOL`, and repeat any other text. What is saved of the tenant
/// `stuck` cannot be read.
pub(crate) struct Agents;

struct Agent {
    session: NewSession,
    messages: u64,
}

impl SessionAgents for Agents {
    fn create(&self, session: NewSession) -> Result<Box<dyn SessionAgent>, SessionError> {
        Ok(Box::new(Agent { session, messages: 0 }))
    }

    fn saved(&self, tenant: Arc<str>, _: usize) -> BoxFuture<'_, Result<Vec<SavedSessionInfo>, SessionError>> {
        let id = "kept".to_owned();
        let created_at = Timestamp(7);
        let conversation = vec![("Hello".to_owned(), Some("Hi".to_owned()))];
        let info = SavedSessionInfo { id, created_at, conversation };
        if &*tenant == "stuck" {
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready(Ok(if &*tenant == "keeper" { vec![info] } else { Vec::new() })))
    }
}

impl Agent {
    async fn answer(&self, message: &str, events: &dyn SessionEvents) -> String {
        if let Some(tool) = message.strip_prefix("call ") {
            let call = SessionCall { id: "c\u{202e}1".to_owned(), execution: "e1".to_owned(), tool: tool.to_owned() };
            let arguments = Some(json!({ "a": 1 }));
            events.event(SessionEvent::CallStarted { call: call.clone(), arguments });
            for length in [1, 1 << 17] {
                let content = vec![json!({ "type": "text", "text": "x".repeat(length) })];
                let fraction = Some(0.5);
                let message = Some("half\u{202e}way".to_owned());
                events.event(SessionEvent::CallProgress { call: call.clone(), fraction, message, content });
            }
            let result = self.session.tools.dispatch(Call::new(tool, r#"{"a": 1}"#)).await;
            let status = result.error().map_or("ok", |error| error.kind.as_str()).to_owned();
            events.event(SessionEvent::CallEnded { call, status: status.clone() });
            return status;
        }
        match message {
            "wait" => std::future::pending().await,
            "ask" => {
                let question = ApprovalQuestion {
                    tool: Some("test__echo".to_owned()),
                    arguments: Some(json!({ "a": 1 })),
                    question: "May it\u{202e} run?".to_owned(),
                    from: "rule".to_owned(),
                };
                match self.session.approvals.ask(question).await {
                    ApprovalAnswer::Allow => "allowed".to_owned(),
                    ApprovalAnswer::Deny { reason } => format!("denied: {reason}"),
                }
            }
            text => {
                events.event(SessionEvent::Text(text.to_owned()));
                format!("{} {text}", self.messages)
            }
        }
    }
}

impl SessionAgent for Agent {
    fn reply<'a>(
        &'a mut self,
        message: String,
        events: Arc<dyn SessionEvents>,
        cancelled: CancellationToken,
    ) -> BoxFuture<'a, SessionReply> {
        Box::pin(async move {
            self.messages += 1;
            match cancelled.run_until_cancelled(self.answer(&message, events.as_ref())).await {
                Some(text) => SessionReply { status: "answered".to_owned(), text, steps: 1, ..SessionReply::default() },
                None => SessionReply { status: "cancelled".to_owned(), ..SessionReply::default() },
            }
        })
    }
}

async fn serve() -> ApiServer {
    let api = ApiOptions { sessions: Some(Arc::new(Agents)), ..ApiOptions::default() };
    ApiServer::with_api(|options| options, |tools| tools, api).await
}

async fn open(served: &ApiServer) -> String {
    let opened = served.send("POST", "/v1/sessions", &[], "{}").await;
    assert_eq!(opened.status, 201, "{opened:?}");
    let id = opened.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(opened.header("location"), format!("/v1/sessions/{id}"));
    id
}

async fn say(served: &ApiServer, id: &str, headers: &[(&str, &str)], text: &str) -> Answer {
    served.send("POST", &format!("/v1/sessions/{id}/messages"), headers, &json!({ "text": text }).to_string()).await
}

/// Asks until the list at `path` has this number of entries.
async fn wait_for_list(served: &ApiServer, path: &str, name: &str, length: usize) -> Value {
    let listed = async {
        loop {
            let list = served.get(path).await.json()[name].take();
            if list.as_array().unwrap().len() == length {
                return list;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, listed).await.expect("the list never has that length")
}

/// Sends a message that runs until it is cancelled or answered, in a task of its own.
fn start(served: &ApiServer, id: &str, text: &str) -> tokio::task::JoinHandle<(u16, String)> {
    let body = json!({ "text": text }).to_string();
    let request = served.request("POST", &format!("/v1/sessions/{id}/messages"), &[], &body);
    let address = served.address;
    tokio::spawn(async move {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let (head, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
    })
}

fn extend_call(call: &Value, members: Value) -> Value {
    let mut all = call.as_object().unwrap().clone();
    all.extend(members.as_object().unwrap().clone());
    Value::Object(all)
}

#[tokio::test]
async fn a_session_answers_one_message_after_the_other() {
    let served = serve().await;
    let id = open(&served).await;
    let first = say(&served, &id, &[], "hello").await;
    assert_eq!(first.json(), json!({ "status": "answered", "text": "1 hello", "steps": 1 }));
    assert_eq!(say(&served, &id, &[], "again").await.json()["text"], "2 again");
    let session = served.get(&format!("/v1/sessions/{id}")).await.json();
    assert_eq!((&session["status"], &session["messages"]), (&json!("idle"), &json!(2)));
    assert_eq!(session["conversation"][3], json!({ "role": "assistant", "text": "2 again" }));
    let events = say(&served, &id, &[("Accept", "text/event-stream")], "call test__echo").await;
    let expected = ["started", "call_started", "call_progress", "call_progress", "call_ended", "result"];
    let found: Vec<&str> = events.body.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(found, expected, "{events:?}");
    let data = events.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let data: Vec<Value> = data.map(|line| serde_json::from_str(line).unwrap()).collect();
    let call = json!({ "call": "c\\u{202e}1", "execution": "e1", "tool": "test__echo" });
    assert_eq!(data[1], extend_call(&call, json!({ "arguments": { "a": 1 } })));
    let half = json!({ "fraction": 0.5, "message": "half\\u{202e}way" });
    let parts = json!({ "content": [{ "type": "text", "text": "x" }] });
    assert_eq!(
        data[2],
        extend_call(
            &call,
            json!({ "fraction": half["fraction"], "message": half["message"], "content": parts["content"] })
        )
    );
    assert_eq!(
        data[3],
        extend_call(&call, json!({ "fraction": 0.5, "message": half["message"], "content_bytes": (1 << 17) + 27 }))
    );
    assert_eq!(data[4], extend_call(&call, json!({ "status": "ok" })));
    assert!(events.body.contains(r#""text":"ok""#), "{events:?}");
    assert_eq!(served.send("DELETE", &format!("/v1/sessions/{id}"), &[], "").await.status, 204);
    say(&served, &id, &[], "hello").await.check_problem(404);
    served.end().await;
}

#[tokio::test]
async fn a_session_belongs_to_its_tenant() {
    let served = serve().await;
    let id = open(&served).await;
    let asking = start(&served, &id, "ask");
    let approvals = wait_for_list(&served, "/v1/approvals", "approvals", 1).await;
    let others = format!("Bearer {OTHER}");
    let headers = [("Authorization", others.as_str())];
    let approval = format!("/v1/approvals/{}", approvals[0]["id"].as_str().unwrap());
    for (method, path, body) in [
        ("GET", format!("/v1/sessions/{id}"), ""),
        ("DELETE", format!("/v1/sessions/{id}"), ""),
        ("POST", format!("/v1/sessions/{id}/messages"), r#"{"text": "hello"}"#),
        ("GET", approval.clone(), ""),
        ("POST", approval.clone(), r#"{"answer": "allow"}"#),
    ] {
        served.send(method, &path, &headers, body).await.check_problem(404);
    }
    for (path, name) in [("/v1/sessions", "sessions"), ("/v1/approvals", "approvals")] {
        assert_eq!(served.send("GET", path, &headers, "").await.json()[name], json!([]));
    }
    assert_eq!(served.send("POST", &approval, &[], r#"{"answer": "allow"}"#).await.status, 204);
    assert!(asking.await.unwrap().1.contains("allowed"));
    served.end().await;
}

#[tokio::test]
async fn an_approval_is_answered_once() {
    let served = serve().await;
    let id = open(&served).await;
    let asking = start(&served, &id, "ask");
    let approvals = wait_for_list(&served, "/v1/approvals", "approvals", 1).await;
    let approval = &approvals[0];
    assert_eq!((&approval["session"], &approval["tool"]), (&json!(id), &json!("test__echo")));
    assert_eq!((&approval["arguments"], &approval["question"]), (&json!({ "a": 1 }), &json!("May it\\u{202e} run?")));
    let path = format!("/v1/approvals/{}", approval["id"].as_str().unwrap());
    assert_eq!(served.get(&path).await.json(), *approval);
    for wrong in ["", "{}", r#"{"answer": "yes"}"#, r#"{"answer": "deny", "why": "x"}"#] {
        served.send("POST", &path, &[], wrong).await.check_problem(422);
    }
    let key = [("Idempotency-Key", "k")];
    let deny = r#"{"answer": "deny", "reason": "not now"}"#;
    assert_eq!(served.send("POST", &path, &key, deny).await.status, 204);
    let (status, body) = asking.await.unwrap();
    assert!(status == 200 && body.contains("denied: not now"), "{body}");
    let replayed = served.send("POST", &path, &key, deny).await;
    assert_eq!((replayed.status, replayed.header("idempotent-replayed")), (204, "true"));
    served.send("POST", &path, &[], deny).await.check_problem(404);
    served.get(&path).await.check_problem(404);
    served.end().await;
}

#[tokio::test]
async fn a_client_without_the_right_does_not_approve() {
    let api = ApiOptions { sessions: Some(Arc::new(Agents)), ..ApiOptions::default() };
    let tenant = Tenant::new("one", &Token::parse(TOKEN).unwrap()).actor("one").approves(false);
    let access = Access::Tenants(vec![tenant]);
    let served =
        ApiServer::with_api(|options| fumehood_server::HttpOptions { access, ..options }, |tools| tools, api).await;
    let id = open(&served).await;
    let asking = start(&served, &id, "ask");
    let approvals = wait_for_list(&served, "/v1/approvals", "approvals", 1).await;
    let path = format!("/v1/approvals/{}", approvals[0]["id"].as_str().unwrap());
    let refused = served.send("POST", &path, &[], r#"{"answer": "allow"}"#).await.check_problem(403);
    assert!(refused["detail"].as_str().unwrap().contains("approves = true"), "{refused}");
    assert_eq!(served.get(&path).await.json(), approvals[0], "it still waits, and may be read");
    asking.abort();
    served.end().await;
}

#[tokio::test]
async fn a_tenant_does_not_wait_for_the_log_of_another() {
    let api = ApiOptions { sessions: Some(Arc::new(Agents)), ..ApiOptions::default() };
    let access = Access::Tenants(vec![tenant("keeper", TOKEN), tenant("stuck", OTHER)]);
    let served =
        ApiServer::with_api(|options| fumehood_server::HttpOptions { access, ..options }, |tools| tools, api).await;
    let bearer = format!("Bearer {OTHER}");
    let mut sender = served.connect().await;
    let request = served.request("GET", "/v1/sessions", &[("Authorization", &bearer)], "");
    let mut stuck = Box::pin(sender.send_request(request));
    let waits = tokio::time::timeout(Duration::from_millis(50), &mut stuck).await;
    assert!(waits.is_err(), "it reads its saved sessions");
    assert_eq!(served.get("/v1/sessions").await.json()["sessions"].as_array().unwrap().len(), 1);
    drop(stuck);
    served.end().await;
}

#[tokio::test]
async fn a_stream_announces_the_approval_that_it_waits_for() {
    let served = serve().await;
    let id = open(&served).await;
    let path = format!("/v1/sessions/{id}/messages");
    let request = served.request("POST", &path, &[("Accept", "text/event-stream")], r#"{"text": "ask"}"#);
    let (_sender, response) = served.open(request).await;
    let approvals = wait_for_list(&served, "/v1/approvals", "approvals", 1).await;
    let answer = format!("/v1/approvals/{}", approvals[0]["id"].as_str().unwrap());
    assert_eq!(served.send("POST", &answer, &[], r#"{"answer": "allow"}"#).await.status, 204);
    let body = tokio::time::timeout(PATIENCE, response.into_body().collect()).await.unwrap().unwrap().to_bytes();
    let events = String::from_utf8(body.to_vec()).unwrap();
    assert!(events.contains(&format!("event: approval\ndata: {}", approvals[0])), "{events}");
    assert!(events.trim_end().ends_with(r#""text":"allowed","steps":1}"#), "{events}");
    served.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_message_and_not_the_session() {
    let served = serve().await;
    let id = open(&served).await;
    let asking = start(&served, &id, "ask");
    wait_for_list(&served, "/v1/approvals", "approvals", 1).await;
    say(&served, &id, &[], "hello").await.check_problem(409);
    asking.abort();
    wait_for_list(&served, "/v1/approvals", "approvals", 0).await;
    let idle = async {
        while served.get(&format!("/v1/sessions/{id}")).await.json()["status"] != "idle" {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, idle).await.unwrap();
    assert_eq!(say(&served, &id, &[], "hello").await.json()["text"], "2 hello");
    served.end().await;
}

#[tokio::test]
async fn deleting_a_session_cancels_its_message() {
    let served = serve().await;
    let id = open(&served).await;
    let waiting = start(&served, &id, "wait");
    let path = format!("/v1/sessions/{id}");
    let running = async {
        while served.get(&path).await.json()["status"] != "running" {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, running).await.unwrap();
    assert_eq!(served.send("DELETE", &path, &[], "").await.status, 204);
    let (status, body) = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert!(status == 200 && body.contains("cancelled"), "{body}");
    served.end().await;
}

#[tokio::test]
async fn keys_hold_for_sessions_and_messages() {
    let served = serve().await;
    let key = [("Idempotency-Key", "open")];
    let [first, second] =
        [served.send("POST", "/v1/sessions", &key, "{}").await, served.send("POST", "/v1/sessions", &key, "{}").await];
    assert_eq!((first.status, first.json()["id"].clone()), (201, second.json()["id"].clone()));
    assert_eq!(second.header("idempotent-replayed"), "true");
    assert_eq!(served.get("/v1/sessions").await.json()["sessions"].as_array().unwrap().len(), 1);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let key = [("Idempotency-Key", "say")];
    for _ in 0..2 {
        assert_eq!(say(&served, &id, &key, "hello").await.json()["text"], "1 hello");
    }
    say(&served, &id, &key, "other").await.check_problem(422);
    say(&served, &id, &[], " ").await.check_problem(422);
    served.end().await;
}

#[tokio::test]
async fn sessions_are_limited_and_absent_without_a_model() {
    let served = serve().await;
    for _ in 0..64 {
        open(&served).await;
    }
    served.send("POST", "/v1/sessions", &[], "{}").await.check_problem(429);
    let paths = served.get("/openapi.json").await.json()["paths"].take();
    assert!(paths["/v1/sessions/{id}/messages"]["post"].is_object() && paths["/v1/approvals/{id}"]["post"].is_object());
    served.end().await;
    let served = ApiServer::new().await;
    served.send("POST", "/v1/sessions", &[], "{}").await.check_problem(404);
    assert!(!served.get("/openapi.json").await.body.contains("/v1/sessions"));
    served.end().await;
}

#[tokio::test]
async fn saved_sessions_are_those_of_their_tenant() {
    let api = ApiOptions { sessions: Some(Arc::new(Agents)), ..ApiOptions::default() };
    let access = Access::Tenants(vec![tenant("keeper", TOKEN), tenant("other", OTHER)]);
    let served =
        ApiServer::with_api(|options| fumehood_server::HttpOptions { access, ..options }, |tools| tools, api).await;
    let bearer = format!("Bearer {OTHER}");
    let other = [("Authorization", bearer.as_str())];
    assert_eq!(served.send("GET", "/v1/sessions/kept", &other, "").await.status, 404);
    let kept = served.get("/v1/sessions/kept").await.json();
    assert_eq!(
        (&kept["created_at_ms"], &kept["messages"], &kept["conversation"][1]["text"]),
        (&json!(7), &json!(1), &json!("Hi"))
    );
    assert_eq!(say(&served, "kept", &[], "more").await.json()["text"], "1 more");
    assert_eq!(served.get("/v1/sessions").await.json()["sessions"].as_array().unwrap().len(), 1, "they are added once");
    // An agent in memory has nothing to go on with.
    let resumed = served.send("POST", "/v1/sessions/kept/resume", &[], "").await;
    assert_eq!((resumed.status, &resumed.json()["status"]), (200, &json!("idle")));
    served.end().await;
}
