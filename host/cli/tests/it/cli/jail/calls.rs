//! The system calls that a worker may make, those that end it, and attempts with arguments that matter.

use nix::errno::Errno::{self, ENOENT, ENOMEM, EROFS, EXDEV};
use nix::libc as c;

/// Allowed with any arguments in every worker, each line for one reason.
pub(super) const ALWAYS: &[(&str, &[i64])] = &[
    ("its heap, which is limited, and memory that it gives back", &[c::SYS_brk, c::SYS_munmap]),
    ("each of its threads has these", &[c::SYS_gettid, c::SYS_rseq, c::SYS_set_robust_list, c::SYS_sigaltstack]),
    ("a thread gives way to another", &[c::SYS_getcpu, c::SYS_sched_yield]),
    ("each thread asks where it may run when it starts, by its number", &[c::SYS_sched_getaffinity]),
    ("faults of guests become traps", &[c::SYS_restart_syscall, c::SYS_rt_sigaction, c::SYS_rt_sigprocmask]),
    ("sleep, time and random numbers", &[c::SYS_nanosleep, c::SYS_gettimeofday, c::SYS_getrandom]),
    ("who it is", &[c::SYS_getegid, c::SYS_geteuid, c::SYS_getgid, c::SYS_getpid, c::SYS_getppid, c::SYS_getuid]),
    ("what it used", &[c::SYS_getrusage]),
    ("descriptors that are open are closed or looked at", &[c::SYS_close, c::SYS_fstat, c::SYS_lseek]),
    ("it waits for descriptors", &[c::SYS_poll, c::SYS_ppoll, c::SYS_epoll_create1, c::SYS_epoll_ctl]),
    ("it waits for descriptors", &[c::SYS_epoll_pwait, c::SYS_epoll_pwait2, c::SYS_epoll_wait, c::SYS_eventfd2]),
    ("descriptors that are open are read", &[c::SYS_read, c::SYS_readv, c::SYS_pread64]),
    ("granted folders and files that are open are read", &[c::SYS_preadv, c::SYS_preadv2, c::SYS_getdents64]),
    ("the kernel is told how a file will be read", &[c::SYS_fadvise64]),
    ("guests may ask to wait for the disk, also with a file for reading", &[c::SYS_fsync, c::SYS_fdatasync]),
    ("it answers the host", &[c::SYS_write, c::SYS_writev, c::SYS_recvmsg, c::SYS_sendmsg, c::SYS_shutdown]),
];

/// Allowed with any arguments in workers that have a folder.
pub(super) const WITH_FOLDERS: &[(&str, &[i64])] = &[
    ("files below granted folders are found and opened", &[c::SYS_openat2, c::SYS_readlinkat]),
    ("checking files", &[c::SYS_newfstatat, c::SYS_statx]),
];

/// Allowed with any arguments in workers that have a folder for writing.
pub(super) const WITH_WRITING: &[(&str, &[i64])] = &[
    ("files are written", &[c::SYS_pwrite64, c::SYS_pwritev, c::SYS_pwritev2, c::SYS_fallocate, c::SYS_ftruncate]),
    ("names are moved, removed and linked", &[c::SYS_renameat, c::SYS_symlinkat, c::SYS_unlinkat]),
    ("times of files are set", &[c::SYS_utimensat]),
];

/// Allowed, and not tried, because they end the process or its thread, or need a stack that a signal has prepared.
pub(super) const NOT_TRIED: &[i64] = &[c::SYS_exit, c::SYS_exit_group, c::SYS_rt_sigreturn];

/// Not of programs: the kernel makes them where it observes functions (`uretprobe`, `uprobe`), and passes them by filters.
pub(super) const OF_THE_KERNEL: &[i64] = &[335, 336];

/// Calls that end the process.
pub(super) const FATAL: &[i64] = &[
    c::SYS_accept,
    c::SYS_accept4,
    c::SYS_bind,
    c::SYS_bpf,
    c::SYS_chroot,
    c::SYS_connect,
    c::SYS_execve,
    c::SYS_execveat,
    c::SYS_finit_module,
    c::SYS_fork,
    c::SYS_init_module,
    c::SYS_io_uring_setup,
    c::SYS_kexec_load,
    c::SYS_keyctl,
    c::SYS_kill,
    c::SYS_listen,
    c::SYS_mount,
    c::SYS_open_by_handle_at,
    c::SYS_perf_event_open,
    c::SYS_pidfd_getfd,
    c::SYS_pivot_root,
    c::SYS_process_vm_readv,
    c::SYS_process_vm_writev,
    c::SYS_ptrace,
    c::SYS_setns,
    c::SYS_setuid,
    c::SYS_socket,
    c::SYS_umount2,
    c::SYS_unshare,
    c::SYS_userfaultfd,
    c::SYS_vfork,
];

