//! A gateway asks clients of the revision without a handshake with an incomplete result, and they answer with their next
//! request.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fumehood::listener::{CallSink, EndedCall, JobOptions, Jobs, RunningCalls, TrackedTools};
use fumehood::mcp::{HttpListener, HttpOptions, RemoteOptions, Server, ServerOptions};
use fumehood::{McpTools, ToolProvider};
use fumehood_core::job::MemoryJobs;
use serde_json::{Value, json};

use super::raw::{PATIENCE, Raw};
use super::relay::{CAPABILITIES, all, policy};
use super::remote::fake;
use crate::listener::test_server::{OTHER, TOKEN, TestServer, bearer, tokens};

/// Asks twice during a call, notes what comes back, and answers with both.
const ASK_TWICE: &str = r#"
ask() {
    printf '{"jsonrpc":"2.0","id":"%s","method":"elicitation/create","params":{"message":"%s","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}\n' "$1" "$2"
    read -r reply
    printf '%s\n' "$reply" >> "$REPLIES"
    case $reply in *'"error":'*) eval "${ON_REFUSED-}" ;; esac
}
ask q1 'Your name?'
first=$reply
ask q2 'Sure?'
answer '{"content":[],"structuredContent":{"first":'"$first"',"second":'"$reply"'}}'
"#;

const DISCOVER: &str = r#"answer '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":'"$CAPABILITIES"',"serverInfo":{"name":"fake","version":"0"},"ttlMs":1000,"cacheScope":"public"}'"#;

/// Sends its user to a web page.
const ASK_FOR_A_PAGE: &str = r#"
printf '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"url","message":"Log in","url":"%s","elicitationId":"e"}}\n' "$URL"
read -r reply
answer '{"content":[],"structuredContent":{"reply":'"$reply"'}}'
"#;

/// Asks for two things at once, as a server of the newest revision does.
const ASK_FOR_BOTH: &str = r#"
form='"method":"elicitation/create","params":{"mode":"form","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}},"message"'
case $line in
*'"inputResponses"'*) answer '{"content":[],"structuredContent":{"sent":'"$line"'}}' ;;
*) answer '{"resultType":"input_required","inputRequests":{"one":{'"$form"':"One?"}},"two":{'"$form"':"Two?"}}},"requestState":"s1"}' ;;
esac
"#;

/// A gateway whose calls are counted.
struct Gateway {
    server: Server,
    tools: Arc<McpTools>,
    running: RunningCalls,
    ended: Arc<EndedCalls>,
}

/// The kinds of the calls that have ended; empty for those that succeeded.
#[derive(Default)]
struct EndedCalls(Mutex<Vec<String>>);

impl CallSink for EndedCalls {
    fn record(&self, call: &EndedCall<'_>) {
        let kind = call.result.error().map(|error| error.kind.to_string()).unwrap_or_default();
        self.0.lock().unwrap().push(kind);
    }
}

impl Gateway {
    async fn new(environment: &[(&str, &str)], options: RemoteOptions, server: ServerOptions) -> Self {
        let library = all();
        let client_requests = policy(true, false, false);
        let remote = fake(environment, RemoteOptions { library, client_requests, ..options });
        let tools = McpTools::default();
        tools.add(&remote).await.unwrap();
        let tools = Arc::new(tools);
        let servers = tools.libraries().into();
        let running = RunningCalls::new();
        let ended = Arc::new(EndedCalls::default());
        running.subscribe(ended.clone());
        let tracked = Arc::new(TrackedTools::new(tools.clone() as Arc<dyn ToolProvider>, running.clone()));
        Self { server: Server::new(tracked, ServerOptions { servers, ..server }), tools, running, ended }
    }

    /// Starts a gateway of a server that asks twice, and writes what it gets into this file.
    async fn asking_twice(replies: &Path, options: RemoteOptions, server: ServerOptions) -> Self {
        Self::new(&[("ON_CALL", ASK_TWICE), ("REPLIES", replies.to_str().unwrap())], options, server).await
    }

    fn ended(&self) -> Vec<String> {
        self.ended.0.lock().unwrap().clone()
    }

