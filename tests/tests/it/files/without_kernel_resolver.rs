//! The tests of files once more in a process whose kernel does not resolve paths, so that cap-std does.

use std::collections::BTreeMap;
use std::process::Command;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// The number of `openat2(2)`, the same on every architecture.
const OPENAT2: i64 = 437;
/// The error of a system call that does not exist (`ENOSYS`).
const NO_SUCH_CALL: u32 = 38;

/// Runs tests of this program in a process in which `openat2` does not exist, and checks that they pass.
///
/// # Panics
/// If one of them fails, or fewer than `min_tests` are run.
pub(crate) fn run_again(arguments: &[&str], min_tests: usize) {
    let mut tests = Command::new(std::env::current_exe().unwrap());
    // One after the other: the tests of this process run beside them.
    tests.args(arguments).arg("--test-threads=1");
    let filtered = std::thread::spawn(move || {
        let action = SeccompAction::Errno(NO_SUCH_CALL);
        let rules = BTreeMap::from([(OPENAT2, Vec::new())]);
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let filter: BpfProgram =
            SeccompFilter::new(rules, SeccompAction::Allow, action, arch).unwrap().try_into().unwrap();
        // For this thread and the process that it starts.
        seccompiler::apply_filter(&filter).unwrap();
        let folder = std::fs::File::open("/").unwrap();
        assert!(!fumehood_platform::beneath::is_available(&folder), "the filter is not in force");
        tests.output().unwrap()
    });
    let output = filtered.join().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let passed = text.split(" passed;").next().and_then(|head| head.rsplit(' ').next()?.parse::<usize>().ok());
    assert!(passed.is_some_and(|passed| passed >= min_tests), "{text}");
}
