//! The cost of MCP, seen by a raw client: `fumehood serve mcp` against a server without any sandbox, in the same run.
//!
//! `cargo bench -p fumehood-cli --bench mcp`, or `cargo bench -p fumehood-cli --bench mcp -- gateway` for one part. With
//! `FUMEHOOD_BEFORE=PROGRAM` the gateway is measured beside an earlier build of `fumehood`, call by call.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

mod raw_client;

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};

use raw_client::{Http, Wire};

/// Argument that makes this bench run as the server without a sandbox.
const NULL: &str = "--null-server";
/// Environment variable that names an earlier build of `fumehood` to compare with.
const BEFORE: &str = "FUMEHOOD_BEFORE";
const CALLS: usize = if cfg!(debug_assertions) { 300 } else { 5_000 };
/// Numbers of busy threads beside the calls.
const BUSY_THREADS: [usize; 4] = [0, 1, 2, 4];
const BUSY_CALLS: usize = if cfg!(debug_assertions) { 300 } else { 1_500 };
const STARTS: usize = if cfg!(debug_assertions) { 5 } else { 50 };

/// A server of the same library with a single tool and no sandbox, as the baseline.
#[derive(Clone)]
struct Null;

impl ServerHandler for Null {
    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        let schema = schema.as_object().cloned().expect("an object");
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo__echo", "Returns its arguments.", schema)]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = serde_json::to_string(&request.arguments.unwrap_or_default()).expect("JSON");
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn null_server() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let served = Null.serve((tokio::io::stdin(), tokio::io::stdout())).await.expect("a handshake");
        served.waiting().await.expect("an end");
    });
    runtime.shutdown_timeout(Duration::ZERO);
}

