//! Deaths of workers: calls that had not begun, or that may run twice, run again.

use std::time::{Duration, Instant};

use fumehood::permission::files::Quota;
use fumehood::{Call, CallResult, ErrorKind, Grant, Host, Isolation, Limits, Load};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::task::JoinHandle;

use super::isolation::{PATIENCE, host, load, process, runtime, within_patience};

fn limits() -> Limits {
    Limits::default().deadline(PATIENCE).fuel(u64::MAX / 2)
}

/// Starts a call, and returns once the host counts it among the running ones.
async fn start(host: &Host, tool: &str, actor: Option<&str>) -> JoinHandle<CallResult> {
    start_with(host, tool, "{}", actor).await
}

/// Like [`start`], with these arguments.
async fn start_with(host: &Host, tool: &str, arguments: &str, actor: Option<&str>) -> JoinHandle<CallResult> {
    let running = host.running();
    let mut call = Call::new(tool, arguments).limits(limits());
    if let Some(actor) = actor {
        call = call.actor(actor);
    }
    let started = tokio::spawn({
        let host = host.clone();
        async move { host.call(call).await }
    });
    while host.running() == running {
        assert!(!started.is_finished(), "{:?}", started.await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    started
}

fn ticks_of(worker: Pid) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
    let fields: Vec<u64> = stat.split_whitespace().skip(13).take(2).filter_map(|field| field.parse().ok()).collect();
    fields.iter().sum::<u64>()
}

/// Waits until the process has used the processor for some time, so that its calls have begun.
fn wait_for_work(worker: Pid) {
    let before = ticks_of(worker);
    within_patience("it works", || ticks_of(worker) > before + 5);
}

#[test]
fn idempotent_calls_run_again_when_their_worker_dies() {
    runtime().block_on(async {
        let host = host();
        let component = host.load(Load::bytes("slow", fumehood_tests::contract("slow").unwrap())).await.unwrap();
        let worker = process(&component);
        let mut again = Vec::new();
        for _ in 0..3 {
            again.push(start(&host, "slow__again", None).await);
        }
        let once = start(&host, "slow__once", None).await;
        wait_for_work(worker);
        tokio::time::sleep(Duration::from_millis(50)).await;
        kill(worker, Signal::SIGKILL).unwrap();
        for call in again {
            let result = call.await.unwrap();
            assert!(result.is_ok(), "{result:?}");
        }
        let result = once.await.unwrap();
        let error = result.error().expect("a call that may have had its effect is not repeated");
        assert!(error.kind == ErrorKind::Trap && error.message.contains("worker process"), "{error}");
    });
}

#[test]
fn calls_that_had_not_begun_run_in_the_next_worker() {
    runtime().block_on(async {
        let host = host();
        let component = load(&host, "counter").await;
        let worker = process(&component);
        // A stopped worker begins nothing. The host cannot know that of the first call, which may have begun.
        kill(worker, Signal::SIGSTOP).unwrap();
        let mut calls = Vec::new();
        for _ in 0..5 {
            calls.push(start(&host, "counter__run", None).await);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        kill(worker, Signal::SIGKILL).unwrap();
        let mut results = Vec::new();
        for call in calls {
            results.push(call.await.unwrap());
        }
        let failed: Vec<&CallResult> = results.iter().filter(|result| !result.is_ok()).collect();
        assert_eq!(failed.len(), 1, "{results:?}");
        assert!(failed[0].error().unwrap().message.contains("worker process"), "{failed:?}");
        assert_ne!(process(&component), worker);
    });
}

#[test]
fn an_actor_whose_calls_end_workers_ends_its_own() {
    runtime().block_on(async {
        let host = host();
        let component = load(&host, "spin").await;
        let first = process(&component);
        let mallory = start(&host, "spin__run", Some("mallory")).await;
        wait_for_work(first);
        kill(first, Signal::SIGKILL).unwrap();
        assert_eq!(mallory.await.unwrap().error().unwrap().kind, ErrorKind::Trap);
        // From now on these are different processes.
        let alice = start(&host, "spin__run", Some("alice")).await;
        within_patience("the shared worker is started again", || component.worker_id().is_some());
        let shared = process(&component);
        wait_for_work(shared);
        let mallory = start(&host, "spin__run", Some("mallory")).await;
        let mut own = None;
        within_patience("a worker for mallory", || {
            own = component.worker_ids().into_iter().map(to_pid).find(|worker| *worker != shared);
            own.is_some()
        });
        let own = own.unwrap();
        wait_for_work(own);
        kill(own, Signal::SIGKILL).unwrap();
        assert_eq!(mallory.await.unwrap().error().unwrap().kind, ErrorKind::Trap);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!alice.is_finished(), "the call of another actor goes on");
        assert_eq!(process(&component), shared);
        alice.abort();
    });
}

fn to_pid(id: u32) -> Pid {
    Pid::from_raw(id.try_into().unwrap())
}

#[test]
fn actors_have_workers_of_their_own_where_that_is_configured() {
    runtime().block_on(async {
        let host = host();
        let bytes = fumehood_tests::component("counter").unwrap();
        let load = Load::bytes("counter", bytes).isolation(Isolation::ProcessPerActor);
        let component = host.load(load).await.unwrap();
        for (actor, workers) in [("alice", 2), ("bob", 3), ("alice", 3)] {
            let result = host.call(Call::new("counter__run", "{}").actor(actor)).await;
            assert_eq!(result.text().as_deref(), Some("101"), "{result:?}");
            assert_eq!(component.worker_ids().len(), workers, "one is shared, and has described the tools");
        }
        for actor in 0..10 {
            assert!(host.call(Call::new("counter__run", "{}").actor(format!("actor-{actor}"))).await.is_ok());
        }
        within_patience("the oldest are ended", || component.worker_ids().len() == 9);
    });
}

#[test]
fn calls_of_a_dead_worker_are_charged_their_last_report() {
    runtime().block_on(async {
        let host = host();
        let component = load(&host, "spin").await;
        let call = start(&host, "spin__run", None).await;
        let worker = process(&component);
        // Several reports: there are five in a second of the guest.
        for _ in 0..20 {
            wait_for_work(worker);
        }
        kill(worker, Signal::SIGKILL).unwrap();
        let result = call.await.unwrap();
        assert_eq!(result.error().unwrap().kind, ErrorKind::Trap);
        assert!(result.metadata.fuel_used > 1_000_000, "{:?}", result.metadata);
    });
}

#[test]
fn deaths_that_calls_caused_delay_no_restart() {
    runtime().block_on(async {
        let host = host();
        let component = load(&host, "spin").await;
        // One more than the number of deaths after which a worker that dies by itself is delayed, by seconds in the end.
        for _ in 0..9 {
            let call = start(&host, "spin__run", None).await;
            within_patience("a worker", || component.worker_id().is_some());
            wait_for_work(process(&component));
            kill(process(&component), Signal::SIGKILL).unwrap();
            assert_eq!(call.await.unwrap().error().unwrap().kind, ErrorKind::Trap);
        }
        let started = Instant::now();
        let short = limits().deadline(Duration::from_millis(300));
        let result = host.call(Call::new("spin__run", "{}").limits(short)).await;
        assert_eq!(result.error().unwrap().kind, ErrorKind::Deadline, "not `unavailable`: {result:?}");
        assert!(started.elapsed() < PATIENCE);
    });
}

#[test]
fn workers_of_one_component_do_not_share_scratch_space() {
    runtime().block_on(async {
        let host = host();
        let grant = Grant::none().with_scratch(Quota::default()).unwrap();
        let bytes = fumehood_tests::component("files").unwrap();
        let component = host.load(Load::bytes("files", bytes).grant(grant)).await.unwrap();
        let open = r#"{"folder": 0, "path": "nothing", "times": 4000000000}"#;
        let mallory = start_with(&host, "files__race", open, Some("mallory")).await;
        let first = process(&component);
        wait_for_work(first);
        kill(first, Signal::SIGKILL).unwrap();
        assert_eq!(mallory.await.unwrap().error().unwrap().kind, ErrorKind::Trap);
        // The dead call left its space behind; and from now on there are two workers.
        let running = start_with(&host, "files__race", open, Some("mallory")).await;
        let flood = r#"{"folder": 0, "folders": 0, "count": 20}"#;
        for actor in [None, Some("alice"), None] {
            let mut call = Call::new("files__flood", flood);
            if let Some(actor) = actor {
                call = call.actor(actor);
            }
            let result = host.call(call).await;
            assert_eq!(result.text().as_deref(), Some("20"), "{result:?}");
        }
        running.abort();
    });
}
