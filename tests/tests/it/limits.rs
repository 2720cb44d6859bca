//! Limits: every hostile program is stopped, and its error names the limit.
//!
//! The tests allow much more time than the deadlines, so that a busy machine does not fail them; the bench measures the
//! exact overshoot.

use std::time::Duration;

use fumehood::{Call, CallResult, EngineProfile, ErrorKind, Host, Limits, Load};
use fumehood_tests::answering;
use fumehood_tests::contract::{Answer, ToolDescription};
use fumehood_tests::longest_poll::longest_poll;
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_millis(50);
/// Slack for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(5);

fn limits() -> Limits {
    Limits::default().deadline(DEADLINE)
}

async fn load(program: &str) -> Host {
    let host = Host::builder().limits(limits()).concurrency(8).build().unwrap();
    host.load(Load::bytes("it", fumehood_tests::component(program).unwrap())).await.unwrap();
    host
}

async fn run(program: &str, tool: &str, arguments: Value) -> CallResult {
    load(program).await.call(Call::new(format!("it__{tool}"), arguments)).await
}

fn check(result: &CallResult, kind: ErrorKind, says: &str) {
    let error = result.error().unwrap_or_else(|| panic!("it should fail: {result:?}"));
    assert_eq!(error.kind, kind, "{error:?}");
    assert!(error.message.contains(says), "{error:?}");
    assert!(result.metadata.duration < DEADLINE + PATIENCE, "{:?}", result.metadata);
}

#[tokio::test]
async fn whatever_takes_too_long_meets_the_deadline() {
    let text = json!({"text": "hello"});
    for (program, arguments) in [
        ("spin", json!({})),
        ("spin-start", json!({})),
        ("spin-realloc", text),
        ("spin-post-return", json!({})),
        ("bulk-fill", json!({})),
        ("sleep", json!({})),
        ("busy-poll", json!({})),
    ] {
        let result = run(program, "run", arguments).await;
        check(&result, ErrorKind::Deadline, "did not finish within 50 ms");
        assert!(result.metadata.duration >= DEADLINE, "{program}: {:?}", result.metadata);
    }
}

#[tokio::test]
async fn calls_are_answered_while_their_guests_still_hold_a_thread() {
    let host = load("long-fill").await;
    let limits = Limits::default().deadline(Duration::from_millis(5)).memory(1 << 28);
    let result = host.call(Call::new("it__run", json!({})).limits(limits)).await;
    check(&result, ErrorKind::Deadline, "did not finish within 5 ms");
    assert!(host.running() > 0, "the instruction was over before the answer");
    assert!(result.metadata.fuel_used > 0, "{:?}", result.metadata);
    let stopped = async {
        while host.running() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), stopped).await.expect("the guest stops");
}

#[tokio::test]
async fn floods_of_host_calls_meet_the_deadline_too() {
    let result = run("random-flood", "steady", json!({})).await;
    check(&result, ErrorKind::Deadline, "did not finish");
    let result = run("random-flood", "huge", json!({})).await;
    check(&result, ErrorKind::Trap, "");
    let result = run("stdout-flood", "run", json!({})).await;
    check(&result, ErrorKind::Deadline, "did not finish");
    let stdout = &result.metadata.stdout;
    assert!(stdout.text.len() <= Limits::default().log, "{}", stdout.text.len());
    assert!(stdout.text.to_sanitized().starts_with("{\"jsonrpc\""));
    assert_eq!((stdout.text.len() as u64 + stdout.dropped) % 49, 0, "every byte is kept or counted");
    let result = run("write-zeroes", "run", json!({})).await;
    check(&result, ErrorKind::Trap, "");
}

#[tokio::test]
async fn a_call_after_a_stopped_one_works() {
    let host = load("count").await;
    let count = |to: u64| host.call(Call::new("it__run", json!({"to": to})));
    check(&count(1 << 50).await, ErrorKind::Deadline, "");
    assert_eq!(count(5).await.text().as_deref(), Some("5"));
}

