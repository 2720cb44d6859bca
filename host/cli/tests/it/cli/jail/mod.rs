//! The jail of worker processes: every system call, tried in a real worker as code would that took it over.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod command;
#[cfg(test)]
mod missing_layers;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod tracee;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fumehood::permission::files::Folder;
use fumehood::{Call, Component, Grant, Host, IsolationPolicy, Load, Workers};
use nix::errno::Errno;
use nix::libc as c;
use nix::unistd::Pid;
use rustix::process::getuid;
use tokio::runtime::{Builder, Runtime};

use super::workbench::{CommandOutput, Workbench};
use calls::{
    ALWAYS, ANYWHERE, Argument, Attempt, ExpectedAnswer, FATAL, NOT_TRIED, OF_THE_KERNEL, WITH_FOLDERS, WITH_PATHS,
    WITH_WRITING,
};
use tracee::{Answer, Tracee};

const PATIENCE: Duration = Duration::from_secs(20);
/// The user and the group `nobody`.
const NOBODY: u32 = 65534;
/// One more than the highest number of a system call that is tried; the kernel has none above 470 so far.
const NUMBERS: i64 = 600;

/// A host whose component is in a worker, and folders that it was granted or not.
struct Ground {
    runtime: Runtime,
    host: Host,
    component: Component,
    folder: tempfile::TempDir,
    /// A socket that no worker may reach.
    socket: UnixDatagram,
}

impl Ground {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Calls the tool, again if the call was sent to a worker that had ended and whose end its host did not know yet.
    fn call(&self) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let result = self.runtime.block_on(self.host.call(Call::new("counter__run", "{}")));
            match result.text() {
                Some(text) => return text.into_owned(),
                None => assert!(Instant::now() < until, "{result:?}"),
            }
        }
    }

    fn worker(&self) -> Pid {
        Pid::from_raw(self.component.worker_id().unwrap().try_into().unwrap())
    }

    fn stop(&self) -> Tracee {
        Tracee::stop(self.worker())
    }
}

fn make_readable(as_nobody: bool, path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    if as_nobody {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// Starts a worker as this user, or as `nobody`, with a folder for reading and one for writing, or with none.
fn ground(as_nobody: bool, has_folders: bool) -> Ground {
    let folder = tempfile::tempdir().unwrap();
    for name in ["read", "write"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("file"), "x").unwrap();
        make_readable(as_nobody, &folder.path().join(name));
        make_readable(as_nobody, &folder.path().join(name).join("file"));
    }
    std::fs::write(folder.path().join("outside"), "x").unwrap();
    for path in ["", "outside"] {
        make_readable(as_nobody, &folder.path().join(path));
    }
    let socket = UnixDatagram::bind(folder.path().join("socket")).unwrap();
    socket.set_nonblocking(true).unwrap();
    make_readable(as_nobody, &folder.path().join("socket"));
    let program = Path::new(env!("CARGO_BIN_EXE_fumehood"));
    let workers = if as_nobody {
        let accessible = accessible_program(folder.path());
        let id = NOBODY.to_string();
        let arguments = ["--reuid", &id, "--regid", &id, "--clear-groups", accessible.to_str().unwrap(), "run-worker"];
        Workers::program("/usr/bin/setpriv", arguments)
    } else {
        Workers::program(program, ["run-worker"])
    };
    let workers = workers.require_jail();
    // The limit on memory grows with the number of calls at once.
    let host = Host::builder().concurrency(1).workers(workers).isolation(IsolationPolicy::Everything).build().unwrap();
    let mut grant = Grant::none();
    if has_folders {
        let at = folder.path().canonicalize().unwrap();
        grant = grant.with_folder(Folder::read(&format!("{}:/r", at.join("read").display())).unwrap()).unwrap();
        grant = grant.with_folder(Folder::write(&format!("{}:/w", at.join("write").display())).unwrap()).unwrap();
    }
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bytes = fumehood_tests::component("counter").unwrap();
    let component = runtime.block_on(host.load(Load::bytes("counter", bytes).grant(grant))).unwrap();
    Ground { runtime, host, component, folder, socket }
}

/// Puts the program into a folder that other users can enter.
fn accessible_program(folder: &Path) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_fumehood"));
    let accessible = folder.join("fumehood");
    std::fs::hard_link(program, &accessible).or_else(|_| std::fs::copy(program, &accessible).map(|_| ())).unwrap();
    accessible
}

/// The users to try it as: root and `nobody`, or just this one.
fn users() -> &'static [bool] {
    if getuid().is_root() { &[false, true] } else { &[false] }
}