    /// Waits until this number of calls has ended.
    async fn has_ended(&self, calls: usize) {
        let started = Instant::now();
        while self.ended().len() < calls {
            assert!(started.elapsed() < PATIENCE, "{:?}", self.ended());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn with_meta(mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params
}

/// Returns a call of the tool with answers, if there are some.
fn call_with(asked: Option<(&Value, Value)>) -> Value {
    let mut call = json!({"name": "other__t", "arguments": {"a": 1, "b": [2.50]}});
    if let Some((asked, responses)) = asked {
        call["requestState"] = asked["requestState"].clone();
        call["inputResponses"] = responses;
    }
    with_meta(call, &json!({"elicitation": {}}))
}

/// Returns the keys and messages of the questions in an incomplete result.
fn questions(asked: &Value) -> Vec<(String, String)> {
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert!(asked["requestState"].as_str().is_some_and(|state| state.len() >= 43), "{asked}");
    let requests = asked["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}"));
    let question = |(key, request): (&String, &Value)| {
        assert_eq!(request["method"], "elicitation/create");
        (key.clone(), request["params"]["message"].as_str().unwrap().to_owned())
    };
    requests.iter().map(question).collect()
}

/// Returns an answer to the only question.
fn answer_to(asked: &Value, answer: Value) -> Value {
    let questions = questions(asked);
    assert_eq!(questions.len(), 1, "{asked}");
    json!({ &questions[0].0: answer })
}

fn accepted(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

#[tokio::test]
async fn two_questions_in_a_row_are_one_call() {
    let folder = tempfile::tempdir().unwrap();
    let replies = folder.path().join("replies");
    let gateway = Gateway::asking_twice(&replies, RemoteOptions::default(), ServerOptions::default()).await;
    let mut raw = Raw::connect_to(&gateway.server);
    let first = raw.request("tools/call", call_with(None)).await["result"].clone();
    assert_eq!(questions(&first)[0].1, "other asks: Your name?");
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let request = first["inputRequests"].as_object().unwrap().values().next().unwrap();
    assert_eq!(request["params"]["requestedSchema"], schema);
    let name = answer_to(&first, accepted("Ann"));
    let second = raw.request("tools/call", call_with(Some((&first, name)))).await["result"].clone();
    assert_eq!(questions(&second)[0].1, "other asks: Sure?");
    assert_ne!(first["requestState"], second["requestState"]);
    assert_eq!(gateway.running.counts().0 + gateway.running.counts().1, 1);
    let no = answer_to(&second, json!({"action": "decline"}));
    let result = raw.request("tools/call", call_with(Some((&second, no)))).await["result"].clone();
    assert_eq!(result["structuredContent"]["first"]["result"], accepted("Ann"), "{result}");
    assert_eq!(result["structuredContent"]["second"]["result"], json!({"action": "decline"}));
    assert_eq!((&result["resultType"], gateway.ended()), (&json!("complete"), vec![String::new()]), "it is one call");
    let unable = with_meta(json!({"name": "other__t", "arguments": {}}), &json!({}));
    let refused = raw.request("tools/call", unable).await["result"].clone();
    let error = &refused["structuredContent"]["first"]["error"];
    assert!(error["message"].as_str().unwrap().contains("does not declare `elicitation`"), "{refused}");
    raw.leave().await;
    gateway.tools.close().await;
}

#[tokio::test]
async fn a_client_gets_only_pages_that_it_can_show_and_may_open() {
    for (url, capabilities, expected) in [
        ("https://example.com/login", json!({"elicitation": {"url": {}}}), None),
        ("https://example.com/login", json!({"elicitation": {}}), Some("does not declare `elicitation` with `url`")),
        ("file:///etc/passwd", json!({"elicitation": {"url": {}}}), Some("is not a web page")),
    ] {
        let environment = [("ON_CALL", ASK_FOR_A_PAGE), ("URL", url)];
        let gateway = Gateway::new(&environment, RemoteOptions::default(), ServerOptions::default()).await;
        let mut raw = Raw::connect_to(&gateway.server);
        let mut call = with_meta(json!({"name": "other__t"}), &capabilities);
        let mut result = raw.request("tools/call", call.clone()).await["result"].clone();
        let reply = match expected {
            None => {
                let asked = json!({"mode": "url", "message": "other asks: Log in", "url": url, "elicitationId": "e"});
                assert_eq!(result["inputRequests"]["input-1"]["params"], asked);
                call["inputResponses"] = answer_to(&result, json!({"action": "accept"}));
                call["requestState"] = result["requestState"].clone();
                result = raw.request("tools/call", call).await["result"].clone();
                result["structuredContent"]["reply"]["result"]["action"] == "accept"
            }
            Some(why) => result["structuredContent"]["reply"]["error"]["message"].as_str().unwrap().contains(why),
        };
        assert!(reply, "{result}");
        raw.leave().await;
        gateway.tools.close().await;
    }
}

#[tokio::test]
async fn a_state_is_for_one_answer_to_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let replies = folder.path().join("replies");
    let environment = [
        ("ON_CALL", ASK_TWICE),
        ("REPLIES", replies.to_str().unwrap()),
        ("ON_REFUSED", r#"read -r next; printf '%s\n' "$next" >> "$REPLIES""#),
    ];
    let gateway = Gateway::new(&environment, RemoteOptions::default(), ServerOptions::default()).await;
    let mut raw = Raw::connect_to(&gateway.server);
    let mut other = Raw::connect_to(&gateway.server);
    let first = raw.request("tools/call", call_with(None)).await["result"].clone();
    let answer = || answer_to(&first, accepted("Ann"));
    let right = call_with(Some((&first, answer())));
    let mut forged = right.clone();
    forged["requestState"] = json!("A".repeat(43));
    assert!(read_refusal(&mut raw, forged).await.starts_with("no call is waiting for this answer"));
    assert!(
        read_refusal(&mut other, right.clone()).await.starts_with("no call is waiting"),
        "it is that of another client"
    );
    for (member, value) in [("arguments", json!({"a": 1, "b": [3]})), ("name", json!("other__u"))] {
        let mut changed = right.clone();
        changed[member] = value;
        let why = read_refusal(&mut raw, changed).await;
        assert!(why.contains("a different name or different arguments"), "{member}: {why}");
    }
    // The order of members means nothing.
    let mut reordered = right.clone();
    reordered["arguments"] = json!({"b": [2.50], "a": 1});
    let second = raw.request("tools/call", reordered).await["result"].clone();
    assert_eq!(questions(&second)[0].1, "other asks: Sure?");
    assert!(read_refusal(&mut raw, right).await.contains("was already used"));
    assert_eq!(gateway.ended(), Vec::<String>::new(), "the call still waits");
    // Abandoned, it ends at the server, and leaves the places that it had.
    raw.leave().await;
    gateway.has_ended(1).await;
    assert_eq!((gateway.ended(), gateway.running.counts()), (vec!["cancelled".to_owned()], (0, 0)));
    let started = Instant::now();
    while !std::fs::read_to_string(&replies).unwrap().contains("notifications/cancelled") {
        assert!(started.elapsed() < PATIENCE, "the server does not hear of it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    other.leave().await;
    gateway.tools.close().await;
}

async fn read_refusal(raw: &mut Raw, request: Value) -> String {
    let refused = raw.request("tools/call", request).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    refused["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_call_waits_for_the_maximum_time_of_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let replies = folder.path().join("replies");
    let time = Duration::from_secs(2);
    let options = RemoteOptions { deadline: time, max_time: time, ..RemoteOptions::default() };
    let gateway = Gateway::asking_twice(&replies, options, ServerOptions::default()).await;
    let mut raw = Raw::connect_to(&gateway.server);
    let asked = raw.request("tools/call", call_with(None)).await["result"].clone();
    let late = call_with(Some((&asked, answer_to(&asked, accepted("Ann")))));
    gateway.has_ended(1).await;
    assert_eq!(gateway.ended(), ["deadline"]);
    let result = raw.request("tools/call", late.clone()).await["result"].clone();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("was not answered within 2000 ms, its `max_timeout`"), "{result}");
    let again = raw.request("tools/call", late).await;
    assert!(again["error"]["message"].as_str().unwrap().contains("has expired"), "{again}");
    raw.leave().await;
    gateway.tools.close().await;
}

#[tokio::test]
async fn a_partial_answer_is_asked_for_the_rest() {
    let environment = [("ON_DISCOVER", DISCOVER), ("CAPABILITIES", CAPABILITIES), ("ON_CALL", ASK_FOR_BOTH)];
    let options = ServerOptions::default();
    let gateway = Gateway::new(&environment, RemoteOptions::default(), options).await;
    let mut raw = Raw::connect_to(&gateway.server);
    let both = raw.request("tools/call", call_with(None)).await["result"].clone();
    let asked = questions(&both);
    let texts: Vec<_> = asked.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["other asks: One?", "other asks: Two?"]);
    let one = json!({ &asked[0].0: accepted("1"), "input-99": accepted("x") });
    let rest = raw.request("tools/call", call_with(Some((&both, one)))).await["result"].clone();
    assert_eq!(questions(&rest), asked[1..]);
    let two = json!({ &asked[1].0: accepted("2") });
    let result = raw.request("tools/call", call_with(Some((&rest, two)))).await["result"].clone();
    let sent = &result["structuredContent"]["sent"]["params"];
    assert_eq!(sent["inputResponses"], json!({"one": accepted("1"), "two": accepted("2")}), "{result}");
    assert_eq!(sent["requestState"], "s1");
    // Nobody waits for more than the client may have open.
    for _ in 0..16 {
        let asked = raw.request("tools/call", call_with(None)).await["result"].clone();
        assert_eq!(questions(&asked).len(), 2);
    }
    let refused = raw.request("tools/call", call_with(None)).await["result"].clone();
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("16 calls of this client are waiting for its answers"), "{refused}");
    raw.leave().await;
    gateway.has_ended(18).await;
    gateway.tools.close().await;
}

#[tokio::test]
async fn a_server_that_never_has_enough_is_cut_off_where_its_error_says() {
    let folder = tempfile::tempdir().unwrap();
    let requests = folder.path().join("requests");
    let ask = r#"echo >> "$REQUESTS"; answer '{"resultType":"input_required","requestState":"s"}'"#;
    let environment = [
        ("ON_DISCOVER", DISCOVER),
        ("CAPABILITIES", CAPABILITIES),
        ("ON_CALL", ask),
        (
            "ON_OTHER",
            r#"case $line in *prompts/list*) answer '{"prompts":[{"name":"p"}]}' ;; *prompts/get*) eval "$ON_CALL" ;; *) fail -32601 unknown ;; esac"#,
        ),
        ("REQUESTS", requests.to_str().unwrap()),
    ];
    let gateway = Gateway::new(&environment, RemoteOptions::default(), ServerOptions::default()).await;
    let mut raw = Raw::connect_to(&gateway.server);
    let expected = "the server sent more than 32 questions in one call";
    let refused = raw.request("tools/call", call_with(None)).await["result"].clone();
    assert!(refused["content"][0]["text"].as_str().unwrap().contains(expected), "{refused}");
    assert_eq!(std::fs::read_to_string(&requests).unwrap().lines().count(), 33, "the first, and one after each time");
    let get = with_meta(json!({"name": "other__p"}), &json!({}));
    let refused = raw.request("prompts/get", get).await["error"].clone();
    assert!(refused["message"].as_str().unwrap().contains(expected), "{refused}");
    assert_eq!(std::fs::read_to_string(&requests).unwrap().lines().count(), 66);
    raw.leave().await;
    gateway.tools.close().await;
}

#[tokio::test]
async fn prompts_and_resources_ask_as_calls_do() {
    let library = r#"
form='"method":"elicitation/create","params":{"mode":"form","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}},"message":"Who?"}'
required='{"resultType":"input_required","inputRequests":{"who":{'"$form"'}},"requestState":"s"}'
case $line in
*prompts/list*) answer '{"prompts":[{"name":"p"}]}' ;;
*resources/list*) answer '{"resources":[{"uri":"note://a","name":"a"}]}' ;;
*prompts/get*inputResponses*|*inputResponses*prompts/get*) answer '{"messages":[{"role":"user","content":{"type":"text","text":"for Ann"}}]}' ;;
*resources/read*inputResponses*|*inputResponses*resources/read*) answer '{"contents":[{"uri":"note://a","text":"of Ann"}]}' ;;
*prompts/get* | *resources/read*) answer "$required" ;;
*completion/complete*) answer "$required" ;;
*) fail -32601 unknown ;;
esac
"#;
    let environment = [("ON_DISCOVER", DISCOVER), ("CAPABILITIES", CAPABILITIES), ("ON_OTHER", library)];
    let gateway = Gateway::new(&environment, RemoteOptions::default(), ServerOptions::default()).await;
    let mut raw = Raw::connect_to(&gateway.server);
    let able = json!({"elicitation": {}});
    for (method, params, pointer, expected) in [
        ("prompts/get", json!({"name": "other__p"}), "/messages/0/content/text", "for Ann"),
        ("resources/read", json!({"uri": "note://a"}), "/contents/0/text", "of Ann"),
    ] {
        let asked = raw.request(method, with_meta(params.clone(), &able)).await["result"].clone();
        let mut again = params;
        again["inputResponses"] = answer_to(&asked, accepted("Ann"));
        again["requestState"] = asked["requestState"].clone();
        let mut call = call_with(None);
        call["requestState"] = asked["requestState"].clone();
        assert_eq!(raw.request("tools/call", call).await["error"]["code"], -32602, "it is a state of {method}");
        let result = raw.request(method, with_meta(again, &able)).await["result"].clone();
        assert_eq!(result.pointer(pointer), Some(&json!(expected)), "{result}");
    }
    let complete = json!({"ref": {"type": "ref/prompt", "name": "other__p"}, "argument": {"name": "a", "value": ""}});
    let refused = raw.request("completion/complete", with_meta(complete, &able)).await["error"].clone();
    assert!(refused["message"].as_str().unwrap().contains("only during calls, prompts and resources"), "{refused}");
    raw.leave().await;
    gateway.tools.close().await;
}