#[tokio::test]
async fn fuel_ends_a_call_and_is_the_same_every_time() {
    let host = load("count").await;
    let counting = |to: u64, fuel| {
        let limits = limits().fuel(fuel).deadline(Duration::from_secs(60));
        host.call(Call::new("it__run", json!({"to": to})).limits(limits))
    };
    let stopped = counting(1 << 50, 1_000_000).await;
    check(&stopped, ErrorKind::Fuel, "1000000 units of fuel");
    assert_eq!(stopped.metadata.fuel_used, 1_000_000);
    let used = counting(1000, 1_000_000).await.metadata.fuel_used;
    assert!(used > 1000, "{used}");
    for _ in 0..100 {
        assert_eq!(counting(1000, 1_000_000).await.metadata.fuel_used, used);
    }
}

/// The engine keeps the counter of running code in a register. A call that never leaves its function is charged too.
#[tokio::test]
async fn a_stopped_call_is_charged_the_fuel_of_its_loop() {
    let host = load("count").await;
    let limits = limits().fuel(u64::MAX >> 1).deadline(Duration::from_secs(2));
    let count = || Call::new("it__run", json!({"to": 1_u64 << 50})).limits(limits);
    let stopped = host.call(count()).await;
    check(&stopped, ErrorKind::Deadline, "");
    // Some 300 million units in a second on a slow and busy machine.
    assert!(stopped.metadata.fuel_used > 50_000_000, "{}", stopped.metadata.fuel_used);
    let token = fumehood::CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    });
    let cancelled = host.call(count().cancelled_by(token)).await;
    check(&cancelled, ErrorKind::Cancelled, "");
    assert!(cancelled.metadata.fuel_used > 25_000_000, "{}", cancelled.metadata.fuel_used);
    // Waiting costs nothing, and is exact.
    let sleeping = run("sleep", "run", json!({})).await;
    check(&sleeping, ErrorKind::Deadline, "");
    assert!(sleeping.metadata.fuel_used < 1000, "{}", sleeping.metadata.fuel_used);
}

#[tokio::test]
async fn memory_stays_under_its_ceiling() {
    let grown = run("memory-grow", "run", json!({})).await;
    assert_eq!(grown.text().as_deref(), Some("1024"), "{grown:?}");
    assert_eq!(grown.metadata.peak_memory, 64 << 20);
    let bomb = load("memory-bomb").await;
    let limits = limits().deadline(PATIENCE);
    let bombed = bomb.call(Call::new("it__run", json!({})).limits(limits)).await;
    check(&bombed, ErrorKind::Memory, "more than its 64.0 MiB of memory");
    check(&run("many-memories", "run", json!({})).await, ErrorKind::Memory, "more than its");
    let table = run("table-grow", "run", json!({})).await;
    assert_eq!(table.text().as_deref(), Some("-1"), "{table:?}");
}

#[tokio::test]
async fn a_result_that_comes_too_late_is_no_result() {
    let host = load("late").await;
    let limits = limits().deadline(Duration::from_millis(5)).memory(256 << 20);
    let result = host.call(Call::new("it__run", json!({})).limits(limits)).await;
    check(&result, ErrorKind::Deadline, "did not finish within 5 ms");
}

#[tokio::test]
async fn progress_counts_by_what_it_costs_the_host() {
    let host = Host::builder().limits(limits().deadline(PATIENCE / 10)).build().unwrap();
    let mut events = host.subscribe();
    host.load(Load::bytes("it", fumehood_tests::contract("flood-progress").unwrap())).await.unwrap();
    let result = host.call(Call::new("it__flood", json!({}))).await;
    assert_eq!(result.error().map(|error| error.kind), Some(ErrorKind::Deadline));
    assert!(result.metadata.log_dropped > 1 << 20, "{:?}", result.metadata);
    let mut seen = 0;
    while let Some(event) = events.try_next() {
        seen += 1;
        assert!(!matches!(event, fumehood::Observed::Event(fumehood::Event::Progress { .. })), "none fits the cap");
    }
    assert!(seen >= 3, "loaded, started, finished");
}

