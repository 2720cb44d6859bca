//! The start of a program by a process that watches over it, and the reason for which it ended.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode, ExitStatus};

use fumehood_platform::process::ProcessEnd;

use super::{ENTER, ProgramLimits, Start};
use crate::jail::system::{self, OnSignal};

/// The path of this very program.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// The exit code of a process that a signal ended is this, plus the number of the signal, as shells have it.
const SIGNALLED: i32 = 128;

/// Starts the process that becomes the program, and waits until it has ended. It ends with the host.
pub(super) fn supervise(start: &Start, command: &str) -> Result<ExitCode, String> {
    let mut program = Command::new(THIS_PROGRAM);
    program.args([command, ENTER, &std::process::id().to_string(), &start.text]);
    program.arg(&start.program).args(&start.arguments);
    let on_signal = if start.jail.passes_signals { OnSignal::Pass } else { OnSignal::End };
    let ended = system::supervise(&mut program, start.parent, on_signal);
    let status = ended.map_err(|error| format!("cannot watch over the program: {error}"))?;
    let Some(status) = status else { return Err("the program was ended by its host".to_owned()) };
    if let Some(reason) = explain(status, &start.jail.limits) {
        super::fail(&reason);
    }
    let code = status.code().or_else(|| Some(SIGNALLED + status.signal()?)).unwrap_or_default();
    Ok(u8::try_from(code).unwrap_or(u8::MAX).into())
}

/// Explains the end of a program that a limit may have caused.
fn explain(status: ExitStatus, limits: &ProgramLimits) -> Option<String> {
    let ProgramLimits { memory, cpu_seconds, file_size, .. } = limits;
    let reason = match ProcessEnd::from(status) {
        ProcessEnd::Code(_) => return None,
        ProcessEnd::CpuTime => format!("it used up its CPU time of {cpu_seconds} s (`cpu`)"),
        ProcessEnd::FileSize => format!("it wrote a file of more than {file_size} bytes (`file_size`)"),
        ProcessEnd::Signal(_) => format!(
            "{}; it may have reached its limit of {memory} bytes of memory (`memory`)",
            ProcessEnd::from(status)
        ),
        end => end.to_string(),
    };
    Some(format!("the program was ended: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_limit_that_ended_a_program() {
        fn check(signal: i32, expected: &str) {
            let reason = explain(ExitStatus::from_raw(signal), &ProgramLimits::default()).unwrap_or_default();
            assert!(reason.contains(expected) && reason.is_empty() == expected.is_empty(), "{reason}");
        }

        check(0, "");
        check(24, "`cpu`");
        check(25, "`file_size`");
        check(6, "`memory`");
        check(31, "SIGSYS");
    }
}