fn is_in(lists: &[&[(&str, &[i64])]], number: i64) -> bool {
    lists.iter().copied().flatten().any(|(_, numbers)| numbers.contains(&number))
}

/// Tries every number without sensible arguments, and returns those that are not answered as they should.
fn try_every_number(tracee: &mut Tracee, allowed: &[&[(&str, &[i64])]]) -> Vec<String> {
    let mut wrong = Vec::new();
    let is_left_out = |number: &i64| [FATAL, NOT_TRIED, OF_THE_KERNEL].iter().any(|list| list.contains(number));
    for number in (0..NUMBERS).filter(|number| !is_left_out(number)) {
        let answer = tracee.call(number, &[u64::MAX; 6]);
        let is_right = match answer {
            Answer::Error(Errno::ENOSYS) => number == c::SYS_clone3,
            Answer::Error(Errno::EPERM) => !is_in(allowed, number),
            Answer::Ended => false,
            _ => is_in(allowed, number),
        };
        if !is_right {
            wrong.push(format!("{number}: {answer:?}"));
        }
    }
    wrong
}

fn try_attempts(ground: &Ground, tracee: &mut Tracee, attempts: &[Attempt]) -> Vec<String> {
    let pair = tracee.store(&[0; 8]);
    let made = tracee.call(c::SYS_socketpair, &[1, 1, 0, pair]);
    assert_eq!(made, Answer::Value(0));
    let stream = tracee.int_at(pair);
    tracee.clear();
    let mut wrong = Vec::new();
    for Attempt { what, number, arguments, expected } in attempts {
        let arguments: Vec<u64> = arguments.iter().map(|argument| value(ground, tracee, *argument, stream)).collect();
        let answer = tracee.call(*number, &arguments);
        let is_right = match expected {
            ExpectedAnswer::Works => matches!(answer, Answer::Value(_)),
            ExpectedAnswer::Fails(errno) => answer == Answer::Error(*errno),
            ExpectedAnswer::Refused => answer == Answer::Error(Errno::EPERM),
        };
        if !is_right {
            wrong.push(format!("{what}: {answer:?}, expected {expected:?}"));
        }
        tracee.clear();
    }
    wrong
}

fn value(ground: &Ground, tracee: &mut Tracee, argument: Argument, stream: u64) -> u64 {
    let folder_of = |name: &str| ground.path(name);
    match argument {
        Argument::Number(number) => number.cast_unsigned(),
        Argument::Text(text) => tracee.store(text.as_bytes()),
        Argument::Numbers(numbers) => {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
            tracee.store(&bytes)
        }
        Argument::Room => tracee.store(&[0; 4096]),
        Argument::Outside => tracee.store(folder_of("outside").as_os_str().as_encoded_bytes()),
        Argument::OutsideRelative => tracee.store(b"../outside"),
        Argument::Socket => {
            let mut address = (c::AF_UNIX as u16).to_ne_bytes().to_vec();
            address.extend(folder_of("socket").as_os_str().as_encoded_bytes());
            address.resize(110, 0);
            tracee.store(&address)
        }
        Argument::Read => tracee.descriptor_of(&folder_of("read")),
        Argument::Write => tracee.descriptor_of(&folder_of("write")),
        Argument::ReadFile => open(tracee, &folder_of("read"), 0),
        Argument::WriteFile => open(tracee, &folder_of("write"), 2),
        Argument::Stream => stream,
        Argument::Own => tracee.pid().as_raw().cast_unsigned().into(),
        Argument::Host => std::process::id().into(),
        Argument::OwnMemory => tracee.store(&[]) & !0xfff,
    }
}

/// Opens the file in a granted folder, as the worker may.
fn open(tracee: &mut Tracee, folder: &Path, flags: u64) -> u64 {
    let folder = tracee.descriptor_of(folder);
    let name = tracee.store(b"file");
    match tracee.call(c::SYS_openat, &[folder, name, flags, 0]) {
        Answer::Value(descriptor) => descriptor,
        answer => panic!("a granted file cannot be opened: {answer:?}"),
    }
}

