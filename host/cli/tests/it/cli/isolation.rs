//! Worker processes: their privileges, their end, and that a worker that dies is one failed call.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use fumehood::permission::http::{HttpGrant, HttpLimits};
use fumehood::{Call, ErrorKind, Grant, Host, IsolationPolicy, Limits, Load, Workers};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::runtime::{Builder, Runtime};

use super::workbench::{CommandOutput, Workbench};

pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub(super) fn workers() -> Workers {
    Workers::program(env!("CARGO_BIN_EXE_fumehood"), ["run-worker"]).require_jail()
}

pub(super) fn host() -> Host {
    Host::builder().concurrency(8).workers(workers()).isolation(IsolationPolicy::Everything).build().unwrap()
}

pub(super) async fn load(host: &Host, name: &str) -> fumehood::Component {
    host.load(Load::bytes(name, fumehood_tests::component(name).unwrap())).await.unwrap()
}

pub(super) fn process(component: &fumehood::Component) -> Pid {
    Pid::from_raw(component.worker_id().unwrap().try_into().unwrap())
}

pub(super) fn within_patience(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn slow(call: &str) -> Call {
    Call::new(call, "{}").limits(Limits::default().deadline(Duration::from_secs(30)).fuel(u64::MAX / 2))
}

/// Reads a figure of a process from its status, in bytes.
fn figure(process: Pid, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn limits_of_memory_and_fuel_hold_in_a_worker() {
    const MIB: u64 = 1 << 20;
    runtime().block_on(async {
        let host = host();
        let keeper = process(&load(&host, "keep-handles").await);
        load(&host, "spin").await;
        let limits = Limits::default().memory(24 << 20).handles(1 << 20).deadline(PATIENCE);
        let before = figure(keeper, "VmRSS");
        // Methods and authorities; headers and bodies; timers.
        for kinds in [0b11, 0b100_1000, 0b100_0000_0000] {
            let arguments = format!(r#"{{"kinds":{kinds},"size":262144,"values":49}}"#);
            let result = host.call(Call::new("keep-handles__run", arguments).limits(limits)).await;
            assert_eq!(result.error().unwrap().kind, ErrorKind::Memory, "{kinds:#b}: {result:?}");
        }
        let grown = figure(keeper, "VmHWM").saturating_sub(before);
        assert!(grown <= 40 * MIB, "{} MiB", grown / MIB);
        let limits = Limits::default().deadline(Duration::from_secs(1)).fuel(u64::MAX / 2);
        let stopped = host.call(Call::new("spin__run", "{}").limits(limits)).await;
        assert_eq!(stopped.error().unwrap().kind, ErrorKind::Deadline, "{stopped:?}");
        assert!(stopped.metadata.fuel_used > 25_000_000, "{}", stopped.metadata.fuel_used);
    });
}

#[test]
fn a_worker_that_dies_is_one_failed_call() {
    runtime().block_on(async {
        let host = host();
        let spin = load(&host, "spin").await;
        let counter = load(&host, "counter").await;
        let first = process(&spin);
        assert_ne!(first, process(&counter), "each component has a separate process");
        let running = tokio::spawn({
            let host = host.clone();
            async move { host.call(slow("spin__run")).await }
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        kill(first, Signal::SIGKILL).unwrap();
        let result = running.await.unwrap();
        let error = result.error().unwrap();
        assert_eq!(error.kind, ErrorKind::Trap, "{error}");
        assert!(error.message.contains("worker process") && error.message.contains("signal 9"), "{error}");
        assert!(host.call(Call::new("counter__run", "{}")).await.is_ok(), "others do not notice");
        let short = Limits::default().deadline(Duration::from_millis(100));
        let next = host.call(Call::new("spin__run", "{}").limits(short)).await;
        assert_eq!(next.error().unwrap().kind, ErrorKind::Deadline, "{next:?}");
        assert_ne!(process(&spin), first, "the next call has a new worker");
        host.shutdown(Duration::from_secs(1)).await;
    });
}

/// Starts a server that never answers. Its channel reports when a request has arrived, and when the connection has
/// ended.
fn silent_server() -> (u16, std::sync::mpsc::Receiver<&'static str>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        let first = stream.read(&mut buffer).unwrap();
        assert_ne!(first, 0);
        let _nobody_waits = tell.send("asked");
        while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
        let _nobody_waits = tell.send("ended");
    });
    (port, told)
}

#[test]
fn requests_end_with_their_worker() {
    runtime().block_on(async {
        let host = host();
        let (port, told) = silent_server();
        let rules = vec![format!("GET http://127.0.0.1:{port}/**").parse().unwrap()];
        let grant = HttpGrant::new(rules, vec!["127.0.0.1/32".parse().unwrap()], HttpLimits::default()).unwrap();
        let bytes = fumehood_tests::component("fetch").unwrap();
        let fetch = host.load(Load::bytes("fetch", bytes).grant(Grant::none().with_http(grant))).await.unwrap();
        let arguments = serde_json::json!({
            "method": "GET", "scheme": "http", "authority": format!("127.0.0.1:{port}"), "path": "/", "headers": [],
            "send": 0, "keep": 4096, "patience-ms": 600_000,
        });
        // Longer than the test waits, so that the deadline does not end the request.
        let limits = Limits::default().deadline(PATIENCE * 3);
        let running = tokio::spawn({
            let host = host.clone();
            async move { host.call(Call::new("fetch__fetch", arguments).limits(limits)).await }
        });
        let (told, asked) = tokio::task::spawn_blocking(move || {
            let asked = told.recv_timeout(PATIENCE);
            (told, asked)
        })
        .await
        .unwrap();
        assert_eq!(asked, Ok("asked"));
        kill(process(&fetch), Signal::SIGKILL).unwrap();
        let result = running.await.unwrap();
        assert_eq!(result.error().unwrap().kind, ErrorKind::Trap, "{result:?}");
        let ended = tokio::task::spawn_blocking(move || told.recv_timeout(PATIENCE)).await.unwrap();
        assert_eq!(ended, Ok("ended"), "the connection is closed although the host goes on");
    });
}

#[test]
fn an_idle_worker_that_died_fails_no_call() {
    runtime().block_on(async {
        let host = host();
        let counter = load(&host, "counter").await;
        for _ in 0..3 {
            let worker = process(&counter);
            kill(worker, Signal::SIGKILL).unwrap();
            // The socket of the worker is closed with its last thread.
            within_patience("it ends", || {
                let threads = std::fs::read_dir(format!("/proc/{worker}/task")).map_or(0, Iterator::count);
                let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
                threads == 0 || (threads == 1 && stat.contains(") Z "))
            });
            let result = host.call(Call::new("counter__run", "{}")).await;
            assert_eq!(result.text().as_deref(), Some("101"), "{result:?}");
        }
    });
}

#[test]
fn a_worker_that_hangs_is_ended_after_the_deadline() {
    runtime().block_on(async {
        let host = host();
        let counter = load(&host, "counter").await;
        let worker = process(&counter);
        kill(worker, Signal::SIGSTOP).unwrap();
        let limits = Limits::default().deadline(Duration::from_millis(100));
        let started = Instant::now();
        let result = host.call(Call::new("counter__run", "{}").limits(limits)).await;
        assert_eq!(result.error().unwrap().kind, ErrorKind::Deadline, "{result:?}");
        assert!(started.elapsed() < PATIENCE);
        assert_eq!(host.call(Call::new("counter__run", "{}")).await.text().as_deref(), Some("101"));
        assert_ne!(process(&counter), worker);
    });
}

#[test]
fn a_worker_has_no_privileges_environment_or_descriptors() {
    runtime().block_on(async {
        let host = host();
        let worker = process(&load(&host, "counter").await);
        let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
        assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".to_owned(), "2".to_owned()), "{status}");
        assert_eq!(std::fs::read(format!("/proc/{worker}/environ")).unwrap(), b"");
        assert_eq!(std::fs::read_link(format!("/proc/{worker}/cwd")).unwrap(), std::path::Path::new("/"));
        let descriptors: Vec<String> = std::fs::read_dir(format!("/proc/{worker}/fd"))
            .unwrap()
            .map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap().display().to_string())
            .collect();
        let is_own = |to: &String| {
            ["socket:", "pipe:", "anon_inode:", "/dev/null", "/memfd:", "/proc/"].iter().any(|own| to.starts_with(own))
        };
        assert!(descriptors.iter().all(is_own), "{descriptors:?}");
        let limits = std::fs::read_to_string(format!("/proc/{worker}/limits")).unwrap();
        let data = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
        assert!(!data.contains("unlimited"), "{data}");
    });
}

fn children_of(of: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let of_task = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    of_task.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect::<Vec<_>>()
}

fn is_gone(worker: Pid) -> bool {
    kill(worker, None).is_err()
}

#[test]
fn a_worker_ends_with_its_component_and_with_its_host() {
    let runtime = runtime();
    let host = host();
    let worker = runtime.block_on(async {
        let worker = process(&load(&host, "counter").await);
        assert!(host.unload("counter"));
        worker
    });
    within_patience("it ends when it is unloaded", || is_gone(worker));
    drop(host);
    // A host that is killed cannot end its workers itself.
    let bench = Workbench::new();
    bench.program("spin");
    let mut command = bench.command(&["call", "spin.wasm", "run", "--timeout", "60s", "--fuel", "1000000G"]);
    let mut called = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_worker = |pid: &String| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("run-worker"))
    };
    let mut found = None;
    within_patience("it starts a worker", || {
        found = children_of(called.id()).into_iter().find(is_worker);
        found.is_some()
    });
    let worker = Pid::from_raw(found.unwrap().parse().unwrap());
    called.kill().unwrap();
    called.wait().unwrap();
    within_patience("it ends when its host is killed", || is_gone(worker));
}

