//! Every hostile program at once, and an honest tool among them that always answers correctly.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fumehood::permission::files::{Access, Folder, Quota};
use fumehood::{Call, CallResult, ErrorKind, Grant, Host, Limits, Load};
use fumehood_tests::{component, contract};
use serde_json::{Value, json};

/// Deadline of a call, long enough that most attacks end by themselves although all of them run at once.
pub(crate) const DEADLINE: Duration = Duration::from_secs(1);
/// Slack for a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
const MEMORY: usize = 64 << 20;
pub(crate) const CANARY: &str = "CANARY: nobody may read this";
/// Number of rounds, each of them everything at once.
const ROUNDS: usize = 2;
/// Maximum number of descriptors, and of threads, that a process keeps for the next host, once for all.
const KEPT: usize = 16;

/// Programs that do not attack, or that are only the surroundings of another attack. Each has a test of its own.
const NO_ATTACK: &[&str] = &[
    // Fails, in programs.rs.
    "command",
    // Use capabilities of an embedder, in `host/fumehood/tests/capabilities.rs`.
    "capability/atomics",
    "capability/misuse",
    "capability/settings",
    // Use capabilities in Python and JavaScript, in `bindings/python/tests/test_capabilities.py` and its pages.
    "capability/orders",
    "capability/tables-reader",
    // Run in worker processes only, in `host/fumehood/tests/asynchronous.rs`.
    "asynchronous/callee",
    "asynchronous/command",
    "asynchronous/files",
    "asynchronous/imports",
    "asynchronous/parts",
    "asynchronous/request",
    "asynchronous/streams",
    "asynchronous/synchronous",
    "asynchronous/tasks",
    // Load errors, each with its test in load.rs.
    "other-contract",
    "unknown-import",
    "proposals/component-async-builtins",
    "proposals/component-async-stackful",
    "proposals/component-error-context",
    "proposals/component-subtyping",
    "proposals/component-threading",
    "proposals/custom-page-sizes",
    "proposals/exceptions",
    "proposals/external-references",
    "proposals/function-references",
    "proposals/function-subtyping-call",
    "proposals/function-subtyping-cast",
    "proposals/function-subtyping-test",
    "proposals/gc",
    "proposals/legacy-exceptions",
    "proposals/memory64",
    "proposals/multi-memory",
    "proposals/rec-group",
    "proposals/relaxed-simd",
    "proposals/shared-everything-threads",
    "proposals/stack-switching",
    "proposals/tail-call",
    "proposals/threads",
    "proposals/wide-arithmetic",
];

/// Programs that decide on the calls of others, and run only beside them: see `hooks.rs`.
const HOOKS: [&str; 9] = [
    "hooks/ask",
    "hooks/change",
    "hooks/grow",
    "hooks/guests-only",
    "hooks/huge",
    "hooks/invalid-json",
    "hooks/spin",
    "hooks/trap",
    "hooks/widen",
];