#[tokio::test]
async fn limits_hold_without_pooling() {
    for profile in [EngineProfile::Plain, EngineProfile::Strict] {
        let host = Host::builder().engine_profile(profile).limits(limits()).concurrency(8).build().unwrap();
        for (program, kind) in [
            ("spin", ErrorKind::Deadline),
            ("spin-start", ErrorKind::Deadline),
            ("sleep", ErrorKind::Deadline),
            ("many-memories", ErrorKind::Memory),
            ("recurse", ErrorKind::Trap),
            ("handle-leak", ErrorKind::Quota),
        ] {
            host.load(Load::bytes(program, fumehood_tests::component(program).unwrap())).await.unwrap();
            check(&host.call(Call::new(format!("{program}__run"), json!({}))).await, kind, "");
        }
        let instances: String = (0..900).map(|_| "(core instance (instantiate $m))").collect();
        let text = format!(
            r#"(component (core module $m (memory 1) (func (export "run"))) {instances}
            (core instance $i (instantiate $m)) (func (export "run") (canon lift (core func $i "run"))))"#
        );
        host.load(Load::bytes("many", wat::parse_str(text).unwrap())).await.unwrap();
        let many = host.call(Call::new("many__run", json!({}))).await;
        assert!(!many.is_ok(), "{profile:?}: {many:?}");
    }
}

#[tokio::test]
async fn what_a_guest_calls_its_functions_does_not_matter() {
    for tool in ["copied", "handles"] {
        check(&run("misleading-names", tool, json!({})).await, ErrorKind::Trap, "aborted");
    }
}

#[tokio::test]
async fn crashes_are_told_apart() {
    for (tool, says) in [
        ("unreachable", "aborted"),
        ("divide-by-zero", "divided an integer by zero"),
        ("out-of-bounds", "out of bounds"),
    ] {
        let result = run("traps", tool, json!({})).await;
        check(&result, ErrorKind::Trap, says);
        assert!(!result.error().unwrap().backtrace.is_empty(), "{result:?}");
    }
    let abort = run("traps", "unreachable", json!({})).await;
    assert_eq!(abort.error().unwrap().backtrace, ["abort"]);
    check(&run("leave-in-post-return", "run", json!({})).await, ErrorKind::Trap, "cannot leave component");
    check(&run("exit", "run", json!({"fail": false})).await, ErrorKind::Trap, "exit code 0");
    check(&run("exit", "run", json!({"fail": true})).await, ErrorKind::Trap, "exit code 1");
}

#[tokio::test]
async fn recursion_never_ends_the_process() {
    let host = load("recurse").await;
    for _ in 0..1000 {
        let limits = limits().deadline(PATIENCE);
        let result = host.call(Call::new("it__run", json!({})).limits(limits)).await;
        check(&result, ErrorKind::Trap, "call stack overflowed");
    }
}

#[tokio::test]
async fn handles_are_counted() {
    check(&run("handle-leak", "run", json!({})).await, ErrorKind::Quota, "more than 1024 handles");
    let result = run("poll-duplicates", "run", json!({})).await;
    assert!(!result.is_ok(), "{result:?}");
    assert!(result.metadata.duration < PATIENCE);
}

#[tokio::test]
async fn results_are_capped_and_checked() {
    let huge = load("huge-result").await;
    let patient = limits().deadline(PATIENCE);
    let result = huge.call(Call::new("it__run", json!({})).limits(patient)).await;
    check(&result, ErrorKind::OutputTooLarge, "larger than 1.0 MiB");
    let aliased = load("aliased-result").await;
    let result = aliased.call(Call::new("it__run", json!({})).limits(patient)).await;
    check(&result, ErrorKind::OutputTooLarge, "larger than 1.0 MiB");
    let result = run("bad-text", "run", json!({})).await;
    check(&result, ErrorKind::BadResult, "utf-8");
}

/// The exports of `typed-lists`, with a length at which the result is large.
const TYPED_LISTS: [(&str, u64); 7] = [
    ("flags", 30_000),
    ("variants", 250_000),
    ("enums", 250_000),
    ("records", 6000),
    ("bytes", 250_000),
    ("options", 80_000),
    ("lists", 500),
];

