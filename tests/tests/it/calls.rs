//! Guarantees about every call: nothing runs before the gate, nothing is kept between calls, every ending is an event,
//! and a caller that stops waiting stops the guest.

use std::time::{Duration, Instant};

use fumehood::{
    Arguments, Call, CallResult, EngineProfile, ErrorKind, Event, Host, HostBuilder, Limits, Load, Observed,
    ToolProvider,
};
use fumehood_tests::contract::{Answer, ToolDescription};
use fumehood_tests::{answering, component, contract};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(5);

fn builder() -> HostBuilder {
    Host::builder().concurrency(16)
}

async fn host_with(program: &str) -> Host {
    let host = builder().build().unwrap();
    host.load(Load::bytes("it", component(program).unwrap())).await.unwrap();
    host
}

fn kind(result: &CallResult) -> Option<ErrorKind> {
    result.error().map(|error| error.kind)
}

#[tokio::test]
async fn limits_that_are_not_valid_are_the_callers_fault() {
    let host = builder().memory_ceiling(64 << 20).build().unwrap();
    host.load(Load::bytes("it", contract("echo").unwrap())).await.unwrap();
    for limits in [Limits::default().fuel(0), Limits::default().memory(65 << 20)] {
        let result = host.call(Call::new("it__echo", "{}").limits(limits)).await;
        assert_eq!(kind(&result), Some(ErrorKind::InvalidLimits), "{result:?}");
        assert_eq!(result.metadata.fuel_used, 0);
    }
}

