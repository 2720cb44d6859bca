//! The lists of system calls, each with the reason for which a process may make it, or the danger that it is.

/// A system call, and the alternatives for its arguments; any arguments if there is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) number: i64,
    pub(super) when: &'a [&'a [Condition]],
}

/// A condition on one argument, by its index. All but [`Condition::Null`] compare its lower 32 bits, which are all that
/// the kernel reads of the arguments here.
#[derive(Debug, Clone, Copy)]
pub(super) enum Condition {
    Is(u8, u64),
    Not(u8, u64),
    /// A null pointer.
    Null(u8),
    AtMost(u8, u64),
    /// The bits `of` the argument `are` these.
    Bits {
        index: u8,
        of: u64,
        are: u64,
    },
}

use Condition::{AtMost, Bits, Is, Null};

impl<'a> Call<'a> {
    /// Any arguments.
    pub(super) const fn any(number: i64) -> Self {
        Self { number, when: &[] }
    }

    pub(super) const fn when(number: i64, when: &'a [&'a [Condition]]) -> Self {
        Self { number, when }
    }
}

/// Returns the condition that an argument has none of these bits.
const fn none_of(index: u8, bits: u64) -> Condition {
    Bits { index, of: bits, are: 0 }
}

/// Returns the condition that an argument has no bits but these.
const fn only(index: u8, bits: u64) -> Condition {
    Bits { index, of: !bits & 0xffff_ffff, are: 0 }
}

/// Returns the condition that a futex is used in this way, by one process or several, with either clock.
const fn futex_operation(operation: i32) -> Condition {
    Bits { index: 1, of: 0x7f, are: operation as u64 }
}

/// The flags with which the C libraries start threads. Those of glibc and musl differ in one that does nothing.
const THREAD_FLAGS: u64 = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID) as u64;
const DETACHED: u64 = libc::CLONE_DETACHED as u64;

/// The bits that decide on whether the kernel counts a mapping as memory of this process (`RLIMIT_DATA`): not if it is
/// shared, made of huge pages, or a stack that grows.
const MAPPING_KIND: u64 = (libc::MAP_TYPE | libc::MAP_GROWSDOWN | libc::MAP_HUGETLB) as u64;

/// Bits of a file's mode that change whose rights a program has, and the sticky bit.
const SPECIAL_MODE: u64 = 0o7000;

/// `PAGEMAP_SCAN` of `linux/fs.h` (Linux 6.7).
const PAGEMAP_SCAN: u64 = 0xc060_6610;
/// `MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE` (Linux 6.13), by which new C libraries guard the stacks of threads.
const MADV_GUARD_INSTALL: u64 = 102;
const MADV_GUARD_REMOVE: u64 = 103;
/// The last of the clocks that have a fixed number. Others are of a device, or show the CPU time of other processes.
const LAST_CLOCK: u64 = libc::CLOCK_TAI as u64;

