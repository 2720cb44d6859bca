//! The example tools in the real host: each does what its README says.
//!
//! `FUMEHOOD_EXAMPLES` names another folder of built components, so that fresh builds can be tested in the same way.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fumehood::permission::files::{Access, Folder, Quota};
use fumehood::permission::{KeyValueQuota, Power};
use fumehood::{Call, CallResult, ErrorKind, Event, Grant, Host, Limits, Load, Observed};
use serde_json::{Value, json};

fn built(tool: &str) -> PathBuf {
    let committed = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../example-tools/dist");
    std::env::var_os("FUMEHOOD_EXAMPLES").map_or_else(committed, PathBuf::from).join(format!("{tool}.wasm"))
}

async fn host_with(tool: &str) -> Host {
    let host = Host::builder().concurrency(4).build().unwrap();
    host.load(Load::path(built(tool))).await.unwrap();
    host
}

async fn call(tool: &str, arguments: Value) -> CallResult {
    let (component, _) = tool.split_once("__").unwrap();
    host_with(component).await.call(Call::new(tool, arguments)).await
}

fn json_of(result: &CallResult) -> Value {
    let text = result.text().unwrap_or_else(|| panic!("it should succeed: {:?}", result.outcome));
    serde_json::from_str(&text).unwrap()
}

fn error_of(result: &CallResult) -> (ErrorKind, String) {
    let error = result.error().unwrap_or_else(|| panic!("it should fail: {:?}", result.outcome));
    (error.kind, error.message.to_string())
}

#[tokio::test]
async fn the_calculator_calculates() {
    for (tool, arguments, expected) in [
        ("add", json!({"a": 3, "b": 5}), json!(8)),
        ("subtract", json!({"a": 3, "b": 5}), json!(-2)),
        ("multiply", json!({"a": 1.5, "b": 4}), json!(6)),
        ("divide", json!({"a": 1, "b": 8}), json!(0.125)),
        ("evaluate", json!({"expression": "(3 + 5) * 2 ^ 3"}), json!(64)),
    ] {
        let result = call(&format!("calculator__{tool}"), arguments).await;
        assert_eq!(json_of(&result)["result"], expected, "{tool}");
    }
    let (kind, message) = error_of(&call("calculator__divide", json!({"a": 1, "b": 0})).await);
    assert_eq!((kind, message.as_str()), (ErrorKind::ToolFailed, "Division by zero"));
    let broken = call("calculator__evaluate", json!({"expression": "1 +"})).await;
    assert_eq!(error_of(&broken).0, ErrorKind::InvalidArguments);
}

#[tokio::test]
async fn the_text_tools_read_search_and_compare() {
    let statistics = json_of(&call("text__statistics", json!({"text": "one two\nthree"})).await);
    assert_eq!((&statistics["words"], &statistics["lines"]), (&json!(3), &json!(2)));
    let found = call("text__regex_search", json!({"text": "a1 b22", "pattern": "[0-9]+"})).await;
    assert!(found.text().unwrap().contains("22"), "{found:?}");
    let replaced =
        call("text__regex_replace", json!({"text": "a1 b22", "pattern": "[0-9]+", "replacement": "#"})).await;
    assert!(replaced.text().unwrap().contains("a# b#"), "{replaced:?}");
    let diff = call("text__diff", json!({"before": "a\nb\n", "after": "a\nc\n"})).await;
    assert!(diff.text().unwrap().contains("+c"), "{diff:?}");
}

#[tokio::test]
async fn the_json_tool_queries() {
    let document = json!({"tools": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]});
    let found = call("json__query", json!({"document": document, "expression": "tools[?n > `1`].name"})).await;
    assert_eq!(json_of(&found)["result"], json!(["b"]));
    let exact = json!({"document": [3, 9_007_199_254_740_993_u64], "expression": "[1]"});
    assert_eq!(json_of(&call("json__query", exact).await)["result"], json!(9_007_199_254_740_993_u64));
    let number = call("json__query", json!({"document": 3, "expression": "length(@)"})).await;
    assert_eq!(error_of(&number).0, ErrorKind::InvalidArguments);
    let broken = call("json__query", json!({"document": document, "expression": "tools["})).await;
    assert_eq!(error_of(&broken).0, ErrorKind::InvalidArguments);
}