#[tokio::test]
async fn invalid_arguments_run_not_one_guest_instruction() {
    let host = builder().build().unwrap();
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}"#;
    let tool = answering(&[ToolDescription::new("t").taking(schema)], Answer::Text(b"ran")).unwrap();
    host.load(Load::bytes("it", tool)).await.unwrap();
    let good = host.call(Call::new("it__t", r#"{"a": 1}"#)).await;
    assert_eq!(good.text().as_deref(), Some("ran"));
    let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(11 << 10));
    let deep = format!(r#"{{"a": {}{}}}"#, "[".repeat(100), "]".repeat(100));
    for (arguments, says) in [
        ("", "JSON"),
        ("{", "JSON"),
        ("[]", "object"),
        ("{}", "missing"),
        (r#"{"a": "1"}"#, "without quotes"),
        (r#"{"a": 1.5}"#, "integer"),
        (r#"{"a": 1, "b": 2}"#, "no such property"),
        (r#"{"a": 1, "a": 2}"#, "/a"),
        (r#"{"a": 1e400}"#, "/a"),
        (r#"{"a": NaN}"#, "JSON"),
        (long.as_str(), "/a"),
        (deep.as_str(), "/a"),
    ] {
        let result = host.call(Call::new("it__t", arguments)).await;
        let error = result.error().unwrap_or_else(|| panic!("{arguments} is refused"));
        assert_eq!(error.kind, ErrorKind::InvalidArguments, "{error}");
        assert!(error.message.contains(says), "{says:?} is not in: {}", error.message);
        assert_eq!(result.metadata.fuel_used, 0);
    }
    let unknown = host.call(Call::new("it__launch", "{}")).await;
    assert_eq!(kind(&unknown), Some(ErrorKind::UnknownTool));
    assert!(unknown.error().unwrap().hint.as_ref().unwrap().contains("it__t"));
}

#[tokio::test]
async fn results_are_checked_before_anybody_sees_them() {
    let object = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let plain = || ToolDescription::new("t");
    for (tool, answer, expected) in [
        (plain(), Answer::Json(b"{\"n\": 1}"), None),
        (plain(), Answer::Json(b"{\"n\": "), Some(ErrorKind::BadResult)),
        (plain(), Answer::Json(b""), Some(ErrorKind::BadResult)),
        (plain(), Answer::Json(deep.as_bytes()), Some(ErrorKind::BadResult)),
        (plain(), Answer::Text(b"\xff\xfe"), Some(ErrorKind::BadResult)),
        (plain(), Answer::Json(b"\"\\ud800\""), Some(ErrorKind::BadResult)),
        (plain(), Answer::Nothing, None),
        (plain().returning(object), Answer::Json(b"{\"n\": 1}"), None),
        (plain().returning(object), Answer::Json(b"{\"n\": \"1\"}"), Some(ErrorKind::BadResult)),
        (plain().returning(object), Answer::Text(b"{\"n\": 1}"), Some(ErrorKind::BadResult)),
        (plain().returning(object), Answer::Nothing, Some(ErrorKind::BadResult)),
        (plain(), Answer::Failure(0, "no"), Some(ErrorKind::InvalidArguments)),
        (plain(), Answer::Failure(1, "no"), Some(ErrorKind::ToolFailed)),
        (plain(), Answer::Failure(2, "no"), Some(ErrorKind::Unavailable)),
        (plain(), Answer::Failure(3, "no"), Some(ErrorKind::Denied)),
    ] {
        let host = builder().build().unwrap();
        host.load(Load::bytes("it", answering(&[tool], answer).unwrap())).await.unwrap();
        let result = host.call(Call::new("it__t", "{}")).await;
        assert_eq!(kind(&result), expected, "{answer:?}: {result:?}");
        assert!(result.metadata.fuel_used > 0);
    }
}

#[tokio::test]
async fn checks_that_may_take_long_are_made_elsewhere_and_come_to_the_same() {
    // Up to some 3 million steps: far more than what is checked on the caller's thread.
    let schema = r#"{"type":"array","items":{"type":"string","pattern":"^[ab]*a[ab]{3000}$|^b$"}}"#;
    let taking = r#"{"type":"object","properties":{"texts":SCHEMA}}"#.replace("SCHEMA", schema);
    let tool = || ToolDescription::new("t").taking(&taking).returning(schema);
    let document = |last: &str| format!("[\"{}\",\"{last}\"]", "a".repeat(3_500));
    for (last, fits) in [("b", true), ("c", false)] {
        let answer = document(last);
        let arguments = json!({"texts": ["b", last]});
        let host = builder().build().unwrap();
        host.load(Load::bytes("it", answering(&[tool()], Answer::Json(answer.as_bytes())).unwrap())).await.unwrap();
        let result = host.call(Call::new("it__t", json!({}))).await;
        assert_eq!(kind(&result), (!fits).then_some(ErrorKind::BadResult), "{last}: {result:?}");
        let long = format!("{{\"texts\": {}}}", document(last));
        for arguments in [Arguments::Value(arguments), Arguments::Text(long)] {
            let result = host.call(Call::new("it__t", arguments)).await;
            let ran = result.metadata.fuel_used > 0;
            assert_eq!(ran, fits, "{last}: {result:?}");
        }
    }
}

#[tokio::test]
async fn a_call_that_waits_for_a_place_can_be_cancelled() {
    let host = Host::builder().concurrency(1).build().unwrap();
    host.load(Load::bytes("it", component("sleep").unwrap())).await.unwrap();
    let limits = Limits::default().deadline(Duration::from_secs(20));
    let soon = || tokio::time::sleep(Duration::from_millis(50));
    let call = || host.call_until(Call::new("it__run", "{}").limits(limits), soon());
    let started = Instant::now();
    let (first, second) = tokio::join!(call(), call());
    assert!(started.elapsed() < PATIENCE);
    assert_eq!((kind(&first), kind(&second)), (Some(ErrorKind::Cancelled), Some(ErrorKind::Cancelled)));
    until_idle(&host).await;
}

#[tokio::test]
async fn a_result_over_its_cap_is_refused() {
    let text = vec![b'x'; 2000];
    let host = builder().limits(Limits::default().output(1000)).build().unwrap();
    host.load(Load::bytes("it", answering(&[ToolDescription::new("t")], Answer::Text(&text)).unwrap())).await.unwrap();
    let result = host.call(Call::new("it__t", "{}")).await;
    assert_eq!(kind(&result), Some(ErrorKind::OutputTooLarge), "{result:?}");
}

#[tokio::test]
async fn nothing_is_kept_between_calls() {
    for profile in [EngineProfile::Automatic, EngineProfile::Plain, EngineProfile::Strict] {
        let host = builder().engine_profile(profile).build().unwrap();
        host.load(Load::bytes("it", component("counter").unwrap())).await.unwrap();
        for _ in 0..100 {
            assert_eq!(host.call(Call::new("it__run", "{}")).await.text().as_deref(), Some("101"));
        }
    }
}

#[tokio::test]
async fn nothing_is_left_in_memory_or_tables_for_another_component() {
    // Only reused slots can leak, so this is about pooling; there are two, to be sure that they are reused.
    let host = Host::builder().concurrency(2).build().unwrap();
    host.load(Load::bytes("one", component("leave-secrets").unwrap())).await.unwrap();
    host.load(Load::bytes("other", component("find-secrets").unwrap())).await.unwrap();
    for round in 0..10_000 {
        assert!(host.call(Call::new("one__run", "{}")).await.is_ok());
        let found = host.call(Call::new("other__run", "{}")).await;
        assert_eq!(found.text().as_deref(), Some("0"), "round {round}");
    }
}

#[tokio::test]
async fn every_ending_is_an_event() {
    let host = host_with("spin").await;
    let mut events = host.subscribe();
    let limits = Limits::default().deadline(Duration::from_millis(20));
    host.call(Call::new("it__run", "{}").id("stopped").limits(limits)).await;
    host.call(Call::new("it__run", r#"{"x": 1}"#).id("refused")).await;
    host.call(Call::new("it__nothing", "{}").id("unknown")).await;
    drop(tokio::time::timeout(Duration::from_millis(20), host.call(Call::new("it__run", "{}").id("dropped"))).await);
    host.load(Load::bytes("other", contract("echo").unwrap())).await.unwrap();
    host.call(Call::new("other__echo", "{}").id("good")).await;
    let mut seen = Vec::new();
    while let Some(Observed::Event(event)) = events.try_next() {
        seen.push(match event {
            Event::Started { id, .. } => format!("{id} started"),
            Event::Request { request, .. } => format!("request to {}", request.host),
            Event::Finished { result } => {
                let ending = kind(&result).map_or_else(|| "ok".to_owned(), |kind| kind.to_string());
                format!("{} {ending}", result.id)
            }
            Event::Loaded { component, .. } => format!("{component} loaded"),
            _ => continue,
        });
    }
    assert_eq!(
        seen,
        [
            "stopped started",
            "stopped deadline",
            "refused invalid_arguments",
            "unknown unknown_tool",
            "dropped started",
            "dropped cancelled",
            "other loaded",
            "good started",
            "good ok",
        ]
    );
}

async fn until_idle(host: &Host) {
    let since = Instant::now();
    while host.running() > 0 {
        assert!(since.elapsed() < PATIENCE, "a guest is still running");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_caller_that_stops_waiting_stops_the_guest() {
    for program in ["spin", "sleep", "busy-poll", "spin-start"] {
        let host = host_with(program).await;
        let call = host.call(Call::new("it__run", "{}"));
        assert!(tokio::time::timeout(Duration::from_millis(20), call).await.is_err(), "{program} runs for ever");
        until_idle(&host).await;
        let cancelled =
            host.call_until(Call::new("it__run", "{}"), tokio::time::sleep(Duration::from_millis(20))).await;
        assert_eq!(kind(&cancelled), Some(ErrorKind::Cancelled));
        assert!(cancelled.metadata.duration >= Duration::from_millis(15), "what it cost is known: {cancelled:?}");
        until_idle(&host).await;
    }
}

#[tokio::test]
async fn spinning_guests_do_not_hold_up_others() {
    let host = host_with("spin").await;
    host.load(Load::bytes("good", contract("echo").unwrap())).await.unwrap();
    let limits = Limits::default().deadline(Duration::from_millis(500));
    let spinning: Vec<_> = (0..8)
        .map(|_| {
            let host = host.clone();
            tokio::spawn(async move { host.call(Call::new("it__run", "{}").limits(limits)).await })
        })
        .collect();
    for _ in 0..50 {
        let started = Instant::now();
        assert!(host.call(Call::new("good__echo", json!({"a": 1}))).await.is_ok());
        assert!(started.elapsed() < Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for call in spinning {
        assert_eq!(kind(&call.await.unwrap()), Some(ErrorKind::Deadline));
    }
}

#[tokio::test]
async fn calls_wait_for_a_place_and_their_deadline_starts_after_that() {
    let host = Host::builder().concurrency(1).queue(1).build().unwrap();
    host.load(Load::bytes("it", component("sleep").unwrap())).await.unwrap();
    let limits = Limits::default().deadline(Duration::from_millis(100));
    let call = || host.call(Call::new("it__run", "{}").limits(limits));
    let (first, second, third) = tokio::join!(call(), call(), call());
    assert_eq!(kind(&first), Some(ErrorKind::Deadline));
    assert_eq!(kind(&second), Some(ErrorKind::Deadline), "it waited and then had its whole deadline");
    assert!(second.metadata.queued >= Duration::from_millis(50), "{:?}", second.metadata);
    assert!(second.metadata.duration >= Duration::from_millis(100), "{:?}", second.metadata);
    assert_eq!(kind(&third), Some(ErrorKind::Unavailable), "the line is full");
}

#[tokio::test]
async fn shutting_down_takes_bounded_time() {
    let host = host_with("spin").await;
    host.load(Load::bytes("lazy", component("sleep").unwrap())).await.unwrap();
    let running: Vec<_> = ["it__run", "lazy__run"]
        .into_iter()
        .map(|tool| {
            let host = host.clone();
            tokio::spawn(async move { host.call(Call::new(tool, "{}")).await })
        })
        .collect();
    while host.running() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let started = Instant::now();
    host.shutdown(Duration::from_millis(50)).await;
    assert!(started.elapsed() < PATIENCE);
    for call in running {
        assert_eq!(kind(&call.await.unwrap()), Some(ErrorKind::Cancelled));
    }
    let late = host.call(Call::new("it__run", "{}")).await;
    assert_eq!(kind(&late), Some(ErrorKind::Unavailable));
}

#[tokio::test]
async fn a_host_works_without_a_tokio_runtime_of_the_callers() {
    let worker = std::thread::spawn(|| {
        let host = builder().build().unwrap();
        block_on(host.load(Load::bytes("it", component("sleep").unwrap()))).unwrap();
        let limits = Limits::default().deadline(Duration::from_millis(20));
        let late = block_on(host.call(Call::new("it__run", "{}").limits(limits)));
        // The guest may stop after the answer.
        while host.running() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Waiting for running calls needs a timer, and the only one here is the host's own.
        let caller = host.clone();
        let running = std::thread::spawn(move || block_on(caller.call(Call::new("it__run", "{}"))));
        while host.running() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        block_on(host.shutdown(Duration::from_millis(20)));
        (late, running.join().unwrap())
    });
    let (late, cancelled) = tokio::task::spawn_blocking(move || worker.join().unwrap()).await.unwrap();
    assert_eq!(kind(&late), Some(ErrorKind::Deadline));
    assert_eq!(kind(&cancelled), Some(ErrorKind::Cancelled));
}

/// Runs a future on this thread, without any runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct UnparkWaker(std::thread::Thread);
    impl std::task::Wake for UnparkWaker {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(UnparkWaker(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

/// An observer that records the progress of a call.
#[derive(Default)]
struct ProgressObserver(std::sync::Mutex<Vec<Option<f64>>>);

impl fumehood::Observer for ProgressObserver {
    fn progress(&self, progress: fumehood::Progress) {
        self.0.lock().unwrap().push(progress.fraction);
    }
}

#[tokio::test]
async fn an_observer_hears_its_own_call_and_no_other() {
    let countdown = concat!(env!("CARGO_MANIFEST_DIR"), "/../example-tools/dist/countdown.wasm");
    let host = builder().build().unwrap();
    host.load(Load::path(countdown)).await.unwrap();
    let two = std::sync::Arc::new(ProgressObserver::default());
    let four = std::sync::Arc::new(ProgressObserver::default());
    let calls = tokio::join!(host.call(count_down(2, &two)), host.call(count_down(4, &four)));
    assert!(calls.0.is_ok() && calls.1.is_ok(), "{calls:?}");
    assert_eq!(*two.0.lock().unwrap(), [0.5, 1.0].map(Some));
    assert_eq!(*four.0.lock().unwrap(), [0.25, 0.5, 0.75, 1.0].map(Some));
}

fn count_down(from: u8, heard: &std::sync::Arc<ProgressObserver>) -> Call {
    Call::new("countdown__countdown", json!({"from": from, "step_ms": 1})).observer(heard.clone())
}

#[tokio::test]
async fn a_cancelled_token_stops_the_call() {
    let host = host_with("spin").await;
    let token = fumehood::CancellationToken::new();
    let patient = Limits::default().deadline(Duration::from_secs(60)).fuel(u64::MAX / 2);
    let running = host.call(Call::new("it__run", "{}").limits(patient).cancelled_by(token.clone()));
    let (result, ()) = tokio::join!(running, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        token.cancel();
    });
    assert_eq!(kind(&result), Some(ErrorKind::Cancelled), "{result:?}");
}

#[tokio::test]
async fn call_of_a_replaced_tool_does_not_run() {
    let calculator = concat!(env!("CARGO_MANIFEST_DIR"), "/../example-tools/dist/calculator.wasm");
    let host = builder().build().unwrap();
    host.load(Load::path(calculator)).await.unwrap();
    let validate = || host.tool("calculator__add").unwrap().validate(r#"{"a": 3, "b": 5}"#.into()).unwrap();
    let before = validate();
    let context = fumehood::CallContext::default;
    assert!(ToolProvider::call(&host, before.clone(), context()).await.unwrap().is_ok());
    host.reload(Load::path(calculator)).await.unwrap();
    let result = ToolProvider::call(&host, before, context()).await.unwrap();
    assert_eq!(kind(&result), Some(ErrorKind::Unavailable), "{result:?}");
    assert!(ToolProvider::call(&host, validate(), context()).await.unwrap().is_ok());
}
