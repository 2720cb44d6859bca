//! The system calls that an ordinary program may not make. All others that this kernel had when this was written are
//! allowed.

use seccompiler::{BpfProgram, sock_filter};

use super::calls::Call;
use super::calls::Condition::{self, Bits, Is, Not};

/// The condition that an argument has this bit.
const fn has(index: u8, bit: u64) -> Condition {
    Bits { index, of: bit, are: bit }
}

/// `TIOCSTI` types into a terminal, and `TIOCLINUX` pastes there.
const TIOCSTI: u64 = libc::TIOCSTI;
const TIOCLINUX: u64 = 0x541c;
/// `IPPROTO_TCP`, as a protocol and as a level of options.
const TCP: u64 = libc::IPPROTO_TCP as u64;
/// `TCP_ULP` and `TCP_FASTOPEN_CONNECT`.
const TCP_ULP: u64 = 31;
const TCP_FASTOPEN_CONNECT: u64 = 30;
/// `MSG_FASTOPEN`: connects without `connect`.
const MSG_FASTOPEN: u64 = 0x2000_0000;
/// The bits of a socket's type that are not flags (`SOCK_TYPE_MASK`).
const SOCKET_TYPE: u64 = 0xf;

/// Refused in every program.
pub(super) const REFUSED: &[Call<'static>] = &[
    // Other processes: their memory, descriptors, limits and priorities. Those of the same user are not protected by the
    // kernel.
    Call::any(libc::SYS_ptrace),
    Call::any(libc::SYS_process_vm_readv),
    Call::any(libc::SYS_process_vm_writev),
    Call::any(libc::SYS_process_madvise),
    Call::any(libc::SYS_process_mrelease),
    Call::any(libc::SYS_pidfd_getfd),
    Call::any(libc::SYS_kcmp),
    Call::any(libc::SYS_migrate_pages),
    Call::any(libc::SYS_move_pages),
    Call::when(libc::SYS_prlimit64, &[&[Not(0, 0)]]),
    Call::when(libc::SYS_setpriority, &[&[Not(0, 0)], &[Not(1, 0)]]),
    Call::when(libc::SYS_ioprio_set, &[&[Not(0, 1)], &[Not(1, 0)]]),
    Call::when(libc::SYS_sched_setaffinity, &[&[Not(0, 0)]]),
    Call::when(libc::SYS_sched_setattr, &[&[Not(0, 0)]]),
    Call::when(libc::SYS_sched_setparam, &[&[Not(0, 0)]]),
    Call::when(libc::SYS_sched_setscheduler, &[&[Not(0, 0)]]),
    // Objects that all processes of a user share by their names.
    Call::any(libc::SYS_shmget),
    Call::any(libc::SYS_shmat),
    Call::any(libc::SYS_shmctl),
    Call::any(libc::SYS_semget),
    Call::any(libc::SYS_semop),
    Call::any(libc::SYS_semtimedop),
    Call::any(libc::SYS_semctl),
    Call::any(libc::SYS_msgget),
    Call::any(libc::SYS_msgsnd),
    Call::any(libc::SYS_msgrcv),
    Call::any(libc::SYS_msgctl),
    Call::any(libc::SYS_mq_open),
    Call::any(libc::SYS_mq_unlink),
    // Keys of the user and the session.
    Call::any(libc::SYS_add_key),
    Call::any(libc::SYS_request_key),
    Call::any(libc::SYS_keyctl),
    // Mounts and namespaces.
    Call::any(libc::SYS_mount),
    Call::any(libc::SYS_umount2),
    Call::any(libc::SYS_pivot_root),
    Call::any(libc::SYS_chroot),
    Call::any(libc::SYS_open_tree),
    Call::any(libc::SYS_move_mount),
    Call::any(libc::SYS_fsopen),
    Call::any(libc::SYS_fsconfig),
    Call::any(libc::SYS_fsmount),
    Call::any(libc::SYS_fspick),
    Call::any(libc::SYS_mount_setattr),
    Call::any(libc::SYS_unshare),
    Call::any(libc::SYS_setns),
    Call::when(
        libc::SYS_clone,
        &[
            &[has(0, libc::CLONE_NEWNS as u64)],
            &[has(0, libc::CLONE_NEWUSER as u64)],
            &[has(0, libc::CLONE_NEWPID as u64)],
            &[has(0, libc::CLONE_NEWNET as u64)],
            &[has(0, libc::CLONE_NEWIPC as u64)],
            &[has(0, libc::CLONE_NEWUTS as u64)],
            &[has(0, libc::CLONE_NEWCGROUP as u64)],
        ],
    ),
    // Large parts of the kernel that no server needs.
    Call::any(libc::SYS_bpf),
    Call::any(libc::SYS_perf_event_open),
    Call::any(libc::SYS_userfaultfd),
    Call::any(libc::SYS_io_uring_setup),
    Call::any(libc::SYS_io_uring_enter),
    Call::any(libc::SYS_io_uring_register),
    Call::any(libc::SYS_fanotify_init),
    Call::any(libc::SYS_name_to_handle_at),
    Call::any(libc::SYS_open_by_handle_at),
    Call::any(libc::SYS_personality),
    Call::any(libc::SYS_modify_ldt),
    Call::any(libc::SYS_vhangup),
    // The machine.
    Call::any(libc::SYS_acct),
    Call::any(libc::SYS_adjtimex),
    Call::any(libc::SYS_clock_adjtime),
    Call::any(libc::SYS_clock_settime),
    Call::any(libc::SYS_settimeofday),
    Call::any(libc::SYS_delete_module),
    Call::any(libc::SYS_finit_module),
    Call::any(libc::SYS_init_module),
    Call::any(libc::SYS_ioperm),
    Call::any(libc::SYS_iopl),
    Call::any(libc::SYS_kexec_file_load),
    Call::any(libc::SYS_kexec_load),
    Call::any(libc::SYS_quotactl),
    Call::any(libc::SYS_quotactl_fd),
    Call::any(libc::SYS_reboot),
    Call::any(libc::SYS_setdomainname),
    Call::any(libc::SYS_sethostname),
    Call::any(libc::SYS_swapoff),
    Call::any(libc::SYS_swapon),
    Call::any(libc::SYS_syslog),
    // A terminal that it was given.
    Call::when(libc::SYS_ioctl, &[&[Is(1, TIOCSTI)], &[Is(1, TIOCLINUX)]]),
    // A pair of datagram sockets could send to any other one of this machine, by its path.
    Call::when(libc::SYS_socketpair, &[&[has(1, libc::SOCK_DGRAM as u64)]]),
    // Nobody may connect to it.
    Call::any(libc::SYS_bind),
    Call::any(libc::SYS_listen),
    Call::any(libc::SYS_accept),
    Call::any(libc::SYS_accept4),
];