/// Allowed in every process: memory, threads, time, and descriptors that are open already.
pub(super) const BASE: &[Call<'static>] = &[
    // Memory of this process alone, which its limit counts.
    Call::any(libc::SYS_brk),
    Call::when(libc::SYS_mmap, &[&[Bits { index: 3, of: MAPPING_KIND, are: libc::MAP_PRIVATE as u64 }]]),
    Call::any(libc::SYS_mprotect),
    Call::when(libc::SYS_mremap, &[&[only(3, libc::MREMAP_MAYMOVE as u64)]]),
    Call::any(libc::SYS_munmap),
    // The allocator, stacks of threads and the pool of guests give pages back. Never sharing them with others (KSM).
    Call::when(
        libc::SYS_madvise,
        &[
            &[AtMost(2, libc::MADV_DONTNEED as u64)],
            &[Is(2, libc::MADV_FREE as u64)],
            &[Is(2, libc::MADV_HUGEPAGE as u64)],
            &[Is(2, libc::MADV_NOHUGEPAGE as u64)],
            &[Is(2, MADV_GUARD_INSTALL)],
            &[Is(2, MADV_GUARD_REMOVE)],
        ],
    ),
    // The pool finds the pages that a call touched.
    Call::when(libc::SYS_ioctl, &[&[Is(1, PAGEMAP_SCAN)]]),
    // Threads, their end, and what the C library sets up in each.
    Call::when(libc::SYS_clone, &[&[Bits { index: 0, of: !DETACHED & 0xffff_ffff, are: THREAD_FLAGS }]]),
    // The filter for it makes it fail as unknown.
    Call::any(libc::SYS_clone3),
    Call::any(libc::SYS_exit),
    Call::any(libc::SYS_exit_group),
    Call::any(libc::SYS_gettid),
    Call::any(libc::SYS_rseq),
    Call::any(libc::SYS_set_robust_list),
    Call::any(libc::SYS_sigaltstack),
    Call::when(libc::SYS_prctl, &[&[Is(0, libc::PR_SET_NAME as u64)], &[Is(0, libc::PR_SET_VMA as u64)]]),
    // Locks, without the inheritance of priorities, which nothing here uses.
    Call::when(
        libc::SYS_futex,
        &[
            &[futex_operation(libc::FUTEX_WAIT)],
            &[futex_operation(libc::FUTEX_WAKE)],
            &[futex_operation(libc::FUTEX_REQUEUE)],
            &[futex_operation(libc::FUTEX_CMP_REQUEUE)],
            &[futex_operation(libc::FUTEX_WAKE_OP)],
            &[futex_operation(libc::FUTEX_WAIT_BITSET)],
            &[futex_operation(libc::FUTEX_WAKE_BITSET)],
        ],
    ),
    Call::any(libc::SYS_getcpu),
    // Each thread asks for its own when it starts, by its number.
    Call::any(libc::SYS_sched_getaffinity),
    Call::any(libc::SYS_sched_yield),
    // Signals of this process: the engine turns faults of guests into traps.
    Call::any(libc::SYS_restart_syscall),
    Call::any(libc::SYS_rt_sigaction),
    Call::any(libc::SYS_rt_sigprocmask),
    Call::any(libc::SYS_rt_sigreturn),
    // Time, where it cannot be read without the kernel, and sleep.
    Call::when(libc::SYS_clock_getres, &[&[AtMost(0, LAST_CLOCK)]]),
    Call::when(libc::SYS_clock_gettime, &[&[AtMost(0, LAST_CLOCK)]]),
    Call::when(libc::SYS_clock_nanosleep, &[&[AtMost(0, LAST_CLOCK)]]),
    Call::any(libc::SYS_gettimeofday),
    Call::any(libc::SYS_nanosleep),
    Call::any(libc::SYS_getrandom),
    // Who it is, and what it used; limits are read and never set.
    Call::any(libc::SYS_getegid),
    Call::any(libc::SYS_geteuid),
    Call::any(libc::SYS_getgid),
    Call::any(libc::SYS_getpid),
    Call::any(libc::SYS_getppid),
    Call::any(libc::SYS_getrusage),
    Call::any(libc::SYS_getuid),
    Call::when(libc::SYS_prlimit64, &[&[Is(0, 0), Null(2)]]),
    // Descriptors that are open.
    Call::any(libc::SYS_close),
    Call::any(libc::SYS_fstat),
    Call::any(libc::SYS_lseek),
    Call::any(libc::SYS_poll),
    Call::any(libc::SYS_ppoll),
    Call::any(libc::SYS_pread64),
    Call::any(libc::SYS_read),
    Call::any(libc::SYS_readv),
    Call::any(libc::SYS_write),
    Call::any(libc::SYS_writev),
    // Copies of descriptors and their flags: no owner to send signals to, no lock, no lease, no size of a pipe.
    Call::when(
        libc::SYS_fcntl,
        &[
            &[Is(1, libc::F_DUPFD_CLOEXEC as u64)],
            &[Is(1, libc::F_GETFD as u64)],
            &[Is(1, libc::F_SETFD as u64)],
            &[Is(1, libc::F_GETFL as u64)],
            &[Is(1, libc::F_SETFL as u64), none_of(2, libc::O_ASYNC as u64)],
        ],
    ),
];

