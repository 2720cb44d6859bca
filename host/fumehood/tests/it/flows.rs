//! Flows of private data, from the grants of components to the call that is refused.

use std::sync::Arc;

use fumehood::agent::code::CodeMode;
use fumehood::agent::execution::{Status, ToolExecution};
use fumehood::flow::{FlowLabel, FlowLabels, FlowPolicy, ToolFlow};
use fumehood::listener::{Tenant, TenantTools};
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::permission::files::Folder;
use fumehood::permission::http::{HttpGrant, HttpLimits};
use fumehood::{Call, CallHistory, ErrorKind, Grant, Host, Load, Namespace, Stack, ToolProvider as _};
use serde_json::json;

/// A host with `files`, which may read a folder with a secret, `fetch`, which may make requests, and `calculator`.
async fn host() -> (Host, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret.txt"), "the-secret").unwrap();
    let host = Host::builder().build().unwrap();
    let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist");
    let read = Grant::none().with_folder(Folder::read(&format!("{}:/docs", folder.path().display())).unwrap()).unwrap();
    // Nothing listens there: a request that is made fails, and not because of its flow.
    let rules = vec!["GET http://127.0.0.1:9/**".parse().unwrap()];
    let private = vec!["127.0.0.1/32".parse().unwrap()];
    let http = HttpGrant::new(rules, private, HttpLimits::default()).unwrap();
    for (name, grant) in [("files", read), ("fetch", Grant::none().with_http(http)), ("calculator", Grant::none())] {
        host.load(Load::path(format!("{dist}/{name}.wasm")).grant(grant)).await.unwrap();
    }
    (host, folder)
}

fn flow(host: &Host, tool: &str) -> ToolFlow {
    host.find(tool).unwrap().flow()
}

const READ: &str = "const text = (await tools.files.read({path: '/docs/secret.txt'}));";
const SEND: &str = "const url = 'http://127.0.0.1:9/?' + encodeURIComponent(typeof text === 'undefined' ? 'x' : \
                    JSON.stringify(text)); try { await tools.fetch.get({url}) } catch (e) { return e.kind + ' ' + e.message }";

/// Runs an agent whose model makes these calls, one after the other.
async fn run(host: &Host, policy: Option<FlowPolicy>, calls: &[(&str, serde_json::Value)]) -> Vec<ToolExecution> {
    let mut replies: Vec<_> = calls.iter().map(|(name, args)| ScriptedReply::call(*name, args.to_string())).collect();
    replies.push(ScriptedReply::text("done"));
    let agent = host.agent(Arc::new(ScriptedModel::new(replies))).allow_everything();
    let mut agent = agent.code(CodeMode::beside_direct_calls());
    if let Some(policy) = policy {
        agent = agent.flows(policy);
    }
    let outcome = agent.build().unwrap().run("go").await.unwrap();
    outcome.run.executions().cloned().collect()
}

fn code(code: &str) -> (&'static str, serde_json::Value) {
    ("run_code", json!({"code": code}))
}

#[tokio::test]
async fn grants_of_components_decide_about_their_flows() {
    let (host, _folder) = host().await;
    assert_eq!(flow(&host, "files__read").source, Some("it has granted folders"));
    assert_eq!(flow(&host, "files__read").sink, None);
    assert_eq!((flow(&host, "fetch__get").source, flow(&host, "fetch__get").sink.is_some()), (None, true));
    assert_eq!(flow(&host, "calculator__add"), ToolFlow::NONE);
}

#[tokio::test]
async fn programs_and_direct_calls_do_not_send_what_files_hold() {
    let (host, _folder) = host().await;
    let read = || ("files__read", json!({"path": "/docs/secret.txt"}));
    let send = || ("fetch__get", json!({"url": "http://127.0.0.1:9/?the-secret"}));
    let printed = format!("{READ} console.log(text); throw new Error(JSON.stringify(text))");
    let ways = [
        vec![code(&format!("{READ} {SEND}"))],
        vec![code(READ), code(SEND)],
        vec![code(&printed), send()],
        vec![read(), send()],
        vec![read(), code(SEND)],
        vec![code(&format!("const p = tools.files.read({{path: '/docs/secret.txt'}}); const text = await p; {SEND}"))],
    ];
    for way in ways {
        let off = format_last(run(&host, None, &way).await);
        assert!(!off.contains("private data"), "{off}");
        let on = format_last(run(&host, Some(FlowPolicy::new()), &way).await);
        assert!(on.contains("`files__read` (private: it has granted folders)"), "{on}");
        assert!(on.contains("`fetch__get` is a public sink (it may make HTTP requests)"), "{on}");
        let public = FlowLabels::default().source(FlowLabel::Public);
        let labelled = format_last(run(&host, Some(FlowPolicy::new().label_component("files", public)), &way).await);
        assert!(!labelled.contains("private data"), "{labelled}");
    }
    let harmless = [("calculator__add", json!({"a": 1, "b": 2})), read(), ("calculator__add", json!({"a": 1, "b": 2}))];
    let executions = run(&host, Some(FlowPolicy::new()), &harmless).await;
    assert!(executions.iter().all(|execution| execution.status == Status::Ok), "{executions:?}");
}