/// Refused in a program without requests: every socket that is no pair.
pub(super) const NO_SOCKETS: &[Call<'static>] = &[Call::any(libc::SYS_socket)];

/// Refused in a program with requests: every socket that is neither a pair nor of TCP over IP, and all ways to connect one
/// that Landlock does not see.
pub(super) const TCP_ONLY: &[Call<'static>] = &[
    Call::when(
        libc::SYS_socket,
        &[
            &[Not(0, libc::AF_INET as u64), Not(0, libc::AF_INET6 as u64)],
            &[Not(2, 0), Not(2, TCP)],
            &[socket_type(0)],
            &[has(1, 2)],
            &[has(1, 4)],
            &[has(1, 8)],
        ],
    ),
    Call::when(libc::SYS_sendto, &[&[has(3, MSG_FASTOPEN)]]),
    Call::when(libc::SYS_sendmsg, &[&[has(2, MSG_FASTOPEN)]]),
    Call::when(libc::SYS_sendmmsg, &[&[has(3, MSG_FASTOPEN)]]),
    Call::when(libc::SYS_setsockopt, &[&[Is(1, TCP), Is(2, TCP_ULP)], &[Is(1, TCP), Is(2, TCP_FASTOPEN_CONNECT)]]),
];

/// The condition that a socket is of this type. `SOCK_STREAM` is 1, so that all others have another bit, or none.
const fn socket_type(kind: u64) -> Condition {
    Bits { index: 1, of: SOCKET_TYPE, are: kind }
}

/// Refused in a program that sees the paths of other files: changing their modes, owners and attributes, over which
/// Landlock has no rule.
pub(super) const MODES: &[Call<'static>] = &[
    Call::any(libc::SYS_chmod),
    Call::any(libc::SYS_fchmodat),
    Call::any(FCHMODAT2),
    Call::any(libc::SYS_chown),
    Call::any(libc::SYS_lchown),
    Call::any(libc::SYS_fchownat),
    Call::any(libc::SYS_setxattr),
    Call::any(libc::SYS_lsetxattr),
    Call::any(libc::SYS_removexattr),
    Call::any(libc::SYS_lremovexattr),
    Call::any(SETXATTRAT),
    Call::any(REMOVEXATTRAT),
];

/// `fchmodat2` (Linux 6.6), `setxattrat` and `removexattrat` (Linux 6.13).
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;

/// The last system call of Linux 6.13 for this machine. Later ones may do what is refused above.
const LAST_CALL: u32 = 466;

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_JGT | BPF_K` and `BPF_RET | BPF_K`.
const LOAD: u16 = 0x20;
const JUMP_IF_GREATER: u16 = 0x25;
const RETURN: u16 = 0x06;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
/// The place of the number of the system call.
const NUMBER: u32 = 0;

/// Returns a filter that makes all system calls fail as unknown whose numbers are not known here. Among them are those of
/// x32, which have other numbers and would pass the lists above.
pub(super) fn known_calls() -> BpfProgram {
    let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    vec![
        sock_filter { code: LOAD, jt: 0, jf: 0, k: NUMBER },
        sock_filter { code: JUMP_IF_GREATER, jt: 1, jf: 0, k: LAST_CALL },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: unknown },
    ]
}