#[tokio::test]
async fn the_countdown_reports_progress_and_gives_up_in_time() {
    let host = host_with("countdown").await;
    let mut events = host.subscribe();
    let result = host.call(Call::new("countdown__countdown", json!({"from": 3, "step_ms": 5}))).await;
    assert_eq!(json_of(&result)["from"], json!(3));
    let mut fractions = Vec::new();
    let mut partial = 0;
    while let Some(Observed::Event(event)) = events.try_next() {
        if let Event::Progress { progress, .. } = event {
            fractions.extend(progress.fraction);
            partial += progress.partial.len();
        }
    }
    assert!(fractions.len() >= 3 && partial >= 3, "{fractions:?}, {partial}");
    assert!(fractions.is_sorted(), "{fractions:?}");
    let limits = Limits::default().deadline(Duration::from_millis(200));
    let long = json!({"from": 100, "step_ms": 1000});
    let hopeless = host.call(Call::new("countdown__countdown", long).limits(limits)).await;
    assert_ne!(error_of(&hopeless).0, ErrorKind::Deadline, "it sees that the time will not do");
}

#[tokio::test]
async fn notes_outlive_a_call_where_a_store_was_granted() {
    let host = Host::builder().concurrency(4).build().unwrap();
    let grant = Grant::none().with_key_value(KeyValueQuota::parse("64KiB").unwrap());
    host.load(Load::path(built("notes")).grant(grant)).await.unwrap();
    let call = async |tool: &str, arguments: Value| host.call(Call::new(format!("notes__{tool}"), arguments)).await;
    let written = call("write", json!({"title": "shopping", "text": "milk"})).await;
    assert_eq!(json_of(&written), json!({"title": "shopping", "bytes": 4, "replaced": false}));
    let more = json!({"title": "shopping", "text": "bread", "append": true});
    assert_eq!(json_of(&call("write", more).await)["bytes"], json!(10));
    assert_eq!(call("read", json!({"title": "shopping"})).await.text().as_deref(), Some("milk\nbread"));
    let found = json_of(&call("search", json!({"text": "BREAD"})).await);
    let expected = json!({"matches": [{"title": "shopping", "line": 2, "text": "bread"}], "complete": true});
    assert_eq!(found, expected);
    assert_eq!(json_of(&call("list", json!({})).await), json!({"titles": ["shopping"], "next": null}));
    let text = "x".repeat(9000);
    let mut outcomes = Vec::new();
    for number in 0..8 {
        outcomes.push(call("write", json!({"title": format!("n{number}"), "text": text})).await);
    }
    let (kind, message) = error_of(&outcomes[7]);
    assert_eq!((kind, message.contains("is full; delete something first")), (ErrorKind::ToolFailed, true), "{message}");
    assert_eq!(json_of(&call("delete", json!({"title": "shopping"})).await)["existed"], json!(true));
    let gone = call("read", json!({"title": "shopping"})).await;
    assert_eq!(error_of(&gone).0, ErrorKind::InvalidArguments, "{gone:?}");

    let bare = host_with("notes").await;
    let refused = bare.call(Call::new("notes__read", json!({"title": "shopping"}))).await;
    let error = refused.error().unwrap();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains("the operator can grant one"), "{error:?}");
    assert_eq!(refused.metadata.refused.len(), 1);
}