/// The folder of the measured components, and the arguments of each call.
struct Bench {
    folder: tempfile::TempDir,
    arguments: Value,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str, bytes: Vec<u8>| std::fs::write(folder.path().join(name), bytes).expect("it is written");
        put("echo.wasm", fumehood_tests::contract("echo").expect("the program"));
        put("spin.wasm", fumehood_tests::component("spin").expect("the program"));
        put("sleep.wasm", fumehood_tests::component("sleep").expect("the program"));
        Self { folder, arguments: json!({"text": "x".repeat(1000)}) }
    }

    fn fumehood(&self, arguments: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_fumehood").as_ref(), "state", arguments)
    }

    /// Returns the command of a build of `fumehood` that keeps its state in a folder of its own.
    fn program(&self, program: &OsStr, state: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(["serve", "mcp"]).args(arguments).current_dir(self.folder.path());
        command.env("FUMEHOOD_CACHE_DIR", self.folder.path().join("cache")).env_remove("FUMEHOOD_CONFIG");
        command.env("XDG_STATE_HOME", self.folder.path().join(state)).env_remove("FUMEHOOD_LOG");
        command
    }

    fn null(&self) -> Command {
        let mut command = Command::new(this_program());
        command.arg(NULL);
        command
    }

    fn median_start(&self, command: &dyn Fn() -> Command) -> f64 {
        let mut times: Vec<Duration> = (0..STARTS)
            .map(|_| {
                let began = Instant::now();
                Wire::start(&mut command()).timed("echo__echo", &self.arguments);
                began.elapsed()
            })
            .collect();
        percentile(&mut times, 0.5)
    }

    fn start(&self) {
        self.median_start(&|| self.fumehood(&["echo.wasm"]));
        let ours = self.median_start(&|| self.fumehood(&["echo.wasm"]));
        let floor = self.median_start(&|| self.null());
        println!("start to first answer, warm cache: p50 {:.1} ms (null server {:.1} ms)", ours / 1e3, floor / 1e3);
    }

    fn latency(&self) {
        let mut null = Wire::start(&mut self.null());
        let mut ours = Wire::start(&mut self.fumehood(&["echo.wasm"]));
        let mut floor = Vec::new();
        let mut times = Vec::new();
        // By turns, so that both are measured under the same load of the machine.
        for round in 0..CALLS + 100 {
            let of_null = null.timed("echo__echo", &self.arguments);
            let of_ours = ours.timed("echo__echo", &self.arguments);
            if round >= 100 {
                floor.push(of_null);
                times.push(of_ours);
            }
        }
        let floor50 = percentile(&mut floor, 0.5);
        let ours50 = percentile(&mut times, 0.5);
        let ours99 = percentile(&mut times, 0.99);
        println!(
            "stdio, 1 KB echo: p50 {ours50:.0} µs, p99 {ours99:.0} µs; null server p50 {floor50:.0} µs; factor {:.2}",
            ours50 / floor50
        );
        let rate = ours.rate(&self.arguments, 8);
        let floor = null.rate(&self.arguments, 8);
        println!("stdio, 8 in flight: {rate:.0} calls/s (null server {floor:.0})");
    }

    /// Measures calls beside threads that never sleep: with and without workers, with and without the log, by turns.
    fn busy(&self) {
        let servers: [(&str, Command); 5] = [
            ("null server", self.null()),
            ("in-process", self.fumehood(&["--isolation", "in-process", "--no-log", "echo.wasm"])),
            ("and log", self.fumehood(&["--isolation", "in-process", "--log", "here.db", "echo.wasm"])),
            ("worker", self.fumehood(&["--isolation", "process", "--no-log", "echo.wasm"])),
            ("and log", self.fumehood(&["--isolation", "process", "--log", "apart.db", "echo.wasm"])),
        ];
        print!("\n{:<16}", "stdio, p50 in µs");
        let mut wires = servers.map(|(name, mut command)| {
            print!(" {name:>12}");
            Wire::start(&mut command)
        });
        println!(" {:>14} {:>14}", "worker/here", "both with log");
        for threads in BUSY_THREADS {
            let mut times: [Vec<Duration>; 5] = Default::default();
            beside_busy_threads(threads, || {
                for round in 0..BUSY_CALLS + 100 {
                    for (wire, times) in wires.iter_mut().zip(&mut times) {
                        let took = wire.timed("echo__echo", &self.arguments);
                        times.extend((round >= 100).then_some(took));
                    }
                }
            });
            print!("{:<16}", format!("{threads} busy threads"));
            let p50 = times.map(|mut times| percentile(&mut times, 0.5));
            p50.iter().for_each(|p50| print!(" {p50:>12.0}"));
            println!(" {:>14.2} {:>14.2}", p50[3] / p50[1], p50[4] / p50[2]);
        }
    }

    /// Calls the same server directly, through `--servers`, and through that of an earlier build where one is named, by turns.
    fn gateway(&self) {
        let program = this_program();
        let server =
            format!("[mcp.servers.null]\ncommand = [{program:?}, {NULL:?}]\napproval = \"off\"\nstring = \"1MiB\"\n");
        std::fs::write(self.folder.path().join("gateway.toml"), server).expect("it is written");
        let arguments = ["--servers", "--config", "gateway.toml"];
        let mut servers = vec![
            ("direct", "echo__echo", Wire::start(&mut self.null())),
            ("re-served", "null__echo__echo", Wire::start(&mut self.fumehood(&arguments))),
        ];
        if let Some(before) = std::env::var_os(BEFORE) {
            let mut earlier = self.program(&before, "state-before", &arguments);
            servers.push(("before", "null__echo__echo", Wire::start(&mut earlier)));
        }
        let mut times = vec![Vec::with_capacity(CALLS); servers.len()];
        for round in 0..CALLS + 100 {
            for ((_, tool, wire), times) in servers.iter_mut().zip(&mut times) {
                let took = wire.timed(tool, &self.arguments);
                times.extend((round >= 100).then_some(took));
            }
            // What ran just before a call changes its time, so the two builds change places. The rounds are even in number.
            servers[1..].reverse();
            times[1..].reverse();
        }
        let p50: Vec<f64> = times.iter_mut().map(|times| percentile(times, 0.5)).collect();
        println!("{:<36} {:>10} {:>14}", "gateway, 1 KB echo, recorded", "p50 in µs", "over direct");
        for ((name, ..), p50_of_name) in servers.iter().zip(&p50) {
            println!("{name:<36} {p50_of_name:>10.0} {:>14.2}", p50_of_name / p50[0]);
        }
        if let Some(before) = p50.get(2) {
            println!("re-served over before: {:.2}", p50[1] / before);
        }
    }

    fn http(&self) {
        let mut child = self
            .fumehood(&["--http", "127.0.0.1:0", "--no-auth", "echo.wasm"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("http://"))).expect("an address");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
        let mut http = Http::connect(address);
        let mut times: Vec<_> = (0..CALLS + 100).map(|_| http.timed(&self.arguments)).skip(100).collect();
        let p50 = percentile(&mut times, 0.5);
        let p99 = percentile(&mut times, 0.99);
        println!("HTTP, 1 KB echo, stateless revision: p50 {:.3} ms, p99 {:.3} ms", p50 / 1e3, p99 / 1e3);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }

    fn beside_loops(&self) {
        let mut hostile =
            Wire::start(&mut self.fumehood(&["--timeout", "20s", "--fuel", "1000G", "echo.wasm", "spin.wasm"]));
        (0..8).for_each(|_| _ = hostile.call("spin__run", &json!({})));
        std::thread::sleep(Duration::from_millis(200));
        let calls = CALLS.min(500);
        let mut times: Vec<_> = (0..calls).map(|_| hostile.timed("echo__echo", &self.arguments)).collect();
        let p50 = percentile(&mut times, 0.5);
        let p99 = percentile(&mut times, 0.99);
        println!("beside 8 infinite loops in the same server: p50 {:.2} ms, p99 {:.2} ms", p50 / 1e3, p99 / 1e3);
        let _gone = hostile.child.kill();
    }

    fn memory(&self) {
        let components = ["--calls", "128", "--timeout", "20s", "echo.wasm", "sleep.wasm"];
        let mut server = Wire::start(&mut self.fumehood(&components));
        server.timed("echo__echo", &self.arguments);
        let idle = server.resident();
        (0..100).for_each(|_| _ = server.call("sleep__run", &json!({})));
        std::thread::sleep(Duration::from_millis(1000));
        let busy = server.resident();
        let each = busy.saturating_sub(idle) as f64 / 100.0;
        println!("idle: {:.1} MiB resident; {each:.0} KiB for each of 100 sleeping calls (WASI)", idle as f64 / 1024.0);
        let _gone = server.child.kill();
    }
}

/// Runs `measure` beside threads that never sleep.
fn beside_busy_threads(threads: usize, measure: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        measure();
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Returns the percentile `share` (0 to 1), in microseconds.
fn percentile(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("this program")
}

/// A part of the bench: its name, and what it measures.
type Part = (&'static str, fn(&Bench));

fn main() {
    if std::env::args().any(|argument| argument == NULL) {
        return null_server();
    }
    let bench = Bench::new();
    let parts: [Part; 7] = [
        ("start", Bench::start),
        ("latency", Bench::latency),
        ("busy", Bench::busy),
        ("gateway", Bench::gateway),
        ("http", Bench::http),
        ("beside-loops", Bench::beside_loops),
        ("memory", Bench::memory),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    for (_, measure) in parts.iter().filter(|(name, _)| is_wanted(name)) {
        measure(&bench);
    }
}