/// An argument of a system call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Argument {
    Number(i64),
    /// The address of a text.
    Text(&'static str),
    /// The address of these numbers.
    Numbers(&'static [u64]),
    /// The address of a page of zeros.
    Room,
    /// The path of a file beside the granted folders, its name relative to one, and a socket beside them.
    Outside,
    OutsideRelative,
    Socket,
    /// The folders for reading and for writing, and a file in each.
    Read,
    Write,
    ReadFile,
    WriteFile,
    /// One end of a connection.
    Stream,
    /// The worker, its host, and the memory of the worker that belongs to the tests.
    Own,
    Host,
    OwnMemory,
}

/// The answer that is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedAnswer {
    Works,
    Fails(Errno),
    /// The filter refuses it.
    Refused,
}

pub(super) struct Attempt {
    pub(super) what: &'static str,
    pub(super) number: i64,
    pub(super) arguments: &'static [Argument],
    pub(super) expected: ExpectedAnswer,
}

use Argument::{
    Host, Number, Numbers, Outside, OutsideRelative, Own, OwnMemory, Read, ReadFile, Room, Socket, Stream, Text, Write,
    WriteFile,
};
use ExpectedAnswer::{Fails, Refused, Works};

const fn attempt(what: &'static str, number: i64, arguments: &'static [Argument], expected: ExpectedAnswer) -> Attempt {
    Attempt { what, number, arguments, expected }
}

const HERE: Argument = Number(c::AT_FDCWD as i64);
const NOW: Argument = Number(0);
const NO: Argument = Number(0);
const GIB: i64 = 1 << 30;

