//! System calls: seccomp filters that allow those that running guests requires, with the arguments that it requires.
//!
//! Several filters are stacked. One lists what is allowed; anything else fails with `EPERM`. Another lists what only an
//! attacker would try, such as starting a program, and ends the process. A last one comes once the code is loaded. The
//! kernel takes the strictest answer.

mod calls;
mod program;

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use calls::{BASE, Call, Condition, FATAL, LOADING, PATHS, READ, SETUP, WORKER, WRITE};

/// The kind of process that is restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Compiles one component, read from a pipe and written to a pipe.
    Compiler,
    /// Runs guests, and serves their files below folders that are open already.
    Worker,
}

/// Restricts all threads of this process. Returns whether the kernel supports filters.
pub(super) fn restrict(profile: Profile, may_write: bool) -> Result<bool, String> {
    if !is_supported() {
        return Ok(false);
    }
    // The allowlist comes last, because a filter of its own kind is all that it allows to install.
    for filter in [clone3_filter(), fatal_filter(), allowed_filter(profile, may_write)] {
        install(filter)?;
    }
    Ok(true)
}

/// Returns whether the kernel has filters.
pub(super) fn is_supported() -> bool {
    rustix::thread::secure_computing_mode().is_ok()
}

/// Restricts this process to what an ordinary program may do. Returns whether the kernel supports filters.
pub(super) fn restrict_program(may_connect: bool, has_root: bool) -> Result<bool, String> {
    if !is_supported() {
        return Ok(false);
    }
    let sockets = if may_connect { program::TCP_ONLY } else { program::NO_SOCKETS };
    let modes = if has_root { &[] } else { program::MODES };
    let refused = [program::REFUSED, sockets, modes];
    install(clone3_filter())?;
    install(filter_of(refused, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32)))?;
    seccompiler::apply_filter_all_threads(&program::known_calls()).map_err(describe_failure)?;
    Ok(true)
}

/// Refuses what only loading code requires, and paths to a process without folders.
pub(super) fn end_setup(has_folders: bool) -> Result<(), String> {
    let paths = if has_folders { &[] } else { PATHS };
    install(filter_of([SETUP, LOADING, paths], SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32)))
}

fn install(filter: Result<SeccompFilter, BackendError>) -> Result<(), String> {
    let program: BpfProgram = filter.and_then(BpfProgram::try_from).map_err(describe_failure)?;
    seccompiler::apply_filter_all_threads(&program).map_err(describe_failure)
}

fn describe_failure(error: impl std::fmt::Display) -> String {
    format!("cannot apply the system call filter: {error}")
}

fn allowed_filter(profile: Profile, may_write: bool) -> Result<SeccompFilter, BackendError> {
    let pid = u64::from(rustix::process::getpid().as_raw_nonzero().get().unsigned_abs());
    // `abort()` sends a signal to the process itself.
    let own = [Condition::Is(0, pid)];
    let own = [&own[..]];
    let own = [Call { number: libc::SYS_tgkill, when: &own }];
    let worker = profile == Profile::Worker;
    let listed = [
        &own,
        BASE,
        select_if(worker, WORKER),
        select_if(worker, SETUP),
        select_if(worker, PATHS),
        select_if(worker, READ),
        select_if(worker && may_write, WRITE),
    ];
    filter_of(listed, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

fn select_if(is_selected: bool, calls: &'static [Call<'static>]) -> &'static [Call<'static>] {
    if is_selected { calls } else { &[] }
}

/// Makes `clone3` fail with `ENOSYS`, so that the C library uses `clone` instead: the flags of `clone3` are in memory,
/// where a filter cannot read them.
fn clone3_filter() -> Result<SeccompFilter, BackendError> {
    let calls = [Call::any(libc::SYS_clone3)];
    filter_of([&calls], SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))
}

fn fatal_filter() -> Result<SeccompFilter, BackendError> {
    filter_of([FATAL], SeccompAction::Allow, SeccompAction::KillProcess)
}

fn filter_of<'c, const N: usize>(
    lists: [&[Call<'c>]; N],
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<SeccompFilter, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in lists.into_iter().flatten() {
        let alternatives = call.when.iter().map(|all_of| rule(all_of)).collect::<Result<Vec<_>, _>>()?;
        rules.entry(call.number).or_default().extend(alternatives);
    }
    SeccompFilter::new(rules, otherwise, matched, TargetArch::x86_64)
}

fn rule(all_of: &[Condition]) -> Result<SeccompRule, BackendError> {
    let condition = |condition: &Condition| match *condition {
        Condition::Is(index, value) => SeccompCondition::new(index, Length::Dword, Compare::Eq, value),
        Condition::Not(index, value) => SeccompCondition::new(index, Length::Dword, Compare::Ne, value),
        Condition::Null(index) => SeccompCondition::new(index, Length::Qword, Compare::Eq, 0),
        Condition::AtMost(index, most) => SeccompCondition::new(index, Length::Dword, Compare::Le, most),
        Condition::Bits { index, of, are } => SeccompCondition::new(index, Length::Dword, Compare::MaskedEq(of), are),
    };
    SeccompRule::new(all_of.iter().map(condition).collect::<Result<_, _>>()?)
}
