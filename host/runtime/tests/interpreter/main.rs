//! Programs in JavaScript, run by the committed interpreter in the ordinary engine, with calls that the test serves.
//!
//! `FUMEHOOD_EXAMPLES` names another folder of built components, so that fresh builds can be tested in the same way.

#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod fuel_account;
mod types;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::Level;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallError;
use fumehood_core::call::{CancellationToken, FuelAccount};
use fumehood_core::program::{
    Exception, FinishedCall, Program, ProgramCalls, ProgramClock, ProgramError, ProgramExecution,
};
use fumehood_runtime::{Interpreter, Sandbox, SandboxConfig};
use tokio::sync::{Barrier, mpsc};

/// The tools of the tests.
const TOOLS: [&str; 4] = ["clock__meet", "clock__sleep", "text-tools__echo-back", "text-tools__fail"];

static INTERPRETER: LazyLock<Interpreter> = LazyLock::new(|| {
    let committed = || Path::new(env!("CARGO_MANIFEST_DIR")).join("interpreters");
    let folder = std::env::var_os("FUMEHOOD_EXAMPLES").map_or_else(committed, PathBuf::from);
    let bytes = std::fs::read(folder.join("javascript.wasm")).unwrap();
    // A runtime cannot be blocked within another one.
    let loading = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime
            .block_on(async { Sandbox::new(SandboxConfig::default()).unwrap().load_interpreter(bytes).await.unwrap() })
    });
    loading.join().unwrap()
});

/// Tools that wait until three calls of them run, sleep, echo their arguments, and fail.
struct FakeCalls {
    started: u32,
    running: u32,
    meeting: Arc<Barrier>,
    finish: mpsc::UnboundedSender<FinishedCall>,
    finished: mpsc::UnboundedReceiver<FinishedCall>,
    /// The time for which `wait` pauses the deadline.
    pause: Duration,
}

impl Default for FakeCalls {
    fn default() -> Self {
        let (finish, finished) = mpsc::unbounded_channel();
        let meeting = Arc::new(Barrier::new(3));
        Self { started: 0, running: 0, meeting, finish, finished, pause: Duration::ZERO }
    }
}

impl ProgramCalls for FakeCalls {
    fn start(&mut self, name: String, arguments: String) -> u32 {
        self.started += 1;
        self.running += 1;
        let id = self.started;
        let finish = self.finish.clone();
        let meeting = Arc::clone(&self.meeting);
        tokio::spawn(async move {
            let result = match name.as_str() {
                "clock__meet" => {
                    meeting.wait().await;
                    Ok(format!("{id}"))
                }
                "clock__sleep" => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Ok(format!("{id}"))
                }
                "text-tools__echo-back" => Ok(arguments),
                _ => Err(CallError::new(ErrorKind::Unavailable, "it is closed").with_hint("come back later")),
            };
            let _ = finish.send(FinishedCall { id, result });
        });
        id
    }

    fn wait<'a>(&'a mut self, deadline: &'a dyn ProgramClock) -> BoxFuture<'a, Vec<FinishedCall>> {
        Box::pin(async move {
            if !self.pause.is_zero() {
                let _pause = deadline.pause();
                tokio::time::sleep(self.pause).await;
            }
            let mut finished = Vec::new();
            if self.running > 0 {
                finished.extend(self.finished.recv().await);
            }
            while let Ok(more) = self.finished.try_recv() {
                finished.push(more);
            }
            self.running -= u32::try_from(finished.len()).unwrap();
            finished
        })
    }
}

fn program(code: &str) -> Program {
    let limits = Limits::default().deadline(Duration::from_secs(60));
    Program {
        code: code.to_owned(),
        tools: TOOLS.map(str::to_owned).to_vec(),
        seed: 7,
        start_time_ms: 1_700_000_000_000,
        limits,
        cancelled: None,
        account: None,
    }
}

async fn run(program: Program) -> ProgramExecution {
    INTERPRETER.run(program, &mut FakeCalls::default()).await
}

fn value(execution: &ProgramExecution) -> String {
    match &execution.outcome {
        Ok(Some(Content::Json { value })) => value.expose_raw().to_owned(),
        other => panic!("it should return a value: {other:?}"),
    }
}