/// An attack: a program, one of its tools, the arguments, and the kinds of error with which it may end. An empty list
/// means a result.
pub(crate) type Attack = (&'static str, &'static str, Value, &'static [ErrorKind]);

/// Returns the attacks.
pub(crate) fn attacks() -> Vec<Attack> {
    [attacks_of_components(), attacks_of_programs()].concat()
}

/// Returns the attacks of programs that have a command line.
fn attacks_of_programs() -> Vec<Attack> {
    use ErrorKind::{Deadline, Memory, OutputTooLarge, ToolFailed};
    let attack = |argument, kinds: &'static [ErrorKind]| ("preview1", "run", json!({"args": [argument]}), kinds);
    vec![
        attack("s", &[Deadline]),
        attack("r", &[Deadline]),
        attack("e", &[Deadline]),
        attack("o", &[OutputTooLarge]),
        attack("m", &[Memory]),
        attack("x255", &[ToolFailed]),
    ]
}

fn attacks_of_components() -> Vec<Attack> {
    use ErrorKind::{BadResult, Deadline, Denied, Fuel, Memory, OutputTooLarge, Quota, ToolFailed, Trap};
    let none = || json!({});
    let get = json!({"scheme": "http", "authority": "127.0.0.1:9"});
    let fetch = json!({"method": "GET", "scheme": "http", "authority": "127.0.0.1:9", "path": "/", "headers": [], "send": 0,
        "keep": 9, "patience-ms": 0});
    let read = |path: &str| json!({"folder": 0, "path": path, "follow": 1});
    let fill = json!({"folder": 0, "path": "full", "how": 1, "offset": 0, "size": 65536, "times": 1000});
    vec![
        ("aliased-result", "run", none(), &[OutputTooLarge, Deadline]),
        ("bad-text", "run", none(), &[BadResult]),
        ("bulk-fill", "run", none(), &[Deadline, Fuel]),
        ("busy-poll", "run", none(), &[Deadline]),
        ("count", "run", json!({"to": "1125899906842624"}), &[Deadline, Fuel]),
        ("counter", "run", none(), &[]),
        ("env-dump", "variables", none(), &[]),
        ("exit", "run", json!({"fail": true}), &[Trap]),
        ("fetch", "fetch", fetch, &[Denied]),
        ("forge-message", "run", none(), &[]),
        ("files", "read", read("../canary"), &[Denied]),
        ("files", "read", read("/proc/self/environ"), &[Denied]),
        ("files", "write", fill, &[Quota, Deadline]),
        // In a later round it may meet what a round before left behind at its deadline.
        ("files", "flood", json!({"folder": 0, "folders": 0, "count": 1_000_000}), &[Quota, Deadline, ToolFailed]),
        ("find-secrets", "run", none(), &[]),
        ("handle-leak", "run", none(), &[Quota]),
        ("keep-handles", "run", json!({"kinds": 2047, "size": 1 << 20, "values": 49}), &[Quota, Memory]),
        ("huge-result", "run", none(), &[OutputTooLarge, Deadline]),
        ("key-value", "get", json!({"key": "x"}), &[Denied, ToolFailed]),
        ("late", "run", none(), &[Deadline, Memory]),
        ("leave-in-post-return", "run", none(), &[Trap]),
        ("leave-secrets", "run", none(), &[]),
        ("long-fill", "run", none(), &[Memory]),
        ("look-around", "environment", none(), &[]),
        ("connect", "talk", json!({"address": 2_130_706_433, "port": 9, "send": 9, "want": 9}), &[Denied]),
        ("connect", "serve", json!({"bind": true, "port": 0}), &[Denied]),
        ("look-up", "resolve", json!({"name": "localhost"}), &[ToolFailed, Denied]),
        ("many-memories", "run", none(), &[Memory]),
        ("memory-bomb", "run", none(), &[Memory, Deadline]),
        ("memory-grow", "run", none(), &[]),
        ("misleading-names", "copied", none(), &[Trap]),
        ("poll-duplicates", "run", none(), &[Trap, Quota, Deadline]),
        ("random-flood", "steady", none(), &[Deadline]),
        ("random-flood", "huge", none(), &[Trap]),
        ("reach-out", "tcp", none(), &[]),
        ("recurse", "run", none(), &[Trap, Deadline]),
        ("request", "get", get, &[Denied]),
        ("rng-repeat", "random", none(), &[]),
        ("sleep", "run", none(), &[Deadline]),
        ("spin", "run", none(), &[Deadline]),
        ("spin-post-return", "run", none(), &[Deadline]),
        ("spin-realloc", "run", json!({"text": "hello"}), &[Deadline]),
        ("spin-start", "run", none(), &[Deadline]),
        ("stdout-flood", "run", none(), &[Deadline]),
        ("table-grow", "run", none(), &[]),
        ("timer-res", "resolution", none(), &[]),
        ("traps", "unreachable", none(), &[Trap]),
        ("traps", "out-of-bounds", none(), &[Trap]),
        ("typed-lists", "flags", json!({"n": 120_000}), &[OutputTooLarge, Deadline]),
        ("typed-lists", "variants", json!({"n": 250_000}), &[OutputTooLarge, Deadline]),
        ("typed-lists", "records", json!({"n": 6000}), &[OutputTooLarge, Deadline]),
        ("typed-lists", "lists", json!({"n": 500}), &[OutputTooLarge, Deadline]),
        ("write-zeroes", "run", none(), &[Trap]),
        ("contract/flood-progress", "flood", none(), &[Deadline]),
        ("contract/flood-escapes", "flood", none(), &[]),
        ("contract/forge-log", "forge", none(), &[]),
        ("contract/tell-secret", "tell", none(), &[]),
    ]
}

/// Returns the programs of a folder that are not `known`.
fn left_out(folder: &Path, within: &str, known: &BTreeSet<&str>) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{within}{}", path.file_stem().unwrap().to_str().unwrap());
        if path.is_dir() {
            found.extend(left_out(&path, &format!("{name}/"), known));
        } else if !known.contains(name.as_str()) {
            found.push(name);
        }
    }
    found
}

#[test]
fn no_program_is_left_out() {
    // Harmless programs, which other tests use.
    let harmless =
        ["contract/echo", "contract/tell-context", "contract/act-in-describe", "contract/ask-secrets", "contract/slow"];
    let known = attacks()
        .iter()
        .map(|(program, ..)| *program)
        .chain(NO_ATTACK.iter().copied())
        .chain(harmless)
        .chain(HOOKS)
        .collect();
    let left_out = left_out(&fumehood_tests::folder(), "", &known);
    assert!(left_out.is_empty(), "tests/programs has what tests/tests/it/corpus.rs does not try: {left_out:?}");
}

