//! `fumehood serve mcp --watch`: changes on disk are served, and a change that was not approved is not called.

use std::time::Duration;

use fumehood_tests::contract::{Answer, ToolDescription};
use serde_json::{Value, json};

use super::session::Session;
use super::workbench::Workbench;

const CHANGED: &str = "notifications/tools/list_changed";
/// Time to wait, longer than that in which changes are collected.
const A_WHILE: Duration = Duration::from_millis(2_500);

/// Returns a component with the tool `read` that answers with this text.
fn answering(text: &str) -> Vec<u8> {
    fumehood_tests::answering(&[ToolDescription::new("read")], Answer::Text(text.as_bytes())).unwrap()
}

/// Creates a folder with the component `notes` and this section.
fn bench(section: &str) -> Workbench {
    let bench = Workbench::new();
    bench.put("notes.wasm", answering("one"));
    bench.put("fumehood.toml", format!("[tools.notes]\ncomponent = \"notes.wasm\"\n{section}\n"));
    bench
}

fn text(session: &mut Session) -> String {
    let answer = session.request(1, "tools/call", json!({"name": "notes__read", "arguments": {}}));
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Waits for the notification, which may come more than once.
fn changed(session: &mut Session) {
    assert_eq!(session.next()["method"], CHANGED, "{}", session.said());
    while !session.is_quiet_for(Duration::from_millis(300)) {}
}

#[test]
fn a_component_that_is_written_or_moved_over_is_loaded_again() {
    let bench = bench("approval = \"off\"");
    let mut session = Session::start(&bench, &["--watch"]);
    assert_eq!(text(&mut session), "one");
    bench.put("notes.wasm", answering("two"));
    changed(&mut session);
    assert_eq!(text(&mut session), "two");
    // Twice, as editors save: the watch follows the name, not the file that had it.
    for version in ["three", "four"] {
        let new = bench.put("notes.wasm.new", answering(version));
        std::fs::rename(new, bench.path("notes.wasm")).unwrap();
        changed(&mut session);
        assert_eq!(text(&mut session), version);
    }
    assert!(session.said().contains("notes.wasm changed and was reloaded"), "{}", session.said());
    let (rest, took, code) = session.leave();
    assert_eq!((rest.as_str(), code), ("", Some(0)));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn a_changed_component_is_not_called_before_its_approval() {
    let bench = bench("");
    assert_eq!(bench.run(&["approve", "--yes"]).code, 0);
    let mut session = Session::start(&bench, &["--watch"]);
    assert_eq!((session.names(), text(&mut session).as_str()), (vec!["notes__read".to_owned()], "one"));
    bench.put("notes.wasm", answering("two"));
    changed(&mut session);
    assert_eq!(session.names(), Vec::<String>::new(), "what nobody approved is not shown");
    let answer = session.request(2, "tools/call", json!({"name": "notes__read"}));
    assert_eq!(answer["result"]["_meta"]["fumehood/error"]["kind"], "needs_approval", "{answer}");
    assert!(text(&mut session).starts_with("needs_approval: `notes` changed since it was approved"));
    session.says("its tools are served after `fumehood approve notes`");

    assert_eq!(bench.run(&["approve", "--yes"]).code, 0);
    changed(&mut session);
    assert_eq!((session.names(), text(&mut session).as_str()), (vec!["notes__read".to_owned()], "two"));
    // A revocation takes effect at once, too.
    std::fs::remove_file(bench.path("fumehood.lock")).unwrap();
    changed(&mut session);
    assert!(text(&mut session).starts_with("needs_approval: `notes` was never approved"));
}

#[test]
fn a_failed_reload_keeps_the_component_before_it() {
    let bench = bench("approval = \"off\"");
    let mut session = Session::start(&bench, &["--watch"]);
    // In one step, so that nothing reads a part of it.
    std::fs::rename(bench.put("broken", "this is no component"), bench.path("notes.wasm")).unwrap();
    session.says("the previous version of `notes` stays served");
    assert_eq!(text(&mut session), "one");
    std::fs::remove_file(bench.path("notes.wasm")).unwrap();
    session.says("cannot read ");
    assert!(session.is_quiet_for(A_WHILE), "nothing changed for clients");
    assert_eq!(text(&mut session), "one");
    assert_eq!(session.said().matches("warning:").count(), 2, "each is told once: {}", session.said());
    bench.put("notes.wasm", answering("two"));
    changed(&mut session);
    assert_eq!(text(&mut session), "two");
    // If the component stayed loaded now, its tools could be called without the approval that they need.
    bench.put("notes.wasm", "this is no component");
    bench.put("fumehood.toml", "[tools.notes]\ncomponent = \"notes.wasm\"\n");
    session.says("`notes` is not served");
    changed(&mut session);
    assert_eq!(session.names(), Vec::<String>::new());
}

#[test]
fn memory_that_was_not_reserved_at_the_start_changes_nothing() {
    let bench = bench("approval = \"off\"");
    let mut session = Session::start(&bench, &["--watch"]);
    let section = "[tools.notes]\ncomponent = \"notes.wasm\"\napproval = \"off\"\n";
    bench.put("fumehood.toml", format!("{section}[limits]\nmemory = \"2GiB\"\n"));
    session.says("`notes` may use 2.0 GiB, but this server reserved 64.0 MiB per call at its start; restart it");
    assert_eq!(text(&mut session), "one");
}

fn read_key(session: &mut Session) -> String {
    let call = json!({"name": "files__read", "arguments": {"path": "/docs/api.key"}});
    session.request(1, "tools/call", call).to_string()
}

#[test]
fn secrets_that_are_named_later_are_kept_from_tools_that_are_loaded() {
    let bench = Workbench::new();
    bench.example("files").example("calculator");
    std::fs::create_dir(bench.path("docs")).unwrap();
    bench.put("docs/api.key", "s3cret");
    std::fs::set_permissions(bench.path("docs/api.key"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let files = "[tools.files]\ncomponent = \"files.wasm\"\napproval = \"off\"\nread = [\"./docs:/docs\"]\n";
    bench.put("fumehood.toml", files);
    let mut session = Session::start(&bench, &["--watch"]);
    assert!(read_key(&mut session).contains("s3cret"));
    let secret = "[[tools.calculator.secrets]]\nname = \"key\"\nfrom = { file = \"docs/api.key\" }\nfor = \"https://api.example.com/**\"\nquery = \"key\"\n";
    let calculator = "[tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\nhttp = [\"GET https://api.example.com/**\"]\n";
    bench.put("fumehood.toml", format!("{files}{calculator}{secret}"));
    changed(&mut session);
    let refused = read_key(&mut session);
    assert!(!refused.contains("s3cret"), "{refused}");
}

#[test]
fn a_running_call_ends_on_what_it_began_with() {
    let bench = Workbench::new();
    bench.example("countdown");
    let mut session = Session::start(&bench, &["--watch", "countdown.wasm", "--timeout", "60s"]);
    session.call(1, "countdown__countdown", json!({"from": 20, "step_ms": 500}));
    std::thread::sleep(Duration::from_millis(300));
    bench.put("countdown.wasm", answering("another"));
    assert_eq!(session.next()["method"], CHANGED);
    session.call(2, "countdown__read", json!({}));
    let answer = session.next();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(2), &json!("another")), "{answer}");
    let answer = session.next();
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &json!(false)), "{answer}");
    session.call(3, "countdown__countdown", json!({}));
    assert_eq!(session.next()["error"]["code"], -32602);
}

