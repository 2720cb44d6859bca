//! The MCP client and servers that do not quite keep to the protocol: what can be understood is, and the rest is named.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fumehood::ErrorKind;
use fumehood::mcp::{Credentials, Endpoint, RemoteOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::remote::{call, fake, remote, text};

/// Calls a tool whose server prints this line as its answer; `ID` in it is the id of the call.
async fn answered(line: &str) -> Result<String, (ErrorKind, String)> {
    let print = format!("cat <<END | sed \"s/ID/$id/\"\n{}\nEND\n", line.replace('\\', "\\\\").replace('$', "\\$"));
    let options = RemoteOptions { deadline: Duration::from_secs(20), ..RemoteOptions::default() };
    let remote = fake(&[("ON_CALL", &print)], options);
    let outcome = call(&remote, "t").await;
    remote.close().await;
    let text = |parts: Vec<fumehood::Content>| serde_json::to_string(&parts).unwrap();
    outcome.map(text).map_err(|error| (error.kind, error.to_string()))
}

#[tokio::test]
async fn odd_results_keep_what_can_be_read() {
    for (line, words) in [
        (r#"{"id":ID,"result":{"content":[{"type":"text","text":"no version"}]}}"#, "no version"),
        (r#"{"jsonrpc":"2.0","id":"ID","result":{"content":"only text"}}"#, "only text"),
        (
            r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"video"},{"type":"text","text":"after"}]}}"#,
            "after",
        ),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"video"}]}}"#, "a malformed part of the type"),
        (
            r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"kept","annotations":{"audience":["system"],"priority":"high"}}]}}"#,
            "kept",
        ),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"lone \ud83d"}]}}"#, "lone \u{fffd}"),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"n":NaN}}}"#, r#"{"n":null}"#),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{}}"#, "[]"),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"rows":[7]}}"#, r#""value":{"rows":[7]}"#),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"both"}]},"error":{}}"#, "both"),
        (r#"{"jsonrpc":"2.0","id":ID,"method":"tools/call","result":{"content":"named"}}"#, "named"),
        ("{\"jsonrpc\":\"2.0\",\"result\":{\"content\":\"a\tb\"},\"id\":ID}", r"a\tb"),
        (
            r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"image","data":"%","mimeType":"a/b"},{"type":"text","text":"after"}]}}"#,
            "after",
        ),
        (r#"[{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"batch"}]}}]"#, "batch"),
        (
            r#"[{"jsonrpc":"2.0","method":"notifications/x"},{"id":ID,"result":{"content":"in a batch"}},5]"#,
            "in a batch",
        ),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":null,"isError":null}}"#, "[]"),
    ] {
        let found = answered(line).await.unwrap();
        assert!(found.contains(words), "{line}: {found}");
    }
}

