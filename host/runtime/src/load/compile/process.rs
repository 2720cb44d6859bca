//! The host's side of a compiler process: starting it, talking to it, and ending it in every case.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fumehood_platform::process::{self, ProcessEnd};

use super::limits::Allowance;
use super::wire::{self, CompileFailure, HEADER_BYTES, MAX_LINE_BYTES, Request};
use crate::load::cache::FreshCode;

/// Number of threads that compile in one compiler process.
const THREADS: &str = "2";
/// Maximum length of output of a foreign program that is quoted in an error.
const MAX_QUOTED_BYTES: usize = 256;
/// Exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// The program that compiles.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) args: Vec<OsString>,
}

/// An error of a compiler process that ended without code.
#[derive(Debug)]
pub(super) enum ProcessError {
    /// The program cannot be started.
    NotStarted(io::Error),
    /// The process reported the reason itself.
    Reported(CompileFailure),
    /// The process used more CPU time than allowed.
    Cpu,
    /// The process needed more memory than allowed.
    Memory,
    /// The code is longer than allowed, with its length in bytes.
    Output(u64),
    /// Code that this process cannot store.
    Unwritable(io::Error),
    /// [`KillHandle::kill`] ended the process.
    Killed,
    /// The compiler panicked, with its message.
    Panicked(String),
    /// Any other failure, as a message.
    Broken(String),
}

/// A handle that can end a compiler process from any thread at any time.
#[derive(Debug, Default)]
pub(super) struct KillHandle {
    state: Mutex<ChildState>,
}

#[derive(Debug, Default)]
struct ChildState {
    /// `None` once it was reaped: after that its id may belong to another process.
    child: Option<Child>,
    killed: bool,
}

impl ChildState {
    fn kill(&self) {
        if let Some(child) = &self.child {
            // It leads its own process group.
            process::kill_group(child.id());
        }
    }
}

impl KillHandle {
    /// Ends the process and everything that it started. A process that was not started yet ends right after its start.
    pub(super) fn kill(&self) {
        let mut state = self.lock();
        state.killed = true;
        state.kill();
    }

    fn hold(&self, child: Child) -> u32 {
        let id = child.id();
        let mut state = self.lock();
        state.child = Some(child);
        if state.killed {
            state.kill();
        }
        id
    }

    /// Waits for the end of the process, and reaps it.
    fn wait(&self, id: u32) -> io::Result<ExitStatus> {
        // Without reaping it: until then its id stays valid, and it can be killed.
        process::wait_for_end(id)?;
        let ended = self.lock().child.take();
        ended.ok_or_else(|| io::Error::other("it was already waited for"))?.wait()
    }

    fn is_killed(&self) -> bool {
        self.lock().killed
    }

