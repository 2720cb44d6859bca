//! Components that are made to be expensive to compile cost the host nothing but a few seconds: they are refused before
//! they are compiled, or the process that compiles them is stopped.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::workbench::Workbench;

const MIB: u64 = 1 << 20;
/// Maximum memory of the host for a bomb, above that for a small component.
const SLACK: u64 = 32 * MIB;
const MAX_TIME: Duration = Duration::from_secs(10);
/// Timeout of an inspection: the limit is on CPU time, which takes longer on a busy machine.
const BUSY: Duration = Duration::from_secs(90);
/// Time to wait, which allows for other tests that run concurrently.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a figure of a process, in bytes; `None` if the process has ended.
fn figure(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start_matches(':').trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Returns the running child processes of a process.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()).collect()
}

/// The outcome of an inspection.
#[derive(Debug)]
struct InspectionOutcome {
    code: i32,
    stderr: String,
    time: Duration,
    /// Peak memory of the host, and of its compiler.
    host: u64,
    compiler: u64,
}

fn start(bench: &Workbench, arguments: &[&str]) -> Child {
    bench.command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn inspect(bench: &Workbench, file: &str) -> InspectionOutcome {
    let started = Instant::now();
    let mut process = start(bench, &["inspect", "--no-cache", file]);
    let mut host = 0;
    let mut compiler = 0;
    while process.try_wait().unwrap().is_none() {
        host = host.max(figure(process.id(), "VmHWM").unwrap_or_default());
        for child in children(process.id()) {
            compiler = compiler.max(figure(child, "VmHWM").unwrap_or_default());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let time = started.elapsed();
    let mut stderr = String::new();
    process.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    InspectionOutcome { code: process.wait().unwrap().code().unwrap(), stderr, time, host, compiler }
}

fn component(modules: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {modules})")).unwrap()
}

/// Returns a function of about this size.
fn adds(bytes: usize) -> String {
    format!("(func (result i32) i32.const 1 {})", "i32.const 1 i32.add ".repeat(bytes / 3))
}

/// Returns nested loops.
fn nested(depth: usize) -> String {
    format!("{}{}", "(loop (br_if 0 (local.get 0)) ".repeat(depth), ")".repeat(depth))
}

/// Returns types, each twice as large as the one before when it is expanded.
fn types(count: usize) -> String {
    let first = "(type $t0 (tuple string string))".to_owned();
    (1..count).fold(first, |text, at| format!("{text}(type $t{at} (tuple $t{0} $t{0}))", at - 1))
}

fn module(text: &str) -> Vec<u8> {
    component(&format!("(core module {text})"))
}

fn locals(count: usize) -> String {
    format!("(local {})", "i64 ".repeat(count))
}

fn bombs() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let ifs = "(if (local.get 0) (then (local.set 1 (i64.const 1)))) ".repeat(5_000);
    let loops = nested(1_000);
    let tables = format!("(block (br_table {} (local.get 0)))", "0 ".repeat(2_000)).repeat(100);
    let names: String = (0..120).map(|at| format!("(export \"{at}{}\" (func 0))", "x".repeat(90_000))).collect();
    vec![
        ("adds", module(&adds(600_000)), "bytes in one function"),
        ("locals", module(&format!("(func (param i32) {} {ifs})", locals(5_000))), "local variables in one function"),
        ("ifs", module(&format!("(func (param i32) {} {ifs})", locals(1_900))), "branches times local variables"),
        ("loops", module(&format!("(func (param i32) {} {loops})", locals(1_900))), "branches times local variables"),
        ("depth", module(&format!("(func (param i32) {0})", nested(1_200))), "blocks inside of each other"),
        ("funcs", module(&"(func)".repeat(100_000)), "functions"),
        ("br_table", module(&format!("(func (param i32) {tables})")), "targets of jump tables"),
        ("types", component(&types(40_000)), "types"),
        ("doubling-types", component(&types(100)), "type size"),
        ("names", module(&format!("(func) {names}")), "bytes of imports, exports and aliases"),
        ("components", component(&format!("{}{}", "(component ".repeat(90), ")".repeat(90))), "components inside"),
    ]
}

#[test]
fn compile_bombs_are_refused_before_anything_is_compiled() {
    let bench = Workbench::with_own_cache();
    bench.put("small.wasm", component("(core module)"));
    let small = inspect(&bench, "small.wasm");
    assert_eq!(small.code, 6, "{small:?}");
    for (name, bytes, says) in bombs() {
        bench.put("bomb.wasm", bytes);
        let ran = inspect(&bench, "bomb.wasm");
        assert_eq!(ran.code, 6, "{name}: {ran:?}");
        assert!(ran.stderr.contains(says), "{name}: {ran:?}");
        assert!(ran.time < MAX_TIME, "{name}: {ran:?}");
        assert!(ran.host < small.host + SLACK, "{name}: {ran:?} {small:?}");
    }
}

#[test]
fn what_the_first_look_lets_through_is_compiled_within_its_budget_or_stopped() {
    let bench = Workbench::with_own_cache();
    bench.put("small.wasm", component("(core module)"));
    let small = inspect(&bench, "small.wasm");
    let half = nested(600);
    for (name, bytes) in [
        ("adds", module(&adds(250_000).repeat(2))),
        ("loops", module(&format!("(func (param i32) (local {}) {half})", "i64 ".repeat(1_200)))),
        ("funcs", module(&"(func)".repeat(59_000))),
    ] {
        bench.put("bomb.wasm", bytes);
        let ran = inspect(&bench, "bomb.wasm");
        // If compilation ends in time, the component is refused because it has no tools.
        let ended = ["exports no function", "compiling the component was stopped"];
        assert!(ran.code == 6 && ended.iter().any(|says| ran.stderr.contains(says)), "{name}: {ran:?}");
        assert!(ran.time < BUSY, "{name}: {ran:?}");
        assert!(ran.host < small.host + SLACK, "{name}: {ran:?} {small:?}");
        assert!(ran.compiler < 1100 * MIB, "{name}: {ran:?}");
        println!("{name}: {ran:?}, without it {small:?}");
    }
}

/// Starts to compile a component that takes seconds. Returns once the compiler runs.
fn compiling(bench: &Workbench) -> (Child, u32) {
    bench.put("slow.wasm", component(&format!("(core module {})", adds(250_000).repeat(2))));
    let host = start(bench, &["inspect", "slow.wasm"]);
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < Duration::from_secs(60), "nothing is compiled");
        // A compiler of this size has read its component, so it is compiling.
        let compiler =
            children(host.id()).into_iter().find(|pid| figure(*pid, "VmHWM").is_some_and(|held| held > 64 * MIB));
        match compiler {
            Some(compiler) => return (host, compiler),
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_killed_compiler_fails_only_its_component() {
    let bench = Workbench::with_own_cache();
    let (mut host, compiler) = compiling(&bench);
    kill(compiler);
    let mut stderr = String::new();
    host.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(host.wait().unwrap().code(), Some(6), "{stderr}");
    assert!(stderr.contains("the compiler process failed: it was killed by signal 9"), "{stderr}");
    assert!(
        bench.cache().read_dir().unwrap().all(|entry| entry.unwrap().file_name() == "key"),
        "nothing half-made is kept"
    );
}

#[test]
fn a_compiler_ends_with_its_host() {
    let bench = Workbench::with_own_cache();
    let (mut host, compiler) = compiling(&bench);
    kill(host.id());
    host.wait().unwrap();
    let killed = Instant::now();
    while figure(compiler, "VmRSS").is_some() {
        assert!(killed.elapsed() < PATIENCE, "it compiles on for nobody");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_compiler_command_is_hidden() {
    let bench = Workbench::with_own_cache();
    let ran = Workbench::run_command(bench.command_without_trust(&["compile-component"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    assert!(ran.stderr.contains("for internal use"), "{ran:?}");
    assert_eq!(bench.run(&["--json", "compile-component"]).code, 2);
    assert!(!bench.run(&["--help"]).stdout.contains("compile-component"));
}