#[test]
fn only_approved_components_run_in_process() {
    runtime().block_on(async {
        let host = Host::builder().workers(workers()).build().unwrap();
        let bytes = fumehood_tests::component("counter").unwrap();
        let pinned = |name: &str, approval| Load::bytes(name, bytes.clone()).approval(approval);
        assert!(host.load(Load::bytes("plain", bytes.clone())).await.unwrap().is_isolated());
        assert!(host.load(pinned("new", None)).await.unwrap().is_isolated());
        let component = host.component("new").unwrap();
        let approval = fumehood::approval::Approval::new(component.approval().unwrap().parts().clone());
        let known = host.load(pinned("known", Some(approval.clone()))).await.unwrap();
        assert!(!known.is_isolated() && known.jail().is_none() && known.worker_id().is_none());
        assert!(host.call(Call::new("known__run", "{}")).await.is_ok());
        let other = fumehood_tests::component("traps").unwrap();
        let changed = host.load(Load::bytes("changed", other).approval(Some(approval))).await.unwrap();
        assert!(changed.is_isolated(), "other bytes than those that were approved");
    });
}

fn run_with_file_limit(bench: &Workbench, cache: &str) -> CommandOutput {
    let script = format!(
        "ulimit -f 8; exec '{}' {cache} call files.wasm list '{{}}' --no-log --isolation process",
        env!("CARGO_BIN_EXE_fumehood")
    );
    let inherited = bench.command(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(bench.path("")).stdin(Stdio::null());
    for (name, value) in inherited.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Workbench::run_command(command)
}

#[test]
fn a_file_size_limit_below_the_component_is_explained() {
    let bench = Workbench::new();
    bench.example("files");
    // Puts the code into the cache first, because it is larger than the limit too.
    assert_eq!(bench.run(&["inspect", "files.wasm"]).code, 0);
    for (cache, what) in [("", "the component"), ("--no-cache", "the compiled code")] {
        let ran = run_with_file_limit(&bench, cache);
        assert_eq!(ran.code, 6, "{ran:?}");
        assert!(ran.stderr.contains(&format!("{what} does not fit")), "{ran:?}");
        assert!(ran.stderr.contains("4.0 KiB") && ran.stderr.contains("ulimit -f unlimited"), "{ran:?}");
    }
}

async fn assert_no_worker(script: &str, says: &str) {
    let workers = Workers::program("/bin/sh", ["-c", script]);
    let host = Host::builder().workers(workers).build().unwrap();
    let bytes = fumehood_tests::component("counter").unwrap();
    let error = host.load(Load::bytes("counter", bytes)).await.err().unwrap();
    let error = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(error.contains(says), "{script}: {error}");
}

#[test]
fn a_program_that_is_no_worker_is_refused() {
    runtime().block_on(async {
        assert_no_worker("exit 3", "ended with exit code 3").await;
        assert_no_worker("echo no such luck >&2; exit 3", "no such luck").await;
        assert_no_worker("kill -9 $$", "signal 9").await;
        assert_no_worker("printf 'hello, I am no worker' >&0; sleep 1000", "process of the component failed").await;
        let missing = Host::builder().workers(Workers::program("/no/such/program", ["x"])).build().unwrap();
        let bytes = fumehood_tests::component("counter").unwrap();
        let error = missing.load(Load::bytes("counter", bytes)).await.err().unwrap();
        let error = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(error.contains("cannot start the worker program /no/such/program"), "{error}");
    });
}

#[test]
fn log_lines_progress_and_cancelling_pass_through() {
    runtime().block_on(async {
        let host = Arc::new(host());
        let countdown = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/countdown.wasm"));
        host.load(Load::bytes("countdown", countdown.unwrap())).await.unwrap();
        let mut events = host.subscribe();
        let call = Call::new("countdown__countdown", r#"{"from": 3, "step_ms": 5}"#);
        assert!(host.call(call).await.is_ok());
        let mut seen = String::new();
        while !seen.contains(r#""event":"finished""#) {
            let observed = tokio::time::timeout(PATIENCE, events.next()).await;
            let Ok(Some(fumehood::Observed::Event(event))) = observed else { panic!("{observed:?} after {seen}") };
            seen.push_str(&serde_json::to_string(&event).unwrap());
        }
        assert!(seen.contains(r#""event":"progress""#) && seen.contains("fraction"), "{seen}");
        let long = Call::new("countdown__countdown", r#"{"from": 9, "step_ms": 1000}"#);
        // Not before the guest has said something, which may take long on a busy machine.
        let reported = async {
            while let Some(observed) = events.next().await {
                if matches!(observed, fumehood::Observed::Event(fumehood::Event::Progress { .. })) {
                    return Instant::now();
                }
            }
            panic!("the host has gone");
        };
        let (cancelled, mut at) = tokio::sync::oneshot::channel();
        let result = host.call_until(long, async { cancelled.send(reported.await) }).await;
        assert_eq!(result.error().unwrap().kind, ErrorKind::Cancelled, "{result:?}");
        assert!(at.try_recv().unwrap().elapsed() < Duration::from_secs(5));
        assert!(result.metadata.fuel_used > 0, "with the account of what it cost until then");
        // The caller is answered before the guest has stopped.
        let began = Instant::now();
        while host.running() > 0 {
            assert!(began.elapsed() < PATIENCE, "the guest keeps its place");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn modes_are_checked_before_anything_runs() {
    let bench = Workbench::new();
    bench.program("counter");
    let ran = bench.run(&["call", "counter.wasm", "run", "--isolation", "glass"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("`auto`, `in-process`, `process` or `process=required`"), "{}", ran.stderr);
    for mode in ["auto", "in-process", "process", "process=required"] {
        let ran = bench.run(&["call", "counter.wasm", "run", "--isolation", mode]);
        assert_eq!((ran.code, ran.stdout.trim()), (0, "101"), "{mode}: {ran:?}");
    }
}
