//! The process between a host and a program: it ends all processes of the program when either of the two is gone.
//!
//! It is outside of the jail, where the program can neither signal nor change it. What the program starts becomes a child
//! of this process when its own parent ends, so that nothing escapes.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use rustix::process::{Pid, WaitOptions};

/// Time for the processes of a program to be gone after they were killed.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of the checks whether they are gone.
const END_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The signal that tells of the end of the parent. Nobody else sends it, so that all others can be passed on.
const PARENT_ENDED: Signal = Signal::SIGPWR;
/// Signals that a terminal sends to all processes in its foreground.
const OF_TERMINAL: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGWINCH];
/// Signals for one process.
const OF_PROCESSES: [Signal; 3] = [Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2];

/// What becomes of a signal to the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jail) enum OnSignal {
    /// All processes of the program are killed.
    End,
    /// The program gets it.
    Pass,
}

/// Starts a command, and waits until its process has ended, or the process `parent`, which started this one, has ended or
/// asks this one to end. Then everything that the command started is killed. Returns how its process ended, if it did.
///
/// # Errors
/// If the command cannot be started, or the parent is gone.
pub(in crate::jail) fn supervise(
    command: &mut Command,
    parent: u32,
    on_signal: OnSignal,
) -> io::Result<Option<ExitStatus>> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGCHLD, PARENT_ENDED].into_iter().chain(OF_TERMINAL).chain(OF_PROCESSES) {
        signals.add(signal);
    }
    // Before anything that is to be noticed can happen.
    signals.thread_block()?;
    let arrived = SignalFd::new(&signals)?;
    // No terminal, and a group of its own.
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::POWER))?;
    if rustix::process::getppid().map(|found| found.as_raw_nonzero().get().cast_unsigned()) != Some(parent) {
        return Err(io::Error::other("the host has ended"));
    }
    let program = command.process_group(0).spawn()?.id();
    let status = loop {
        let signal = arrived.read_signal()?.and_then(|signal| Signal::try_from(signal.ssi_signo.cast_signed()).ok());
        match signal {
            None | Some(Signal::SIGCHLD) => {}
            Some(signal) if signal != PARENT_ENDED && on_signal == OnSignal::Pass => pass_on(program, signal),
            Some(_) => break None,
        }
        if let Some(status) = collect_ended(program) {
            break Some(status);
        }
    };
    end_descendants(program);
    Ok(status)
}

/// Unblocks all signals: a program inherits those that its supervisor blocks.
pub(super) fn unblock_signals() -> io::Result<()> {
    Ok(SigSet::empty().thread_set_mask()?)
}

/// Sends a signal to the program, or to its group if it comes from a terminal.
fn pass_on(program: u32, signal: Signal) {
    let program = nix::unistd::Pid::from_raw(program.cast_signed());
    let _gone = if OF_TERMINAL.contains(&signal) {
        nix::sys::signal::killpg(program, signal)
    } else {
        nix::sys::signal::kill(program, signal)
    };
}

/// Collects the processes that have ended. Returns the status of the program, if it is one of them.
fn collect_ended(program: u32) -> Option<ExitStatus> {
    let mut found = None;
    while let Ok(Some((process, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if process.as_raw_nonzero().get().cast_unsigned() == program {
            found = Some(ExitStatus::from_raw(status.as_raw()));
        }
    }
    found
}

/// Kills all children of this process, and then those of their children that they leave behind, until there are none.
fn end_descendants(program: u32) {
    let until = Instant::now() + END_TIMEOUT;
    while Instant::now() < until {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            let _gone = rustix::process::kill_process(child, rustix::process::Signal::KILL);
        }
        std::thread::sleep(END_POLL_INTERVAL);
        let _ended = collect_ended(program);
    }
}

fn children() -> Vec<Pid> {
    let own = std::process::id();
    let list = std::fs::read_to_string(format!("/proc/self/task/{own}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?)).collect()
}
