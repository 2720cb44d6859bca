//! A gateway passes resources, prompts and questions of a server on to its clients.

use std::sync::Arc;
use std::time::Instant;

use fumehood::approval::LibraryItem;
use fumehood::mcp::{
    Access, HttpListener, HttpOptions, LibraryOptions, RemoteOptions, Server, ServerOptions, ServerRequestPolicy,
};
use fumehood::{Call, CallContext, ErrorKind, McpTools, ToolProvider as _};
use fumehood_agent::allowlist::{Allowlists, DefaultAllowlist};
use fumehood_agent::executor::{Scope, ToolExecutor as _};
use fumehood_agent::pipeline::PipelineBuilder;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::raw::{PATIENCE, Raw};
use super::remote::fake;
use crate::listener::test_server::TestServer;

pub(super) const CAPABILITIES: &str =
    r#"{"tools":{},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{}}"#;

/// Answers as a server with two resources, a template, a prompt and completions does.
const LIBRARY: &str = r#"
case $line in
*'"method":"resources/list"'*) answer '{"resources":[{"uri":"note://b","name":"b","title":"B","mimeType":"text/plain","size":2,"annotations":{"audience":["user"],"priority":0.5},"_meta":{"k":1}},{"uri":"ui://chart/page","name":"page","mimeType":"text/html;profile=mcp-app"},{"name":"lost"}]}' ;;
*'"method":"resources/templates/list"'*) answer '{"resourceTemplates":[{"uriTemplate":"note://{id}","name":"notes","description":"All notes."}]}' ;;
*'"method":"resources/read"'*'note://b'*) answer '{"contents":[{"uri":"note://b","mimeType":"text/plain","text":"hi\u200b","_meta":{"k":2}},{"uri":"note://b#2","blob":"AAE="}]}' ;;
*'"method":"resources/read"'*'note://gone'*) fail -32002 'no such note' ;;
*'"method":"resources/read"'*'ui://'*) answer '{"contents":[{"uri":"ui://chart/page","mimeType":"text/html;profile=mcp-app","text":"<p>","_meta":{"ui":{"csp":{"connectDomains":["https://api.example.com","https://evil.example"]},"permissions":{"camera":{}}}}}]}' ;;
*'"method":"resources/read"'*) answer '{"contents":[{"text":"by template"}]}' ;;
*'"method":"resources/subscribe"'*) answer '{}'; printf '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://b"}}\n' ;;
*'"method":"resources/unsubscribe"'*) answer '{}' ;;
*'"method":"prompts/list"'*) answer '{"prompts":[{"name":"review","title":"Review","arguments":[{"name":"text","required":true}]}]}' ;;
*'"method":"prompts/get"'*'"text":"x"'*) answer '{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"Review x"}},{"role":"assistant","content":{"type":"resource","resource":{"uri":"note://b","text":"hi"}}}]}' ;;
*'"method":"prompts/get"'*'"text":"open"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"open it","data":{"url":"https://evil.example"}}}\n' "$id" ;;
*'"method":"prompts/get"'*) fail -32602 'the argument text is missing' ;;
*'"method":"completion/complete"'*'"ref/prompt"'*'"review"'*) answer '{"completion":{"values":["one","two"],"total":2,"hasMore":false}}' ;;
*'"method":"completion/complete"'*) answer '{"completion":{"values":["note"]}}' ;;
*) fail -32601 unknown ;;
esac
"#;

/// Asks its user for a name during a call, and returns what came back.
const ASK: &str = r#"
printf '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}\n'
read -r reply
answer '{"content":[],"structuredContent":{"reply":'"$reply"'}}'
"#;

pub(super) fn all() -> LibraryOptions {
    let mut library = LibraryOptions::default();
    library.resources = true;
    library.prompts = true;
    library
}

pub(super) fn policy(elicitation: bool, sampling: bool, apps: bool) -> ServerRequestPolicy {
    let mut policy = ServerRequestPolicy::default();
    policy.elicitation = elicitation;
    policy.sampling = sampling;
    policy.apps = apps;
    policy
}

