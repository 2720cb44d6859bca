//! `serve` as a daemon: tenants of the configuration, SIGHUP, and a service manager.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::serve_http::{PATIENCE, Server};
use super::workbench::Workbench;

const ADD: &str = "/v1/tools/calculator__add/calls";
const ARGUMENTS: &str = r#"{"a": 3, "b": 5}"#;

/// Makes a token. Returns it with its digest.
fn token(bench: &Workbench, name: &str) -> (String, String) {
    let made = bench.run(&["token", "new", name, "--json"]).json();
    (made["token"].as_str().unwrap().to_owned(), made["digest"].as_str().unwrap().to_owned())
}

/// Writes a configuration with the components and these tenants.
fn configure(bench: &Workbench, tenants: &str) {
    let tools = "[tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n\
                 [tools.countdown]\ncomponent = \"countdown.wasm\"\napproval = \"off\"\n[log]\npath = \"log.db\"\n";
    bench.put("fumehood.toml", format!("{tools}{tenants}"));
}

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator");
    bench.example("countdown");
    bench
}

fn serve(bench: &Workbench, command: &str, token: &str) -> Server {
    let mut server = Server::run(bench.command(&["serve", command, "--listen", "127.0.0.1:0"]));
    server.token = token.to_owned();
    server
}

fn as_tenant<T>(server: &mut Server, token: &str, ask: impl FnOnce(&Server) -> T) -> T {
    let before = std::mem::replace(&mut server.token, token.to_owned());
    let answer = ask(server);
    server.token = before;
    answer
}

#[test]
fn a_token_is_printed_once_and_its_digest_is_for_the_configuration() {
    let bench = Workbench::new();
    let made = bench.run(&["token", "new", "ci"]);
    let token = made.stdout.trim();
    assert!(made.code == 0 && token.len() == 43 && !made.stderr.contains(token), "{made:?}");
    let section = made.stderr.split_once("[tenants.ci]").unwrap().1;
    bench.put("fumehood.toml", format!("[tenants.ci]{section}"));
    assert_eq!(bench.run(&["config", "check"]).code, 0);
    let ran = bench.run(&["token", "new", "a b"]);
    assert!(ran.code == 2 && ran.stderr.contains("invalid tenant name"), "{ran:?}");
}