/// Allowed in workers as well: the event loop, and the socket to the host.
pub(super) const WORKER: &[Call<'static>] = &[
    Call::any(libc::SYS_epoll_create1),
    Call::any(libc::SYS_epoll_ctl),
    Call::any(libc::SYS_epoll_pwait),
    Call::any(libc::SYS_epoll_pwait2),
    Call::any(libc::SYS_epoll_wait),
    Call::any(libc::SYS_eventfd2),
    Call::when(libc::SYS_getsockopt, &[&[Is(1, libc::SOL_SOCKET as u64), Is(2, libc::SO_ERROR as u64)]]),
    Call::any(libc::SYS_recvmsg),
    Call::any(libc::SYS_shutdown),
    // No address, and no kind of socket that could send to another one than its peer.
    Call::when(libc::SYS_recvfrom, &[&[Null(4)]]),
    Call::any(libc::SYS_sendmsg),
    Call::when(libc::SYS_sendto, &[&[Null(4)]]),
    Call::when(
        libc::SYS_socketpair,
        &[&[
            Is(0, libc::AF_UNIX as u64),
            Bits {
                index: 1,
                of: !((libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u64) & 0xffff_ffff,
                are: libc::SOCK_STREAM as u64,
            },
            Is(2, 0),
        ]],
    ),
];

/// Allowed in workers until their code is loaded: installing the last filter.
pub(super) const SETUP: &[Call<'static>] = &[
    Call::when(libc::SYS_prctl, &[&[Is(0, libc::PR_SET_NO_NEW_PRIVS as u64)]]),
    Call::when(
        libc::SYS_seccomp,
        &[&[Is(0, libc::SECCOMP_SET_MODE_FILTER as u64), Is(1, libc::SECCOMP_FILTER_FLAG_TSYNC)]],
    ),
];

/// Refused in workers once their code is loaded: more code.
pub(super) const LOADING: &[Call<'static>] = &[
    Call::when(libc::SYS_mmap, &[&[Bits { index: 2, of: libc::PROT_EXEC as u64, are: libc::PROT_EXEC as u64 }]]),
    Call::when(libc::SYS_mprotect, &[&[Bits { index: 2, of: libc::PROT_EXEC as u64, are: libc::PROT_EXEC as u64 }]]),
];

/// Allowed in workers that have folders, and in others until their code is loaded: finding and opening files. The mount
/// tree and Landlock decide which.
pub(super) const PATHS: &[Call<'static>] = &[
    Call::any(libc::SYS_newfstatat),
    Call::when(libc::SYS_openat, &[&[none_of(3, SPECIAL_MODE)]]),
    // Its flags and mode are in memory.
    Call::any(libc::SYS_openat2),
    Call::any(libc::SYS_readlinkat),
    Call::any(libc::SYS_statx),
];

/// Allowed in workers as well: reading files and folders that are open.
pub(super) const READ: &[Call<'static>] = &[
    Call::any(libc::SYS_fadvise64),
    // Guests may ask for it with files that they only read.
    Call::any(libc::SYS_fdatasync),
    Call::any(libc::SYS_fsync),
    Call::any(libc::SYS_getdents64),
    Call::any(libc::SYS_preadv),
    Call::any(libc::SYS_preadv2),
];

/// Allowed in workers with a folder for writing.
pub(super) const WRITE: &[Call<'static>] = &[
    Call::any(libc::SYS_fallocate),
    Call::any(libc::SYS_ftruncate),
    // No flags: neither follows links nor names a descriptor.
    Call::when(libc::SYS_linkat, &[&[Is(4, 0)]]),
    Call::when(libc::SYS_mkdirat, &[&[none_of(2, SPECIAL_MODE)]]),
    Call::any(libc::SYS_pwrite64),
    Call::any(libc::SYS_pwritev),
    Call::any(libc::SYS_pwritev2),
    Call::any(libc::SYS_renameat),
    Call::when(libc::SYS_renameat2, &[&[only(4, libc::RENAME_NOREPLACE as u64)]]),
    Call::any(libc::SYS_symlinkat),
    Call::any(libc::SYS_unlinkat),
    Call::any(libc::SYS_utimensat),
];

/// System calls that no part of the host makes in such a process: an attempt proves that it was taken over.
pub(super) const FATAL: &[Call<'static>] = &[
    Call::any(libc::SYS_accept),
    Call::any(libc::SYS_accept4),
    Call::any(libc::SYS_bind),
    Call::any(libc::SYS_bpf),
    Call::any(libc::SYS_chroot),
    Call::any(libc::SYS_connect),
    Call::any(libc::SYS_execve),
    Call::any(libc::SYS_execveat),
    Call::any(libc::SYS_finit_module),
    Call::any(libc::SYS_fork),
    Call::any(libc::SYS_init_module),
    Call::any(libc::SYS_io_uring_setup),
    Call::any(libc::SYS_kexec_load),
    Call::any(libc::SYS_keyctl),
    Call::any(libc::SYS_kill),
    Call::any(libc::SYS_listen),
    Call::any(libc::SYS_mount),
    Call::any(libc::SYS_open_by_handle_at),
    Call::any(libc::SYS_perf_event_open),
    Call::any(libc::SYS_pidfd_getfd),
    Call::any(libc::SYS_pivot_root),
    Call::any(libc::SYS_process_vm_readv),
    Call::any(libc::SYS_process_vm_writev),
    Call::any(libc::SYS_ptrace),
    Call::any(libc::SYS_setns),
    Call::any(libc::SYS_setuid),
    Call::any(libc::SYS_socket),
    Call::any(libc::SYS_umount2),
    Call::any(libc::SYS_unshare),
    Call::any(libc::SYS_userfaultfd),
    Call::any(libc::SYS_vfork),
];