/// Starts a gateway in front of a server that its environment controls. Approvals are on if there are some.
async fn gateway(
    environment: &[(&str, &str)],
    library: LibraryOptions,
    client_requests: ServerRequestPolicy,
    approved: Option<&[LibraryItem]>,
) -> (Server, Arc<McpTools>) {
    let options = RemoteOptions { library, client_requests, ..RemoteOptions::default() };
    let remote = fake(environment, options);
    if let Some(approved) = approved {
        remote.library().pin(approved);
    }
    let tools = McpTools::default();
    tools.add(&remote).await.unwrap();
    let tools = Arc::new(tools);
    let servers = tools.libraries().into();
    (Server::new(tools.clone(), ServerOptions { servers, ..ServerOptions::default() }), tools)
}

async fn client(server: &Server, capabilities: Value) -> Raw {
    let mut raw = Raw::connect_to(server);
    raw.initialize_with("2025-11-25", capabilities).await;
    raw
}

fn with_library() -> [(&'static str, &'static str); 2] {
    [("CAPABILITIES", CAPABILITIES), ("ON_OTHER", LIBRARY)]
}

#[tokio::test]
async fn resources_are_listed_and_read_as_the_server_wrote_them() {
    let (server, tools) = gateway(&with_library(), all(), policy(false, false, false), None).await;
    let notices: Vec<_> = tools.refused().iter().map(ToString::to_string).collect();
    assert_eq!(notices, ["resources: a definition has no `uri`"]);
    let mut raw = Raw::connect_to(&server);
    let said = raw.initialize("2025-11-25").await;
    assert_eq!(said["capabilities"]["resources"], json!({"subscribe": true, "listChanged": true}));
    assert_eq!(said["capabilities"]["prompts"], json!({"listChanged": true}));
    assert_eq!(said["capabilities"]["completions"], json!({}));
    let listed = raw.request("resources/list", json!({})).await["result"].clone();
    let note = json!({
        "uri": "note://b", "name": "b", "title": "B", "mimeType": "text/plain", "size": 2,
        "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"k": 1}
    });
    assert_eq!(listed, json!({"resources": [note]}));
    let templates = raw.request("resources/templates/list", json!({})).await["result"].clone();
    let template = json!({"uriTemplate": "note://{id}", "name": "notes", "description": "All notes."});
    assert_eq!(templates, json!({"resourceTemplates": [template]}));
    let read = raw.request("resources/read", json!({"uri": "note://b"})).await["result"].clone();
    let text = json!({"uri": "note://b", "mimeType": "text/plain", "text": "hi\\u{200b}", "_meta": {"k": 2}});
    let blob = json!({"uri": "note://b#2", "blob": "AAE="});
    assert_eq!(read, json!({"contents": [text, blob], "_meta": {"fumehood/sanitized": 1}}));
    let by_template = raw.request("resources/read", json!({"uri": "note://7"})).await["result"].clone();
    assert_eq!(by_template, json!({"contents": [{"uri": "note://7", "text": "by template"}]}));
    let gone = raw.request("resources/read", json!({"uri": "note://gone"})).await["error"].clone();
    assert!(gone["code"] == -32002 && gone["message"].as_str().unwrap().contains("no such note"), "{gone}");
    let hidden = raw.request("tools/call", json!({"name": "other__resources/read", "arguments": {}})).await;
    assert!(hidden["error"]["message"].as_str().unwrap().starts_with("Unknown tool"), "{hidden}");
    raw.leave().await;
    tools.close().await;
}