#[test]
fn each_tenant_has_its_own_tools_calls_and_budgets() {
    let bench = bench();
    let (one, first) = token(&bench, "one");
    let (other, second) = token(&bench, "other");
    configure(
        &bench,
        &format!(
            "[tenants.one]\ntokens = [\"{first}\"]\ntools = [\"calculator__a*\"]\ncalls_per_day = 2\n\
             [tenants.other]\ntokens = [\"{second}\"]\nactor = \"someone\"\n"
        ),
    );
    let mut server = serve(&bench, "http", &one);
    let names: Vec<Value> =
        server.get("/v1/tools")["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, [json!("calculator__add")]);
    assert_eq!(server.ask("POST", "/v1/tools/calculator__multiply/calls", ARGUMENTS).0, 404);
    assert_eq!(server.ask("POST", ADD, ARGUMENTS).0, 200);
    let calls = server.wait_for("/v1/calls", |page| page["calls"][0]["status"] == "ok");
    assert_eq!(calls["calls"][0]["actor"], "one");
    as_tenant(&mut server, &other, |server| {
        assert_eq!(server.get("/v1/calls")["calls"], json!([]));
        let id = calls["calls"][0]["id"].as_str().unwrap();
        assert_eq!(server.ask("GET", &format!("/v1/calls/{id}"), "").0, 404);
        assert_eq!(server.ask("POST", "/v1/tools/calculator__multiply/calls", ARGUMENTS).0, 200);
    });
    as_tenant(&mut server, &first, |server| {
        assert_eq!(server.ask("GET", "/v1/tools", "").0, 401, "a digest is no token")
    });
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
    // What was used today is known to the next run.
    let server = serve(&bench, "http", &one);
    assert_eq!(server.ask("POST", ADD, ARGUMENTS).0, 200);
    let (status, problem) = server.ask("POST", ADD, ARGUMENTS);
    assert!(status == 429 && problem.contains("all 2 calls of today"), "{problem}");
}

/// A call that loops within one function until its deadline is charged what it used, in both modes of isolation.
#[test]
fn a_stopped_call_uses_up_the_fuel_of_its_tenant() {
    for isolation in ["in_process", "process"] {
        let bench = bench();
        bench.program("spin");
        let (one, digest) = token(&bench, "one");
        configure(
            &bench,
            &format!(
                "[limits]\nfuel = \"1000G\"\ndeadline = \"500ms\"\n[tools.spin]\ncomponent = \"spin.wasm\"\napproval = \"off\"\n\
                 isolation = \"{isolation}\"\n[tenants.one]\ntokens = [\"{digest}\"]\nfuel_per_day = \"10M\"\n"
            ),
        );
        let server = serve(&bench, "http", &one);
        let (status, problem) = server.ask("POST", "/v1/tools/spin__run/calls", "{}");
        assert!(status == 504 && problem.contains("did not finish"), "{isolation}: {problem}");
        let (status, problem) = server.ask("POST", "/v1/tools/spin__run/calls", "{}");
        assert!(status == 429 && problem.contains("today's fuel"), "{isolation}: {problem}");
    }
}

fn answer_approval(server: &Server) -> (u16, String) {
    server.ask("POST", "/v1/approvals/s-1:1", r#"{"answer": "allow"}"#)
}

#[test]
fn only_tenants_with_the_right_answer_approvals() {
    let bench = bench();
    let (one, first) = token(&bench, "one");
    let (other, second) = token(&bench, "other");
    configure(
        &bench,
        &format!("[tenants.one]\ntokens = [\"{first}\"]\n[tenants.other]\ntokens = [\"{second}\"]\napproves = true\n"),
    );
    let mut server = serve(&bench, "http", &one);
    let (status, problem) = answer_approval(&server);
    assert!(status == 403 && problem.contains("approves = true"), "{problem}");
    // There is no such call; that it may not be answered is not the reason.
    assert_eq!(as_tenant(&mut server, &other, answer_approval).0, 404);
}

#[test]
fn options_that_contradict_tenants_are_refused() {
    let bench = bench();
    let (_, digest) = token(&bench, "one");
    configure(&bench, &format!("[tenants.one]\ntokens = [\"{digest}\"]\n"));
    for option in [&["--no-auth"] as &[&str], &["--actor", "x"]] {
        let ran = bench.run(&[&["serve", "http"], option].concat());
        assert!(ran.code == 2 && ran.stderr.contains("conflicts with [tenants]"), "{ran:?}");
    }
}

#[test]
fn a_hangup_reads_the_configuration_and_a_bad_one_changes_nothing() {
    let bench = bench();
    let (one, first) = token(&bench, "one");
    let (other, second) = token(&bench, "other");
    configure(&bench, &format!("[tenants.one]\ntokens = [\"{first}\"]\n"));
    let mut server = serve(&bench, "http", &one);
    let id = Pid::from_child(&server.child);
    assert_eq!(as_tenant(&mut server, &other, |server| server.ask("GET", "/v1/tools", "").0), 401);
    configure(&bench, &format!("[tenants.one]\ntokens = [\"{first}\"]\ntools = [\"Not a pattern\"]\n"));
    kill_process(id, Signal::HUP).unwrap();
    server.wait_for_note("the current tools stay served");
    assert_eq!(server.ask("POST", ADD, ARGUMENTS).0, 200);
    configure(
        &bench,
        &format!(
            "[tenants.one]\ntokens = [\"{first}\"]\ntools = [\"countdown__*\"]\n[tenants.other]\ntokens = [\"{second}\"]\n"
        ),
    );
    kill_process(id, Signal::HUP).unwrap();
    server.wait_for_note("reloaded ");
    assert_eq!(server.ask("POST", ADD, ARGUMENTS).0, 404);
    assert_eq!(as_tenant(&mut server, &other, |server| server.ask("POST", ADD, ARGUMENTS).0), 200);
}

#[test]
fn a_service_manager_passes_the_socket_and_is_told_the_state() {
    let bench = bench();
    let (one, digest) = token(&bench, "one");
    configure(&bench, &format!("[tenants.one]\ntokens = [\"{digest}\"]\n"));
    let next = service_manager(&bench);
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let plain = bench.command(&["serve"]);
    // The socket has to be the descriptor 3, and `LISTEN_PID` the id of the process: the shell arranges both.
    // Other shells take descriptors below 10 only.
    let mut command = Command::new("bash");
    let script = format!("exec 3<&{}; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"", socket.as_raw_fd());
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::empty()).unwrap();
    command.args(["-c", &script, "sh"]).arg(plain.get_program()).args(plain.get_args());
    command.current_dir(plain.get_current_dir().unwrap()).env("NOTIFY_SOCKET", bench.path("notify"));
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut server = Server::run(command);
    server.token = one;
    assert_eq!(server.address, address);
    assert_eq!(next(), "READY=1\n");
    assert_eq!(server.ask("POST", ADD, ARGUMENTS).0, 200);
    let id = Pid::from_child(&server.child);
    kill_process(id, Signal::HUP).unwrap();
    let reloading = next();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(next(), "READY=1\n");
    kill_process(id, Signal::TERM).unwrap();
    assert_eq!(next(), "STOPPING=1\n");
    assert!(server.child.wait().unwrap().success());
}

/// Returns what reads the next message to a service manager, at the socket `notify`.
fn service_manager(bench: &Workbench) -> impl Fn() -> String {
    let told = UnixDatagram::bind(bench.path("notify")).unwrap();
    told.set_read_timeout(Some(PATIENCE)).unwrap();
    move || {
        let mut message = [0; 512];
        let length = told.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    }
}

#[test]
fn a_watchdog_is_told_again_and_again_that_the_service_answers() {
    let bench = Workbench::new();
    bench.example("calculator");
    let next = service_manager(&bench);
    let mut command = bench.command(&["serve", "calculator.wasm", "--no-auth", "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", bench.path("notify")).env("WATCHDOG_USEC", "200000");
    let _server = Server::run(command);
    let messages: Vec<String> = (0..4).map(|_| next()).collect();
    assert_eq!(messages.iter().filter(|message| *message == "WATCHDOG=1\n").count(), 3, "{messages:?}");
}

/// Sends a request for a stream of events, and waits for its head.
fn open_stream(server: &Server, token: &str, line: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = &server.address;
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\
         Content-Type: application/json\r\nAccept: text/event-stream\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

/// Reads a stream for this time. Returns whether it has ended.
fn has_ended(stream: &mut TcpStream, time: Duration) -> bool {
    let started = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    while started.elapsed() < time {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return true,
            Err(error) if !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// Opens a session of MCP, and returns its id; or else the status.
fn open_session(server: &Server) -> Result<String, u16> {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}});
    let (status, head, _) = server.ask_with("POST", "/mcp", "", &hello.to_string());
    let id = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    if status == 200 { Ok(id.unwrap().to_owned()) } else { Err(status) }
}

#[test]
fn streams_of_a_revoked_token_end_and_those_of_others_go_on() {
    let bench = bench();
    let (one, first) = token(&bench, "one");
    let (other, second) = token(&bench, "other");
    let of_other = format!("[tenants.other]\ntokens = [\"{second}\"]\n");
    configure(&bench, &format!("[tenants.one]\ntokens = [\"{first}\"]\n{of_other}"));
    let mut server = Server::run(bench.command(&["serve", "--listen", "127.0.0.1:0"]));
    server.token.clone_from(&one);
    let session = format!("Mcp-Session-Id: {}\r\n", open_session(&server).unwrap());
    let call = "POST /v1/tools/countdown__countdown/calls";
    let slowly = r#"{"from": 90, "step_ms": 100}"#;
    let mut events = open_stream(&server, &one, "GET /mcp", &session, "");
    let mut result = open_stream(&server, &one, call, "", slowly);
    let mut of_others = open_stream(&server, &other, call, "", slowly);
    configure(&bench, &of_other);
    kill_process(Pid::from_child(&server.child), Signal::HUP).unwrap();
    server.wait_for_note("reloaded ");
    assert!(has_ended(&mut events, PATIENCE) && has_ended(&mut result, PATIENCE));
    assert!(!has_ended(&mut of_others, Duration::from_millis(500)));
}

fn list_in_session(list: &str, server: &Server, id: &str) -> u16 {
    let headers = format!("Mcp-Session-Id: {id}\r\nMcp-Protocol-Version: 2025-11-25\r\n");
    server.ask_with("POST", "/mcp", &headers, list).0
}

#[test]
fn abandoned_sessions_make_room_oldest_first() {
    let bench = bench();
    let (one, first) = token(&bench, "one");
    let (other, second) = token(&bench, "other");
    configure(&bench, &format!("[tenants.one]\ntokens = [\"{first}\"]\n[tenants.other]\ntokens = [\"{second}\"]\n"));
    let mut server = Server::run(bench.command(&["serve", "--listen", "127.0.0.1:0"]));
    server.token.clone_from(&one);
    let others = as_tenant(&mut server, &other, |server| open_session(server).unwrap());
    let kept = open_session(&server).unwrap();
    let _stream = open_stream(&server, &one, "GET /mcp", &format!("Mcp-Session-Id: {kept}\r\n"), "");
    let opened: Vec<String> = (0..260).map(|_| open_session(&server).unwrap()).collect();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    assert_eq!(
        [&opened[0], &opened[4]].map(|id| list_in_session(&list, &server, id)),
        [404, 404],
        "the oldest were abandoned first"
    );
    assert_eq!([&opened[5], &opened[259], &kept].map(|id| list_in_session(&list, &server, id)), [200, 200, 200]);
    assert_eq!(as_tenant(&mut server, &other, |server| list_in_session(&list, server, &others)), 200);
}

#[test]
fn ids_tell_a_tenant_nothing_of_others() {
    let bench = bench();
    let (one, first) = token(&bench, "one");
    configure(&bench, &format!("[tenants.one]\ntokens = [\"{first}\"]\n"));
    let server = serve(&bench, "http", &one);
    let mut ids = Vec::new();
    let mut cursors = Vec::new();
    for _ in 0..12 {
        let (_, body) = server.ask("POST", ADD, ARGUMENTS);
        ids.push(serde_json::from_str::<Value>(&body).unwrap()["id"].as_str().unwrap().to_owned());
        let page = server.get("/v1/calls?limit=1");
        assert_eq!(page["calls"][0]["id"], json!(ids.last()));
        cursors.push(page["next"].as_str().unwrap().to_owned());
    }
    // What grows with each call would show how many others were made meanwhile.
    let number = |text: &str, radix| u64::from_str_radix(text, radix).unwrap();
    let of_ids: Vec<u64> = ids.iter().map(|id| number(id.split('-').next().unwrap(), 16)).collect();
    let of_cursors: Vec<u64> = cursors.iter().map(|cursor| number(cursor.rsplit(':').next().unwrap(), 10)).collect();
    for numbers in [of_ids, of_cursors] {
        assert!(!numbers.is_sorted() && !numbers.iter().rev().is_sorted(), "{numbers:?}");
        assert!(numbers.iter().all(|number| *number > 1_000_000), "{numbers:?}");
    }
    // They still lead from page to page.
    let mut seen = Vec::new();
    let mut page = server.get("/v1/calls?limit=5");
    loop {
        seen.extend(page["calls"].as_array().unwrap().iter().map(|call| call["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        page = server.get(&format!("/v1/calls?limit=5&cursor={next}"));
    }
    ids.reverse();
    assert_eq!(seen, ids);
}

#[test]
fn a_tenant_has_its_own_room_in_the_log() {
    let bench = bench();
    let (one, first) = token(&bench, "one");
    let (other, second) = token(&bench, "other");
    configure(
        &bench,
        &format!(
            "[tenants.one]\ntokens = [\"{first}\"]\nlog_bytes_per_day = \"8KiB\"\n[tenants.other]\ntokens = [\"{second}\"]\n"
        ),
    );
    let mut server = serve(&bench, "http", &one);
    let statuses: Vec<u16> = (0..6).map(|_| server.ask("POST", ADD, ARGUMENTS).0).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429], "a call without much takes 2 KiB");
    assert_eq!(as_tenant(&mut server, &other, |server| server.ask("POST", ADD, ARGUMENTS).0), 200);
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
    let server = serve(&bench, "http", &one);
    let (status, problem) = server.ask("POST", ADD, ARGUMENTS);
    assert!(status == 429 && problem.contains("in the event log were used up"), "{problem}");
}
