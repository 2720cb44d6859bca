//! Values on their way through `serve mcp --servers`: numbers of any length, repairs of arguments, and limits of lists.

use fumehood_tests::fake_server;
use serde_json::{Value, json};

use super::session::Session;
use super::workbench::Workbench;

/// Answers a call with its own arguments.
const ECHO: &str = r#"arguments=${line#*'"arguments":'}; arguments=${arguments%\}*}; arguments=${arguments%\}*};
    case $arguments in *'"_meta"'*) arguments=${arguments%,'"_meta"'*} ;; esac
    answer '{"content":[],"structuredContent":'"$arguments"'}'"#;

fn bench(on_call: &str, tools: &str, more: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("server.sh", fake_server::SCRIPT);
    bench.put(
        "fumehood.toml",
        format!(
            "[mcp.servers.other]\ncommand = [\"sh\", \"server.sh\"]\nwrite = [\".\"]\nenv.ON_CALL = '''{on_call}'''\nenv.TOOLS = '''{tools}'''\n\
             start_timeout = \"60s\"\napproval = \"off\"\n{more}"
        ),
    );
    bench
}

fn call(session: &mut Session, id: u64, tool: &str, arguments: &str) -> Value {
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    session.request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

#[test]
fn numbers_keep_their_digits_in_both_directions() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"},"x":{"type":"number"}}}"#;
    let tools = format!(r#"[{{"name":"t","description":"d","inputSchema":{schema}}}]"#);
    let bench = bench(ECHO, &tools, "");
    let mut session = Session::start(&bench, &["--servers", "--log", "events.db"]);
    let written = r#"{"n":12345678901234567890123,"x":0.1000000000000000000001,"free":[1.0,-0.0,1e+2]}"#;
    let answer = call(&mut session, 1, "other__t", written);
    assert_eq!(answer["result"]["structuredContent"].to_string(), written, "{answer}");
    let refused = call(&mut session, 2, "other__t", r#"{"x":1e400}"#);
    assert!(refused.to_string().contains("within the range of a 64-bit float"), "{refused}");
    session.leave();
    let log = bench.run(&["log", "export", "--log", "events.db"]);
    assert!(log.stdout.contains("12345678901234567890123"), "{log:?}");
}

#[test]
fn arguments_of_clients_are_repaired_unless_strict() {
    let schema =
        r#"{"type":"object","properties":{"l":{"type":"array"},"m":{"type":"string"}},"additionalProperties":false}"#;
    let tools = format!(r#"[{{"name":"t","description":"d","inputSchema":{schema}}}]"#);
    let written = r#"{"l":"[1]","m":null,"toolCallId":"secret"}"#;
    let lenient = bench(ECHO, &tools, "");
    let mut session = Session::start(&lenient, &["calculator.wasm", "--servers", "--log", "events.db"]);
    let answer = call(&mut session, 1, "other__t", written);
    assert_eq!(answer["result"]["structuredContent"], json!({"l": [1]}), "{answer}");
    let sum = call(&mut session, 2, "calculator__add", r#"{"a":3,"b":5,"toolCallId":"secret"}"#);
    assert_eq!(sum["result"]["structuredContent"], json!({"result": 8}), "{sum}");
    let wrong = call(&mut session, 3, "calculator__add", r#"{"a":"3","b":5}"#);
    assert_eq!(wrong["result"]["isError"], true, "{wrong}");
    session.leave();
    let log = lenient.run(&["log", "export", "--log", "events.db"]);
    for kind in ["parsed_text", "dropped_null", "dropped_injected"] {
        assert!(log.stdout.contains(kind), "{kind}: {log:?}");
    }
    assert!(!log.stdout.contains("secret"), "{log:?}");

    let strict = bench(ECHO, &tools, "[arguments]\nstrict = true\n");
    let mut session = Session::start(&strict, &["calculator.wasm", "--servers"]);
    for (id, tool) in [(1, "other__t"), (2, "calculator__add")] {
        let refused = call(&mut session, id, tool, written);
        assert!(refused.to_string().contains("no such property"), "{refused}");
    }
}

fn input_schema(listed: &Value, name: &str) -> Value {
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().find(|tool| tool["name"] == name).unwrap()["inputSchema"].clone()
}

#[test]
fn closed_objects_say_so_and_those_of_servers_are_open() {
    let tools = r#"[{"name":"t","description":"d","inputSchema":{"type":"object","properties":{}}}]"#;
    let bench = bench(ECHO, tools, "");
    let mut session = Session::start(&bench, &["calculator.wasm", "--servers"]);
    let listed = session.request(1, "tools/list", json!({}));
    assert_eq!(input_schema(&listed, "calculator__add")["additionalProperties"], false);
    assert_eq!(input_schema(&listed, "other__t"), json!({"type": "object", "properties": {}}));
    let answer = call(&mut session, 2, "other__t", r#"{"free":{"a":1}}"#);
    assert_eq!(answer["result"]["structuredContent"], json!({"free": {"a": 1}}), "{answer}");
}

fn described_tool(name: &str, bytes: usize) -> String {
    format!(r#"{{"name":"{name}","description":"{}","inputSchema":{{"type":"object"}}}}"#, "d".repeat(bytes))
}

#[test]
fn notices_about_limits_of_a_server_name_the_setting() {
    let tools = format!("[{},{},{}]", described_tool("a", 200), described_tool("b", 20), described_tool("c", 20));
    let bench = bench("text done", &tools, "max_tools = 2\ndescriptions = \"100B\"\n");
    let mut session = Session::start(&bench, &["--servers"]);
    assert_eq!(session.names(), ["other__a", "other__b"]);
    session.says("the server lists more than 2 tools; list the tools to use in its `tools`, or raise its `max_tools`");
    session.says("the first 80 are used, because all descriptions together exceed the server's `descriptions`");
    bench.put("server.sh", fake_server::SCRIPT);
    let config = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    bench.put("fumehood.toml", config.replace("max_tools = 2", "max_tools = 2\ntools = [\"c\"]"));
    assert_eq!(Session::start(&bench, &["--servers"]).names(), ["other__c"]);
}