/// Attempts that any worker may make.
pub(super) const ANYWHERE: &[Attempt] = &[
    attempt("memory of its own", c::SYS_mmap, &[NO, Number(4096), Number(3), Number(0x22), Number(-1), NO], Works),
    attempt(
        "8 GiB of its own",
        c::SYS_mmap,
        &[NO, Number(8 * GIB), Number(3), Number(0x4022), Number(-1), NO],
        Fails(ENOMEM),
    ),
    attempt(
        "8 GiB of shared memory",
        c::SYS_mmap,
        &[NO, Number(8 * GIB), Number(3), Number(0x4021), Number(-1), NO],
        Refused,
    ),
    attempt(
        "validated shared memory",
        c::SYS_mmap,
        &[NO, Number(4096), Number(3), Number(0x23), Number(-1), NO],
        Refused,
    ),
    attempt(
        "a stack that grows",
        c::SYS_mmap,
        &[NO, Number(8 * GIB), Number(3), Number(0x122), Number(-1), NO],
        Refused,
    ),
    attempt("huge pages", c::SYS_mmap, &[NO, Number(2 << 20), Number(3), Number(0x4_0022), Number(-1), NO], Refused),
    attempt(
        "64 TiB to read",
        c::SYS_mmap,
        &[NO, Number(65536 * GIB), Number(1), Number(0x4022), Number(-1), NO],
        Fails(ENOMEM),
    ),
    attempt("executable memory", c::SYS_mmap, &[NO, Number(4096), Number(5), Number(0x22), Number(-1), NO], Refused),
    attempt("memory made executable", c::SYS_mprotect, &[OwnMemory, Number(4096), Number(5)], Refused),
    attempt("memory made read-only", c::SYS_mprotect, &[OwnMemory, NO, Number(1)], Works),
    attempt(
        "memory moved elsewhere",
        c::SYS_mremap,
        &[OwnMemory, Number(4096), Number(4096), Number(3), OwnMemory],
        Refused,
    ),
    attempt("memory moved and kept", c::SYS_mremap, &[OwnMemory, Number(4096), Number(4096), Number(5)], Refused),
    attempt("memory shared with others (KSM)", c::SYS_madvise, &[OwnMemory, Number(4096), Number(12)], Refused),
    attempt("memory given back", c::SYS_madvise, &[OwnMemory, NO, Number(4)], Works),
    attempt("a process", c::SYS_clone, &[Number(c::SIGCHLD as i64)], Refused),
    attempt("a thread of another process", c::SYS_clone, &[Number(c::CLONE_VM as i64)], Refused),
    attempt("a thread in namespaces", c::SYS_clone, &[Number(0x3d_0f00 | c::CLONE_NEWUSER as i64)], Refused),
    attempt("a lock that inherits priorities", c::SYS_futex, &[OwnMemory, Number(6), NO, NO], Refused),
    attempt("a wake-up", c::SYS_futex, &[OwnMemory, Number(129), Number(1)], Works),
    attempt("its name", c::SYS_prctl, &[Number(c::PR_SET_NAME as i64), Text("x")], Works),
    attempt("to outlive its host", c::SYS_prctl, &[Number(c::PR_SET_PDEATHSIG as i64), NO], Refused),
    attempt("to be dumped", c::SYS_prctl, &[Number(c::PR_SET_DUMPABLE as i64), Number(1)], Refused),
    attempt("a filter", c::SYS_seccomp, &[Number(1), Number(1), Room], Refused),
    attempt("a listener of a filter", c::SYS_seccomp, &[Number(1), Number(8), Room], Refused),
    attempt("its limits", c::SYS_prlimit64, &[NO, Number(7), NO, Room], Works),
    attempt("higher limits", c::SYS_prlimit64, &[NO, Number(7), Room, NO], Refused),
    attempt("limits of its host", c::SYS_prlimit64, &[Host, Number(7), NO, Room], Refused),
    attempt("a signal to itself", c::SYS_tgkill, &[Own, Own, NO], Works),
    attempt("a signal to its host", c::SYS_tgkill, &[Host, Host, NO], Refused),
    attempt("CPU time of another process", c::SYS_clock_gettime, &[Number(-14), Room], Refused),
    attempt("the time", c::SYS_clock_gettime, &[Number(1), Room], Works),
    attempt("a terminal's input", c::SYS_ioctl, &[NO, Number(0x5412), Text("x")], Refused),
    attempt("an owner for a signal", c::SYS_ioctl, &[NO, Number(0x8901), Room], Refused),
    attempt("flags of a descriptor", c::SYS_fcntl, &[NO, Number(3)], Works),
    attempt("signals by a descriptor", c::SYS_fcntl, &[NO, Number(4), Number(0x2000)], Refused),
    attempt("an owner for a signal", c::SYS_fcntl, &[NO, Number(8), Host], Refused),
    attempt("another signal", c::SYS_fcntl, &[NO, Number(10), Number(9)], Refused),
    attempt("a lock", c::SYS_fcntl, &[NO, Number(6), Room], Refused),
    attempt("a lease", c::SYS_fcntl, &[NO, Number(1024), Number(0)], Refused),
    attempt("a larger pipe", c::SYS_fcntl, &[Number(2), Number(1031), Number(1 << 20)], Refused),
    attempt("a connection with itself", c::SYS_socketpair, &[Number(1), Number(0x8_0001), NO, Room], Works),
    attempt("datagrams", c::SYS_socketpair, &[Number(1), Number(2), NO, Room], Refused),
    attempt("sequenced packets", c::SYS_socketpair, &[Number(1), Number(5), NO, Room], Refused),
    attempt("a connection of another family", c::SYS_socketpair, &[Number(16), Number(1), NO, Room], Refused),
    attempt("bytes to its peer", c::SYS_sendto, &[Stream, Text("x"), Number(1), NO, NO, NO], Works),
    attempt("bytes to an address", c::SYS_sendto, &[Stream, Text("x"), Number(1), NO, Socket, Number(110)], Refused),
    attempt("its socket's error", c::SYS_getsockopt, &[Stream, Number(1), Number(4), Room, Numbers(&[4])], Works),
    attempt("its peer's identity", c::SYS_getsockopt, &[Stream, Number(1), Number(17), Room, Numbers(&[12])], Refused),
];

