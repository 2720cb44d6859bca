//! One compiler process, seen from the host: started, spoken to, and never left behind.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::limits::Allowance;
use super::wire::{self, HEAD, MAX_LINE, Request, Said};
use crate::cache::FreshCode;

/// Threads that compile at once in one compiler process.
const THREADS: &str = "2";
/// The most that is repeated of what a program says that is not ours, in bytes.
const SAID_BYTES: usize = 256;

/// Which program compiles.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) args: Vec<OsString>,
}

/// How a compiler process ended without code.
#[derive(Debug)]
pub(super) enum Ended {
    /// It could not be started.
    NotStarted(io::Error),
    /// It said why there is no code.
    Said(Said),
    /// It used more CPU time than it may.
    Cpu,
    /// It needed more memory than it may have.
    Memory,
    /// The code is longer than it may be; this long.
    Output(u64),
    /// This process cannot hold the code.
    Unwritable(io::Error),
    /// [`Leash::kill`] ended it.
    Killed,
    /// Anything else, in words.
    Broken(String),
}

/// Holds a compiler process, so that it can be ended from anywhere at any time.
#[derive(Debug, Default)]
pub(super) struct Leash {
    held: Mutex<ChildState>,
}

#[derive(Debug, Default)]
struct ChildState {
    /// Until it is reaped: after that its number may belong to another process.
    child: Option<Child>,
    killed: bool,
}

impl ChildState {
    fn kill(&self) {
        if let Some(child) = &self.child {
            // It leads a group of its own. What of it has ended by itself needs no signal.
            let _ = rustix::process::kill_process_group(Pid::from_child(child), Signal::KILL);
        }
    }
}

impl Leash {
    /// Ends the process and everything that it started. One that is not started yet will end right after its start.
    pub(super) fn kill(&self) {
        let mut held = self.lock();
        held.killed = true;
        held.kill();
    }

    fn hold(&self, child: Child) -> Pid {
        let pid = Pid::from_child(&child);
        let mut held = self.lock();
        held.child = Some(child);
        if held.killed {
            held.kill();
        }
        pid
    }

    /// Waits for the end of the process, and lets go of it.
    fn wait(&self, pid: Pid) -> io::Result<ExitStatus> {
        // Without reaping it: until then its number is its own, and it can be killed.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), options))?;
        let ended = self.lock().child.take();
        ended.ok_or_else(|| io::Error::other("it was waited for already"))?.wait()
    }

    fn is_killed(&self) -> bool {
        self.lock().killed
    }