fn format_last(executions: Vec<ToolExecution>) -> String {
    format!("{:?}", executions.last().unwrap().result.outcome)
}

#[tokio::test]
async fn clients_of_a_provider_are_judged_by_their_own_calls() {
    let (host, _folder) = host().await;
    let name = Namespace::parse("files").unwrap();
    assert!(host.find("files__read").unwrap().namespace() == Some(&name));
    let provider = Stack::new().flows(Some(FlowPolicy::new())).around([host.clone()]);
    let call = async |history: Option<&Arc<CallHistory>>, tool: &str, arguments: serde_json::Value| {
        let mut call = Call::new(tool, arguments);
        call.context.history = history.cloned();
        provider.dispatch(call).await.error().map(|error| error.kind)
    };
    let read = json!({"path": "/docs/secret.txt"});
    let send = json!({"url": "http://127.0.0.1:9/"});
    let one = Arc::new(CallHistory::default());
    let other = Arc::new(CallHistory::default());
    let refused = Some(ErrorKind::NeedsApproval);
    assert_eq!(call(Some(&one), "files__read", json!({"pth": 1})).await, Some(ErrorKind::InvalidArguments));
    assert_ne!(call(Some(&one), "fetch__get", send.clone()).await, refused);
    assert_eq!(call(Some(&one), "files__read", read.clone()).await, None);
    assert_eq!(call(Some(&one), "fetch__get", send.clone()).await, refused);
    assert_ne!(call(Some(&other), "fetch__get", send.clone()).await, refused);
    // Clients without sessions and actors share one history.
    assert_ne!(call(None, "fetch__get", send.clone()).await, refused);
    assert_eq!(call(None, "files__read", read).await, None);
    assert_eq!(call(None, "fetch__get", send).await, refused);
}

/// A tool that returns private data, and one that sends to the public, with their arguments.
fn read_and_send() -> [(&'static str, serde_json::Value); 2] {
    let path = "/docs/secret.txt";
    let url = "http://127.0.0.1:9/";
    [("files__read", json!({ "path": path })), ("fetch__get", json!({ "url": url }))]
}

#[tokio::test]
async fn actors_without_sessions_are_judged_apart() {
    let (host, _folder) = host().await;
    let provider = Stack::new().flows(Some(FlowPolicy::new())).around([host.clone()]);
    let call = async |actor: Option<&str>, (tool, arguments): (&str, serde_json::Value)| {
        let mut call = Call::new(tool, arguments);
        call.context.actor = actor.map(Arc::from);
        provider.dispatch(call).await.error().map(|error| error.kind)
    };
    let refused = Some(ErrorKind::NeedsApproval);
    let [read, send] = read_and_send();
    assert_eq!(call(Some("ann"), read.clone()).await, None);
    assert_eq!(call(Some("ann"), send.clone()).await, refused);
    assert_ne!(call(Some("bob"), send.clone()).await, refused);
    assert_ne!(call(None, send.clone()).await, refused);
    assert_eq!(call(None, read).await, None);
    assert_ne!(call(Some("bob"), send.clone()).await, refused);
    assert_eq!(call(None, send).await, refused);
}

#[tokio::test]
async fn tenants_are_judged_apart_and_remembered_when_their_settings_change() {
    let (host, _folder) = host().await;
    let tools = TenantTools::new(Stack::new().flows(Some(FlowPolicy::new())).around([host.clone()]));
    // The same actor may stand behind several tenants.
    let call = async |tenant: &str, (tool, arguments): (&str, serde_json::Value)| {
        let tenant = Arc::new(Tenant::anyone(tenant));
        tools.of(&tenant).dispatch(Call::new(tool, arguments)).await.error().cloned()
    };
    let [read, send] = read_and_send();
    assert!(call("a", read).await.is_none());
    let other = call("b", send.clone()).await;
    assert!(!is_refused(&other) && !format!("{other:?}").contains("files__read"), "{other:?}");
    // Every call has new settings here.
    assert!(is_refused(&call("a", send.clone()).await));
    assert!(!is_refused(&call("b", send).await));
}

fn is_refused(error: &Option<fumehood::CallError>) -> bool {
    let refusal = error.as_ref().filter(|error| error.kind == ErrorKind::NeedsApproval);
    refusal.is_some()
}