/// Attempts with paths, in a worker that has folders and a mount tree of its own.
pub(super) const WITH_PATHS: &[Attempt] = &[
    attempt("size of a file of the system", c::SYS_newfstatat, &[HERE, Text("/etc/passwd"), Room, NO], Fails(ENOENT)),
    attempt("the same by `statx`", c::SYS_statx, &[HERE, Text("/etc/passwd"), NO, Number(0xfff), Room], Fails(ENOENT)),
    attempt("size of a file outside", c::SYS_newfstatat, &[HERE, Outside, Room, NO], Fails(ENOENT)),
    attempt("size of a file above", c::SYS_newfstatat, &[Read, OutsideRelative, Room, NO], Fails(ENOENT)),
    attempt("size of a file in a folder", c::SYS_newfstatat, &[Read, Text("file"), Room, NO], Works),
    attempt(
        "a handle of a file of the system",
        c::SYS_openat,
        &[HERE, Text("/etc/passwd"), Number(c::O_PATH as i64), NO],
        Fails(ENOENT),
    ),
    attempt("a handle above", c::SYS_openat, &[Write, OutsideRelative, Number(c::O_PATH as i64), NO], Fails(ENOENT)),
    attempt(
        "a handle above, without rules",
        c::SYS_openat2,
        &[Write, OutsideRelative, Numbers(&[c::O_PATH as u64, 0, 0]), Number(24)],
        Fails(ENOENT),
    ),
    attempt("target of a link", c::SYS_readlinkat, &[HERE, Text("/proc/self/exe"), Room, Number(4096)], Fails(ENOENT)),
    attempt("its memory", c::SYS_openat, &[HERE, Text("/proc/self/mem"), Number(2), NO], Fails(ENOENT)),
    attempt("another process", c::SYS_openat, &[HERE, Text("/proc/1/environ"), NO, NO], Fails(ENOENT)),
    attempt("times of a file outside", c::SYS_utimensat, &[HERE, Outside, NOW, NO], Fails(ENOENT)),
    attempt("times of a file above", c::SYS_utimensat, &[Write, OutsideRelative, NOW, NO], Fails(ENOENT)),
    attempt("times in a folder for reading", c::SYS_utimensat, &[Read, Text("file"), NOW, NO], Fails(EROFS)),
    attempt("times of an open file for reading", c::SYS_utimensat, &[ReadFile, NO, NOW, NO], Fails(EROFS)),
    attempt("times of a folder for reading", c::SYS_utimensat, &[Read, NO, NOW, NO], Fails(EROFS)),
    attempt("times of a file for writing", c::SYS_utimensat, &[WriteFile, NO, NOW, NO], Works),
    attempt("writing to a file for reading", c::SYS_openat, &[Read, Text("file"), Number(1), NO], Fails(EROFS)),
    attempt(
        "a link in a folder for reading",
        c::SYS_linkat,
        &[Read, Text("file"), Read, Text("new"), NO],
        Fails(EROFS),
    ),
    attempt("a link between folders", c::SYS_linkat, &[Read, Text("file"), Write, Text("new"), NO], Fails(EXDEV)),
    attempt(
        "a link to a descriptor",
        c::SYS_linkat,
        &[ReadFile, Text(""), Write, Text("new"), Number(0x1000)],
        Refused,
    ),
    attempt("removing from a folder for reading", c::SYS_unlinkat, &[Read, Text("file"), NO], Fails(EROFS)),
    attempt("a folder in one for reading", c::SYS_mkdirat, &[Read, Text("new"), Number(0o777)], Fails(EROFS)),
    attempt("a file in the root", c::SYS_mkdirat, &[HERE, Text("/new"), Number(0o777)], Fails(EROFS)),
    attempt("permission bits of a file for reading", c::SYS_fchmod, &[ReadFile, Number(0o4777)], Refused),
    attempt("permission bits of a file for writing", c::SYS_fchmod, &[WriteFile, Number(0o6755)], Refused),
    attempt(
        "a file with a set-user-id bit",
        c::SYS_openat,
        &[Write, Text("suid"), Number(0o101), Number(0o4755)],
        Refused,
    ),
    attempt("a folder with a set-group-id bit", c::SYS_mkdirat, &[Write, Text("sgid"), Number(0o2777)], Refused),
    attempt("a file for writing", c::SYS_openat, &[Write, Text("new"), Number(0o101), Number(0o666)], Works),
    attempt("a link to a file of the system", c::SYS_symlinkat, &[Text("/etc/passwd"), Write, Text("link")], Works),
    attempt("reading through that link", c::SYS_openat, &[Write, Text("link"), NO, NO], Fails(ENOENT)),
    attempt(
        "a name that leaves a mark (whiteout)",
        c::SYS_renameat2,
        &[Write, Text("new"), Write, Text("old"), Number(4)],
        Refused,
    ),
    attempt("another name", c::SYS_renameat, &[Write, Text("new"), Write, Text("old")], Works),
    attempt(
        "a file mapped into shared memory",
        c::SYS_mmap,
        &[NO, Number(4096), Number(1), Number(1), WriteFile, NO],
        Refused,
    ),
];
