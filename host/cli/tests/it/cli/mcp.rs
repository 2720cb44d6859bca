//! MCP over pipes: the program as a server, and the program as a client of itself.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::session::Session;
use super::workbench::{CommandOutput, Workbench};

#[test]
fn a_client_lists_and_calls_over_pipes() {
    let bench = Workbench::new();
    bench.example("calculator").example("text");
    let mut session = Session::start(&bench, &["calculator.wasm", "text.wasm"]);
    session.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let listed = session.next();
    assert!(listed["result"]["tools"].as_array().unwrap().len() > 5, "{listed}");
    session.call(2, "calculator__add", json!({"a": 3, "b": 5}));
    assert_eq!(session.next()["result"]["structuredContent"], json!({"result": 8}));
    let (rest, _, code) = session.leave();
    assert_eq!((rest.as_str(), code), ("", Some(0)));
}

#[test]
fn the_server_ends_with_its_input_despite_running_guests() {
    let bench = Workbench::new();
    bench.program("spin").program("sleep").program("stdout-flood");
    let mut session = Session::start(&bench, &["spin.wasm", "sleep.wasm", "stdout-flood.wasm"]);
    for (id, tool) in ["spin__run", "spin__run", "sleep__run", "stdout-flood__run"].into_iter().enumerate() {
        session.call(id as u64 + 1, tool, json!({}));
    }
    session.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
    assert_eq!(session.next(), json!({"jsonrpc": "2.0", "id": 9, "result": {}}));
    let (rest, took, code) = session.leave();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(code, Some(0));
    // Cancelled calls may still be answered, but output of a guest is never printed.
    for line in rest.lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        assert_eq!(message["result"]["isError"], true, "{message}");
    }
}

