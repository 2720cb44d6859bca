//! Memory of the host's process while it lists an enormous folder.
//!
//! A program of its own, because it measures the process. The second test runs the first in another process.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "it/files/without_kernel_resolver.rs"]
mod without_kernel_resolver;

use fumehood::permission::files::Folder;
use fumehood::{Call, ErrorKind, Grant, Host, Load};
use serde_json::json;

const NAMES: u32 = 60_000;
const MIB: u64 = 1 << 20;

/// Returns the figure of this name in `/proc/self/status`, in bytes.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn an_enormous_folder_is_listed_in_little_memory() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..NAMES {
        // Two names of one file are as long in a listing as two files, and much faster to create.
        let name = root.path().join(format!("{number:0>120}"));
        if number % 50_000 == 0 {
            std::fs::write(root.path().join("first"), "").unwrap();
            std::fs::rename(root.path().join("first"), &name).unwrap();
        } else {
            let base = number - number % 50_000;
            std::fs::hard_link(root.path().join(format!("{base:0>120}")), name).unwrap();
        }
    }
    let folder = Folder::read(&format!("{}:/many", root.path().display())).unwrap();
    let host = Host::builder().concurrency(4).build().unwrap();
    let load = Load::bytes("it", fumehood_tests::component("files").unwrap());
    host.load(load.grant(Grant::none().with_folder(folder).unwrap())).await.unwrap();
    let list = |streams: u32, names: u32| {
        let arguments = json!({"folder": 0, "path": ".", "streams": streams, "names": names});
        host.call(Call::new("it__list", arguments))
    };
    assert_eq!(list(2, 10).await.text().as_deref(), Some("20"));
    // Writing 5 resets the peak to the present value (`proc_pid_clear_refs(5)`).
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS");
    assert_eq!(list(1, NAMES * 2).await.text().as_deref(), Some(NAMES.to_string().as_str()), "all of it");
    assert_eq!(list(10, 9_000).await.text().as_deref(), Some("90000"), "ten at once");
    let grown = status("VmHWM").saturating_sub(before);
    assert!(grown <= 16 * MIB, "{} MiB", grown / MIB);
    // One call may list 100,000 names.
    let result = list(10, NAMES).await;
    assert_eq!(result.error().unwrap().kind, ErrorKind::Quota, "{result:?}");
    assert!(result.metadata.exhausted[0].contains("100000 names"), "{result:?}");
}

#[test]
fn an_enormous_folder_is_listed_in_little_memory_by_the_library() {
    without_kernel_resolver::run_again(&["--exact", "an_enormous_folder_is_listed_in_little_memory"], 1);
}
