//! The compiler process as an embedder sets it up: this program or another, with its own limits.

use std::path::Path;
use std::time::{Duration, Instant};

use fumehood::{
    CodeCache, CompileBudget, CompileLimit, CompileLimits, Compiler, ComponentError, Host, Load, LoadError,
};

const MIB: u64 = 1 << 20;
/// Time to wait, which allows for other tests that run concurrently.
const PATIENCE: Duration = Duration::from_secs(20);

fn own() -> CompileBudget {
    CompileBudget { time: Duration::from_secs(60), ..CompileBudget::default() }
}

fn compiler(budget: CompileBudget) -> Compiler {
    Compiler::Child { program: env!("CARGO_BIN_EXE_fumehood").into(), args: vec!["compile-component".into()], budget }
}

fn shell(script: &str, budget: CompileBudget) -> Compiler {
    Compiler::Child { program: "/bin/sh".into(), args: vec!["-c".into(), script.into()], budget }
}

fn host(compiler: Compiler) -> Host {
    Host::builder().concurrency(2).compiler(compiler).build().unwrap()
}

/// Returns a component that takes a while to compile: functions of this size.
fn slow(bytes: usize) -> Vec<u8> {
    functions(bytes, 2)
}

fn functions(bytes: usize, count: usize) -> Vec<u8> {
    let function = format!("(func (result i32) i32.const 1 {})", "i32.const 1 i32.add ".repeat(bytes / 3));
    wat::parse_str(format!("(component (core module {}))", function.repeat(count))).unwrap()
}

async fn refused(host: &Host, bytes: Vec<u8>) -> ComponentError {
    match host.load(Load::bytes("it", bytes)).await {
        Err(LoadError::Component { source, .. }) => *source,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was loaded"),
    }
}