    fn lock(&self) -> MutexGuard<'_, ChildState> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an answer is none.
#[derive(Debug)]
enum NoAnswer {
    /// The process ended, or is about to: it will say why, or its end does.
    Over,
    /// It goes on with something that is no answer.
    Garbage,
    /// It announces more than is allowed.
    TooLong(u64),
    /// This process cannot hold it.
    Unwritable(io::Error),
}

/// Has one component compiled, and returns when the process is gone. Blocks.
pub(super) fn compile(
    program: &Program,
    engine: String,
    bytes: &[u8],
    allowance: &Allowance,
    leash: &Leash,
) -> Result<FreshCode, Ended> {
    let request = Request {
        engine,
        bytes: bytes.len() as u64,
        cpu_seconds: allowance.cpu.as_secs().saturating_add(u64::from(allowance.cpu.subsec_nanos() > 0)),
        memory: allowance.memory,
    };
    let mut child = start(program).map_err(Ended::NotStarted)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let pid = leash.hold(child);
    let mut said = Vec::new();
    let answer = std::thread::scope(|scope| {
        // On a thread of its own: a program that answers before it has read everything would wait for us, and we for it.
        // A pipe that breaks shows in the answer.
        scope.spawn(|| stdin.map(|stdin| send(stdin, &request, bytes)));
        let answer = stdout.ok_or(NoAnswer::Over).and_then(|stdout| receive(stdout, allowance.output));
        if matches!(answer, Err(NoAnswer::Garbage | NoAnswer::TooLong(_) | NoAnswer::Unwritable(_))) {
            leash.kill();
        }
        // Until it ends, however long that takes: whoever watches the clock has the leash.
        let _ = stderr.map(|stderr| stderr.take(MAX_LINE).read_to_end(&mut said));
        answer
    });
    let status = leash.wait(pid).map_err(|error| Ended::Broken(format!("it cannot be waited for: {error}")))?;
    match answer {
        Ok(code) if status.success() => Ok(code),
        Err(NoAnswer::TooLong(bytes)) => Err(Ended::Output(bytes)),
        Err(NoAnswer::Unwritable(error)) => Err(Ended::Unwritable(error)),
        Err(NoAnswer::Garbage) => Err(Ended::Broken("it answers with something else than compiled code".to_owned())),
        Ok(_) | Err(NoAnswer::Over) if leash.is_killed() => Err(Ended::Killed),
        Ok(_) | Err(NoAnswer::Over) => Err(why(status, &String::from_utf8_lossy(&said))),
    }
}

/// Starts the program with nothing but three pipes, in a process group of its own.
fn start(program: &Program) -> io::Result<Child> {
    let mut command = Command::new(&program.path);
    command
        .args(&program.args)
        .env_clear()
        .env("RAYON_NUM_THREADS", THREADS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if program.path.is_absolute() {
        command.current_dir("/");
    }
    command.spawn()
}

fn send(mut stdin: impl Write, request: &Request, bytes: &[u8]) -> io::Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stdin.write_all(&line)?;
    stdin.write_all(bytes)
}

/// The code, if that is all there is.
fn receive(mut stdout: impl Read, most: u64) -> Result<FreshCode, NoAnswer> {
    let mut head = [0; HEAD];
    stdout.read_exact(&mut head).map_err(|_| NoAnswer::Over)?;
    let bytes = wire::length(head).ok_or(NoAnswer::Garbage)?;
    if bytes > most {
        return Err(NoAnswer::TooLong(bytes));
    }
    let code = FreshCode::receive(&mut stdout, bytes).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => NoAnswer::Unwritable(error),
        _ => NoAnswer::Over,
    })?;
    match stdout.read(&mut [0]) {
        Ok(0) => Ok(code),
        _ => Err(NoAnswer::Garbage),
    }
}

