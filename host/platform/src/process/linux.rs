//! Signals, process groups and the parent-death signal (`PR_SET_PDEATHSIG(2const)`).

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getppid, kill_process, kill_process_group, set_parent_process_death_signal,
    waitid,
};

use super::ProcessEnd;

pub(super) fn end_of(status: ExitStatus) -> ProcessEnd {
    match status.signal() {
        None => ProcessEnd::Code(status.code().unwrap_or_default()),
        Some(signal) if signal == Signal::XCPU.as_raw() => ProcessEnd::CpuTime,
        Some(signal) if signal == Signal::XFSZ.as_raw() => ProcessEnd::FileSize,
        Some(signal) if signal == Signal::SYS.as_raw() => ProcessEnd::ForbiddenCall,
        Some(signal) => ProcessEnd::Signal(signal),
    }
}

pub(super) fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

pub(super) fn end_with_parent_process(parent: u32) -> io::Result<()> {
    end_with_parent()?;
    // The parent may have ended before the signal was requested, and then it is never sent.
    if getppid().map(|found| found.as_raw_nonzero().get().cast_unsigned()) == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::other("the parent process has exited"))
    }
}

pub(super) fn replace_with(command: &mut Command) -> io::Error {
    command.exec()
}

pub(super) fn lead_group(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

fn pid(process: u32) -> io::Result<Pid> {
    Pid::from_raw(process.cast_signed()).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

pub(super) fn terminate(process: u32) {
    if let Ok(process) = pid(process) {
        let _gone = kill_process(process, Signal::TERM);
    }
}

pub(super) fn send_signal(process: u32, number: i32) {
    if let (Ok(process), Some(signal)) = (pid(process), Signal::from_named_raw(number)) {
        let _gone = kill_process(process, signal);
    }
}

pub(super) fn kill_group(process: u32) {
    if let Ok(group) = pid(process) {
        let _gone = kill_process_group(group, Signal::KILL);
    }
}

pub(super) fn wait_for_end(child: u32) -> io::Result<()> {
    let child = WaitId::Pid(pid(child)?);
    rustix::io::retry_on_intr(|| waitid(child.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT))?;
    Ok(())
}

pub(super) fn is_running(child: u32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    pid(child).is_ok_and(|child| matches!(waitid(WaitId::Pid(child), options), Ok(None)))
}
