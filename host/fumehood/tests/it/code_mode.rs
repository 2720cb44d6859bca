//! Code mode from the model's reply to the sandbox and back: programs that call sandboxed tools.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fumehood::agent::agent::{Outcome, SystemClock};
use fumehood::agent::budget::{Budget, BudgetKind};
use fumehood::agent::code::{CodeMode, CodeProvider, ProgramLimits};
use fumehood::agent::execution::{Status, ToolExecution};
use fumehood::agent::transcript::Ending;
use fumehood::boxed::BoxFuture;
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::policy::{Answer, Approver, Decision, PolicyFn, Question};
use fumehood::record::{Durability, Record, RecordError, RecordKind, Recorder};
use fumehood::{AgentBuilder, Call, CallContext, ErrorKind, Host, Load, ToolProvider as _, ValidatedCall};
use fumehood_tests::longest_poll::longest_poll;
use serde_json::{Value, json};

const TOOLS: [&str; 2] = ["calculator", "countdown"];

#[derive(Default)]
struct Records(Mutex<Vec<Record>>);

impl Recorder for Records {
    fn record(&self, record: Record, _: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        self.0.lock().unwrap().push(record);
        Box::pin(std::future::ready(Ok(())))
    }
}

async fn host() -> Host {
    let host = Host::builder().concurrency(32).build().unwrap();
    for name in TOOLS {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist");
        host.load(Load::path(format!("{folder}/{name}.wasm"))).await.unwrap();
    }
    host
}

fn run_code(code: &str) -> ScriptedReply {
    ScriptedReply::call("run_code", json!({"code": code}).to_string())
}