fn bytes(program: &str) -> Vec<u8> {
    match program.strip_prefix("contract/") {
        Some(name) => contract(name).unwrap(),
        None => component(program).unwrap(),
    }
}

pub(crate) fn named(program: &str) -> String {
    program.replace('/', "-")
}

fn calculator() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../example-tools/dist/calculator.wasm")).unwrap()
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Calls the honest tool until `stop` is set, and returns the number of calls. A wrong answer fails the test.
async fn honest(host: Arc<Host>, stop: Arc<AtomicBool>) -> u32 {
    let mut number = 0;
    while !stop.load(Relaxed) {
        let result = host.call(Call::new("honest__add", json!({"a": number, "b": 1}))).await;
        assert_eq!(result.text().as_deref(), Some(json!({"result": number + 1}).to_string().as_str()), "{result:?}");
        number += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    number
}

fn contained(program: &str, result: &CallResult, allowed: &[ErrorKind]) {
    match result.error() {
        // So many run at once that any of them may reach its deadline first.
        Some(error) => {
            assert!(error.kind == ErrorKind::Deadline || allowed.contains(&error.kind), "{program}: {error:?}");
        }
        None => assert!(allowed.is_empty(), "{program} should fail: {result:?}"),
    }
    let metadata = &result.metadata;
    assert!(metadata.duration < DEADLINE + PATIENCE, "{program}: {metadata:?}");
    assert!(metadata.peak_memory <= MEMORY, "{program}: {metadata:?}");
    assert!(!serde_json::to_string(result).unwrap().contains(CANARY), "{program}");
}

/// Creates a host with every attacking program, and the honest tool. `files` may write in a folder below `root`, beside which
/// lies what nobody may read.
pub(crate) async fn armed_host(root: &Path) -> Host {
    std::fs::create_dir(root.join("granted")).unwrap();
    std::fs::write(root.join("canary"), CANARY).unwrap();
    let limits = Limits::default().deadline(DEADLINE).memory(MEMORY);
    let host = Host::builder().limits(limits).concurrency(64).build().unwrap();
    let calm = limits.deadline(PATIENCE);
    host.load(Load::bytes("honest", calculator()).limits(calm)).await.unwrap();
    let programs: BTreeSet<&str> = attacks().iter().map(|(program, ..)| *program).collect();
    for program in programs {
        let quota = Quota::new(256 << 10, 50).unwrap();
        let folder = || Folder::new(root.join("granted"), "/w", Access::Write(quota)).unwrap();
        let grant = if program == "files" { Grant::none().with_folder(folder()).unwrap() } else { Grant::none() };
        host.load(Load::bytes(named(program), bytes(program)).grant(grant)).await.unwrap();
    }
    host
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_them_at_once_are_contained_and_an_honest_tool_is_always_right() {
    let root = tempfile::tempdir().unwrap();
    let before = (count("/proc/self/fd"), count("/proc/self/task"));
    let host = Arc::new(armed_host(root.path()).await);
    let stop = Arc::<AtomicBool>::default();
    let neighbour = tokio::spawn(honest(Arc::clone(&host), Arc::clone(&stop)));
    for _ in 0..ROUNDS {
        let mut running = tokio::task::JoinSet::new();
        for (program, tool, arguments, allowed) in attacks() {
            let host = Arc::clone(&host);
            let call = Call::new(format!("{}__{tool}", named(program)), arguments);
            running.spawn(async move { contained(program, &host.call(call).await, allowed) });
        }
        while let Some(attack) = running.join_next().await {
            attack.unwrap();
        }
    }
    stop.store(true, Relaxed);
    assert!(neighbour.await.unwrap() > 10, "it was called all the while");
    let after = host.call(Call::new("honest__add", json!({"a": 3, "b": 5}))).await;
    assert_eq!(after.text().as_deref(), Some(r#"{"result":8}"#), "the host answers still");
    let in_the_way = Arc::clone(&host);
    let calm = Limits::default().deadline(PATIENCE).memory(MEMORY);
    let spinning = tokio::spawn(async move { in_the_way.call(Call::new("spin__run", "{}").limits(calm)).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let ending = Instant::now();
    host.shutdown(Duration::from_millis(100)).await;
    assert!(ending.elapsed() < Duration::from_secs(2), "{:?}", ending.elapsed());
    assert!(!spinning.await.unwrap().is_ok());
    drop(host);
    assert_eq!(std::fs::read_to_string(root.path().join("canary")).unwrap(), CANARY);
    nothing_is_left(before).await;
}

/// Waits until about as many descriptors and threads are left as before.
async fn nothing_is_left(before: (usize, usize)) {
    let patience = Instant::now() + PATIENCE;
    loop {
        let now = (count("/proc/self/fd"), count("/proc/self/task"));
        if now.0 <= before.0 + KEPT && now.1 <= before.1 + KEPT {
            return;
        }
        assert!(Instant::now() < patience, "{now:?} files and threads, after {before:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