#[tokio::test]
async fn files_are_reached_where_folders_were_granted_and_nowhere_else() {
    let outside = tempfile::tempdir().unwrap();
    let [docs, out] = ["docs", "out"].map(|name| outside.path().join(name));
    for folder in [&docs, &out] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(outside.path().join("secret.txt"), "canary").unwrap();
    std::fs::write(docs.join("a.md"), "# Hoods\nGlass and air.\n").unwrap();
    std::os::unix::fs::symlink("../secret.txt", docs.join("link.md")).unwrap();
    let folder = |path: &Path, guest: &str, access| Folder::new(path, guest, access).unwrap();
    let grant = Grant::none()
        .with_folder(folder(&docs, "/docs", Access::Read))
        .and_then(|grant| grant.with_folder(folder(&out, "/out", Access::Write(Quota::new(64, 8).unwrap()))))
        .unwrap();
    let host = Host::builder().concurrency(4).build().unwrap();
    host.load(Load::path(built("files")).grant(grant)).await.unwrap();
    let call = async |tool: &str, arguments: Value| host.call(Call::new(format!("files__{tool}"), arguments)).await;

    let roots = json_of(&call("list", json!({})).await);
    assert_eq!((&roots["entries"][0]["name"], &roots["entries"][1]["name"]), (&json!("/docs"), &json!("/out")));
    let listed = json_of(&call("list", json!({"path": "/docs"})).await);
    assert_eq!(listed["entries"][0], json!({"name": "a.md", "kind": "file", "bytes": 23}));
    assert_eq!(listed["entries"][1]["kind"], "link");
    let read = json_of(&call("read", json!({"path": "/docs/a.md", "lines": 1})).await);
    assert_eq!(read, json!({"text": "# Hoods\n", "first_line": 1, "next_line": 2}));
    let found = json_of(&call("search", json!({"path": "/docs", "text": "gl.ss", "regex": true})).await);
    assert_eq!(found["matches"], json!([{"path": "/docs/a.md", "line": 2, "text": "Glass and air."}]));
    let written = json_of(&call("write", json!({"path": "/out/b.md", "text": "new"})).await);
    assert_eq!(written, json!({"path": "/out/b.md", "bytes": 3, "replaced": false}));
    assert_eq!(std::fs::read_to_string(out.join("b.md")).unwrap(), "new");

    for (path, kind) in [
        ("/docs/link.md", ErrorKind::Denied),
        ("/secret.txt", ErrorKind::Denied),
        ("/docs/../secret.txt", ErrorKind::InvalidArguments),
        ("/docs/absent.md", ErrorKind::InvalidArguments),
    ] {
        let refused = call("read", json!({"path": path})).await;
        assert_eq!(error_of(&refused).0, kind, "{path}: {refused:?}");
        assert!(!format!("{refused:?}").contains("canary"), "{refused:?}");
    }
    let refused = call("write", json!({"path": "/docs/a.md", "text": "x"})).await;
    assert_eq!(error_of(&refused).0, ErrorKind::Denied, "{refused:?}");
    assert!(refused.metadata.refused[0].allow.as_ref().unwrap().starts_with("write = [\""), "{refused:?}");
    let full = call("write", json!({"path": "/out/b.md", "text": "x".repeat(100)})).await;
    assert_eq!(error_of(&full).0, ErrorKind::Quota, "{full:?}");
    assert_eq!(std::fs::read_to_string(out.join("b.md")).unwrap(), "new", "it is as it was");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1, "nothing is left beside it");

    let bare = host_with("files").await.call(Call::new("files__read", json!({"path": "/docs/a.md"}))).await;
    assert_eq!(error_of(&bare), (ErrorKind::Denied, "no folder was granted; the operator can grant one".to_owned()));
    assert_eq!(bare.metadata.refused[0].power, Power::Files);
    assert!(bare.error().unwrap().hint.as_ref().unwrap().contains("read = [\"./FOLDER:/FOLDER\"]"), "{bare:?}");
}

#[tokio::test]
async fn plain_typed_functions_are_tools() {
    let host = host_with("typed-greeter").await;
    let tool = host.tool("typed-greeter__greetings_greet").unwrap();
    let definition = tool.definition();
    assert_eq!(definition.export, Some("example:greeter/greetings@1.0.0#greet".into()));
    let description = definition.description.to_sanitized();
    assert!(description.contains("Greets somebody by name"), "{description}");
    let greeting = json!({"name": "Ada", "formality": "polite"});
    let greeted = host.call(Call::new("typed-greeter__greetings_greet", greeting)).await;
    assert!(greeted.text().unwrap().contains("Ada"), "{greeted:?}");
    let rude = json!({"name": "Ada", "formality": "rude"});
    let refused = host.call(Call::new("typed-greeter__greetings_greet", rude)).await;
    let (kind, message) = error_of(&refused);
    assert_eq!(kind, ErrorKind::InvalidArguments);
    assert!(message.contains("ceremonial"), "{message}");
    assert!(host.call(Call::new("typed-greeter__about", "{}")).await.is_ok());
}
