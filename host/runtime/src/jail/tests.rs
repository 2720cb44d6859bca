//! Attempts of a jailed process: this test program starts itself, enters the jail, and makes one attempt.

use std::fs::File;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;

use super::{Profile, Reachable, ReachableFolder, Resources, enter};

/// The variable with the name of the attempt.
const ATTEMPT: &str = "FUMEHOOD_JAIL_ATTEMPT";
/// The variable with the folder that holds `read/file`, `write/` and `outside`.
const GROUND: &str = "FUMEHOOD_JAIL_GROUND";

type Attempt = fn(&Ground) -> std::io::Result<()>;

/// The folder, and the descriptors of the granted ones in it.
struct Ground {
    path: PathBuf,
    read: File,
    write: File,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Allowed,
    /// It fails with an error.
    Refused,
    /// The kernel ends the process.
    Killed,
}

fn read(path: impl AsRef<Path>) -> std::io::Result<()> {
    std::fs::read(path).map(|_| ())
}

fn open(folder: &File, name: &str, flags: OFlags) -> std::io::Result<()> {
    rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o666))?;
    Ok(())
}

const ATTEMPTS: &[(&str, Outcome, Attempt)] = &[
    ("read a granted file", Outcome::Allowed, |ground| open(&ground.read, "file", OFlags::RDONLY)),
    ("write to a folder for writing", Outcome::Allowed, |ground| {
        open(&ground.write, "file", OFlags::WRONLY | OFlags::CREATE)
    }),
    ("start a thread", Outcome::Allowed, |_| {
        std::thread::Builder::new().spawn(|| ())?.join().map_err(|_| std::io::ErrorKind::Other.into())
    }),
    ("write to a folder for reading", Outcome::Refused, |ground| open(&ground.read, "file", OFlags::WRONLY)),
    ("make a file in a folder for reading", Outcome::Refused, |ground| {
        open(&ground.read, "new", OFlags::WRONLY | OFlags::CREATE)
    }),
    ("read beside the folders", Outcome::Refused, |ground| read(ground.path.join("outside"))),
    ("read above a folder", Outcome::Refused, |ground| open(&ground.write, "../outside", OFlags::RDONLY)),
    ("read through a link", Outcome::Refused, |ground| open(&ground.write, "link", OFlags::RDONLY)),
    ("list the folder above", Outcome::Refused, |ground| std::fs::read_dir(&ground.path).map(|_| ())),
    ("read a file of the system", Outcome::Refused, |_| read("/etc/passwd")),
    ("read its environment", Outcome::Refused, |_| read("/proc/self/environ")),
    ("read another process", Outcome::Refused, |_| read("/proc/1/status")),
    ("run a program", Outcome::Refused, |_| Command::new("/bin/true").spawn().map(|_| ())),
    ("raise a limit", Outcome::Refused, |_| {
        let all = rustix::process::Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
        Ok(rustix::process::setrlimit(rustix::process::Resource::Nofile, all)?)
    }),
    ("take memory without end", Outcome::Refused, |_| {
        Vec::<u8>::new().try_reserve_exact(2 << 30).map_err(|_| std::io::ErrorKind::OutOfMemory.into())
    }),
    ("become a program", Outcome::Killed, |_| Err(Command::new("/bin/true").exec())),
    ("listen", Outcome::Killed, |_| std::net::TcpListener::bind("127.0.0.1:0").map(|_| ())),
    ("connect", Outcome::Killed, |_| std::net::TcpStream::connect("127.0.0.1:1").map(|_| ())),
    ("send a signal to its parent", Outcome::Killed, |_| {
        let parent = rustix::process::getppid().ok_or(std::io::ErrorKind::NotFound)?;
        Ok(rustix::process::kill_process(parent, Signal::URG)?)
    }),
    ("change its root", Outcome::Killed, |ground| std::os::unix::fs::chroot(&ground.path)),
];

fn ground() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let ground = folder.path().canonicalize().unwrap();
    std::fs::create_dir(ground.join("read")).unwrap();
    std::fs::create_dir(ground.join("write")).unwrap();
    std::fs::write(ground.join("read/file"), "x").unwrap();
    std::fs::write(ground.join("outside"), "x").unwrap();
    std::os::unix::fs::symlink(ground.join("outside"), ground.join("write/link")).unwrap();
    (folder, ground)
}

fn attempt(name: &str, ground: &Path) -> std::process::ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "jail::tests::makes_one_attempt", "--nocapture"]);
    command.env(ATTEMPT, name).env(GROUND, ground).stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null()).status().unwrap()
}

/// Does nothing in an ordinary run of the tests.
#[test]
fn makes_one_attempt() {
    let (Some(name), Some(ground)) = (std::env::var_os(ATTEMPT), std::env::var_os(GROUND)) else { return };
    let path = PathBuf::from(ground);
    let (_, _, attempt) = ATTEMPTS.iter().find(|(known, ..)| *known == name).unwrap();
    let [mut read, mut write] = ["read", "write"].map(|folder| File::open(path.join(folder)).unwrap());
    let folders = vec![
        ReachableFolder { file: &mut read, is_writable: false },
        ReachableFolder { file: &mut write, is_writable: true },
    ];
    let resources =
        Resources { data: 1 << 30, address_space: None, cpu_seconds: None, file_size: None, descriptors: 64 };
    let jail = enter(&mut Reachable { folders, files: Vec::new() }, &resources, Profile::Worker).unwrap();
    assert!(jail.is_complete(), "{jail:?}");
    let ground = Ground { path, read, write };
    // Not a panic, which could end differently in the jail.
    std::process::exit(if attempt(&ground).is_ok() { 7 } else { 8 });
}

#[test]
fn jailed_process_has_only_what_it_was_passed() {
    let (_folder, ground) = ground();
    for (name, ends, _) in ATTEMPTS {
        let status = attempt(name, &ground);
        let ended = match (status.code(), status.signal()) {
            (Some(7), _) => Outcome::Allowed,
            (Some(8), _) => Outcome::Refused,
            (_, Some(signal)) if signal == Signal::SYS.as_raw() => Outcome::Killed,
            _ => panic!("{name}: {status}"),
        };
        assert_eq!(ended, *ends, "{name}");
    }
    assert_eq!(std::fs::read(ground.join("read/file")).unwrap(), b"x");
}
