//! Tests that need what this machine may lack.

use std::path::Path;
use std::process::Command;

/// Says that a test is left out because this machine lacks `what`, past the capture of the test harness. The rule is that of
/// the script `tests/skip`, which tests in other languages ask as well.
///
/// # Panics
/// In the gate (`CI=true`), unless `FUMEHOOD_MAY_SKIP` lists `what`.
#[track_caller]
pub fn skip(what: &str, why: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("skip");
    let asked = Command::new(script).args([what, why]).status();
    assert!(asked.is_ok_and(|status| status.success()), "{what} is missing: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_what_may_be_missing_in_the_gate_alone() {
        check_exit("", "", true);
        check_exit("false", "", true);
        check_exit("true", "", false);
        check_exit("true", "nats browser", true);
        check_exit("true", "browsers", false);
    }

    fn check_exit(ci: &str, allowed: &str, expected: bool) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("skip");
        let mut command = Command::new(script);
        command.args(["browser", "no browser"]).env("CI", ci).env("FUMEHOOD_MAY_SKIP", allowed);
        let output = command.output().unwrap();
        assert_eq!(output.status.success(), expected, "CI={ci} FUMEHOOD_MAY_SKIP={allowed}: {output:?}");
        assert!(output.stderr.starts_with(b"SKIPPED: no browser\n"), "{output:?}");
    }
}