#[tokio::test]
async fn prompts_have_the_prefix_of_their_server_and_are_completed() {
    let (server, tools) = gateway(&with_library(), all(), policy(false, false, false), None).await;
    let mut raw = client(&server, json!({})).await;
    let listed = raw.request("prompts/list", json!({})).await["result"].clone();
    let arguments = json!([{"name": "text", "required": true}]);
    let prompt = json!({"name": "other__review", "title": "Review", "arguments": arguments});
    assert_eq!(listed, json!({"prompts": [prompt]}));
    let get = json!({"name": "other__review", "arguments": {"text": "x"}});
    let got = raw.request("prompts/get", get).await["result"].clone();
    let resource = json!({"type": "resource", "resource": {"uri": "note://b", "text": "hi"}});
    let messages = json!([
        {"role": "user", "content": {"type": "text", "text": "Review x"}},
        {"role": "assistant", "content": resource}
    ]);
    assert_eq!(got, json!({"description": "d", "messages": messages}));
    let open = json!({"name": "other__review", "arguments": {"text": "open"}});
    let open = raw.request("prompts/get", open).await["error"].clone();
    assert_eq!((&open["code"], &open["data"]["fumehood/error"]["code"]), (&json!(-32603), &json!(-32042)), "{open}");
    assert_eq!(open["data"]["url"], Value::Null, "no client opens it");
    let refused = raw.request("prompts/get", json!({"name": "other__review"})).await["error"].clone();
    assert!(refused["message"].as_str().unwrap().contains("the argument text is missing"), "{refused}");
    let unknown = raw.request("prompts/get", json!({"name": "review"})).await["error"].clone();
    assert_eq!(unknown["code"], -32602, "{unknown}");
    let complete = |reference: Value| json!({"ref": reference, "argument": {"name": "text", "value": "o"}});
    let prompt = json!({"type": "ref/prompt", "name": "other__review"});
    let completed = raw.request("completion/complete", complete(prompt)).await["result"].clone();
    assert_eq!(completed, json!({"completion": {"values": ["one", "two"], "total": 2, "hasMore": false}}));
    let template = json!({"type": "ref/resource", "uri": "note://{id}"});
    let completed = raw.request("completion/complete", complete(template)).await["result"].clone();
    assert_eq!(completed["completion"]["values"], json!(["note"]));
    raw.leave().await;
    tools.close().await;
}

#[tokio::test]
async fn nothing_is_passed_on_that_is_switched_off_or_not_approved() {
    let off = LibraryOptions::default();
    let (server, tools) = gateway(&with_library(), off, policy(false, false, false), None).await;
    let mut raw = client(&server, json!({})).await;
    for method in ["resources/list", "prompts/list", "resources/templates/list"] {
        assert_eq!(raw.request(method, json!({})).await["error"]["code"], -32601, "{method}");
    }
    raw.leave().await;
    tools.close().await;
    let approved = [LibraryItem::all_resources()];
    let (server, tools) = gateway(&with_library(), all(), policy(false, false, false), Some(&approved)).await;
    let notices: Vec<_> = tools.refused().iter().map(ToString::to_string).collect();
    assert!(notices.contains(&"review: the current version of the prompt is not approved".to_owned()), "{notices:?}");
    let mut raw = client(&server, json!({})).await;
    assert_eq!(raw.request("prompts/list", json!({})).await["result"]["prompts"], json!([]));
    assert_eq!(raw.request("resources/templates/list", json!({})).await["result"]["resourceTemplates"], json!([]));
    assert_eq!(raw.request("resources/list", json!({})).await["result"]["resources"].as_array().unwrap().len(), 1);
    let get = raw.request("prompts/get", json!({"name": "other__review", "arguments": {"text": "x"}})).await;
    assert_eq!(get["error"]["code"], -32602, "{get}");
    // A caller that is no client of MCP finds the tool in place of the request, and cannot call it.
    for arguments in [json!({"name": "review", "arguments": {"text": "x"}}), json!({"name": "other"})] {
        let call = Call::new("other__prompts/get", arguments.clone());
        let error = tools.dispatch(call.clone()).await.outcome.unwrap_err();
        assert_eq!(error.kind, ErrorKind::UnknownTool, "{error}");
        let context = CallContext { is_library_request: true, ..CallContext::default() };
        let error = tools.dispatch(Call { context, ..call }).await.outcome.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NeedsApproval, "not even for a client of MCP: {error}");
    }
    let malformed = raw.request("resources/subscribe", json!({"uri": 5})).await;
    assert_eq!(malformed["error"]["code"], -32602, "{malformed}");
    raw.leave().await;
    tools.close().await;
}

