//! Kernels, and surroundings, that lack a layer of the jail: warnings, and refusals where the layer is required.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use seccompiler::{SeccompAction, SeccompFilter, TargetArch};

use super::super::workbench::Workbench;

/// Variables for the process that makes a system call fail for itself, by its number, and then runs the command with
/// these arguments, one on each line.
const WITHOUT_CALL: &str = "FUMEHOOD_TEST_WITHOUT_CALL";
const ARGUMENTS: &str = "FUMEHOOD_TEST_ARGUMENTS";

/// Does nothing unless the variables are set.
#[test]
fn becomes_the_command_without_a_system_call() {
    let (Ok(call), Ok(arguments)) = (std::env::var(WITHOUT_CALL), std::env::var(ARGUMENTS)) else { return };
    let rules = [(call.parse().unwrap(), Vec::new())].into_iter().collect();
    let missing = SeccompAction::Errno(nix::errno::Errno::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, missing, TargetArch::x86_64).unwrap();
    seccompiler::apply_filter_all_threads(&filter.try_into().unwrap() as &seccompiler::BpfProgram).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fumehood"));
    panic!("{}", command.args(arguments.lines()).exec());
}

/// Runs the command where this system call fails. Returns its exit code and what it wrote to standard error.
fn run_without(call: i64, bench: &Workbench, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "cli::jail::missing_layers::becomes_the_command_without_a_system_call", "--nocapture"]);
    command.env(WITHOUT_CALL, call.to_string()).env(ARGUMENTS, arguments.join("\n"));
    command.env("XDG_STATE_HOME", bench.path("state")).current_dir(bench.path("")).stdin(Stdio::null());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn run_without_landlock(bench: &Workbench, mode: &str) -> (Option<i32>, String) {
    let arguments = ["--no-cache", "call", "counter.wasm", "run", "--isolation", mode];
    run_without(nix::libc::SYS_landlock_create_ruleset, bench, &arguments)
}

#[test]
fn without_landlock_it_warns_or_refuses() {
    let bench = Workbench::new();
    bench.program("counter");
    let (code, stderr) = run_without_landlock(&bench, "process");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("this kernel does not support Landlock"), "{stderr}");
    let (code, stderr) = run_without_landlock(&bench, "process=required");
    assert_eq!(code, Some(6), "{stderr}");
    assert!(stderr.contains("the kernel does not support Landlock") && stderr.contains("required"), "{stderr}");
}

fn run_without_namespaces(bench: &Workbench, arguments: &[&str]) -> (Option<i32>, String) {
    let options = ["--isolation", "process=required", "--no-log"];
    run_without(nix::libc::SYS_unshare, bench, &[arguments, &options].concat())
}

#[test]
fn without_mount_namespaces_it_warns_of_tools_with_folders() {
    let bench = Workbench::new();
    bench.program("counter").example("files");
    std::fs::create_dir(bench.path("docs")).unwrap();
    let (code, stderr) = run_without_namespaces(&bench, &["call", "counter.wasm", "run"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stderr.contains("this kernel does not support"), "it makes no call with a path: {stderr}");
    let (code, stderr) = run_without_namespaces(
        &bench,
        &["call", "files.wasm", "list", r#"{"path": "/docs"}"#, "--allow-read", "./docs:/docs"],
    );
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("this kernel does not support mount namespaces for this user"), "{stderr}");
}
