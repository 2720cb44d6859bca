//! System calls: seccomp filters that allow those that running guests requires.
//!
//! Several filters are stacked. One lists what is allowed; anything else fails with `EPERM`. Another lists what only an
//! attacker would try, such as starting a program, and ends the process. The kernel takes the strictest answer.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// The kind of process that is restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Compiles one component, read from a pipe and written to a pipe.
    Compiler,
    /// Runs guests, and serves their files below folders that are open already.
    Worker,
}

/// Allowed in every process: memory, threads, time, and descriptors that are open already.
const BASE: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Allowed in workers as well: sockets that are open already, the event loop, and files below granted folders. Landlock
/// decides which files.
const WORKER: &[i64] = &[
    libc::SYS_copy_file_range,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    libc::SYS_getsockopt,
    libc::SYS_linkat,
    libc::SYS_mkdirat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_readlinkat,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    libc::SYS_symlinkat,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
];

/// System calls that no part of the host makes in such a process: an attempt proves that it was taken over.
const FATAL: &[i64] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_connect,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_finit_module,
    libc::SYS_fork,
    libc::SYS_init_module,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_kill,
    libc::SYS_listen,
    libc::SYS_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_setns,
    libc::SYS_setuid,
    libc::SYS_socket,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vfork,
];

/// `PAGEMAP_SCAN` of `linux/fs.h` (Linux 6.7), by which the allocator finds the pages that a call touched.
const PAGEMAP_SCAN: u64 = 0xc060_6610;
const THREAD_FLAGS: u64 = (libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_SIGHAND) as u64;

/// Restricts all threads of this process. Returns whether the kernel supports filters.
pub(super) fn restrict(profile: Profile) -> Result<bool, String> {
    // This fails if the kernel has no filters.
    if rustix::thread::secure_computing_mode().is_err() {
        return Ok(false);
    }
    let failed = |error: &dyn std::fmt::Display| format!("the filter of system calls cannot be put in force: {error}");
    // The allowlist comes last, because it does not allow installing filters.
    for filter in [clone3_filter(), fatal_filter(), allowed_filter(profile)] {
        let program: BpfProgram = filter.and_then(BpfProgram::try_from).map_err(|error| failed(&error))?;
        seccompiler::apply_filter_all_threads(&program).map_err(|error| failed(&error))?;
    }
    Ok(true)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn allowed_filter(profile: Profile) -> Result<SeccompFilter, seccompiler::BackendError> {
    let listed = BASE.iter().chain(if profile == Profile::Worker { WORKER } else { &[] });
    let mut rules: Rules = listed.map(|call| (*call, Vec::new())).collect();
    let pid = u64::from(rustix::process::getpid().as_raw_nonzero().get().unsigned_abs());
    rules
        .insert(libc::SYS_clone, vec![argument_rule(0, Length::Qword, Compare::MaskedEq(THREAD_FLAGS), THREAD_FLAGS)?]);
    // The filter for new threads decides on it.
    rules.insert(libc::SYS_clone3, Vec::new());
    rules.insert(libc::SYS_ioctl, vec![argument_rule(1, Length::Dword, Compare::Eq, PAGEMAP_SCAN)?]);
    rules.insert(
        libc::SYS_prctl,
        vec![
            argument_rule(0, Length::Dword, Compare::Eq, libc::PR_SET_NAME as u64)?,
            argument_rule(0, Length::Dword, Compare::Eq, libc::PR_SET_VMA as u64)?,
        ],
    );
    // Reading limits, never setting them.
    rules.insert(libc::SYS_prlimit64, vec![argument_rule(2, Length::Qword, Compare::Eq, 0)?]);
    // `abort()` sends a signal to the process itself.
    rules.insert(libc::SYS_tgkill, vec![argument_rule(0, Length::Dword, Compare::Eq, pid)?]);
    if profile == Profile::Worker {
        let pair = argument_rule(0, Length::Dword, Compare::Eq, libc::AF_UNIX as u64)?;
        rules.insert(libc::SYS_socketpair, vec![pair]);
    }
    build_filter(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

/// Makes `clone3` fail with `ENOSYS`, so that the C library uses `clone` instead: the flags of `clone3` are in memory,
/// where a filter cannot read them.
fn clone3_filter() -> Result<SeccompFilter, seccompiler::BackendError> {
    let rules = [(libc::SYS_clone3, Vec::new())].into_iter().collect();
    build_filter(rules, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))
}

fn fatal_filter() -> Result<SeccompFilter, seccompiler::BackendError> {
    let rules = FATAL.iter().map(|call| (*call, Vec::new())).collect();
    build_filter(rules, SeccompAction::Allow, SeccompAction::KillProcess)
}

fn build_filter(
    rules: Rules,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<SeccompFilter, seccompiler::BackendError> {
    SeccompFilter::new(rules, otherwise, matched, TargetArch::x86_64)
}

fn argument_rule(
    index: u8,
    length: Length,
    compare: Compare,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(index, length, compare, value)?])
}
