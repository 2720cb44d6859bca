//! The jail of ordinary programs: hostile ones, as root and as an ordinary user.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fumehood::settings::RUN_PROGRAM;
use fumehood::{ProgramJail, ProgramLimits};
use serde_json::Value;

use super::{NOBODY, PATIENCE, accessible_program, users};

const ATTEMPTS: &str = include_str!("attempts.py");
const PYTHON: &str = "/usr/bin/python3";

/// A folder with a key, a folder for reading, one for writing, and a socket.
struct Ground {
    folder: tempfile::TempDir,
    program: PathBuf,
    as_nobody: bool,
}

impl Ground {
    fn new(as_nobody: bool) -> Self {
        // A program has a `/tmp` of its own, which would hide what it reaches beside its grants.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let program = accessible_program(folder.path());
        let ground = Self { folder, program, as_nobody };
        for name in ["read", "write", "temporary"] {
            std::fs::create_dir(ground.path(name)).unwrap();
        }
        std::fs::write(ground.path("secret"), "key").unwrap();
        std::fs::write(ground.path("read/file"), "x").unwrap();
        std::fs::write(ground.path("attempts.py"), ATTEMPTS).unwrap();
        let _socket = std::os::unix::net::UnixDatagram::bind(ground.path("socket")).unwrap();
        if as_nobody {
            for name in ["", "read", "write", "temporary", "secret", "read/file"] {
                chown(ground.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn jail(&self) -> ProgramJail {
        ProgramJail {
            read: vec![self.path("read")],
            write: vec![self.path("write")],
            temporary: Some(self.path("temporary")),
            ..ProgramJail::default()
        }
    }

    /// Returns the command that runs a program in the jail, with one descriptor that nobody closed.
    fn command(&self, jail: &ProgramJail, words: &[&str]) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec 9<\"$0\"; exec \"$@\""]).arg(self.path("secret")).arg(&self.program).arg(RUN_PROGRAM);
        command.args(jail.to_arguments(std::process::id()).unwrap()).args(words);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("TMPDIR", self.path("temporary")).env("HOME", "/");
        command.current_dir(self.path("write")).stdin(Stdio::null());
        if self.as_nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn run(&self, jail: &ProgramJail, words: &[&str]) -> Output {
        self.command(jail, words).output().unwrap()
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_hostile_program_gets_only_what_it_was_granted() {
    if !Path::new(PYTHON).exists() {
        return fumehood_tests::skip::skip("Python", "there is no /usr/bin/python3");
    }
    for as_nobody in users() {
        let ground = Ground::new(*as_nobody);
        let script = ground.path("attempts.py");
        let here = ground.path("");
        let host = std::process::id().to_string();
        let words = [PYTHON, script.to_str().unwrap(), here.to_str().unwrap().trim_end_matches('/'), &host];
        let ran = ground.run(&ground.jail(), &words);
        let outcomes: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", errors(&ran)));
        for (expected, attempts) in outcomes.as_object().unwrap() {
            for (name, found) in attempts.as_object().unwrap() {
                assert!(found.as_str().unwrap().starts_with(expected), "nobody: {as_nobody}: {name}: {found}");
            }
        }
        assert_eq!(std::fs::read(ground.path("secret")).unwrap(), b"key");
        assert!(!ground.path("outside").exists());
    }
}

/// Attempts to go past the proxy, in Python. The port of the proxy is the first argument, another one the second.
const NETWORK: &str = r#"
import socket, sys
proxy, other = int(sys.argv[1]), int(sys.argv[2])
socket.create_connection(("127.0.0.1", proxy), 5).close()
def tcp(family=socket.AF_INET, protocol=0):
    return socket.socket(family, socket.SOCK_STREAM, protocol)
attempts = {
    "another port": lambda: tcp().connect(("127.0.0.1", other)),
    "another port over IPv6": lambda: tcp(socket.AF_INET6).connect(("::ffff:127.0.0.1", other)),
    "fast open": lambda: tcp().sendto(b"x", 0x20000000, ("127.0.0.1", other)),
    "fast open by option": lambda: tcp().setsockopt(6, 30, 1),
    "MPTCP": lambda: tcp(protocol=262),
    "UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "unix": lambda: socket.socket(socket.AF_UNIX),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "vsock": lambda: socket.socket(40, socket.SOCK_STREAM),
    "packet": lambda: socket.socket(17, socket.SOCK_RAW),
    "bind": lambda: tcp().bind(("127.0.0.1", 0)),
    "listen": lambda: tcp().listen(),
}
for name, attempt in attempts.items():
    try:
        attempt()
        print("allowed:", name)
    except OSError as error:
        print("refused:", name, error)
"#;

#[test]
fn a_program_connects_to_its_proxy_only() {
    if !Path::new(PYTHON).exists() {
        return fumehood_tests::skip::skip("Python", "there is no /usr/bin/python3");
    }
    let [proxy, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = [&proxy, &other].map(|listener| listener.local_addr().unwrap().port());
    let ground = Ground::new(false);
    let jail = ProgramJail { proxy_port: Some(ports[0]), ..ground.jail() };
    let ran = ground.run(&jail, &[PYTHON, "-c", NETWORK, &ports[0].to_string(), &ports[1].to_string()]);
    let shown = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && !shown.contains("allowed"), "{shown} {}", errors(&ran));
    assert_eq!(shown.lines().count(), 13, "{shown}");
}

#[test]
fn limits_end_a_program_and_say_so() {
    let ground = Ground::new(false);
    let limits = ProgramLimits { cpu_seconds: 1, file_size: 1 << 20, memory: 256 << 20, ..ProgramLimits::default() };
    let jail = ProgramJail { limits, ..ground.jail() };
    let spun = ground.run(&jail, &["/bin/sh", "-c", "while :; do :; done"]);
    assert!(spun.status.code() == Some(152) && errors(&spun).contains("(`cpu`)"), "{spun:?}");
    let wrote = ground.run(&jail, &["/bin/sh", "-c", "exec head -c 2000000 /dev/zero > file"]);
    assert!(wrote.status.code() == Some(153) && errors(&wrote).contains("(`file_size`)"), "{wrote:?}");
    let hoarded = ground.run(&jail, &["/bin/sh", "-c", "exec tail /dev/zero"]);
    assert!(!hoarded.status.success() && errors(&hoarded).contains("memory"), "{hoarded:?}");
}

#[test]
fn a_fork_bomb_is_bounded_and_gone_at_the_end() {
    let Some(as_nobody) = users().iter().find(|as_nobody| **as_nobody) else {
        return fumehood_tests::skip::skip("root", "only root becomes another user");
    };
    let ground = Ground::new(*as_nobody);
    let limits = ProgramLimits { processes: 30, ..ProgramLimits::default() };
    let jail = ProgramJail { limits, ..ground.jail() };
    let bomb = "i=0; while [ $i -lt 100 ]; do sleep 4321 & i=$((i + 1)); done; wait";
    let ran = ground.run(&jail, &["/bin/sh", "-c", bomb]);
    assert!(errors(&ran).contains("fork"), "{ran:?}");
    assert_eq!(running("4321"), 0);
}

/// Returns the number of processes with this word in their command line.
fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|found| found == word.as_bytes())).count()
}

#[test]
fn all_processes_of_a_program_end_with_it_or_its_host() {
    let ground = Ground::new(false);
    let start = |seconds: &str| format!("setsid sleep {seconds} & (sleep {seconds} &); echo started; ");
    let ran = ground.run(&ground.jail(), &["/bin/sh", "-c", &start("4322")]);
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(running("4322"), 0);
    let script = format!("{}exec sleep 4323", start("4323"));
    let mut command = ground.command(&ground.jail(), &["/bin/sh", "-c", &script]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 7];
    child.stdout.take().unwrap().read_exact(&mut said).unwrap();
    fumehood_platform::process::terminate(child.id());
    child.wait().unwrap();
    let until = Instant::now() + PATIENCE;
    while running("4323") > 0 {
        assert!(Instant::now() < until, "{} are left", running("4323"));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_program_does_not_start_without_its_grants() {
    let ground = Ground::new(false);
    let jail = ProgramJail { read: vec!["/nowhere".into()], ..ground.jail() };
    let ran = ground.run(&jail, &["/bin/true"]);
    assert!(ran.status.code() == Some(127) && errors(&ran).contains("cannot grant /nowhere"), "{ran:?}");
}
