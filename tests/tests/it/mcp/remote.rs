//! The MCP client: tools of well-behaved servers, and the start and end of server processes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fumehood::mcp::{
    Access, ConnectError, Credentials, Endpoint, Headers, Launch, Remote, RemoteOptions, Tenant, Token, ToolNotice,
};
use fumehood::{
    Annotations, CallContext, CallError, Content, ErrorKind, Gate, GateLimits, Load, McpTools, Namespace, Observer,
    Progress, ProviderKind, Tool, ToolDefinition, ToolName, ToolProvider as _,
};
use fumehood_tests::fake_server;
use serde_json::json;

use super::raw::host;
use crate::listener::test_server::{Face, TestServer};

/// Creates a client of the server in `sh` that its environment controls.
pub(crate) fn fake(environment: &[(&str, &str)], options: RemoteOptions) -> Remote {
    let given = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let launch = Launch {
        program: PathBuf::from("sh"),
        arguments: vec!["-c".to_owned(), fake_server::SCRIPT.to_owned()],
        environment: environment.iter().map(given).collect(),
        ..Launch::default()
    };
    remote(Endpoint::Process(launch), options)
}

pub(crate) fn remote(endpoint: Endpoint, options: RemoteOptions) -> Remote {
    Remote::new(Namespace::parse("other").unwrap(), endpoint, options)
}

/// Calls a tool by the server's own name, without listing the tools before.
pub(crate) async fn call(remote: &Remote, name: &str) -> Result<Vec<Content>, CallError> {
    let definition = ToolDefinition {
        name: ToolName::parse(name).unwrap(),
        export: None,
        title: None,
        description: "".into(),
        input_schema: json!({}).into(),
        output_schema: None,
        annotations: Annotations::default(),
        mcp_members: None,
    };
    let gate = Gate::for_arguments(&json!({}), GateLimits::default()).unwrap();
    let tool = Arc::new(Tool::new(definition, gate).in_namespace(remote.name()));
    remote.call(tool.validate("{}".into()).unwrap(), CallContext::default()).await.outcome
}