#[tokio::test]
async fn clients_hear_of_changes_and_of_updates_that_they_subscribed_to() {
    let news = r#"printf '{"jsonrpc":"2.0","method":"notifications/%s"}\n' resources/list_changed prompts/list_changed; text done"#;
    let environment = [&with_library()[..], &[("ON_CALL", news)]].concat();
    let (server, tools) = gateway(&environment, all(), policy(false, false, false), None).await;
    let mut raw = client(&server, json!({})).await;
    let mut other = client(&server, json!({})).await;
    assert_eq!(raw.request("resources/subscribe", json!({"uri": "note://b"})).await["result"], json!({}));
    let unknown = raw.request("resources/subscribe", json!({"uri": "other:b"})).await;
    assert_eq!(unknown.get("error"), None, "the only server with resources is asked: {unknown}");
    raw.call("other__t", json!({})).await;
    let mut heard = raw.news.iter().map(|it| it["method"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    while !["resources/updated", "resources/list_changed", "prompts/list_changed"]
        .iter()
        .all(|wanted| heard.contains(&format!("notifications/{wanted}")))
    {
        heard.push(raw.next().await["method"].as_str().unwrap().to_owned());
    }
    assert_eq!(raw.request("resources/unsubscribe", json!({"uri": "note://b"})).await["result"], json!({}));
    other.request("ping", json!({})).await;
    let updated = other.news.iter().any(|it| it["method"] == "notifications/resources/updated");
    assert!(!updated, "it did not subscribe: {:?}", other.news);
    raw.leave().await;
    other.leave().await;
    tools.close().await;
}

#[tokio::test]
async fn unsubscribing_reaches_the_connection_that_is_open_then() {
    let folder = tempfile::tempdir().unwrap();
    let requests = folder.path().join("requests");
    let library = format!(r#"printf '%s\n' "$line" >> "$REQUESTS"; {LIBRARY}"#);
    let environment = [
        ("CAPABILITIES", CAPABILITIES),
        ("ON_OTHER", &library),
        ("ON_CALL", "exit"),
        ("REQUESTS", requests.to_str().unwrap()),
    ];
    let (server, tools) = gateway(&environment, all(), policy(false, false, false), None).await;
    let mut raw = client(&server, json!({})).await;
    raw.request("resources/subscribe", json!({"uri": "note://b"})).await;
    let count = async |method: &str, expected: usize| {
        let started = Instant::now();
        loop {
            let seen = std::fs::read_to_string(&requests).unwrap_or_default().matches(method).count();
            if seen == expected {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{seen} of {expected} {method}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    count("resources/subscribe", 1).await;
    // The program ends during a call, and is started again.
    raw.call("other__t", json!({})).await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    raw.request("resources/read", json!({"uri": "note://b"})).await;
    count("resources/subscribe", 2).await;
    raw.request("resources/unsubscribe", json!({"uri": "note://b"})).await;
    count("resources/unsubscribe", 1).await;
    raw.leave().await;
    tools.close().await;
}

/// Calls the tool, answers the request that arrives meanwhile, and returns that request and the result of the call.
async fn answer_during_call(raw: &mut Raw, answer: Value) -> (Value, Value) {
    let call = raw.ask("tools/call", json!({"name": "other__t", "arguments": {}})).await;
    let asked = loop {
        let message = raw.next().await;
        if message.get("id").is_some() {
            break message;
        }
    };
    raw.line(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}).to_string()).await;
    (asked, raw.answer(call).await["result"].clone())
}

#[tokio::test]
async fn a_question_reaches_the_user_of_the_call_and_the_answer_the_server() {
    let (server, tools) = gateway(&[("ON_CALL", ASK)], all(), policy(true, false, false), None).await;
    let mut able = client(&server, json!({"elicitation": {}})).await;
    let answer = json!({"action": "accept", "content": {"name": "Ann"}});
    let (asked, result) = answer_during_call(&mut able, answer.clone()).await;
    assert_eq!(asked["method"], "elicitation/create");
    assert_eq!(asked["params"]["message"], "other asks: Your name?");
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    assert_eq!(asked["params"]["requestedSchema"], schema);
    assert_eq!(result["structuredContent"]["reply"]["result"], answer, "{result}");
    let mut unable = client(&server, json!({})).await;
    let refused = unable.call("other__t", json!({})).await;
    let error = &refused["structuredContent"]["reply"]["error"];
    assert!(error["message"].as_str().unwrap().contains("does not declare `elicitation`"), "{refused}");
    able.leave().await;
    unable.leave().await;
    tools.close().await;
    let (server, tools) = gateway(&[("ON_CALL", ASK)], all(), policy(false, false, false), None).await;
    let mut raw = client(&server, json!({"elicitation": {}})).await;
    let refused = raw.call("other__t", json!({})).await;
    let error = &refused["structuredContent"]["reply"]["error"];
    assert!(error["message"].as_str().unwrap().contains("the operator does not allow"), "{refused}");
    raw.leave().await;
    tools.close().await;
}

#[tokio::test]
async fn nobody_is_asked_if_calls_of_several_clients_are_under_way() {
    // The first call waits for the second one, which asks.
    let ask = format!("if test -z \"${{first-}}\"; then first=$id; else {ASK} id=$first; text first; fi");
    let (server, tools) = gateway(&[("ON_CALL", &ask)], all(), policy(true, false, false), None).await;
    let mut first = client(&server, json!({"elicitation": {}})).await;
    let mut second = client(&server, json!({"elicitation": {}})).await;
    let waiting = first.ask("tools/call", json!({"name": "other__t", "arguments": {}})).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let refused = second.call("other__t", json!({})).await;
    let error = &refused["structuredContent"]["reply"]["error"];
    assert!(error["message"].as_str().unwrap().contains("calls of several clients are running"), "{refused}");
    assert_eq!(first.answer(waiting).await["result"]["content"][0]["text"], "first");
    first.leave().await;
    second.leave().await;
    tools.close().await;
}

#[tokio::test]
async fn a_server_uses_the_model_of_a_client_only_if_the_operator_allows_it() {
    let sample = r#"
printf '{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":100000,"includeContext":"allServers"}}\n'
read -r reply
answer '{"content":[],"structuredContent":{"reply":'"$reply"'}}'
"#;
    let sampling = json!({"sampling": {}});
    let (server, tools) = gateway(&[("ON_CALL", sample)], all(), policy(true, false, false), None).await;
    let mut raw = client(&server, sampling.clone()).await;
    let refused = raw.call("other__t", json!({})).await;
    let error = &refused["structuredContent"]["reply"]["error"];
    assert!(error["message"].as_str().unwrap().contains("does not allow the server `other`"), "{refused}");
    raw.leave().await;
    tools.close().await;
    let (server, tools) = gateway(&[("ON_CALL", sample)], all(), policy(false, true, false), None).await;
    let mut raw = client(&server, sampling).await;
    let sampled = json!({"model": "m", "role": "assistant", "content": {"type": "text", "text": "hello"}});
    let (asked, result) = answer_during_call(&mut raw, sampled.clone()).await;
    assert_eq!((&asked["params"]["maxTokens"], &asked["params"]["includeContext"]), (&json!(8192), &json!("none")));
    assert_eq!(result["structuredContent"]["reply"]["result"], sampled, "{result}");
    let mut unable = client(&server, json!({})).await;
    let refused = unable.call("other__t", json!({})).await;
    let error = &refused["structuredContent"]["reply"]["error"];
    assert!(error["message"].as_str().unwrap().contains("does not declare `sampling`"), "{refused}");
    raw.leave().await;
    unable.leave().await;
    tools.close().await;
}

#[tokio::test]
async fn pages_reach_only_clients_that_declare_them_and_only_allowed_origins() {
    let declared = json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}});
    let page = json!({"uri": "ui://chart/page"});
    let mut library = all();
    library.app_origins = vec!["https://api.example.com".to_owned()];
    let with_page = json!([
        {"name": "t", "inputSchema": {"type": "object"}, "_meta": {"ui": {"resourceUri": "ui://chart/page"}}},
        {"name": "zoom", "inputSchema": {"type": "object"}, "_meta": {"ui": {"visibility": ["app"]}}}
    ]);
    let with_page = with_page.to_string();
    let environment = [&with_library()[..], &[("TOOLS", &with_page)]].concat();
    let (server, tools) = gateway(&environment, library, policy(false, false, true), None).await;
    let mut able = client(&server, declared.clone()).await;
    let listed = able.request("resources/list", json!({})).await["result"]["resources"].clone();
    assert_eq!((&listed[1]["uri"], listed.as_array().unwrap().len()), (&json!("ui://chart/page"), 2));
    let read = able.request("resources/read", page.clone()).await["result"]["contents"][0].clone();
    assert_eq!(read["_meta"], json!({"ui": {"csp": {"connectDomains": ["https://api.example.com"]}}}), "{read}");
    let listed = able.request("tools/list", json!({})).await["result"]["tools"].clone();
    assert_eq!(listed[0]["_meta"], json!({"ui": {"resourceUri": "ui://chart/page"}}));
    assert_eq!(listed[1]["name"], "other__zoom");
    let everything = Allowlists { default: DefaultAllowlist::Everything, ..Allowlists::default() };
    let pipeline = PipelineBuilder::default().provider(tools.clone()).allowlists(everything).build().unwrap();
    let specs = pipeline.specs(&Scope::default());
    let visible: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(visible, ["other__t"], "models see no tool that is for pages");
    let mut unable = client(&server, json!({})).await;
    let listed = unable.request("tools/list", json!({})).await["result"]["tools"].clone();
    assert_eq!((listed.as_array().unwrap().len(), listed[0].get("_meta")), (1, None));
    let listed = unable.request("resources/list", json!({})).await["result"]["resources"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(unable.request("resources/read", page.clone()).await["error"]["code"], -32002);
    able.leave().await;
    unable.leave().await;
    tools.close().await;
    let (server, tools) = gateway(&environment, all(), policy(false, false, false), None).await;
    let notices: Vec<_> = tools.refused().iter().map(ToString::to_string).collect();
    assert!(
        notices.iter().any(|notice| notice.starts_with("zoom: only pages of its server can call it")),
        "{notices:?}"
    );
    let mut raw = client(&server, declared).await;
    assert_eq!(raw.request("resources/read", page).await["error"]["code"], -32002, "the operator allows none");
    raw.leave().await;
    tools.close().await;
}

#[tokio::test]
async fn over_http_a_question_rides_the_stream_of_its_call() {
    let (server, tools) = gateway(&[("ON_CALL", ASK)], all(), policy(true, false, false), None).await;
    let http = HttpOptions::new("127.0.0.1:0".parse().unwrap(), Access::Anyone);
    let served = TestServer::of(HttpListener::bind(&server, http).await.unwrap());
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "raw", "version": "0"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).to_string();
    let (_, opened) = served.send(&served.post(&[], &hello)).await;
    let session = opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim().to_owned();
    let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    served.send(&served.post(&headers, &ready)).await;
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "other__t"}}).to_string();
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(served.post(&headers, &call).as_bytes()).await.unwrap();
    let mut text = String::new();
    let mut bytes = [0; 4096];
    let mut is_answered = false;
    let started = Instant::now();
    while !text.contains(r#""structuredContent""#) {
        assert!(started.elapsed() < PATIENCE, "the call is never answered: {text}");
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut bytes)).await.expect("nothing came").unwrap();
        assert!(read > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        let question = text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        if let (false, Some(question)) =
            (is_answered, question.into_iter().find(|it| it["method"] == "elicitation/create"))
        {
            is_answered = true;
            let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}).to_string();
            assert_eq!(served.send(&served.post(&headers, &answer)).await.0, 202);
        }
    }
    assert!(text.contains(r#""action":"decline""#), "{text}");
    drop(stream);
    served.end().await;
    tools.close().await;
}

#[tokio::test]
async fn a_server_of_the_newest_revision_gets_the_answer_with_the_call() {
    let discover = r#"answer '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"0"},"ttlMs":1000,"cacheScope":"public"}'"#;
    let ask = r#"
case $line in
*'"inputResponses"'*'"Ann"'*'"requestState":"s1"'* | *'"requestState":"s1"'*'"Ann"'*) text 'hello Ann' ;;
*) answer '{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}},"requestState":"s1"}' ;;
esac
"#;
    let environment = [("ON_DISCOVER", discover), ("ON_CALL", ask)];
    let (server, tools) = gateway(&environment, all(), policy(true, false, false), None).await;
    let mut able = client(&server, json!({"elicitation": {}})).await;
    let (asked, result) = answer_during_call(&mut able, json!({"action": "accept", "content": {"name": "Ann"}})).await;
    assert_eq!(asked["params"]["message"], "other asks: Who?");
    assert_eq!(result["content"][0]["text"], "hello Ann", "{result}");
    let mut unable = client(&server, json!({})).await;
    let refused = unable.call("other__t", json!({})).await;
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("does not declare `elicitation`"), "{refused}");
    able.leave().await;
    unable.leave().await;
    tools.close().await;
}