#[tokio::test]
async fn answers_that_cannot_be_read_fail_at_once_and_say_that_the_call_may_have_run() {
    let began = Instant::now();
    for (line, kind, words) in [
        (r#"{"jsonrpc":"2.0","id":ID,"error":"plain"}"#, ErrorKind::ToolFailed, "refused the call: plain"),
        (r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-1}}"#, ErrorKind::ToolFailed, "refused the call"),
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"without id"}}"#,
            ErrorKind::ToolFailed,
            "without id",
        ),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"isError":1,"content":"why"}}"#, ErrorKind::ToolFailed, "why"),
        (
            r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"ty"#,
            ErrorKind::BadResult,
            "malformed answer of the server `other`: it is not JSON",
        ),
        (r#"{"jsonrpc":"2.0","id":ID,"answer":1}"#, ErrorKind::BadResult, "check its effects"),
    ] {
        let (found, message) = answered(line).await.unwrap_err();
        assert!(found == kind && message.contains(words), "{line}: {found}: {message}");
    }
    assert!(began.elapsed() < Duration::from_secs(15), "nobody waits for a deadline: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_that_begins_oddly_is_used_all_the_same() {
    let hello = |members: &str| format!("answer '{{{members}}}'");
    let info = r#""serverInfo":{"name":"x","version":"1"},"capabilities":{"tools":{}}"#;
    let requests = r#"echo '{"jsonrpc":"2.0","id":"q","method":"roots/list"}'; echo '{"jsonrpc":"2.0","id":77,"method":"vendor/x"}'; hello"#;
    for (variable, commands) in [
        (
            "ON_START",
            "echo 'listening ...'; echo; echo 12345; echo '[env] loaded'; echo '{\"level\":\"info\"}'".to_owned(),
        ),
        ("ON_INITIALIZE", hello(&format!(r#""protocolVersion":"2024-11-05",{info}"#))),
        ("ON_INITIALIZE", hello(&format!(r#""protocolVersion":"2031-01-01",{info}"#))),
        ("ON_INITIALIZE", hello(&format!(r#""protocolVersion":20250618,{info}"#))),
        ("ON_INITIALIZE", hello(info)),
        (
            "ON_INITIALIZE",
            hello(r#""protocolVersion":"2025-06-18","capabilities":{"tools":true},"serverInfo":null,"instructions":5"#),
        ),
        ("ON_INITIALIZE", "printf '\\357\\273\\277'; id=\\\"$id\\\"; hello".to_owned()),
        ("ON_INITIALIZE", requests.to_owned()),
        ("CAPABILITIES", "{}".to_owned()),
        (
            "ON_LIST",
            "echo 'listing ...'; echo '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/vendor/x\"}'".to_owned(),
        ),
    ] {
        let options = RemoteOptions { deadline: Duration::from_secs(20), ..RemoteOptions::default() };
        let remote = fake(&[(variable, &commands)], options);
        assert_eq!(remote.tools().await.unwrap_or_else(|error| panic!("{commands}: {error}")).len(), 1, "{commands}");
        assert_eq!(text(call(&remote, "t").await), "done", "{commands}");
        remote.close().await;
    }
}

#[tokio::test]
async fn an_odd_definition_costs_no_other_tool() {
    let good = r#"{"name":"t","inputSchema":{"type":"object"}}"#;
    for (odd, listed, words) in [
        (r#"{"name":"b"}"#, 2, "b: it has no input schema"),
        (
            r#"{"name":"b","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}}"#,
            2,
            "b: its annotation",
        ),
        (r#"{"name":"b","inputSchema":{"type":"object"},"outputSchema":true}"#, 2, "b: its output schema"),
        (r#"{"inputSchema":{"type":"object"}}"#, 1, "tool 2: it has no name"),
        ("null", 1, "tool 2: its definition is not an object"),
        (good, 1, "t: the server lists it twice"),
    ] {
        let remote = fake(&[("TOOLS", &format!("[{good},{odd}]"))], RemoteOptions::default());
        assert_eq!(remote.tools().await.unwrap().len(), listed, "{odd}");
        let notices = [remote.rejected_tools(), remote.unchecked_schemas()].concat();
        let notices: Vec<_> = notices.iter().map(ToString::to_string).collect();
        assert!(notices.iter().any(|notice| notice.contains(words)), "{odd}: {notices:?}");
        assert_eq!(text(call(&remote, "t").await), "done", "{odd}");
        remote.close().await;
    }
    for list in [format!(r#"[{good}],"nextCursor":"""#), format!(r#"{{"t":{good}}}"#), good.to_owned()] {
        let remote = fake(&[("TOOLS", &list)], RemoteOptions::default());
        assert_eq!((remote.tools().await.unwrap().len(), remote.rejected_tools().len()), (1, 0), "{list}");
        remote.close().await;
    }
}

#[tokio::test]
async fn a_server_that_ends_after_each_answer_is_started_for_the_next_call_at_once() {
    let remote = fake(&[("ON_CALL", "text done; exit 0")], RemoteOptions::default());
    for _ in 0..5 {
        assert_eq!(text(call(&remote, "t").await), "done");
        // The call after it must not find the process that is about to end.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    remote.close().await;
}

#[tokio::test]
async fn progress_extends_the_time_of_a_call_up_to_a_maximum() {
    let report = r#"printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}\n' "$token""#;
    let token = r#"token=${line#*'"progressToken":'}; token=${token%%[,\}]*}"#;
    let slowly = format!("{token}; for i in 1 2 3 4 5 6; do sleep 0.5; {report}; done; text done");
    let options = |max_time| RemoteOptions { deadline: Duration::from_secs(2), max_time, ..RemoteOptions::default() };
    let patient = fake(&[("ON_CALL", &slowly)], options(Duration::from_secs(60)));
    assert_eq!(text(call(&patient, "t").await), "done");
    patient.close().await;
    let for_ever = format!("{token}; while :; do sleep 0.2; {report}; done");
    let bounded = fake(&[("ON_CALL", &for_ever)], options(Duration::from_secs(3)));
    let error = call(&bounded, "t").await.unwrap_err();
    assert!(error.kind == ErrorKind::Deadline && error.message.contains("`max_timeout`"), "{error}");
    bounded.close().await;
}

/// A request to a server over HTTP.
struct SentRequest {
    path: String,
    session: Option<String>,
    message: Value,
}

/// An answer of a server over HTTP: the status, further lines of the head, and the body.
type Answer = (u16, String, String);

/// Starts a server over HTTP.
async fn serve(
    answer: impl Fn(&SentRequest) -> Answer + Send + Sync + 'static,
) -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (status, head, body) = match read(&mut stream).await {
                Some(asked) => answer(&asked),
                None => (405, String::new(), String::new()),
            };
            let length = body.len();
            let whole =
                format!("HTTP/1.1 {status} X\r\n{head}content-length: {length}\r\nconnection: close\r\n\r\n{body}");
            let _gone = stream.write_all(whole.as_bytes()).await;
        }
    });
    (url, serving)
}

/// Reads a request; `None` if it has no message.
async fn read(stream: &mut tokio::net::TcpStream) -> Option<SentRequest> {
    let mut bytes = Vec::new();
    while stream.read_buf(&mut bytes).await.ok()? > 0 {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let header = |name: &str| {
            let found = head.lines().find(|line| line.to_lowercase().starts_with(name))?;
            Some(found.split_once(": ")?.1.to_owned())
        };
        if body.len() >= header("content-length:").map_or(0, |length| length.parse().unwrap()) {
            let path = head.split(' ').nth(1)?.to_owned();
            return Some(SentRequest {
                path,
                session: header("mcp-session-id:"),
                message: serde_json::from_str(body).ok()?,
            });
        }
    }
    None
}

fn result(asked: &SentRequest, result: Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": asked.message["id"], "result": result}).to_string();
    (200, "content-type: application/json\r\n".to_owned(), body)
}

/// Answers as a server without faults does.
fn honest(asked: &SentRequest) -> Answer {
    match asked.message["method"].as_str().unwrap() {
        "server/discover" => (400, String::new(), "what?".to_owned()),
        "initialize" => {
            let server = json!({"name": "fake", "version": "0"});
            let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server});
            result(asked, hello)
        }
        "tools/list" => result(asked, json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})),
        "tools/call" => result(asked, json!({"content": [{"type": "text", "text": "done"}]})),
        _ => (202, String::new(), String::new()),
    }
}

fn at(url: String) -> fumehood::mcp::Remote {
    let options = RemoteOptions { deadline: Duration::from_secs(20), ..RemoteOptions::default() };
    remote(Endpoint::Http { url, credentials: Credentials::None }, options)
}

#[tokio::test]
async fn a_server_that_forgot_the_session_gets_a_new_one() {
    for (status, body) in [
        (
            400,
            r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#,
        ),
        (404, ""),
        (410, "Session not found"),
        (200, r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session terminated"},"id":"server-error"}"#),
        (500, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Server not initialized"},"id":null}"#),
    ] {
        // The session that the server knows; it forgets the first one.
        let session = Arc::new(Mutex::new(1));
        let known = Arc::clone(&session);
        let (url, serving) = serve(move |asked| {
            let current = format!("s{}", known.lock().unwrap());
            match asked.message["method"].as_str().unwrap() {
                "server/discover" => honest(asked),
                "initialize" => {
                    let (code, head, body) = honest(asked);
                    (code, format!("{head}mcp-session-id: {current}\r\n"), body)
                }
                _ if asked.session.as_deref() != Some(&*current) => {
                    (status, "content-type: application/json\r\n".to_owned(), body.to_owned())
                }
                _ => honest(asked),
            }
        })
        .await;
        let remote = at(url);
        assert_eq!(text(call(&remote, "t").await), "done", "{status}");
        *session.lock().unwrap() = 2;
        let began = Instant::now();
        assert_eq!(text(call(&remote, "t").await), "done", "{status}");
        assert!(began.elapsed() < Duration::from_secs(15), "{status}: {:?}", began.elapsed());
        remote.close().await;
        serving.abort();
    }
}

#[tokio::test]
async fn answers_over_http_are_read_in_any_form() {
    let json = "application/json";
    let stream = "text/event-stream";
    for (status, kind, form) in [
        (200, "Application/JSON; Charset=UTF-8", "BODY"),
        (200, "text/plain", "\u{feff}BODY"),
        (201, json, "BODY"),
        (400, json, "BODY"),
        (500, json, "BODY"),
        (200, json, r#"{"jsonrpc":"2.0","id":null,"result":{"content":"done"}}"#),
        (200, json, r#"[{"jsonrpc":"2.0","method":"notifications/x"},BODY]"#),
        (200, "Text/Event-Stream", "data: BODY\n\n"),
        (
            200,
            stream,
            r#"data: [{"jsonrpc":"2.0","method":"notifications/x"},BODY]

"#,
        ),
        (200, stream, "event: result\ndata: BODY\n\n"),
        (200, stream, "BODY"),
        (200, stream, "[\n  BODY\n]\n"),
        (200, json, "event: message\ndata: BODY\n\n"),
        (200, "text/plain", "\u{feff}data: BODY"),
        (200, stream, "event: ping\ndata: ping\n\ndata: BODY"),
        (200, stream, ": hi\r\n\r\nid: 1\r\nevent: message\r\ndata: BODY\r\n\r\ndata: [DONE]\r\n\r\n"),
    ] {
        let (url, serving) = serve(move |asked| {
            let (code, head, body) = honest(asked);
            match asked.message["method"].as_str().unwrap() {
                "tools/call" => (status, format!("content-type: {kind}\r\n"), form.replace("BODY", &body)),
                // Nobody waits for an answer to it.
                "notifications/initialized" => (500, String::new(), "oops".to_owned()),
                _ => (code, head, body),
            }
        })
        .await;
        let remote = at(url);
        assert_eq!(text(call(&remote, "t").await), "done", "{status} {kind} {form}");
        remote.close().await;
        serving.abort();
    }
}

#[tokio::test]
async fn an_error_without_an_id_fails_the_request_that_it_answers() {
    let (url, serving) = serve(|asked| match asked.message["method"].as_str().unwrap() {
        "tools/call" => {
            let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"no such luck"},"id":null}"#;
            (400, "content-type: application/json\r\n".to_owned(), body.to_owned())
        }
        _ => honest(asked),
    })
    .await;
    let remote = at(url);
    let began = Instant::now();
    let said = text(call(&remote, "t").await);
    assert!(said.contains("no such luck") && began.elapsed() < Duration::from_secs(15), "{said}");
    remote.close().await;
    serving.abort();
}

#[tokio::test]
async fn redirects_within_the_origin_are_followed_and_others_are_named() {
    let (url, serving) = serve(redirect_to("/mcp/")).await;
    let remote = at(url);
    assert_eq!(text(call(&remote, "t").await), "done");
    remote.close().await;
    serving.abort();
    let (url, serving) = serve(redirect_to("https://other.example/mcp?key=secret")).await;
    let remote = at(url);
    let said = text(call(&remote, "t").await);
    assert!(said.contains("redirects to https://other.example/mcp;") && !said.contains("secret"), "{said}");
    remote.close().await;
    serving.abort();
}

fn redirect_to(target: &'static str) -> impl Fn(&SentRequest) -> (u16, String, String) {
    move |asked: &SentRequest| match asked.path.as_str() {
        "/mcp" => (307, format!("location: {target}\r\n"), String::new()),
        _ => honest(asked),
    }
}