pub(crate) fn text(outcome: Result<Vec<Content>, CallError>) -> String {
    match outcome {
        Ok(parts) => match parts.first() {
            Some(Content::Text { text }) => text.to_sanitized().into_owned(),
            other => panic!("{other:?}"),
        },
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn tools_of_a_server_are_the_third_family() {
    let host = host(&["calculator"], &[]).await;
    let served = TestServer::new(Face::Mcp, &host, Access::Anyone).await;
    let remote = remote(Endpoint::Http { url: served.url(), credentials: Credentials::None }, RemoteOptions::default());
    let remotes = McpTools::default();
    remotes.add(&remote).await.unwrap();
    assert_eq!((remotes.kind(), remotes.refused()), (ProviderKind::Mcp, Vec::new()));
    let add = remotes.find("other__calculator__add").unwrap();
    assert!(add.digest().is_some());
    assert!(add.validate(json!({"a": "3", "b": 5}).into()).is_err());
    let call = add.validate(json!({"a": 3, "b": 5}).into()).unwrap();
    let result = remotes.call(call, CallContext::default()).await.unwrap();
    assert_eq!(result.text().as_deref(), Some(r#"{"result":8}"#), "{result:?}");
    remotes.close().await;
}

#[tokio::test]
async fn what_a_server_of_the_newest_revision_has_later_is_heard_of() {
    let host = host(&["calculator"], &[]).await;
    let served = TestServer::new(Face::Mcp, &host, Access::Anyone).await;
    let remote = remote(Endpoint::Http { url: served.url(), credentials: Credentials::None }, RemoteOptions::default());
    let first = remote.tools().await.unwrap().len();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../example-tools/dist/text.wasm");
    host.load(Load::path(path)).await.unwrap();
    let started = Instant::now();
    while remote.tools().await.unwrap().len() == first {
        assert!(started.elapsed() < Duration::from_secs(20), "it never hears of them");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    remote.close().await;
}

#[tokio::test]
async fn further_headers_go_with_every_request() {
    let host = host(&["calculator"], &[]).await;
    let token = Token::parse("a-token-for-one-test").unwrap();
    let served = TestServer::new(Face::Mcp, &host, Access::Tenants(vec![Tenant::new("one", &token)])).await;
    let tools = async |value: &str| {
        let mut headers = Headers::default();
        headers.add("Authorization", value).unwrap();
        let options = RemoteOptions { headers, ..RemoteOptions::default() };
        remote(Endpoint::Http { url: served.url(), credentials: Credentials::None }, options)
            .tools()
            .await
            .map(|tools| tools.len())
    };
    assert!(tools("Bearer a-token-for-one-test").await.unwrap() > 1);
    let error = tools("Bearer another-one-altogether").await.unwrap_err();
    assert!(matches!(error, ConnectError::Unauthorized { has_token: true, .. }), "{error}");
}

#[tokio::test]
async fn only_the_tools_that_are_wanted_are_taken() {
    let tools = r#"[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}}]"#;
    let only = Some(["a".to_owned(), "c".to_owned()].into());
    let remote = fake(&[("TOOLS", tools)], RemoteOptions { only, ..RemoteOptions::default() });
    let names: Vec<_> =
        remote.tools().await.unwrap().into_iter().map(|tool| tool.tool.full_name().to_owned()).collect();
    assert_eq!(names, ["other__a"]);
    assert_eq!(ToolNotice::lines(&remote.rejected_tools()), ["c: the server has no such tool; it has: a, b"]);
    assert_eq!(call(&remote, "b").await.unwrap_err().kind, ErrorKind::UnknownTool);
    remote.close().await;
}

#[tokio::test]
async fn a_program_gets_a_clean_environment() {
    let answer = r"N=$(env | cut -d= -f1 | sort | tr '\n' ' '); text $N";
    let names = text(
        call(&fake(&[("ON_CALL", &answer.replace("$N", "\"$N\"")), ("GIVEN", "yes")], RemoteOptions::default()), "t")
            .await,
    );
    let expected = ["GIVEN", "HOME", "LANG", "OLDPWD", "ON_CALL", "PATH", "PWD", "SHLVL", "TZ", "_"];
    assert!(names.contains("GIVEN"), "{names}");
    assert!(names.split_whitespace().all(|name| expected.contains(&name)), "{names}");
}

/// An observer that records the progress of a call.
#[derive(Default)]
struct ProgressObserver(Mutex<Vec<Progress>>);

impl Observer for ProgressObserver {
    fn progress(&self, progress: Progress) {
        self.0.lock().unwrap().push(progress);
    }
}

#[tokio::test]
async fn progress_of_a_call_reaches_whoever_made_it_in_order() {
    let report = r#"
        token=${line#*'"progressToken":'}; token=${token%%[,\}]*}
        tell() { printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s,"total":4,"message":"step %s"}}\n' "$1" "$2" "$2"; }
        tell 999 1; for step in 1 2 3 4; do tell $token $step; done; text done; tell $token 5"#;
    let remote = fake(&[("ON_CALL", report)], RemoteOptions::default());
    let remotes = McpTools::default();
    remotes.add(&remote).await.unwrap();
    let heard = Arc::new(ProgressObserver::default());
    let context = CallContext { observer: Some(Arc::clone(&heard) as _), ..CallContext::default() };
    let call = remotes.find("other__t").unwrap().validate("{}".into()).unwrap();
    let result = remotes.call(call, context).await.unwrap();
    assert_eq!(result.text().as_deref(), Some("done"), "{result:?}");
    remotes.close().await;
    let heard = heard.0.lock().unwrap();
    let said: Vec<_> = heard.iter().map(|it| (it.fraction.unwrap(), it.message.as_deref().unwrap())).collect();
    assert_eq!(said, [(0.25, "step 1"), (0.5, "step 2"), (0.75, "step 3"), (1.0, "step 4")]);
}

#[tokio::test]
async fn results_are_what_the_server_itself_promised() {
    let results = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let tools = format!(r#"[{{"name":"t","inputSchema":{{"type":"object"}},"outputSchema":{results}}}]"#);
    let check = async |answer: &str, expected: Result<&str, (ErrorKind, &str)>| {
        let remote = fake(&[("TOOLS", &tools), ("ON_CALL", answer)], RemoteOptions::default());
        match (call(&remote, "t").await, expected) {
            (Ok(parts), Ok(value)) => assert_eq!(serde_json::to_value(parts).unwrap()[0]["value"].to_string(), value),
            (Err(error), Err((kind, words))) => {
                assert!(error.kind == kind && error.message.contains(words), "{answer}: {error}");
            }
            (outcome, _) => panic!("{answer}: {outcome:?}"),
        }
        remote.close().await;
    };
    check(r#"answer '{"content":[],"structuredContent":{"n":1}}'"#, Ok(r#"{"n":1}"#)).await;
    let wrong = Err((ErrorKind::BadResult, "does not match the tool's own output schema"));
    check(r#"answer '{"content":[],"structuredContent":{"n":"1"}}'"#, wrong).await;
    check(r#"answer '{"content":[],"structuredContent":{}}'"#, wrong).await;
    // Many servers have an output schema and answer with text.
    let remote = fake(&[("TOOLS", &tools), ("ON_CALL", "text 1")], RemoteOptions::default());
    assert_eq!(text(call(&remote, "t").await), "1");
    remote.close().await;
    // The structure of a failure is not checked as a result.
    check(r#"answer '{"content":[{"type":"text","text":"no"}],"isError":true}'"#, Err((ErrorKind::ToolFailed, "no")))
        .await;
}

#[tokio::test]
async fn a_server_is_asked_for_the_newest_revision_first_over_pipes_too() {
    let discovered = r#"answer '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}'"#;
    for (on_discover, on_initialize) in [
        // A server that knows nothing else.
        (discovered, "fail -32601 unknown"),
        // A server that does not answer unknown requests.
        (":", ""),
        // A server that answers with something else.
        (r#"answer '{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"0"}}'"#, ""),
        // A server that ends.
        ("exit 1", ""),
    ] {
        let environment = [("ON_DISCOVER", on_discover), ("ON_INITIALIZE", on_initialize)];
        let remote = fake(&environment, RemoteOptions::default());
        assert_eq!(text(call(&remote, "t").await), "done", "{on_discover}");
        remote.close().await;
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let wait = format!("read -r next; printf '%s' \"$id $next\" > {0}.new; mv {0}.new {0}", mark.display());
    let options = RemoteOptions { deadline: Duration::from_millis(500), ..RemoteOptions::default() };
    let remote = fake(&[("ON_CALL", &wait)], options);
    remote.tools().await.unwrap();
    assert_eq!(call(&remote, "t").await.unwrap_err().kind, ErrorKind::Deadline);
    let started = Instant::now();
    while !mark.exists() {
        assert!(started.elapsed() < Duration::from_secs(10), "it never hears of it");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let said = std::fs::read_to_string(&mark).unwrap();
    let (id, message) = said.split_once(' ').unwrap();
    let message: serde_json::Value = serde_json::from_str(message).unwrap();
    assert_eq!(message["method"], "notifications/cancelled");
    assert_eq!(message["params"]["requestId"].to_string(), id);
    remote.close().await;
}

#[tokio::test]
async fn a_program_that_cannot_begin_says_why() {
    for (program, arguments, expected) in [
        ("/nowhere/at-all", vec![], "cannot start `/nowhere/at-all`: no such file; correct the path"),
        ("no-such-program-at-all", vec![], "`no-such-program-at-all`: no such program in PATH; install it"),
        ("sh", vec!["-c", "echo no such thing >&2; exit 1"], "stderr: no such thing"),
    ] {
        let arguments = arguments.into_iter().map(str::to_owned).collect();
        let launch = Launch { program: PathBuf::from(program), arguments, ..Launch::default() };
        let remote = remote(Endpoint::Process(launch), RemoteOptions::default());
        let error = remote.tools().await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        let again = remote.tools().await.unwrap_err();
        assert!(matches!(again, ConnectError::TooEarly(_)), "{again}");
        assert!(call(&remote, "t").await.unwrap_err().retry_after.is_some());
    }
}

#[tokio::test]
async fn a_server_that_died_is_started_again_after_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let once = format!("test -e {0} && text back; test -e {0} || {{ touch {0}; exit 1; }}", mark.display());
    let remote = fake(&[("ON_CALL", &once)], RemoteOptions::default());
    assert_eq!(call(&remote, "t").await.unwrap_err().kind, ErrorKind::Interrupted);
    let wait = call(&remote, "t").await.unwrap_err().retry_after.unwrap();
    tokio::time::sleep(wait + Duration::from_millis(20)).await;
    assert_eq!(text(call(&remote, "t").await), "back");
    remote.close().await;
}

#[tokio::test]
async fn a_program_is_ended_with_whatever_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("pid");
    let after = format!(
        "sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; trap '' TERM; while true; do sleep 1000; done",
        mark.display()
    );
    let options = RemoteOptions { deadline: Duration::from_secs(1), ..RemoteOptions::default() };
    let remote = fake(&[("ON_CALL", &after)], options);
    remote.tools().await.unwrap();
    call(&remote, "t").await.unwrap_err();
    let pid = std::fs::read_to_string(&mark).unwrap().trim().to_owned();
    let runs = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    assert!(runs());
    remote.close().await;
    let closed = Instant::now();
    while runs() {
        assert!(closed.elapsed() < Duration::from_secs(5), "{pid} goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_address_where_nothing_listens_is_told_in_one_line() {
    let address = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap()
    };
    let url = format!("http://{address}/mcp?key=hush");
    let error = remote(Endpoint::Http { url, credentials: Credentials::None }, RemoteOptions::default())
        .tools()
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
    let expected =
        format!("cannot reach http://{address}: connection refused; check the URL, and that the server runs");
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_server_that_is_slow_is_told_with_the_key_that_gives_it_time() {
    let options = RemoteOptions { patience: Duration::from_millis(300), ..RemoteOptions::default() };
    let error = fake(&[("ON_START", "sleep 1000")], options).tools().await.unwrap_err();
    assert!(error.to_string().contains("within 300ms, its `start_timeout`"), "{error}");
}

#[tokio::test]
async fn arguments_for_a_server_obey_the_limits_of_the_gate() {
    let tools = r#"[{"name":"t","inputSchema":{"type":"object","properties":{"a":{}}}}]"#;
    let check = async |depth: usize, expected: bool| {
        let gate = GateLimits { depth, ..GateLimits::default() };
        let remote = fake(&[("TOOLS", tools)], RemoteOptions { gate, ..RemoteOptions::default() });
        let tool = remote.tools().await.unwrap().remove(0).tool;
        assert_eq!(tool.validate(r#"{"a": [[1]]}"#.into()).is_ok(), expected, "{depth}");
        remote.close().await;
    };
    check(2, false).await;
    check(3, true).await;
}