#[tokio::test]
async fn a_typed_result_that_is_written_too_late_is_no_result() {
    let host = load("typed-lists").await;
    for (tool, n) in TYPED_LISTS {
        let call = |deadline: Duration| {
            let limits = limits().deadline(deadline);
            // An eighth of them fits into the largest result that an output schema is checked against.
            host.call(Call::new(format!("it__{tool}"), json!({"n": n / 8})).limits(limits))
        };
        let whole = call(PATIENCE).await;
        assert!(whole.is_ok(), "{tool}: {:?}", whole.error());
        // Wherever the deadline falls: into the guest, the lift, the conversion or the check.
        for eighth in 1..10 {
            let deadline = whole.metadata.duration * eighth / 8;
            let result = call(deadline).await;
            let duration = result.metadata.duration;
            assert!(!result.is_ok() || duration < deadline, "{tool}: a result after {duration:?} of {deadline:?}");
            assert!(result.is_ok() || result.error().unwrap().kind == ErrorKind::Deadline, "{:?}", result.error());
        }
    }
}

#[tokio::test]
async fn writing_a_typed_result_costs_fuel() {
    let host = load("typed-lists").await;
    let limits = limits().output(64 << 20).deadline(PATIENCE);
    let call = |fuel: u64, n: u64| host.call(Call::new("it__bytes", json!({"n": n})).limits(limits.fuel(fuel)));
    let used = call(1 << 40, 50_000).await.metadata.fuel_used;
    assert!(used > 1_000_000, "{used}");
    assert_eq!(call(1 << 40, 50_000).await.metadata.fuel_used, used);
    check(&call(used / 2, 50_000).await, ErrorKind::Fuel, "units of fuel");
    let small = call(1 << 40, 100).await;
    assert!(small.is_ok() && small.metadata.fuel_used < 1000, "{small:?}");
}

#[tokio::test]
async fn reading_typed_arguments_costs_fuel() {
    let host = load("typed-lists").await;
    let limits = limits().deadline(PATIENCE);
    let call = |n: usize, fuel: u64| {
        host.call(Call::new("it__count", json!({"values": vec![7; n]})).limits(limits.fuel(fuel)))
    };
    let counted = call(20_000, 1 << 40).await;
    assert_eq!(counted.text().as_deref(), Some("20000"), "{counted:?}");
    check(&call(20_000, 100_000).await, ErrorKind::Fuel, "units of fuel");
}

#[tokio::test]
async fn a_part_without_content_is_not_free() {
    let host = Host::builder().limits(limits().deadline(PATIENCE)).build().unwrap();
    let parts = answering(&[ToolDescription::new("t")], Answer::EmptyTexts(40_000)).unwrap();
    host.load(Load::bytes("it", parts)).await.unwrap();
    check(&host.call(Call::new("it__t", "{}")).await, ErrorKind::OutputTooLarge, "the maximum is 1.0 MiB");
}

#[tokio::test]
async fn large_results_do_not_hold_up_others() {
    let controls = answering(&[ToolDescription::new("t")], Answer::Text(&vec![1; 1 << 20])).unwrap();
    let parts = answering(&[ToolDescription::new("t")], Answer::EmptyTexts(30_000)).unwrap();
    let lists = fumehood_tests::component("typed-lists").unwrap();
    let lists = TYPED_LISTS.map(|(tool, n)| (lists.clone(), tool, json!({"n": n})));
    let no_arguments = json!({});
    let others = [(controls, "t", no_arguments.clone()), (parts, "t", no_arguments)];
    for (component, tool, arguments) in lists.into_iter().chain(others) {
        let host = Host::builder().limits(limits().deadline(PATIENCE)).build().unwrap();
        host.load(Load::bytes("it", component)).await.unwrap();
        let mut polls = Vec::new();
        // The first large result of a component is still lifted on the thread of its caller.
        for _ in 0..10 {
            polls.push(longest_poll(host.call(Call::new(format!("it__{tool}"), arguments.clone()))).await.1);
        }
        polls.sort_unstable();
        assert!(polls[5] < Duration::from_millis(5), "{tool}: {polls:?}");
    }
}
