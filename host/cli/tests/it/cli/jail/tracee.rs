//! A worker process that is stopped, and made to try system calls as code would that took it over (`ptrace(2)`).

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::user_regs_struct;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

const PATIENCE: Duration = Duration::from_secs(20);
/// Length of the instruction of a system call, in bytes.
const INSTRUCTION_BYTES: u64 = 2;
/// Memory of the worker for the arguments of one call.
const ROOM_BYTES: u64 = 64 << 10;

/// The answer of the kernel to a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Value(u64),
    Error(Errno),
    /// The process is gone.
    Ended,
}

/// A stopped worker, which goes on when this is dropped.
pub(super) struct Tracee {
    pid: Pid,
    saved: user_regs_struct,
    memory: File,
    /// The address of memory that belongs to the tests, and the part of it that is used.
    room: u64,
    used: u64,
    has_ended: bool,
}

impl Tracee {
    /// Stops a worker that waits for its next call.
    pub(super) fn stop(pid: Pid) -> Self {
        let until = Instant::now() + PATIENCE;
        let saved = loop {
            ptrace::attach(pid).unwrap();
            assert!(matches!(waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap(), WaitStatus::Stopped(..)));
            let registers = ptrace::getregs(pid).unwrap();
            if registers.orig_rax == nix::libc::SYS_recvmsg.cast_unsigned() {
                break registers;
            }
            assert!(Instant::now() < until, "the worker never waits for a call: {registers:?}");
            ptrace::detach(pid, None).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        };
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem")).unwrap();
        let mut tracee = Self { pid, saved, memory, room: 0, used: 0, has_ended: false };
        // Readable, writable, private and of no file.
        let Answer::Value(room) = tracee.call(nix::libc::SYS_mmap, &[0, ROOM_BYTES, 3, 0x22, u64::MAX, 0]) else {
            panic!("the worker has no memory left");
        };
        tracee.room = room;
        tracee
    }

    /// Copies bytes to the worker, followed by zeros, and returns their address.
    pub(super) fn store(&mut self, bytes: &[u8]) -> u64 {
        let address = self.room + self.used;
        self.used += (bytes.len() as u64 + 16).next_multiple_of(16);
        assert!(self.used < ROOM_BYTES);
        self.memory.write_all_at(bytes, address).unwrap();
        address
    }

    /// Returns the number of 32 bits at an address.
    pub(super) fn int_at(&self, address: u64) -> u64 {
        let mut bytes = [0; 4];
        self.memory.read_exact_at(&mut bytes, address).unwrap();
        u32::from_ne_bytes(bytes).into()
    }

    /// Forgets what was stored.
    pub(super) fn clear(&mut self) {
        self.memory.write_all_at(&vec![0; self.used.try_into().unwrap()], self.room).unwrap();
        self.used = 0;
    }

    /// Makes a system call. One that waits is interrupted after a while.
    pub(super) fn call(&mut self, number: i64, arguments: &[u64]) -> Answer {
        let argument = |index: usize| arguments.get(index).copied().unwrap_or_default();
        let registers = user_regs_struct {
            rip: self.saved.rip - INSTRUCTION_BYTES,
            rax: number.cast_unsigned(),
            // No system call is to be restarted.
            orig_rax: u64::MAX,
            rdi: argument(0),
            rsi: argument(1),
            rdx: argument(2),
            r10: argument(3),
            r8: argument(4),
            r9: argument(5),
            ..self.saved
        };
        ptrace::setregs(self.pid, registers).unwrap();
        ptrace::step(self.pid, None).unwrap();
        if !self.wait() {
            self.has_ended = true;
            return Answer::Ended;
        }
        let result = ptrace::getregs(self.pid).unwrap().rax;
        match i32::try_from(result.wrapping_neg()) {
            Ok(errno @ 1..4096) => Answer::Error(Errno::from_raw(errno)),
            _ => Answer::Value(result),
        }
    }

    /// Executes an interrupt to the entry of 32-bit system calls in place of the instruction of a system call.
    pub(super) fn call_32_bit(&mut self, number: i64) -> Answer {
        let at = self.saved.rip - INSTRUCTION_BYTES;
        let mut instruction = [0; INSTRUCTION_BYTES as usize];
        self.memory.read_exact_at(&mut instruction, at).unwrap();
        assert_eq!(instruction, [0x0f, 0x05], "the worker waits in a system call");
        self.memory.write_all_at(&[0xcd, 0x80], at).unwrap();
        self.call(number, &[])
    }

    /// Waits until it has stopped again, and returns `false` if it has ended instead. Its host is to collect its end.
    fn wait(&self) -> bool {
        let peek = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let until = Instant::now() + PATIENCE;
        let mut interrupt_at = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            match waitid(Id::Pid(self.pid), peek) {
                Ok(WaitStatus::StillAlive) => std::thread::yield_now(),
                Ok(WaitStatus::Signaled(..) | WaitStatus::Exited(..)) | Err(Errno::ECHILD) => return false,
                Ok(_stopped) => {
                    waitpid(self.pid, Some(WaitPidFlag::__WALL)).unwrap();
                    return true;
                }
                Err(error) => panic!("{error}"),
            }
            if Instant::now() > interrupt_at {
                let _gone = kill(self.pid, Signal::SIGSTOP);
                interrupt_at = until;
            }
        }
        panic!("the worker neither stops nor ends");
    }

    /// Returns the number of its descriptor for a folder.
    pub(super) fn descriptor_of(&self, folder: &Path) -> u64 {
        let wanted = folder.metadata().unwrap();
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).unwrap().map(Result::unwrap);
        let mut is_it = descriptors.filter(|descriptor| {
            std::fs::metadata(descriptor.path())
                .is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
        });
        is_it.next().unwrap().file_name().to_str().unwrap().parse().unwrap()
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if !self.has_ended {
            let _gone = ptrace::setregs(self.pid, self.saved).and_then(|()| ptrace::detach(self.pid, None));
        }
    }
}