/// What the end of the process means: what it said, the signal of a limit, or something that should not happen.
fn why(status: ExitStatus, said: &str) -> Ended {
    // An allocator that gets no memory says so before it aborts.
    if said.contains("memory allocation of") {
        return Ended::Memory;
    }
    match (status.signal().and_then(Signal::from_named_raw), said.lines().next().map(serde_json::from_str)) {
        (Some(Signal::XCPU), _) => Ended::Cpu,
        (None, Some(Ok(said))) => Ended::Said(said),
        (Some(signal), _) => Ended::Broken(format!("it was ended by signal {}", signal.as_raw())),
        (None, _) => {
            let said = crate::outcome::cut_to(said.trim(), SAID_BYTES);
            let said = if said.is_empty() { "and said nothing".to_owned() } else { format!("and said: {said}") };
            Ended::Broken(match status.code() {
                Some(code) => format!("it ended with exit code {code} {said}"),
                None => format!("it ended {said}"),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn shell(script: &str) -> Program {
        Program { path: PathBuf::from("/bin/sh"), args: vec!["-c".into(), script.into()] }
    }

    fn ended(script: &str) -> String {
        let allowance =
            Allowance { time: Duration::MAX, cpu: Duration::from_secs(1), memory: 1 << 30, output: 1 << 10 };
        let component = vec![b'x'; 1 << 20];
        format!("{:?}", compile(&shell(script), "e".to_owned(), &component, &allowance, &Leash::default()).unwrap_err())
    }

    #[test]
    fn whatever_a_program_does_it_is_an_answer_or_an_error() {
        let check = |script: &str, says: &str| {
            let ended = ended(script);
            assert!(ended.contains(says), "{script}: {ended}");
        };
        check("exit 0", "exit code 0 and said nothing");
        check("cat >/dev/null; exit 3", "exit code 3 and said nothing");
        check("echo no such luck >&2; exit 3", "said: no such luck");
        check("echo '{\"kind\":\"malformed\",\"message\":\"bad\"}' >&2; exit 1", "Said(Malformed(\"bad\"))");
        check("echo 'memory allocation of 5 bytes failed' >&2; kill -ABRT $$", "Memory");
        check("kill -XCPU $$", "Cpu");
        check("kill -9 $$", "signal 9");
        check("echo this is not compiled code, sorry; sleep 1000", "something else");
        check("yes", "something else");
        check("printf 'FumeCode\\004\\000\\000\\000\\000\\000\\000\\000code'; yes", "something else");
        check("printf 'FumeCode\\004\\000\\000\\000\\000\\000\\000\\000cod'", "exit code 0");
        check("printf 'FumeCode\\004\\000\\000\\000\\000\\000\\000\\000code'; exit 2", "exit code 2");
        check("printf 'FumeCode\\000\\000\\000\\000\\000\\000\\000\\001'; yes", "Output(72057594037927936)");
    }

    /// Descriptors of this process that it was given by whoever started it, to be passed on.
    fn inherited() -> Vec<u32> {
        const CLOEXEC: u32 = 0o2_000_000;
        let numbers = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().file_name());
        let is_passed_on = |number: &u32| {
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            flags.is_some_and(|flags| u32::from_str_radix(flags.trim(), 8).unwrap() & CLOEXEC == 0)
        };
        numbers.map(|name| name.to_str().unwrap().parse().unwrap()).filter(is_passed_on).collect()
    }

    #[test]
    fn a_program_has_three_pipes_one_variable_and_nothing_that_this_process_opened() {
        let _open = std::fs::File::open("/dev/null").unwrap();
        let ended = ended("echo /proc/$$/fd/* >&2; env | grep -v '^PWD=' >&2; pwd >&2; exit 9");
        let told = ended.split_once("said: ").unwrap().1;
        let mut numbers: Vec<u32> =
            told.split(' ').filter_map(|path| path.split("\\n").next()?.rsplit_once("/fd/")?.1.parse().ok()).collect();
        numbers.sort_unstable();
        let mut expected: Vec<u32> = [0, 1, 2].into_iter().chain(inherited()).collect();
        // The shell has the folder open while it lists it.
        expected.extend((0..).find(|number| !expected.contains(number)));
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(numbers, expected, "{ended}");
        assert!(ended.contains("RAYON_NUM_THREADS=2\\n/\""), "{ended}");
    }

    #[test]
    fn a_killed_program_takes_along_what_it_started() {
        let leash = Leash::default();
        let allowance =
            Allowance { time: Duration::MAX, cpu: Duration::from_secs(1), memory: 1 << 30, output: 1 << 10 };
        std::thread::scope(|scope| {
            let working = scope
                .spawn(|| compile(&shell("sleep 1000 & sleep 1000; wait"), String::new(), b"", &allowance, &leash));
            std::thread::sleep(Duration::from_millis(50));
            leash.kill();
            assert!(matches!(working.join().unwrap(), Err(Ended::Killed)));
        });
        // One that comes too late is not let loose.
        assert!(matches!(compile(&shell("sleep 1000"), String::new(), b"", &allowance, &leash), Err(Ended::Killed)));
    }

    #[test]
    fn a_missing_program_is_told_apart() {
        let program = Program { path: PathBuf::from("/no/such/compiler"), args: Vec::new() };
        let allowance = Allowance { time: Duration::MAX, cpu: Duration::from_secs(1), memory: 1, output: 1 };
        let ended = compile(&program, String::new(), b"", &allowance, &Leash::default());
        assert!(matches!(ended, Err(Ended::NotStarted(error)) if error.kind() == io::ErrorKind::NotFound));
    }
}