#[tokio::test]
async fn a_call_that_becomes_a_task_still_takes_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    let replies = folder.path().join("replies");
    let after = Duration::from_millis(100);
    let jobs = Jobs::new(Arc::new(MemoryJobs::default()), JobOptions { after, ..JobOptions::default() });
    let server = ServerOptions { jobs: Some(jobs), ..ServerOptions::default() };
    let environment = [("ON_CALL", ASK_TWICE), ("REPLIES", replies.to_str().unwrap())];
    let gateway = Gateway::new(&environment, RemoteOptions::default(), server).await;
    let mut raw = Raw::connect_to(&gateway.server);
    let able = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let call = json!({"name": "other__t", "arguments": {}});
    // The program may take longer than that to ask; then there is nobody to ask any more.
    let asked = raw.request("tools/call", with_meta(call.clone(), &able)).await["result"].clone();
    if asked["resultType"] == "input_required" {
        tokio::time::sleep(3 * after).await;
        let mut again = call;
        again["inputResponses"] = answer_to(&asked, accepted("Ann"));
        again["requestState"] = asked["requestState"].clone();
        let task = raw.request("tools/call", with_meta(again, &able)).await["result"].clone();
        assert_eq!(task["resultType"], "task", "{task}");
        gateway.has_ended(1).await;
        let replies = std::fs::read_to_string(&replies).unwrap();
        assert!(replies.contains("Ann") && replies.contains("its call became a task"), "{replies}");
    }
    raw.leave().await;
    gateway.tools.close().await;
}