async fn returned(code: &str) -> String {
    value(&run(program(code)).await)
}

async fn thrown(code: &str) -> Exception {
    match run(program(code)).await.outcome {
        Err(ProgramError::Exception(exception)) => exception,
        other => panic!("it should throw: {other:?}"),
    }
}

async fn stopped(program: Program) -> CallError {
    match run(program).await.outcome {
        Err(ProgramError::Failed(error)) => error,
        other => panic!("it should be stopped: {other:?}"),
    }
}

#[tokio::test]
async fn returns_values_as_json() {
    for (code, expected) in [
        ("return 1+2", "3"),
        ("return await Promise.resolve({a: [1, 'x', null]})", r#"{"a":[1,"x",null]}"#),
        ("```js\nreturn 'fenced'\n```\n", r#""fenced""#),
        ("x = 5; return x // no line break", "5"),
        ("return /(\\d+)/.exec('a12')[1]", r#""12""#),
    ] {
        assert_eq!(returned(code).await, expected, "{code}");
    }
    let nothing = run(program("const x = 1;")).await;
    assert!(matches!(nothing.outcome, Ok(None)), "{:?}", nothing.outcome);
    assert!(nothing.metadata.fuel_used > 0 && nothing.metadata.peak_memory > 0, "{:?}", nothing.metadata);
}

#[tokio::test]
async fn console_keeps_levels_and_its_limit() {
    let execution = run(program("console.log('a', {b: [1]}, 5n); console.error(new TypeError('no'))")).await;
    let lines: Vec<_> = execution.console.iter().map(|line| (line.level, line.text.to_sanitized())).collect();
    let expected = [(Level::Info, "a {\"b\":[1]} 5n".into()), (Level::Error, "TypeError: no".into())];
    assert_eq!(lines, expected);

    let mut flood = program("for (let i = 0; i < 1e5; i++) console.log('x'.repeat(100)); return 'over'");
    flood.limits.log = 4096;
    let execution = run(flood).await;
    assert_eq!(value(&execution), "\"over\"");
    let bytes: usize = execution.console.iter().map(|line| line.text.len()).sum();
    assert!(bytes > 2048 && bytes <= 4096, "{bytes}");
}

#[tokio::test]
async fn calls_of_a_program_run_concurrently() {
    let code = "return await Promise.all([1, 2, 3].map(() => tools.clock.meet()))";
    assert_eq!(returned(code).await, "[1,2,3]");
    let code = "let r = []; for (const i of [1, 2, 3]) r.push(await tools.clock.sleep()); return r";
    assert_eq!(returned(code).await, "[1,2,3]");
}

#[tokio::test]
async fn tools_are_found_by_each_spelling() {
    for tool in [
        "tools['text-tools']['echo-back']",
        "tools.text_tools.echo_back",
        "tools['text-tools__echo-back']",
        "tools.text_tools__echo_back",
    ] {
        assert_eq!(returned(&format!("return await {tool}({{q: 1}})")).await, r#"{"q":1}"#, "{tool}");
    }
    assert_eq!(returned("return Object.keys(tools)").await, r#"["clock","text-tools"]"#);
    assert_eq!(returned("return Object.isFrozen(tools) && Object.isFrozen(tools.clock)").await, "true");
    let unknown = thrown("await tools.nothing.here()").await;
    assert_eq!(unknown.name.as_str(), "TypeError");
}

#[tokio::test]
async fn failed_calls_are_exceptions() {
    let code = "try { await tools.text_tools.fail() } catch (e) {\
                return [e.name, e.kind, e.message, e.retryable, e instanceof ToolError] }";
    let expected = r#"["ToolError","unavailable","it is closed; come back later",true,true]"#;
    assert_eq!(returned(code).await, expected);
    let uncaught = thrown("const x = 1;\n\n  await tools.text_tools.fail();").await;
    assert_eq!((uncaught.name.as_str(), uncaught.line), ("ToolError", Some(3)));
    assert_eq!(uncaught.kind.unwrap().as_str(), "unavailable");
    let code = "const all = await Promise.allSettled([tools.text_tools.fail(), tools.text_tools.echo_back({})]);\
                return all.map(one => one.status)";
    assert_eq!(returned(code).await, r#"["rejected","fulfilled"]"#);
}

#[tokio::test]
async fn exceptions_name_the_line_of_the_program() {
    for (code, name, position) in [
        ("const x = 1;\nlet y = x +\n  foo.bar();", "ReferenceError", (Some(3), Some(3))),
        ("null.x", "TypeError", (Some(1), Some(1))),
        ("let ok = 1;\nlet broken = ;", "SyntaxError", (Some(2), Some(14))),
        ("if (true) {\n  let a = 1;", "SyntaxError", (Some(2), Some(1))),
        (
            "```javascript\nfunction f() {\n  throw new RangeError('far')\n}\nf()\n```",
            "RangeError",
            (Some(3), Some(13)),
        ),
    ] {
        let exception = thrown(code).await;
        assert_eq!((exception.name.as_str(), (exception.line, exception.column)), (name, position), "{exception}");
    }
    let forged = thrown("throw Object.assign(new Error('x'), {stack: 'program.js:99999999999:1'})").await;
    assert_eq!(forged.line, None);
}

#[tokio::test]
async fn programs_are_deterministic_and_share_nothing() {
    let code = "globalThis.count = (globalThis.count ?? 0) + 1; Array.prototype.mine = 1;\
                return [Math.random(), Math.random(), Date.now(), new Date().toISOString(), count]";
    let first = returned(code).await;
    let second = returned(code).await;
    assert_eq!(first, second);
    assert!(first.contains("2023-11-14T22:13:20.000Z") && first.ends_with(",1]"), "{first}");
    assert_eq!(returned("return [typeof count, [].mine === undefined]").await, r#"["undefined",true]"#);
    let other = value(&run(Program { seed: 8, ..program(code) }).await);
    assert_ne!(first, other);
    let fuel = async || run(program(code)).await.metadata.fuel_used;
    assert_eq!(fuel().await, fuel().await);
}

#[tokio::test]
async fn timers_advance_the_logical_clock() {
    let code = "const start = Date.now(); await new Promise(done => setTimeout(done, 3600e3));\
                return Date.now() - start";
    let started = Instant::now();
    assert_eq!(returned(code).await, "3600000");
    assert!(started.elapsed() < Duration::from_secs(60));
    let never = thrown("await new Promise(() => {})").await;
    assert!(never.message.contains("nothing settles"), "{never}");
}

#[tokio::test]
async fn endless_programs_are_stopped() {
    let loops = [
        "while (true);",
        "for (;;) await null",
        "/^(a+)+$/.test('a'.repeat(40) + 'b')",
        "setInterval(() => 0); await new Promise(() => 0)",
    ];
    for code in loops {
        let mut endless = program(code);
        endless.limits = endless.limits.deadline(Duration::from_millis(200)).fuel(u64::MAX / 2);
        let started = Instant::now();
        let error = stopped(endless).await;
        assert_eq!(error.kind, ErrorKind::Deadline, "{code}: {error:?}");
        assert!(started.elapsed() < Duration::from_secs(20), "{code}: {:?}", started.elapsed());
    }
    let mut costly = program("while (true);");
    costly.limits.fuel = 50_000_000;
    assert_eq!(stopped(costly).await.kind, ErrorKind::Fuel);
    assert_eq!(returned("return 1").await, "1");
}

#[tokio::test]
async fn too_much_memory_is_an_exception_or_an_error() {
    for code in [
        "let all = []; while (true) all.push(new Array(1000).fill(all.length))",
        "let all = []; while (true) all.push('x'.repeat(1e6) + all.length)",
        "return 'x'.repeat(500e6)",
        "let p = []; for (let i = 0; i < 1e7; i++) p.push(Promise.resolve(i)); await Promise.all(p)",
        "const b = []; while (true) b.push(new Uint8Array(1e6).fill(1))",
    ] {
        let mut greedy = program(code);
        greedy.limits.memory = 32 << 20;
        match run(greedy).await.outcome {
            Err(ProgramError::Exception(exception)) => {
                assert!(exception.message.contains("memory"), "{code}: {exception}");
            }
            Err(ProgramError::Failed(error)) => assert_eq!(error.kind, ErrorKind::Memory, "{code}: {error:?}"),
            other => panic!("{code}: {other:?}"),
        }
    }
    let caught = "let all = []; try { while (true) all.push(new Array(1000).fill(1)) } catch { all = null }; return 1";
    assert_eq!(returned(caught).await, "1");
}

#[tokio::test]
async fn large_values_are_refused() {
    let mut large = program("return 'x'.repeat(5000)");
    large.limits.output = 1000;
    let Err(ProgramError::Exception(exception)) = run(large).await.outcome else { panic!("it should throw") };
    assert!(exception.message.contains("at most 1000"), "{exception}");
}

#[tokio::test]
async fn deep_recursion_is_an_exception() {
    for code in [
        "const f = n => f(n + 1) + 1; f(0)",
        "const o = {get a() { return this.a }}; o.a",
        "function f() { return [1].map(f) } f()",
        "class A { constructor() { new A() } } new A()",
        "async function f() { await f() } await f()",
        "const o = {toString() { return '' + this }}; '' + o",
        "function f() { return 'a'.replace(/a/, f) } f()",
    ] {
        let exception = thrown(code).await;
        assert_eq!(exception.name.as_str(), "RangeError", "{code}: {exception}");
    }
    let deep = "const f = n => n === 0 ? 0 : f(n - 1) + 1; return f(400)";
    assert_eq!(returned(deep).await, "400");
    // The parsers of JSON and of the language use more of the sandbox's stack than the engine can see.
    for code in ["JSON.parse('['.repeat(1e5))", "eval('('.repeat(1e5))"] {
        match run(program(code)).await.outcome {
            Err(ProgramError::Exception(exception)) => assert_eq!(exception.name.as_str(), "RangeError", "{code}"),
            Err(ProgramError::Failed(error)) => assert_eq!(error.kind, ErrorKind::Trap, "{code}: {error:?}"),
            other => panic!("{code}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn tampering_with_the_language_stays_in_the_program() {
    for code in [
        "JSON.stringify = () => '{}'; Promise.prototype.then = null; return [1]",
        "Object.prototype.then = 1; Map.prototype.get = null; return [1]",
        "Symbol.iterator = null; Array.prototype[Symbol.iterator] = null; return [1]",
    ] {
        assert_eq!(returned(code).await, "[1]", "{code}");
    }
    assert_eq!(
        returned("return typeof fetch + typeof require + typeof process").await,
        "\"undefinedundefinedundefined\""
    );
    assert_eq!(thrown("throw {get message() { throw 1 }}").await.line, None);
    assert_eq!(thrown("return await import('fs')").await.name.as_str(), "ReferenceError");
}

fn deadline_limits(deadline_ms: u64) -> Limits {
    Limits::default().deadline(Duration::from_millis(deadline_ms))
}

#[tokio::test]
async fn a_pause_does_not_count_towards_the_deadline() {
    let code = "return await tools.text_tools.echo_back({})";
    let waiting = Program { limits: deadline_limits(1000), ..program(code) };
    let mut calls = FakeCalls { pause: Duration::from_millis(2500), ..FakeCalls::default() };
    assert_eq!(value(&INTERPRETER.run(waiting, &mut calls).await), "{}");

    let code = "while (true) await tools.clock.sleep()";
    let late = Program { limits: deadline_limits(250), ..program(code) };
    assert_eq!(stopped(late).await.kind, ErrorKind::Deadline);
}

#[tokio::test]
async fn cancellation_stops_computing_and_waiting() {
    for code in ["while (true);", "while (true) await tools.clock.sleep()"] {
        let token = CancellationToken::new();
        let cancelled = Program { cancelled: Some(token.clone()), ..program(code) };
        let running = tokio::spawn(run(cancelled));
        tokio::time::sleep(Duration::from_millis(50)).await;
        token.cancel();
        match running.await.unwrap().outcome {
            Err(ProgramError::Failed(error)) => assert_eq!(error.kind, ErrorKind::Cancelled, "{code}"),
            other => panic!("{code}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_programs_run_at_once() {
    let code = "let n = 0; for (let i = 0; i < 20000; i++) n += i; await tools.clock.sleep(); return n";
    let running: Vec<_> = (0..100).map(|_| tokio::spawn(run(program(code)))).collect();
    for program in running {
        assert_eq!(value(&program.await.unwrap()), "199990000");
    }
}