#[tokio::test]
async fn components_compiled_in_a_process_run_and_are_cached() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = fumehood_tests::component("count").unwrap();
    for cache in [None, Some(()), Some(())] {
        let builder = Host::builder().concurrency(2).compiler(compiler(own()));
        let builder = match cache {
            None => builder,
            Some(()) => builder.code_cache(CodeCache::open(folder.path().join("cache")).unwrap()),
        };
        let host = builder.build().unwrap();
        let component = host.load(Load::bytes("it", bytes.clone())).await.unwrap();
        let called = host.call(fumehood::Call::new("it__run", r#"{"to": 3}"#)).await;
        assert_eq!(called.text().as_deref(), Some("3"), "{called:?} {:?}", component.report());
    }
    let cache = CodeCache::open(folder.path().join("cache")).unwrap();
    // Code of the compiler process in the cache is accepted by a host that compiles in its own process.
    let host = Host::builder().concurrency(2).code_cache(cache).build().unwrap();
    let component = host.load(Load::bytes("it", bytes)).await.unwrap();
    assert_eq!(component.report().cache, fumehood::CacheReport::Hit);
}

async fn assert_stopped_by(budget: CompileBudget, bytes: Vec<u8>, expected: CompileLimit) {
    let started = Instant::now();
    match refused(&host(compiler(budget)), bytes).await {
        ComponentError::CompileStopped { limit, .. } => assert_eq!(limit, expected),
        other => panic!("{expected:?}: {other:?}"),
    }
    assert!(started.elapsed() < PATIENCE, "{expected:?}");
}

#[tokio::test]
async fn each_limit_stops_the_compiler_and_is_named() {
    let none = Duration::ZERO;
    assert_stopped_by(CompileBudget { memory: 64 * MIB, ..own() }, slow(200_000), CompileLimit::Memory).await;
    let cpu = CompileBudget { cpu: Duration::from_secs(1), cpu_per_mib: none, ..own() };
    assert_stopped_by(cpu, functions(250_000, 16), CompileLimit::Cpu).await;
    let time = CompileBudget { time: Duration::from_millis(100), time_per_mib: none, ..own() };
    assert_stopped_by(time, slow(250_000), CompileLimit::Time).await;
    assert_stopped_by(CompileBudget { output: 1000, ..own() }, slow(100), CompileLimit::Output).await;
}

#[tokio::test]
async fn compile_limits_are_settings() {
    let limits = CompileLimits { functions: 1, ..CompileLimits::default() };
    let host = Host::builder().concurrency(2).compile_limits(limits).build().unwrap();
    let error = refused(&host, slow(10)).await;
    assert!(matches!(error, ComponentError::TooComplex { what: "functions", found: 2, limit: 1 }), "{error:?}");
    // If it may be slow, it is compiled, and refused because it has no tools.
    let error = host.load(Load::bytes("it", slow(10)).allow_slow_compile()).await.err().unwrap();
    assert!(format!("{error:?}").contains("exports no function"), "{error:?}");
}

#[tokio::test]
async fn a_program_that_is_no_compiler_is_an_error() {
    let missing = Compiler::Child { program: "/no/such/program".into(), args: Vec::new(), budget: own() };
    let error = refused(&host(missing), slow(10)).await;
    assert!(
        matches!(&error, ComponentError::NoCompiler { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    );
    assert!(error.to_string().contains("cannot start the compiler /no/such/program"), "{error}");
    for (script, says) in [
        ("exit 0", "exit code 0 without output"),
        ("echo garbage, garbage, garbage", "did not return compiled code"),
        ("yes", "did not return compiled code"),
        ("cat", "did not return compiled code"),
        ("kill -9 $$", "signal 9"),
    ] {
        let error = refused(&host(shell(script, own())), slow(10)).await;
        assert!(matches!(&error, ComponentError::Compiler(how) if how.contains(says)), "{script}: {error:?}");
    }
}

fn is_running(pid_file: &Path) -> bool {
    let pid = std::fs::read_to_string(pid_file).unwrap();
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn gone(pid_file: &Path) {
    let started = Instant::now();
    while is_running(pid_file) {
        assert!(started.elapsed() < PATIENCE, "it is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_hanging_compiler_is_killed_at_its_deadline_or_if_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let script = format!("echo $$ >{0}.new; mv {0}.new {0}; sleep 1000; sleep 1000", pid_file.display());
    let time = CompileBudget { time: Duration::from_secs(1), ..own() };
    let error = refused(&host(shell(&script, time)), slow(10)).await;
    assert!(matches!(error, ComponentError::CompileStopped { limit: CompileLimit::Time, .. }), "{error:?}");
    gone(&pid_file).await;

    std::fs::remove_file(&pid_file).unwrap();
    let host = host(shell(&script, own()));
    let mut loading = Box::pin(host.load(Load::bytes("it", slow(10))));
    while !pid_file.exists() {
        assert!(tokio::time::timeout(Duration::from_millis(5), loading.as_mut()).await.is_err());
    }
    assert!(is_running(&pid_file));
    drop(loading);
    gone(&pid_file).await;
}

#[tokio::test]
async fn two_compile_at_once_and_the_others_wait() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let host = host(shell(&format!("echo + >>{0}; sleep 0.3; echo - >>{0}", log.display()), own()));
    let loads = (0..5).map(|at| {
        let host = host.clone();
        tokio::spawn(async move { host.load(Load::bytes(format!("it-{at}"), slow(10))).await.is_err() })
    });
    for load in loads.collect::<Vec<_>>() {
        assert!(load.await.unwrap());
    }
    let log = std::fs::read_to_string(log).unwrap();
    let mut running = 0_i32;
    let counts: Vec<i32> = log
        .lines()
        .map(|line| {
            running += if line == "+" { 1 } else { -1 };
            running
        })
        .collect();
    assert_eq!((counts.len(), counts.iter().max(), running), (10, Some(&2), 0), "{log}");
}

/// Returns the median time of a few loads of a component, without a cache.
async fn cold_load(compiler: Compiler, bytes: &[u8]) -> Duration {
    let host = host(compiler);
    let mut times = Vec::new();
    for at in 0..7 {
        let component = host.load(Load::bytes(format!("it-{at}"), bytes)).await.unwrap();
        times.push(component.report().time);
    }
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test]
async fn a_process_of_its_own_takes_little_longer() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../example-tools/dist");
    for name in ["typed-greeter", "calculator"] {
        let bytes = std::fs::read(dist.join(name).with_extension("wasm")).unwrap();
        let here = cold_load(Compiler::InProcess, &bytes).await;
        let there = cold_load(compiler(own()), &bytes).await;
        println!("{name} of {} bytes: {here:?} in this process, {there:?} in one of its own", bytes.len());
        // The difference is 30 ms on an idle machine.
        assert!(there < here * 3 + Duration::from_millis(500), "{name}: {here:?} {there:?}");
    }
}