#[test]
fn every_system_call_is_on_a_list() {
    for as_nobody in users() {
        let ground = ground(*as_nobody, true);
        let mut tracee = ground.stop();
        let mut wrong = try_every_number(&mut tracee, &[ALWAYS, WITH_FOLDERS, WITH_WRITING]);
        wrong.extend(try_attempts(&ground, &mut tracee, ANYWHERE));
        if ground.component.jail().unwrap().paths {
            wrong.extend(try_attempts(&ground, &mut tracee, WITH_PATHS));
        } else {
            fumehood_tests::skip::skip("namespaces", "this user may not have mount namespaces");
        }
        assert!(wrong.is_empty(), "as nobody: {as_nobody}\n{}", wrong.join("\n"));
        drop(tracee);
        assert_eq!(ground.call(), "101", "and it works");
        let heard = ground.socket.recv(&mut [0; 8]).map_err(|error| error.kind());
        assert_eq!(heard, Err(std::io::ErrorKind::WouldBlock));
    }
}

#[test]
fn a_worker_without_folders_makes_no_call_with_a_path() {
    for as_nobody in users() {
        let ground = ground(*as_nobody, false);
        assert_eq!(ground.component.jail().unwrap().missing(), "");
        let mut tracee = ground.stop();
        let mut wrong = try_every_number(&mut tracee, &[ALWAYS]);
        wrong.extend(try_attempts(&ground, &mut tracee, ANYWHERE));
        assert!(wrong.is_empty(), "as nobody: {as_nobody}\n{}", wrong.join("\n"));
        drop(tracee);
        assert_eq!(ground.call(), "101", "and it works");
    }
}

#[test]
fn fatal_calls_end_the_worker() {
    let ground = ground(false, true);
    // 32-bit calls have other numbers.
    for number in FATAL.iter().copied().map(Some).chain([None]) {
        assert_eq!(ground.call(), "101", "after {number:?}");
        let mut tracee = ground.stop();
        let answer = match number {
            Some(number) => tracee.call(number, &[u64::MAX; 6]),
            None => tracee.call_32_bit(20),
        };
        assert_eq!(answer, Answer::Ended, "{number:?}");
    }
}

#[test]
fn a_worker_has_no_capabilities() {
    for as_nobody in users() {
        let ground = ground(*as_nobody, true);
        let status = std::fs::read_to_string(format!("/proc/{}/status", ground.worker())).unwrap();
        for line in status.lines().filter(|line| line.starts_with("Cap")) {
            let set = line.split_whitespace().nth(1).unwrap();
            // Of a process that may not drop it, the bounding set does nothing: no program is run.
            assert!(set == "0000000000000000" || (line.starts_with("CapBnd") && *as_nobody), "{status}");
        }
    }
}

/// Runs the tool that writes a note into a folder which belongs to `nobody`, as this user or as `nobody`.
fn write_note(as_nobody: bool) -> (Workbench, CommandOutput) {
    let bench = Workbench::new();
    bench.example("files");
    std::fs::create_dir(bench.path("notes")).unwrap();
    std::os::unix::fs::chown(bench.path("notes"), Some(NOBODY), Some(NOBODY)).unwrap();
    let arguments = ["--trust-config", "call", "files.wasm", "write", r#"{"path": "/out/new", "text": "milk"}"#];
    let options = ["--allow-write", "./notes:/out", "--isolation", "process=required"];
    let mut command = bench.command_without_trust(&[]);
    if as_nobody {
        let program = accessible_program(&bench.path(""));
        let environment: Vec<_> =
            command.get_envs().map(|(name, value)| (name.to_owned(), value.map(Into::into))).collect();
        command = Command::new(program);
        for (name, value) in environment {
            let value: Option<std::ffi::OsString> = value;
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(bench.path("")).uid(NOBODY).gid(NOBODY);
        std::os::unix::fs::chown(bench.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let ran = Workbench::run_command({
        command.args(arguments).args(options);
        command
    });
    (bench, ran)
}

/// A process of root may use folders of other users, as it may without workers.
#[test]
fn folders_of_other_users_can_be_used_by_root() {
    if !getuid().is_root() {
        return fumehood_tests::skip::skip("root", "only root gives files to others");
    }
    let (bench, ran) = write_note(false);
    assert_eq!(ran.code, 0, "{ran:?}");
    let notes: Vec<_> = std::fs::read_dir(bench.path("notes")).unwrap().map(Result::unwrap).collect();
    assert!(matches!(&notes[..], [note] if note.metadata().unwrap().uid() == 0), "{notes:?}");
}

#[test]
fn an_ordinary_user_gets_the_whole_jail() {
    if !getuid().is_root() {
        return fumehood_tests::skip::skip("root", "only root becomes another user");
    }
    let (bench, ran) = write_note(true);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.stderr.contains("this kernel does not support"), "{ran:?}");
    assert_eq!(std::fs::read_dir(bench.path("notes")).unwrap().count(), 1);
}