/// Sends a request over HTTP with this token, and returns the answer.
async fn send(served: &TestServer, token: &str, method: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let authorization = bearer(token);
    let headers = [
        ("Authorization", authorization.as_str()),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", method),
        ("Mcp-Name", params["name"].as_str().unwrap()),
    ];
    let (_, answer) = served.send(&served.post(&headers, &body)).await;
    let messages = answer.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let mut messages = messages.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.find(|message| message["id"] == 1).unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test]
async fn over_http_each_answer_is_a_request_of_the_same_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let replies = folder.path().join("replies");
    let gateway = Gateway::asking_twice(&replies, RemoteOptions::default(), ServerOptions::default()).await;
    let http = HttpOptions::new("127.0.0.1:0".parse().unwrap(), tokens());
    let served = TestServer::of(HttpListener::bind(&gateway.server, http).await.unwrap());
    let first = send(&served, TOKEN, "tools/call", &call_with(None)).await["result"].clone();
    let answer = call_with(Some((&first, answer_to(&first, accepted("Ann")))));
    let stolen = send(&served, OTHER, "tools/call", &answer).await;
    assert!(stolen["error"]["message"].as_str().unwrap().starts_with("no call is waiting"), "{stolen}");
    let second = send(&served, TOKEN, "tools/call", &answer).await["result"].clone();
    let yes = call_with(Some((&second, answer_to(&second, json!({"action": "cancel"})))));
    let result = send(&served, TOKEN, "tools/call", &yes).await["result"].clone();
    assert_eq!(result["structuredContent"]["first"]["result"], accepted("Ann"), "{result}");
    assert_eq!(result["structuredContent"]["second"]["result"], json!({"action": "cancel"}));
    assert_eq!(gateway.ended(), [""]);
    // A client that never comes back does not outlive its server.
    send(&served, TOKEN, "tools/call", &call_with(None)).await;
    served.end().await;
    gateway.has_ended(2).await;
    assert_eq!(gateway.ended(), ["", "cancelled"]);
    gateway.tools.close().await;
}
