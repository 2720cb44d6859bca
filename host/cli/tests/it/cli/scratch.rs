//! Scratch space after a host has ended or was killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::workbench::Workbench;

const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the folders of hosts among the temporary files.
fn roots(temporary: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("fumehood-scratch")).collect()
}

/// Waits until `look` returns a value.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn start_in(bench: &Workbench, temporary: &Path, arguments: &[&str]) -> Child {
    let mut command = bench.command(arguments);
    command.env("TMPDIR", temporary).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn run_once(bench: &Workbench, temporary: &Path) {
    assert!(start_in(bench, temporary, &["call", "count.wasm", "run", r#"{"to": 3}"#]).wait().unwrap().success())
}

#[test]
fn files_of_a_killed_host_are_removed_by_the_next_one() {
    let bench = Workbench::new();
    bench.program("files").program("count");
    let temporary = bench.path("temporary");
    std::fs::create_dir(&temporary).unwrap();

    let open = r#"{"folder": 0, "path": "nothing", "times": 4000000000}"#;
    let limits = ["--scratch", "1MiB", "--timeout", "100s", "--fuel", "100000G"];
    let mut killed = start_in(&bench, &temporary, &[&["call", "files.wasm", "race", open], &limits[..]].concat());
    let space = wait("it never uses its scratch space", || {
        let root = roots(&temporary).pop()?;
        Some(root.join("1")).filter(|space| space.is_dir())
    });
    std::fs::create_dir(space.join("folder")).unwrap();
    std::fs::write(space.join("folder/left"), "left").unwrap();
    for _ in 0..3 {
        run_once(&bench, &temporary);
        assert!(space.join("folder/left").exists(), "it is still in use");
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(space.join("folder/left").exists(), "who is killed removes nothing");
    wait("it is never removed", || {
        run_once(&bench, &temporary);
        roots(&temporary).is_empty().then_some(())
    });
}

#[test]
fn a_host_that_ends_by_itself_leaves_nothing() {
    let bench = Workbench::new();
    bench.program("files");
    let temporary = bench.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let flood = r#"{"folder": 0, "folders": 0, "count": 20}"#;
    let mut command = bench.command(&["call", "files.wasm", "flood", flood, "--scratch", "1MiB"]);
    let output = command.env("TMPDIR", &temporary).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "20");
    assert_eq!(roots(&temporary), Vec::<PathBuf>::new());
}
