//! `serve` as a daemon: tenants of the configuration, SIGHUP, and a service manager.

use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

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
    assert!(ran.code == 2 && ran.stderr.contains("is no name of a tenant"), "{ran:?}");
}

#[test]
fn each_tenant_has_its_own_tools_calls_and_budgets() {
    let bench = bench();
    let ((one, first), (other, second)) = (token(&bench, "one"), token(&bench, "other"));
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
        assert!(status == 429 && problem.contains("of today"), "{isolation}: {problem}");
    }
}

#[test]
fn only_tenants_with_the_right_answer_approvals() {
    let bench = bench();
    let ((one, first), (other, second)) = (token(&bench, "one"), token(&bench, "other"));
    configure(
        &bench,
        &format!("[tenants.one]\ntokens = [\"{first}\"]\n[tenants.other]\ntokens = [\"{second}\"]\napproves = true\n"),
    );
    let mut server = serve(&bench, "http", &one);
    let answer = |server: &Server| server.ask("POST", "/v1/approvals/s-1:1", r#"{"answer": "allow"}"#);
    let (status, problem) = answer(&server);
    assert!(status == 403 && problem.contains("approves = true"), "{problem}");
    // There is no such call; that it may not be answered is not the reason.
    assert_eq!(as_tenant(&mut server, &other, answer).0, 404);
}

#[test]
fn options_that_contradict_tenants_are_refused() {
    let bench = bench();
    let (_, digest) = token(&bench, "one");
    configure(&bench, &format!("[tenants.one]\ntokens = [\"{digest}\"]\n"));
    for option in [&["--no-auth"] as &[&str], &["--actor", "x"]] {
        let ran = bench.run(&[&["serve", "http"], option].concat());
        assert!(ran.code == 2 && ran.stderr.contains("[tenants] both say"), "{ran:?}");
    }
}

#[test]
fn a_hangup_reads_the_configuration_and_a_bad_one_changes_nothing() {
    let bench = bench();
    let ((one, first), (other, second)) = (token(&bench, "one"), token(&bench, "other"));
    configure(&bench, &format!("[tenants.one]\ntokens = [\"{first}\"]\n"));
    let mut server = serve(&bench, "http", &one);
    let id = Pid::from_child(&server.child);
    assert_eq!(as_tenant(&mut server, &other, |server| server.ask("GET", "/v1/tools", "").0), 401);
    configure(&bench, &format!("[tenants.one]\ntokens = [\"{first}\"]\ntools = [\"Not a pattern\"]\n"));
    kill_process(id, Signal::HUP).unwrap();
    server.wait_for_note("what is served stays as it was");
    assert_eq!(server.ask("POST", ADD, ARGUMENTS).0, 200);
    configure(
        &bench,
        &format!(
            "[tenants.one]\ntokens = [\"{first}\"]\ntools = [\"countdown__*\"]\n[tenants.other]\ntokens = [\"{second}\"]\n"
        ),
    );
    kill_process(id, Signal::HUP).unwrap();
    server.wait_for_note("was read again");
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
