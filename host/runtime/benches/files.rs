//! The cost of a granted folder: a call with and without one, and the operations on it.
//!
//! `cargo bench -p fumehood-runtime --bench files`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

use std::time::{Duration, Instant};

use fumehood::permission::files::{Folder, Quota};
use fumehood::{Call, Grant, Host, Load};
use serde_json::{Value, json};

const ROUNDS: usize = 5_000;
const WARM_UP: usize = 500;

/// Measures the median and the 99th percentile.
async fn measure(host: &Host, tool: &str, arguments: &Value) -> (Duration, Duration) {
    let mut times = Vec::with_capacity(ROUNDS);
    for round in 0..WARM_UP + ROUNDS {
        let call = Call::new(tool.to_owned(), arguments.clone());
        let started = Instant::now();
        let result = host.call(call).await;
        let took = started.elapsed();
        assert!(result.is_ok(), "{tool}: {result:?}");
        if round >= WARM_UP {
            times.push(took);
        }
    }
    times.sort_unstable();
    (times[ROUNDS / 2], times[ROUNDS * 99 / 100])
}

fn file_arguments(more: Value) -> Value {
    let mut arguments = json!({"folder": 0, "path": "file"});
    arguments.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    arguments
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // Cargo asks for a list of benches when it runs them as tests.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    std::fs::write(root.path().join("file"), [b'x'; 1000]).expect("a file");
    let folder = Folder::write(&format!("{}:/f", root.path().display())).expect("a folder");
    let granted = Grant::none().with_folder(folder).expect("a grant");
    let scratch = Grant::none().with_scratch(Quota::default()).expect("a grant");
    let host = Host::builder().build().expect("a host");
    for (name, grant) in [("none", Grant::none()), ("folder", granted), ("scratch", scratch)] {
        for program in ["files", "look-around"] {
            let bytes = fumehood_tests::component(program).expect("a program");
            let load = Load::bytes(format!("{name}-{program}"), bytes).grant(grant.clone());
            host.load(load).await.expect("it loads");
        }
    }
    let nothing = json!({});
    for (what, tool, arguments) in [
        ("counts its folders, no grant", "none-look-around__folders", &nothing),
        ("counts its folders, one granted", "folder-look-around__folders", &nothing),
        ("counts its arguments, no grant", "none-look-around__arguments", &nothing),
        ("counts its arguments, a folder granted", "folder-look-around__arguments", &nothing),
        ("asks for its folders, no grant", "none-files__folders", &nothing),
        ("asks for its folders, one granted", "folder-files__folders", &nothing),
        ("asks for its folders, scratch granted", "scratch-files__folders", &nothing),
        ("stat", "folder-files__stat", &file_arguments(json!({"follow": 1}))),
        ("open", "folder-files__open", &file_arguments(json!({"follow": 1, "how": 0, "for": 1}))),
        ("read 1,000 bytes", "folder-files__read", &file_arguments(json!({"follow": 1}))),
        (
            "write 1,000 bytes",
            "folder-files__write",
            &file_arguments(json!({"how": 0, "offset": 0, "size": 1000, "times": 1})),
        ),
    ] {
        let (median, p99) = measure(&host, tool, arguments).await;
        println!("{what:<40} median {:>8.1} µs   p99 {:>8.1} µs", micros(median), micros(p99));
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
