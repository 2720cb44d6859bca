//! Standard output that is closed, full or not a terminal.

use std::fs::File;
use std::process::Stdio;

use super::workbench::Workbench;

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let bench = Workbench::new();
    bench.example("text").example("calculator");
    for arguments in [
        &["inspect", "text.wasm"][..],
        &["inspect", "--json", "text.wasm"],
        &["call", "calculator.wasm", "add", r#"{"a": 1, "b": 2}"#],
        &["call", "--json", "calculator.wasm", "add", r#"{"a": 1, "b": 2}"#],
        &["completions", "bash"],
        &["demo"],
    ] {
        let mut child = bench.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("error") && !stderr.contains("panicked"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let Ok(full) = File::options().write(true).open("/dev/full") else { return };
    let bench = Workbench::new();
    bench.example("calculator");
    for arguments in [
        &["inspect", "calculator.wasm"][..],
        &["inspect", "--json", "calculator.wasm"],
        &["call", "calculator.wasm", "add", r#"{"a": 1, "b": 2}"#],
        &["completions", "fish"],
    ] {
        let output = bench.command(arguments).stdout(full.try_clone().unwrap()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{arguments:?}: {stderr}");
        assert!(stderr.contains("cannot write to standard output"), "{arguments:?}: {stderr}");
    }
}

fn is_coloured(bench: &Workbench, arguments: &[&str]) -> bool {
    let mut command = bench.command(arguments);
    let output = command.env_remove("NO_COLOR").output().unwrap();
    output.stdout.contains(&0x1b)
}

#[test]
fn colours_are_for_terminals_or_by_option() {
    let bench = Workbench::new();
    bench.example("calculator");
    assert!(!is_coloured(&bench, &["inspect", "calculator.wasm"]));
    assert!(!is_coloured(&bench, &["--color", "never", "inspect", "calculator.wasm"]));
    assert!(is_coloured(&bench, &["--color", "always", "inspect", "calculator.wasm"]));
    assert!(!is_coloured(&bench, &["demo"]));
    assert!(is_coloured(&bench, &["demo", "--color", "always"]));
    assert!(
        !is_coloured(&bench, &["--json", "--color", "always", "inspect", "calculator.wasm"]),
        "JSON has no colours"
    );
}