#[test]
fn an_unservable_component_is_reported_on_stderr_only() {
    let bench = Workbench::new();
    let ran = bench.run(&["serve", "mcp", "--json", "nothing.wasm"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (6, ""), "{ran:?}");
    bench.example("calculator");
    let ran = bench.run(&["serve", "mcp", "calculator.wasm", "--listen", "0.0.0.0:0", "--no-auth"]);
    assert!(ran.code != 0 && ran.stderr.contains("is reachable from other machines"), "{ran:?}");
    let ran = bench.run(&["serve", "mcp"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn flags_of_http_are_refused_without_http() {
    let bench = Workbench::new();
    bench.example("calculator").put("token", "0123456789abcdef");
    for flag in [&["--no-auth"][..], &["--token-file", "token"], &["--allow-host", "a"], &["--allow-origin", "a"]] {
        let ran = bench.run(&[&["serve", "mcp", "calculator.wasm"], flag].concat());
        let says = format!("`{}` works only over HTTP; add `--listen ADDRESS`", flag[0]);
        assert!(ran.code == 2 && ran.stderr.contains(&says), "{ran:?}");
    }
}

#[test]
fn output_of_a_guest_reaches_neither_client_nor_terminal() {
    let bench = Workbench::new();
    bench.program("forge-message").program("stdout-flood");
    let mut session = Session::start(&bench, &["forge-message.wasm", "stdout-flood.wasm"]);
    session.call(1, "stdout-flood__run", json!({}));
    let answer = session.request(2, "tools/call", json!({"name": "forge-message__run"}));
    assert_eq!((&answer["result"]["isError"], &answer["result"]["content"]), (&json!(false), &json!([])), "{answer}");
    assert!(session.is_quiet_for(Duration::from_millis(300)));
    assert!(!session.said().contains("FORGED"), "{}", session.said());
}

/// Returns the processor time of a process so far.
fn used(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after_name: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks = |at: usize| after_name[at].parse::<u64>().unwrap();
    // In hundredths of a second: `USER_HZ` is 100 on x86-64 and AArch64.
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

#[test]
fn cancelling_stops_the_processor_time_of_a_guest() {
    let bench = Workbench::new();
    bench.program("spin");
    let mut session =
        Session::start(&bench, &["spin.wasm", "--timeout", "60s", "--fuel", "900G", "--isolation", "in-process"]);
    let process = session.process();
    let before = used(process);
    let began = Instant::now();
    for id in 1..=2 {
        session.call(id, "spin__run", json!({}));
    }
    while used(process) < before + Duration::from_millis(500) {
        assert!(began.elapsed() < Duration::from_secs(30), "they do not spin");
        std::thread::sleep(Duration::from_millis(20));
    }
    for id in 1..=2 {
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    }
    std::thread::sleep(Duration::from_millis(500));
    let before = used(process);
    std::thread::sleep(Duration::from_secs(1));
    let still = used(process).saturating_sub(before);
    assert!(still < Duration::from_millis(100), "{still:?}");
}

#[test]
fn knowledge_and_prompts_are_served_as_configured() {
    let bench = Workbench::new();
    bench.put("rules.md", "# Rules");
    bench.put("picture.png", [0x89, b'P', b'N', b'G']);
    bench.put(
        "fumehood.toml",
        "[knowledge.rules]\ndescription = \"How.\"\ntext = { file = \"rules.md\" }\nmime = \"text/markdown\"\n\
         [knowledge.picture]\ndescription = \"What.\"\ntext = { file = \"picture.png\" }\nmime = \"image/png\"\n\
         uri = \"test://picture\"\ntitle = \"A picture\"\n\
         [prompts.review]\ntext = \"Review: {text}\"\nknowledge = [\"rules\"]\n\
         arguments = { text = { description = \"What.\", required = true } }\n",
    );
    let mut session = Session::start(&bench, &[]);
    let read = session.request(1, "resources/read", json!({"uri": "fumehood://knowledge/rules"}));
    assert_eq!(read["result"]["contents"][0]["text"], "# Rules", "{read}");
    // The file is read at each request.
    bench.put("rules.md", "# New rules");
    let filled = session.request(2, "prompts/get", json!({"name": "review", "arguments": {"text": "this"}}));
    let messages = &filled["result"]["messages"];
    assert_eq!(messages[0]["content"]["resource"]["text"], "# New rules", "{filled}");
    assert_eq!(messages[1]["content"]["text"], "Review: this");
    let listed = session.request(3, "resources/list", json!({}));
    let picture = json!({
        "uri": "test://picture", "name": "picture", "title": "A picture", "description": "What.", "mimeType": "image/png"
    });
    assert_eq!(listed["result"]["resources"][1], picture);
    let read = session.request(4, "resources/read", json!({"uri": "test://picture"}));
    assert_eq!(read["result"]["contents"][0]["blob"], "iVBORw==", "{read}");
    std::fs::remove_file(bench.path("rules.md")).unwrap();
    let read = session.request(5, "resources/read", json!({"uri": "fumehood://knowledge/rules"}));
    assert_eq!(read["error"]["code"], -32603, "{read}");
    session.leave();
    bench.put("fumehood.toml", "[knowledge.rules]\ndescription = \"\"\ntext = \"\"\nuri = \"no address\"\n");
    let ran = bench.run(&["serve", "mcp"]);
    assert!(ran.code == 2 && ran.stderr.contains("[knowledge.rules]: invalid URI `no address`"), "{ran:?}");
}

fn call_our_server(bench: &Workbench, cache: &str, server: &[&str], tool: &str, arguments: &str) -> CommandOutput {
    bench.run(&[&["mcp", "call", "--json", "--no-jail", "--env", cache, tool, arguments, "--"], server].concat())
}

#[test]
fn people_list_and_call_the_tools_of_a_server() {
    let bench = Workbench::new();
    bench.example("calculator");
    let program = env!("CARGO_BIN_EXE_fumehood");
    let cache = format!("FUMEHOOD_CACHE_DIR={}", bench.cache().display());
    let server = [program, "serve", "mcp", "--no-log", "calculator.wasm"];
    let ran = bench.run(&[&["mcp", "list", "--no-jail", "--env", &cache], server.as_slice()].concat());
    assert!(ran.code == 0 && ran.stdout.contains("calculator__add │ Adds two numbers: a + b."), "{ran:?}");
    // Words after `--` belong to the command, even if they look like options.
    let ran = bench.run(
        &[&["mcp", "list", "--json", "--no-jail", "--env", &cache, "--"], server.as_slice(), &["--short-names"]]
            .concat(),
    );
    assert!(ran.code == 0 && ran.json()["tools"][0]["name"] == "add", "{ran:?}");
    let ran = call_our_server(&bench, &cache, &server, "calculator__add", r#"{"a": 3, "b": 5}"#);
    let answer = ran.json();
    let text = &answer["content"][0]["text"];
    let value = &answer["content"][1]["value"];
    assert_eq!((ran.code, text, value), (0, &json!(r#"{"result":8}"#), &json!({"result": 8})), "{ran:?}");
    let pairs = ["mcp", "call", "--no-jail", "--env", &cache, "calculator__add", "a=3", "b=5", "--"];
    let ran = bench.run(&[&pairs[..], server.as_slice()].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"result\":8}\n"), "{ran:?}");
    let ran = call_our_server(&bench, &cache, &server, "calculator__add", "three");
    assert!(ran.code == 2 && ran.stdout.contains("expected NAME=VALUE pairs, or one JSON object"), "{ran:?}");
    let ran = call_our_server(&bench, &cache, &server, "calculator__add", r#"{"a": "3"}"#);
    assert_eq!((ran.code, &ran.json()["error"]["kind"]), (3, &json!("invalid_arguments")), "{ran:?}");
    assert_eq!(call_our_server(&bench, &cache, &server, "calculator__ad", "{}").code, 3);
    let ran = bench.run(&["mcp", "list", "http://127.0.0.1:1/", "--token-file", "token"]);
    assert!(ran.code == 2 && ran.stderr.contains("unexpected argument `--token-file` after a URL"), "{ran:?}");
    let ran = bench.run(&["mcp", "list", "/nowhere/at-all"]);
    assert_eq!(ran.code, 7);
    assert_eq!(ran.stderr, "error: cannot start `/nowhere/at-all`: no such file; correct the path\n");
    let ran = bench.run(&["mcp", "list", "--timeout", "200ms", "sleep", "1000"]);
    assert!(ran.code == 7 && ran.stderr.contains("within 200ms; raise the limit with `--timeout`"), "{ran:?}");
}

#[test]
fn the_snippet_for_a_client_is_json_with_whole_paths() {
    let bench = Workbench::new();
    bench.example("calculator");
    let ran = bench.run(&["mcp", "config", "claude-desktop", "calculator.wasm"]);
    let server = ran.json()["mcpServers"]["fumehood"].clone();
    assert!(std::path::Path::new(server["command"].as_str().unwrap()).is_absolute());
    let path = bench.path("calculator.wasm").canonicalize().unwrap();
    assert_eq!(server["args"], json!(["serve", "mcp", path]));
    assert_eq!(bench.run(&["mcp", "config", "vscode", "nothing.wasm"]).code, 2);
}

#[test]
fn a_component_of_the_configuration_is_served_once() {
    let bench = Workbench::new();
    bench.example("calculator").example("text");
    bench.put("fumehood.toml", "[tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n");
    let ran = bench.run(&["mcp", "config", "cursor", "calculator.wasm", "text.wasm"]);
    let arguments = ran.json()["mcpServers"]["fumehood"]["args"].clone();
    let paths = ["fumehood.toml", "text.wasm"].map(|file| bench.path(file).canonicalize().unwrap());
    assert_eq!(arguments, json!(["serve", "mcp", "--config", paths[0], paths[1]]), "{ran:?}");
    // Older entries name it twice.
    let mut session = Session::start(&bench, &["./calculator.wasm", "text.wasm", "--short-names"]);
    assert!(session.names().contains(&"add".to_owned()), "{:?}", session.names());
    session.leave();
    // Another file under the same name is an error before a client starts it.
    std::fs::create_dir(bench.path("other")).unwrap();
    std::fs::copy(bench.path("text.wasm"), bench.path("other/calculator.wasm")).unwrap();
    let ran = bench.run(&["mcp", "config", "cursor", "other/calculator.wasm"]);
    assert!(ran.code == 2 && ran.stderr.contains("have different components named `calculator`"), "{ran:?}");
}

#[test]
fn an_entry_serves_the_servers_of_the_configuration() {
    let bench = Workbench::new();
    let ran = bench.run(&["mcp", "config", "cursor"]);
    assert!(ran.code == 2 && ran.stderr.contains("there is no fumehood.toml here"), "{ran:?}");
    bench.put("fumehood.toml", "[mcp]\n");
    let ran = bench.run(&["mcp", "config", "cursor"]);
    assert!(ran.code == 2 && ran.stderr.contains("nothing to serve"), "{ran:?}");
    bench.put("fumehood.toml", "[mcp.servers.clock]\ncommand = [\"no-such-clock\"]\n");
    let ran = bench.run(&["mcp", "config", "cursor"]);
    assert!(ran.stderr.contains("`no-such-clock` of the MCP server `clock` is not on your PATH"), "{ran:?}");
    let path = bench.path("fumehood.toml").canonicalize().unwrap();
    let arguments = json!(["serve", "mcp", "--config", path, "--servers"]);
    assert_eq!(ran.json()["mcpServers"]["fumehood"]["args"], arguments, "{ran:?}");
}

#[test]
fn clients_see_the_powers_of_components() {
    let bench = Workbench::new();
    bench.example("calculator").example("text");
    std::fs::create_dir(bench.path("docs")).unwrap();
    bench.put(
        "fumehood.toml",
        "[tools.words]\ncomponent = \"text.wasm\"\napproval = \"off\"\nread = [\"docs:/docs\"]\nenv = { KEY = \"hush\" }\n",
    );
    let session = Session::start(&bench, &["calculator.wasm"]);
    let about = session.hello()["result"]["instructions"].as_str().unwrap().to_owned();
    let lines: Vec<&str> = about.lines().skip(1).collect();
    assert!(lines[0].starts_with("- calculator (") && lines[0].ends_with("may only compute"), "{about}");
    assert!(lines[1].starts_with("- words (") && lines[1].contains("read files in /docs; read its own"), "{about}");
    assert!(!about.contains("hush") && !about.contains(bench.path("docs").to_str().unwrap()), "{about}");
    session.leave();
}

#[test]
fn configured_tools_are_served_as_far_as_they_are_offered() {
    let bench = Workbench::new();
    bench.example("calculator").example("text");
    bench.put(
        "fumehood.toml",
        "[tools.sums]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n[serve]\ntools = [\"sums__add\", \"text__statistics\"]\n",
    );
    let ran = bench.run(&["serve", "mcp"]);
    assert!(ran.code == 2 && ran.stderr.contains("`text__statistics`"), "{ran:?}");
    let mut session = Session::start(&bench, &["text.wasm", "--short-names"]);
    assert_eq!(session.names(), ["add", "statistics"]);
    session.call(2, "add", json!({"a": 3, "b": 5}));
    assert_eq!(session.next()["result"]["structuredContent"], json!({"result": 8}));
    session.call(3, "multiply", json!({"a": 3, "b": 5}));
    assert_eq!(session.next()["error"]["code"], -32602, "what is not offered cannot be called");
    session.leave();
    let ran = bench.run(&["mcp", "config", "cursor"]);
    let path = bench.path("fumehood.toml").canonicalize().unwrap();
    assert_eq!(ran.json()["mcpServers"]["fumehood"]["args"], json!(["serve", "mcp", "--config", path]), "{ran:?}");
}

fn list_at(bench: &Workbench, url: &str, options: &[&str]) -> String {
    let mut command = bench.command(&[&["mcp", "list"], options, &[url]].concat());
    // The token of our own server is for no other one.
    command.env("FUMEHOOD_MCP_TOKEN", "0123456789abcdef");
    let ran = Workbench::run_command(command);
    assert_eq!((ran.code, ran.stdout.as_str()), (7, ""), "{ran:?}");
    ran.stderr
}

#[test]
fn errors_of_urls_say_what_to_do() {
    let bench = Workbench::new();
    let token = bench.put("token", "0123456789abcdef");
    std::fs::set_permissions(token, std::fs::Permissions::from_mode(0o600)).unwrap();
    for (status, kind, body, expected) in [
        ("401 Unauthorized", "text/plain", "", "requires a bearer token; name a file with it by `--token-file FILE`"),
        ("403 Forbidden", "text/plain", "wrong host", "refused the request (HTTP 403 Forbidden: wrong host); check"),
        ("404 Not Found", "text/html", "<p>no</p>", "has no MCP server at this path (HTTP 404 Not Found); check"),
        ("503 Service Unavailable", "text/plain", "", "is too busy or not ready (HTTP 503 Service Unavailable); try"),
        ("200 OK", "text/html", "<p>hello</p>", "did not answer with MCP, but with text/html; check the path"),
    ] {
        let url = always_answering(status, kind, body);
        let said = list_at(&bench, &url, &[]);
        assert!(said.starts_with("error: http://127.0.0.1:") && said.contains(expected), "{status}: {said}");
        assert!(!said.contains("Transport"), "{status}: {said}");
    }
    let said = list_at(&bench, &always_answering("401 Unauthorized", "text/plain", ""), &["--token-file", "token"]);
    assert!(said.contains("does not accept the bearer token; check that it is the current one"), "{said}");
    let said = list_at(&bench, "http://127.0.0.1:1/mcp", &[]);
    assert!(said.contains("connection refused; check the URL, and that the server runs"), "{said}");
}

/// Starts a server that gives every request this answer, and returns its URL. It ends with the process.
fn always_answering(status: &str, kind: &str, body: &str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut request = [0; 1 << 14];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    let _gone = stream.write_all(answer.as_bytes());
                }
            });
        }
    });
    url
}

#[test]
fn a_server_without_tools_and_a_call_without_dashes_are_explained() {
    let bench = Workbench::new();
    let program = env!("CARGO_BIN_EXE_fumehood");
    bench.put("fumehood.toml", "[mcp.servers.sleep]\ncommand = [\"no-such-clock\"]\n");
    let config = bench.path("fumehood.toml");
    let config = config.to_str().unwrap();
    let ran =
        bench.run(&["mcp", "list", "--no-jail", program, "serve", "mcp", "--servers", "--no-log", "--config", config]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    assert!(ran.stderr.contains("the server offers no tools; it wrote: "), "{ran:?}");
    assert!(ran.stderr.contains("; warning: continuing without the MCP server `sleep`"), "{ran:?}");
    let ran = bench.run(&["mcp", "list", "--timeout", "200ms", "sleep"]);
    assert!(ran.stderr.contains("for the MCP server `sleep` of fumehood.toml, use `fumehood approve"), "{ran:?}");
    let ran = bench.run(&["mcp", "call", "calculator__add", "{}", program, "serve", "mcp"]);
    assert!(ran.code == 2 && ran.stderr.contains("write `--` before the server"), "{ran:?}");
}

fn figure_of(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

/// Returns the resident KiB, open files and threads of a process.
fn held(process: u32) -> (u64, usize, usize) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    (figure_of(&status, "VmRSS:"), files, usize::try_from(figure_of(&status, "Threads:")).unwrap())
}

fn make_calls(session: &mut Session, from: u64, count: u64) -> (u64, usize, usize) {
    for id in from..from + count {
        match id % 10 {
            0 => session.call(id, "calculator__divide", json!({"a": 1, "b": 0})),
            1 => session.call(id, "countdown__countdown", json!({"from": 1, "step_ms": 0})),
            _ => session.call(id, "calculator__add", json!({"a": 3, "b": 5})),
        }
        assert_eq!(session.next()["id"], id);
    }
    held(session.process())
}

#[test]
fn ten_thousand_calls_leave_nothing_behind() {
    let bench = Workbench::new();
    bench.example("calculator").example("countdown");
    let mut session = Session::start(&bench, &["calculator.wasm", "countdown.wasm"]);
    let (memory, files, threads) = make_calls(&mut session, 1, 1_000);
    let (memory_after, files_after, threads_after) = make_calls(&mut session, 2_000, 10_000);
    assert!(memory_after <= memory + (8 << 10), "{memory} KiB became {memory_after} KiB");
    // The socket of each worker is watched through a second descriptor for as long as a call is waited for.
    assert!(files_after <= files + 2 && threads_after <= threads + 1, "{files_after} files, {threads_after} threads");
    session.leave();
}