    fn lock(&self) -> MutexGuard<'_, ChildState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error when reading an answer.
#[derive(Debug)]
enum AnswerError {
    /// The output ended early: the process has ended or is about to, and its status or its error output has the reason.
    Over,
    /// Output that is not an answer.
    Garbage,
    /// An announced length beyond the allowance.
    TooLong(u64),
    /// Code that this process cannot store.
    Unwritable(io::Error),
}

/// Compiles one component in a new process, and returns when that process is gone. Blocks.
pub(super) fn compile(
    program: &Program,
    engine: String,
    bytes: &[u8],
    allowance: &Allowance,
    handle: &KillHandle,
) -> Result<FreshCode, ProcessError> {
    let request = Request {
        engine,
        bytes: bytes.len() as u64,
        cpu_seconds: allowance.cpu.as_secs().saturating_add(u64::from(allowance.cpu.subsec_nanos() > 0)),
        memory: allowance.memory,
    };
    let mut child = start(program).map_err(ProcessError::NotStarted)?;
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let id = handle.hold(child);
    let mut error_output = Vec::new();
    let answer = std::thread::scope(|scope| {
        // On its own thread, to avoid a deadlock with a program that answers before it has read everything. A broken
        // pipe shows in the answer.
        scope.spawn(|| stdin.map(|stdin| send(stdin, &request, bytes)));
        let answer = stdout.ok_or(AnswerError::Over).and_then(|stdout| receive(stdout, allowance.output));
        if matches!(answer, Err(AnswerError::Garbage | AnswerError::TooLong(_) | AnswerError::Unwritable(_))) {
            handle.kill();
        }
        // Until it ends, however long that takes: the caller enforces the time limit through the handle.
        let _ = stderr.map(|stderr| stderr.take(MAX_LINE_BYTES).read_to_end(&mut error_output));
        answer
    });
    let status = handle.wait(id).map_err(|error| ProcessError::Broken(format!("cannot wait for it: {error}")))?;
    match answer {
        Ok(code) if status.success() => Ok(code),
        Err(AnswerError::TooLong(bytes)) => Err(ProcessError::Output(bytes)),
        Err(AnswerError::Unwritable(error)) => Err(ProcessError::Unwritable(error)),
        Err(AnswerError::Garbage) => Err(ProcessError::Broken("it did not return compiled code".to_owned())),
        Ok(_) | Err(AnswerError::Over) if handle.is_killed() => Err(ProcessError::Killed),
        Ok(_) | Err(AnswerError::Over) => Err(classify_exit(status, &String::from_utf8_lossy(&error_output))),
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
        .stderr(Stdio::piped());
    process::lead_group(&mut command);
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

/// Reads the code, and fails if anything follows it.
fn receive(mut stdout: impl Read, max_bytes: u64) -> Result<FreshCode, AnswerError> {
    let mut head = [0; HEADER_BYTES];
    stdout.read_exact(&mut head).map_err(|_| AnswerError::Over)?;
    let bytes = wire::decode_header(head).ok_or(AnswerError::Garbage)?;
    if bytes > max_bytes {
        return Err(AnswerError::TooLong(bytes));
    }
    let code = FreshCode::receive(&mut stdout, bytes).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => AnswerError::Unwritable(error),
        _ => AnswerError::Over,
    })?;
    match stdout.read(&mut [0]) {
        Ok(0) => Ok(code),
        _ => Err(AnswerError::Garbage),
    }
}

/// Returns the place and the message of a panic, as the standard library prints it.
fn printed_panic(stderr_text: &str) -> String {
    let from = stderr_text.split_once(" panicked at ").map_or(stderr_text, |(_, after)| after);
    let lines: Vec<&str> = from.lines().take(2).map(str::trim).collect();
    lines.join(" ")
}

fn quote(output: &str) -> String {
    crate::wasi::guest_output::cut_to(output, MAX_QUOTED_BYTES)
}

/// Classifies the end of the process: a reported reason, the signal of a limit, or an unexpected end.
fn classify_exit(status: ExitStatus, stderr_text: &str) -> ProcessError {
    // An allocator that gets no memory prints this before it aborts.
    if stderr_text.contains("memory allocation of") {
        return ProcessError::Memory;
    }
    match (ProcessEnd::from(status), stderr_text.lines().next().map(serde_json::from_str)) {
        (ProcessEnd::CpuTime, _) => ProcessError::Cpu,
        (ProcessEnd::Code(_), Some(Ok(failure))) => ProcessError::Reported(failure),
        (ProcessEnd::Code(PANICKED), _) if stderr_text.contains(" panicked at ") => {
            ProcessError::Panicked(quote(&printed_panic(stderr_text)))
        }
        (ProcessEnd::Code(code), _) => {
            let text = quote(stderr_text.trim());
            let output = if text.is_empty() { "without output".to_owned() } else { format!("with the output: {text}") };
            ProcessError::Broken(format!("it ended with exit code {code} {output}"))
        }
        (end, _) => ProcessError::Broken(format!("it was killed by {end}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn shell(script: &str) -> Program {
        Program { path: PathBuf::from("/bin/sh"), args: vec!["-c".into(), script.into()] }
    }

    fn error_of(script: &str) -> String {
        let allowance =
            Allowance { time: Duration::MAX, cpu: Duration::from_secs(1), memory: 1 << 30, output: 1 << 10 };
        let component = vec![b'x'; 1 << 20];
        format!(
            "{:?}",
            compile(&shell(script), "e".to_owned(), &component, &allowance, &KillHandle::default()).unwrap_err()
        )
    }

    fn check_error(script: &str, says: &str) {
        let error = error_of(script);
        assert!(error.contains(says), "{script}: {error}");
    }

    #[test]
    fn every_behaviour_of_a_program_is_classified() {
        check_error("exit 0", "exit code 0 without output");
        check_error("cat >/dev/null; exit 3", "exit code 3 without output");
        check_error("echo no such luck >&2; exit 3", "with the output: no such luck");
        check_error("echo '{\"kind\":\"malformed\",\"message\":\"bad\"}' >&2; exit 1", "Reported(Malformed(\"bad\"))");
        check_error("echo 'memory allocation of 5 bytes failed' >&2; kill -ABRT $$", "Memory");
        check_error("kill -XCPU $$", "Cpu");
        let panic = "echo \"thread 'main' (7) panicked at a.rs:1:2:\" >&2; echo boom >&2; echo backtrace >&2; exit 101";
        check_error(panic, "Panicked(\"a.rs:1:2: boom\")");
        check_error("echo boom >&2; exit 101", "exit code 101 with the output: boom");
        check_error("kill -9 $$", "signal 9");
        check_error("echo this is not compiled code, sorry; sleep 1000", "did not return compiled code");
        check_error("yes", "did not return compiled code");
        check_error(
            "printf 'FumeCode\\004\\000\\000\\000\\000\\000\\000\\000code'; yes",
            "did not return compiled code",
        );
        check_error("printf 'FumeCode\\004\\000\\000\\000\\000\\000\\000\\000cod'", "exit code 0");
        check_error("printf 'FumeCode\\004\\000\\000\\000\\000\\000\\000\\000code'; exit 2", "exit code 2");
        check_error("printf 'FumeCode\\000\\000\\000\\000\\000\\000\\000\\001'; yes", "Output(72057594037927936)");
    }

    /// Returns the descriptors that this process inherited without `FD_CLOEXEC`.
    fn inherited_descriptors() -> Vec<u32> {
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
    fn program_gets_three_pipes_and_one_variable() {
        let _open = std::fs::File::open("/dev/null").unwrap();
        let error = error_of("echo /proc/$$/fd/* >&2; env | grep -v '^PWD=' >&2; pwd >&2; exit 9");
        let output = error.split_once("with the output: ").unwrap().1;
        let mut numbers: Vec<u32> = output
            .split(' ')
            .filter_map(|path| path.split("\\n").next()?.rsplit_once("/fd/")?.1.parse().ok())
            .collect();
        numbers.sort_unstable();
        let mut expected: Vec<u32> = [0, 1, 2].into_iter().chain(inherited_descriptors()).collect();
        // The shell has the folder open while it lists it.
        expected.extend((0..).find(|number| !expected.contains(number)));
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(numbers, expected, "{error}");
        assert!(error.contains("RAYON_NUM_THREADS=2\\n/\""), "{error}");
    }

    #[test]
    fn kill_ends_the_process_group() {
        let handle = KillHandle::default();
        let allowance =
            Allowance { time: Duration::MAX, cpu: Duration::from_secs(1), memory: 1 << 30, output: 1 << 10 };
        std::thread::scope(|scope| {
            let working = scope
                .spawn(|| compile(&shell("sleep 1000 & sleep 1000; wait"), String::new(), b"", &allowance, &handle));
            std::thread::sleep(Duration::from_millis(50));
            handle.kill();
            assert!(matches!(working.join().unwrap(), Err(ProcessError::Killed)));
        });
        // A process that is started after the kill ends at once.
        assert!(matches!(
            compile(&shell("sleep 1000"), String::new(), b"", &allowance, &handle),
            Err(ProcessError::Killed)
        ));
    }

    #[test]
    fn reports_a_missing_program() {
        let program = Program { path: PathBuf::from("/no/such/compiler"), args: Vec::new() };
        let allowance = Allowance { time: Duration::MAX, cpu: Duration::from_secs(1), memory: 1, output: 1 };
        let ended = compile(&program, String::new(), b"", &allowance, &KillHandle::default());
        assert!(matches!(ended, Err(ProcessError::NotStarted(error)) if error.kind() == io::ErrorKind::NotFound));
    }
}
