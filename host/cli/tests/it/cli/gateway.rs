//! `fumehood serve mcp --servers`: the tools of other MCP servers beside those of components, and powers of components
//! on the command line.

use std::time::{Duration, Instant};

use fumehood_tests::fake_server;
use serde_json::{Value, json};

use super::session::Session;
use super::workbench::Workbench;

const FUMEHOOD: &str = env!("CARGO_BIN_EXE_fumehood");

/// Adds a server to the configuration: this program, with these arguments.
fn ours(bench: &Workbench, name: &str, arguments: &[&str]) -> String {
    let command = [&[FUMEHOOD, "--trust-config", "serve", "mcp"], arguments].concat();
    format!(
        "[mcp.servers.{name}]\ncommand = {command:?}\nfolder = \".\"\nwrite = [\".\", {:?}]\nenv = {{ FUMEHOOD_CACHE_DIR = {:?}, \
         XDG_STATE_HOME = {:?} }}\nstart_timeout = \"60s\"\napproval = \"off\"\n",
        bench.cache(),
        bench.cache(),
        bench.path("inner-state")
    )
}

/// Adds a server that is controlled by its environment.
fn fake(name: &str, on_call: &str, more: &str) -> String {
    format!(
        "[mcp.servers.{name}]\ncommand = [\"sh\", \"server.sh\"]\nwrite = [\".\"]\nenv.ON_CALL = '''{on_call}'''\nstart_timeout = \"60s\"\n{more}"
    )
}

fn bench(config: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").example("text").put("server.sh", fake_server::SCRIPT);
    bench.put("fumehood.toml", config);
    bench
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn tools_of_servers_are_served_beside_components_and_recorded() {
    let bench = bench("");
    bench.put("fumehood.toml", ours(&bench, "sums", &["calculator.wasm", "--no-log"]));
    let mut session = Session::start(&bench, &["text.wasm", "--servers", "--log", "events.db"]);
    let names = session.names();
    let has = |name: &str| names.iter().any(|known| known == name);
    assert!(has("sums__calculator__add") && names.iter().any(|name| name.starts_with("text__")), "{names:?}");
    let instructions = session.hello()["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains("- sums (") && instructions.contains("outside of the sandbox"), "{instructions}");

    let call = |arguments| json!({"name": "sums__calculator__add", "arguments": arguments});
    let sum = session.request(1, "tools/call", call(json!({"a": 3, "b": 5})));
    assert_eq!(sum["result"]["structuredContent"], json!({"result": 8}), "{sum}");
    let wrong = session.request(2, "tools/call", call(json!({"a": "3", "b": 5})));
    assert!(wrong["result"]["isError"] == true && text(&wrong).contains("expected a number"), "{wrong}");
    let (_, _, code) = session.leave();
    assert_eq!(code, Some(0));
    let log = bench.run(&["log", "list", "--json", "--log", "events.db"]);
    assert!(log.stdout.matches("sums__calculator__add").count() >= 2, "{log:?}");
    assert!(log.stdout.contains("invalid_arguments"), "{log:?}");
}

#[test]
fn servers_are_served_only_when_asked_for_and_approved() {
    let bench = bench(&fake("other", "text done", ""));
    let mut plain = Session::start(&bench, &["calculator.wasm"]);
    assert!(plain.names().iter().all(|name| name.starts_with("calculator__")));
    let mut gateway = Session::start(&bench, &["calculator.wasm", "--servers"]);
    assert!(gateway.names().iter().all(|name| name.starts_with("calculator__")));
    gateway.says("continuing without the MCP server `other`: its command or URL was never approved");
    drop((plain, gateway));

    bench.put("fumehood.toml", fake("other", "text done", "approval = \"off\"\n[serve]\ntools = [\"other__t\"]\n"));
    let mut only = Session::start(&bench, &["calculator.wasm", "--servers"]);
    assert_eq!(only.names(), ["other__t"]);
    assert_eq!(text(&only.request(1, "tools/call", json!({"name": "other__t", "arguments": {}}))), "done");
}

#[test]
fn a_bad_server_fails_its_own_calls_only() {
    let bad = fake("bad", "exit 3", "approval = \"off\"\n");
    let gone = "[mcp.servers.gone]\ncommand = [\"./nothing-here\"]\napproval = \"off\"\n";
    let bench = bench(&format!("{bad}{gone}"));
    let mut session = Session::start(&bench, &["calculator.wasm", "--servers"]);
    session.says("continuing without the MCP server `gone`");
    for id in [1, 3] {
        let failed = session.request(id, "tools/call", json!({"name": "bad__t", "arguments": {}}));
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        let add = json!({"name": "calculator__add", "arguments": {"a": 3, "b": 5}});
        let sum = session.request(id + 1, "tools/call", add);
        assert_eq!(sum["result"]["structuredContent"], json!({"result": 8}), "{sum}");
    }
}

#[test]
fn progress_of_a_server_reaches_the_client() {
    let report = r#"
        token=${line#*'"progressToken":'}; token=${token%%[,\}]*}
        tell() { printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s,"total":2,"message":"step %s"}}\n' "$1" "$2" "$2"; }
        for step in 1 2; do tell $token $step; done; text done"#;
    let bench = bench(&fake("other", report, "approval = \"off\"\n"));
    let mut session = Session::start(&bench, &["--servers"]);
    session.ask(1, "tools/call", json!({"name": "other__t", "arguments": {}, "_meta": {"progressToken": "mine"}}));
    let mut steps = Vec::new();
    loop {
        let message = session.next();
        if message["id"] == 1 {
            assert_eq!(text(&message), "done");
            break;
        }
        assert_eq!(
            (&message["method"], &message["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("mine"))
        );
        steps.push(message["params"]["message"].as_str().unwrap().to_owned());
    }
    assert_eq!(steps.last().map(String::as_str), Some("step 2"), "{steps:?}");
}

#[test]
fn cancelling_a_call_cancels_it_at_its_server() {
    let bench = bench("");
    bench.program("sleep");
    let inner = ["sleep.wasm", "--timeout", "60s", "--log", "inner.db"];
    bench.put("fumehood.toml", format!("{}timeout = \"60s\"\n", ours(&bench, "inner", &inner)));
    let mut session = Session::start(&bench, &["--servers"]);
    session.call(1, "inner__sleep__run", json!({}));
    assert!(session.is_quiet_for(Duration::from_millis(500)));
    session.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    let began = Instant::now();
    loop {
        let log = bench.run(&["log", "list", "--json", "--log", "inner.db"]);
        if log.stdout.contains("cancelled") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "the server never heard of it: {log:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn components_of_the_command_line_have_the_powers_of_the_options() {
    let bench = Workbench::new();
    bench.example("files");
    std::fs::create_dir(bench.path("docs")).unwrap();
    std::fs::write(bench.path("docs").join("a.txt"), "hello").unwrap();
    let read = json!({"name": "files__read", "arguments": {"path": "/docs/a.txt"}});
    let mut without = Session::start(&bench, &["files.wasm"]);
    assert_eq!(without.request(1, "tools/call", read.clone())["result"]["isError"], true);
    let mut with = Session::start(&bench, &["files.wasm", "--allow-read", "./docs:/docs"]);
    let answer = with.request(1, "tools/call", read);
    assert!(answer["result"]["isError"] != true && answer.to_string().contains("hello"), "{answer}");
    let nothing = bench.run(&["serve", "mcp", "--allow-read", "./docs:/docs"]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
}