/// Runs an agent whose model writes these programs, one after the other, and then says that it is done.
async fn run_with(host: &Host, programs: &[&str], with: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Outcome {
    let mut replies: Vec<_> = programs.iter().map(|program| run_code(program)).collect();
    replies.push(ScriptedReply::text("done"));
    let agent = host.agent(Arc::new(ScriptedModel::new(replies))).allow_everything();
    let mut agent = with(agent.code(CodeMode::only())).build().unwrap();
    agent.run("go").await.unwrap()
}

fn executions(outcome: &Outcome) -> Vec<ToolExecution> {
    outcome.run.executions().cloned().collect()
}

async fn execute(host: &Host, program: &str) -> ToolExecution {
    executions(&run_with(host, &[program], |agent| agent).await).remove(0)
}

fn value(execution: &ToolExecution) -> Value {
    let text = execution.result.text().unwrap_or_else(|| panic!("{:?}", execution.result));
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn a_program_calls_sandboxed_tools_and_the_log_has_all_of_it() {
    let host = host().await;
    let records = Arc::new(Records::default());
    let code = "const sums = await Promise.all([1, 2, 3].map(n => tools.calculator.add({a: n, b: n})));\n\
                console.log('sums', sums);\n\
                return sums.reduce((all, sum) => all + sum.result, 0);";
    let outcome = run_with(&host, &[code], |agent| agent.recorder(records.clone())).await;
    assert_eq!(outcome.text(), "done");
    let execution = &executions(&outcome)[0];
    let expected = json!({"result": 12, "console": [r#"sums [{"result":2},{"result":4},{"result":6}]"#]});
    assert_eq!((execution.status, value(execution)), (Status::Ok, expected));

    let records = records.0.lock().unwrap();
    let started: Vec<_> = records.iter().filter(|record| record.kind == RecordKind::ToolStarted).collect();
    assert_eq!(started.len(), 4);
    assert_eq!(started[0].tool.as_deref(), Some("run_code"));
    for call in &started[1..] {
        assert_eq!(call.tool.as_deref(), Some("calculator__add"));
        let parent = |record: &Record| records.iter().find(|it| Some(&it.id) == record.parent.as_ref()).unwrap();
        let verdict = parent(call);
        assert_eq!((verdict.kind, parent(verdict)), (RecordKind::Verdict, started[0]));
    }
    let fuel = |record: &&Record| record.body["fuel_used"].as_u64().unwrap();
    let finished: Vec<_> = records.iter().filter(|record| record.kind == RecordKind::ToolFinished).collect();
    assert_eq!(finished.len(), 4);
    let of_calls: u64 = finished[..3].iter().map(fuel).sum();
    assert!(fuel(&finished[3]) > of_calls && of_calls > 0, "the program pays for its calls");
}

#[tokio::test]
async fn failures_of_calls_are_exceptions_with_their_kind_and_line() {
    let host = host().await;
    let caught = "try { await tools.calculator.add({a: 'one', b: 2}) } catch (e) { return [e.name, e.kind] }";
    assert_eq!(value(&execute(&host, caught).await)["result"], json!(["ToolError", "invalid_arguments"]));
    let thrown = execute(&host, "console.log('before');\n\nawait tools.calculator.divide({a: 1, b: 0});").await;
    let message = thrown.error_message();
    assert!(message.starts_with("ToolError: ") && message.contains("[tool_failed] (line 3"), "{message}");
    assert!(message.ends_with("console:\nbefore"), "{message}");
    let unknown = execute(&host, "return await tools.calculator.nothing()").await;
    assert!(unknown.error_message().contains("TypeError"), "{}", unknown.error_message());
    let nested = execute(&host, "return typeof tools.host?.run_code + typeof tools.run_code").await;
    assert_eq!(value(&nested)["result"], "undefinedundefined");
}

#[tokio::test]
async fn tools_are_found_by_searching() {
    let host = host().await;
    let replies = vec![
        ScriptedReply::call("search_tools", r#"{"query": "multiply"}"#),
        run_code("return (await tools.calculator.multiply({a: 6, b: 7})).result").expect_text("multiply(args:"),
        ScriptedReply::text("42").expect_text(r#"{"result":42}"#),
    ];
    let agent = host.agent(Arc::new(ScriptedModel::new(replies))).allow_everything();
    let mut agent = agent.code(CodeMode::beside_direct_calls()).build().unwrap();
    let names: Vec<_> = agent.tools().into_iter().map(|tool| tool.name).collect();
    assert!(names.contains(&"run_code".to_owned()) && names.contains(&"calculator__add".to_owned()), "{names:?}");
    assert_eq!(agent.run("6 * 7?").await.unwrap().text(), "42");
}

#[tokio::test]
async fn calls_of_programs_count_towards_the_budget() {
    let host = host().await;
    let code = "const all = await Promise.allSettled([1, 2, 3, 4].map(n => tools.calculator.add({a: n, b: n})));\
                return all.map(one => one.reason?.kind ?? one.value.result)";
    let budget = Budget { calls: 3, ..Budget::default() };
    let outcome = run_with(&host, &[code, "return 1"], |agent| agent.budget(budget)).await;
    let executions = executions(&outcome);
    assert_eq!(value(&executions[0])["result"], json!([2, 4, "budget_exhausted", "budget_exhausted"]));
    assert_eq!(executions[1].status, Status::RejectedBudget);

    let budget = Budget { fuel: Some(1), ..Budget::default() };
    let outcome = run_with(&host, &[code, "return 1"], |agent| agent.budget(budget)).await;
    let ending = &outcome.ending;
    assert!(matches!(ending, Ending::BudgetExhausted { budget: BudgetKind::Fuel, .. }), "{ending:?}");
}

#[tokio::test]
async fn a_budget_of_fuel_stops_a_program_that_loops() {
    let host = host().await;
    let budget = Budget { fuel: Some(200_000_000), ..Budget::default() };
    let outcome = run_with(&host, &["while (true);", "return 1"], |agent| agent.budget(budget)).await;
    let ended = &executions(&outcome)[0];
    assert_eq!(ended.error().map(|error| error.kind), Some(ErrorKind::Fuel), "{ended:?}");
    // Its own limit is fifty times as much.
    let used = ended.result.metadata.fuel_used;
    assert!((200_000_000..ProgramLimits::default().fuel / 2).contains(&used), "{used}");
    let ending = &outcome.ending;
    assert!(matches!(ending, Ending::BudgetExhausted { budget: BudgetKind::Fuel, .. }), "{ending:?}");
}

/// A person who takes a while to agree.
struct SlowPerson;

impl Approver for SlowPerson {
    fn ask<'a>(&'a self, _: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Answer::Allow
        })
    }
}

#[tokio::test]
async fn the_time_of_a_person_is_not_that_of_the_program() {
    let host = host().await;
    // Loads the interpreter, which takes longer than the program may.
    execute(&host, "return 1").await;
    let limits = ProgramLimits { wall_time: Duration::from_secs(1), ..ProgramLimits::default() };
    let ask = PolicyFn::new("asks", |call: &ValidatedCall, _: &CallContext| {
        if call.tool().full_name() == "calculator__add" { Decision::ask("May it add?") } else { Decision::Allow }
    });
    let code = "return (await tools.calculator.add({a: 1, b: 2})).result";
    let outcome = run_with(&host, &[code], |agent| {
        let agent = agent.approver(Arc::new(SlowPerson)).pipeline(|pipeline| pipeline.rule(Arc::new(ask)));
        agent.code(CodeMode::only().limits(limits))
    })
    .await;
    assert_eq!(value(&executions(&outcome)[0])["result"], 3);
}

#[tokio::test]
async fn cancelling_a_run_stops_its_program_and_the_calls() {
    let host = host().await;
    for code in ["while (true);", "await tools.countdown.countdown({from: 600, step_ms: 100})"] {
        let records = Arc::new(Records::default());
        let agent = host.agent(Arc::new(ScriptedModel::new(vec![run_code(code)]))).allow_everything();
        let mut agent = agent.code(CodeMode::only()).recorder(records.clone()).build().unwrap();
        let cancel = agent.cancel_handle();
        let started = Instant::now();
        let (outcome, ()) = tokio::join!(agent.run("go"), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            cancel.cancel();
        });
        assert!(matches!(outcome.unwrap().ending, Ending::Cancelled), "{code}");
        assert!(started.elapsed() < Duration::from_secs(20), "{code}");
        let records = records.0.lock().unwrap();
        let ends = records.iter().filter(|record| record.kind == RecordKind::ToolFinished);
        assert!(ends.into_iter().all(|record| record.status.as_deref() == Some("cancelled")), "{code}");
    }
    assert_eq!(value(&execute(&host, "return 1").await)["result"], 1);
}

/// The end of a program: a value, or the kind of an error and a part of its message.
type End = Result<&'static str, (ErrorKind, &'static str)>;

/// Programs that try to get more than they may have.
const HOSTILE: &[(&str, End)] = &[
    ("while (true);", Err((ErrorKind::Deadline, "did not finish"))),
    ("for (;;) await null", Err((ErrorKind::Deadline, "did not finish"))),
    ("/^(a+)+$/.test('a'.repeat(40) + 'b')", Err((ErrorKind::Deadline, "did not finish"))),
    ("await new Promise(() => {})", Err((ErrorKind::ToolFailed, "nothing settles"))),
    ("const f = n => f(n + 1) + 1; f(0)", Err((ErrorKind::ToolFailed, "RangeError"))),
    ("let a = []; while (true) a.push('x'.repeat(1e6) + a.length)", Err((ErrorKind::ToolFailed, "memory"))),
    ("return 'x'.repeat(500e6)", Err((ErrorKind::ToolFailed, "memory"))),
    ("return 'x'.repeat(1e6)", Err((ErrorKind::ToolFailed, "at most 16384"))),
    (
        "let p = []; for (let i = 0; i < 1e6; i++) p.push(Promise.resolve(i)); return p.length",
        Err((ErrorKind::ToolFailed, "memory")),
    ),
    (
        "let p = []; for (let i = 0; i < 1e6; i++) p.push(tools.calculator.add({a: 1, b: 2})); await Promise.all(p)",
        Err((ErrorKind::BudgetExhausted, "keeps making calls")),
    ),
    (
        "for (let i = 0; i < 1e4; i++) tools.calculator.add({a: 1, b: 2}); while (true);",
        Err((ErrorKind::BudgetExhausted, "keeps making calls")),
    ),
    ("for (let i = 0; i < 10; i++) tools.calculator.add({a: 1, b: 2}); return 1", Ok("1")),
    ("await tools.calculator.add({a: 'x'.repeat(9e6), b: 2})", Err((ErrorKind::Quota, "8.0 MiB"))),
    ("tools.calculator = {add: () => 1}; return typeof tools.calculator.add", Ok("\"function\"")),
    ("'use strict'; tools.calculator.add = () => 1", Err((ErrorKind::ToolFailed, "TypeError"))),
    (
        "return typeof tools.__proto__ + typeof tools.constructor + typeof tools.a__b",
        Ok("\"undefinedundefinedundefined\""),
    ),
    (
        "Object.prototype.add = 1; Array.prototype.map = null; return (await tools.calculator.add({a: 1, b: 2})).result",
        Ok("3"),
    ),
    ("globalThis.tools = {}; return Object.keys(tools)", Ok(r#"["calculator","countdown"]"#)),
    ("for (let i = 0; i < 1e5; i++) console.log('x'.repeat(1000)); return 1", Ok("1")),
    ("return [typeof fetch, typeof require, typeof process].every(one => one === 'undefined')", Ok("true")),
];

#[tokio::test]
async fn hostile_programs_end_within_their_limits_and_change_nothing_for_the_next() {
    let host = host().await;
    execute(&host, "return 1").await;
    for (code, expected) in HOSTILE {
        let is_endless = matches!(expected, Err((ErrorKind::Deadline, _)));
        let wall_time = Duration::from_secs(if is_endless { 1 } else { 120 });
        let limits = ProgramLimits { wall_time, fuel: u64::MAX / 2, ..ProgramLimits::default() };
        let started = Instant::now();
        let outcome = run_with(&host, &[code], |agent| agent.code(CodeMode::only().limits(limits))).await;
        assert!(started.elapsed() < Duration::from_secs(240), "{code}: {:?}", started.elapsed());
        let execution = executions(&outcome).remove(0);
        match expected {
            Ok(expected) => assert_eq!(value(&execution)["result"].to_string(), *expected, "{code}"),
            Err((kind, part)) => {
                let error = execution.error().unwrap_or_else(|| panic!("{code}: {:?}", execution.result));
                assert!(error.kind == *kind && error.message.contains(part), "{code}: {error}");
            }
        }
        let honest = execute(&host, "return (await tools.calculator.add({a: 3, b: 5})).result").await;
        assert_eq!(value(&honest)["result"], 8, "after {code}");
    }
}

/// A program that makes a call about every millisecond.
const CALL_AFTER_CALL: &str = "let sum = 0; for (let at = 0; at < 300; at++) { \
    await tools.calculator.add({a: 1, b: 2}); for (let turn = 0; turn < 8000; turn++) sum += turn } return sum";
/// A program whose calls are all made at once.
const CALLS_AT_ONCE: &str = "const calls = Array.from({length: 600}, () => tools.calculator.add({a: 1, b: 2})); \
    return (await Promise.all(calls)).length";

#[tokio::test]
async fn a_program_with_its_calls_holds_the_thread_of_its_caller_for_one_slice() {
    let host = host().await;
    let limits = ProgramLimits { calls: 1000, ..ProgramLimits::default() };
    let mode = CodeMode::only().limits(limits);
    let interpreter = Arc::new(host.javascript());
    let provider = CodeProvider::new(Arc::new(host.clone()), interpreter, mode, Arc::new(SystemClock)).unwrap();
    let run = |code: &str| provider.dispatch(Call::new("run_code", json!({"code": code})));
    assert!(run("return 1").await.is_ok(), "the interpreter is loaded");
    for code in [CALL_AFTER_CALL, CALLS_AT_ONCE] {
        let started = Instant::now();
        let (result, longest) = longest_poll(run(code)).await;
        assert!(result.is_ok(), "{result:?}");
        let took = started.elapsed();
        let slice = Duration::from_millis(40);
        assert!(took < slice || longest < slice, "{longest:?} of {took:?}: {code}");
    }
}

#[tokio::test]
async fn a_program_of_an_agent_leaves_others_their_turn() {
    let host = host().await;
    execute(&host, "return 1").await;
    let limits = ProgramLimits { calls: 1000, ..ProgramLimits::default() };
    let budget = Budget { calls: 2000, calls_in_all: None, ..Budget::default() };
    let with = |agent: AgentBuilder| agent.code(CodeMode::only().limits(limits)).budget(budget);
    let running = run_with(&host, &[CALL_AFTER_CALL, CALLS_AT_ONCE], with);
    let (outcome, longest) = longest_poll(running).await;
    assert!(executions(&outcome).iter().all(|execution| !execution.has_error()), "{outcome:?}");
    assert!(longest < Duration::from_millis(60), "{longest:?}");
}