#[test]
fn the_configuration_is_read_again_as_a_whole() {
    let bench = bench("approval = \"off\"");
    std::fs::create_dir(bench.path("more")).unwrap();
    let mut session = Session::start(&bench, &["--watch"]);
    let notes = "[tools.notes]\ncomponent = \"notes.wasm\"\napproval = \"off\"\n";
    bench.example("calculator");
    let both = format!("{notes}[tools.sums]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n");
    bench.put("fumehood.toml", &both);
    changed(&mut session);
    let names = session.names();
    assert!(names.contains(&"sums__add".to_owned()) && names.contains(&"notes__read".to_owned()), "{names:?}");
    bench.put("fumehood.toml", format!("{both}komponent = 1\n"));
    session.says("unknown key `komponent`");
    session.says("the current tools stay served");
    assert!(session.is_quiet_for(A_WHILE));
    std::fs::remove_file(bench.path("fumehood.toml")).unwrap();
    session.says("fumehood.toml is gone; the current tools stay served");
    bench.put("fumehood.toml", format!("tools_in = [\"more\"]\n{notes}[serve]\nqueue = 3\n"));
    session.says("`sums` is no longer served");
    session.says("some changes in [serve] need a restart");
    changed(&mut session);
    assert_eq!(session.names(), ["notes__read"]);
    // A component in a folder of `tools_in` is found, and needs approval.
    bench.put("more/other.wasm", answering("other"));
    session.says("`other` was never approved");
    changed(&mut session);
    assert_eq!(session.names(), ["notes__read"]);
    assert_eq!(bench.run(&["approve", "other", "--yes"]).code, 0);
    changed(&mut session);
    assert_eq!(session.names(), ["notes__read", "other__read"]);
}

#[test]
fn nothing_is_loaded_again_without_being_asked_to() {
    let bench = bench("approval = \"off\"");
    let mut session = Session::start(&bench, &[]);
    bench.put("notes.wasm", answering("two"));
    assert!(session.is_quiet_for(A_WHILE));
    assert_eq!(text(&mut session), "one");
    let listed = session.request(5, "tools/list", Value::Null);
    assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(1), "{listed}");
}
