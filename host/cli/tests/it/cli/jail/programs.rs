//! The jail of ordinary programs: hostile ones, as root and as an ordinary user, with namespaces and without.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
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

/// Becomes the program that its arguments name, where no namespace can be created.
const WITHOUT_NAMESPACES: &str = r#"
import ctypes, os, struct, sys
UNSHARE, REFUSE, ALLOW = 272, 0x50001, 0x7FFF0000
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, UNSHARE), (0x06, 0, 0, REFUSE), (0x06, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, ctypes.byref(Filter(len(lines), ctypes.addressof(code)))) == 0
os.execv(sys.argv[1], sys.argv[1:])
"#;

/// The surroundings of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    as_nobody: bool,
    has_namespaces: bool,
}

/// This user, with namespaces.
const THIS_USER: Kind = Kind { as_nobody: false, has_namespaces: true };

fn kinds() -> impl Iterator<Item = Kind> {
    let users = users().iter().copied();
    users.flat_map(|as_nobody| [true, false].map(|has_namespaces| Kind { as_nobody, has_namespaces }))
}

/// A folder with a key, a folder for reading, one for writing, and a socket.
struct Ground {
    folder: tempfile::TempDir,
    program: PathBuf,
    kind: Kind,
}

impl Ground {
    fn new(kind: Kind) -> Self {
        // A program has a `/tmp` of its own, which would hide what it reaches beside its grants.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let program = accessible_program(folder.path());
        let ground = Self { folder, program, kind };
        for name in ["read", "write", "temporary"] {
            std::fs::create_dir(ground.path(name)).unwrap();
        }
        std::fs::write(ground.path("secret"), "key").unwrap();
        std::fs::write(ground.path("read/file"), "x").unwrap();
        std::fs::write(ground.path("attempts.py"), ATTEMPTS).unwrap();
        let _socket = std::os::unix::net::UnixDatagram::bind(ground.path("socket")).unwrap();
        if kind.as_nobody {
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

    /// Returns the command that runs a program in the jail.
    fn command(&self, jail: &ProgramJail, words: &[&str]) -> Command {
        let arguments = jail.to_arguments(std::process::id()).unwrap();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.fumehood(&[&[RUN_PROGRAM], arguments.as_slice(), words].concat())
    }

    /// Returns the command that runs fumehood, with one descriptor that nobody closed.
    fn fumehood(&self, words: &[&str]) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec 9<\"$0\"; exec \"$@\""]).arg(self.path("secret"));
        if !self.kind.has_namespaces {
            command.args([PYTHON, "-c", WITHOUT_NAMESPACES]);
        }
        command.arg(&self.program).args(words);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("TMPDIR", self.path("temporary")).env("HOME", "/");
        command.current_dir(self.path("write")).stdin(Stdio::null());
        if self.kind.as_nobody {
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
    for kind in kinds() {
        let ground = Ground::new(kind);
        let script = ground.path("attempts.py");
        let here = ground.path("");
        let host = std::process::id().to_string();
        let words = [PYTHON, script.to_str().unwrap(), here.to_str().unwrap().trim_end_matches('/'), &host];
        let ran = ground.run(&ground.jail(), &words);
        let outcomes: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", errors(&ran)));
        for (expected, attempts) in outcomes.as_object().unwrap() {
            for (name, found) in attempts.as_object().unwrap() {
                assert!(found.as_str().unwrap().starts_with(expected), "{kind:?}: {name}: {found}");
            }
        }
        assert_eq!(std::fs::read(ground.path("secret")).unwrap(), b"key");
        assert!(!ground.path("outside").exists());
    }
}

/// Attempts to go past the proxy, in Python. A port where somebody listens is the first argument. It prints the port of its
/// proxy, and goes on when somebody listens there at another address.
const NETWORK: &str = r#"
import os, socket, sys
from urllib.parse import urlsplit
proxy, other = urlsplit(os.environ["HTTP_PROXY"]).port, int(sys.argv[1])
print(proxy, flush=True)
sys.stdin.readline()
socket.create_connection(("127.0.0.1", proxy), 5).close()
def tcp(family=socket.AF_INET, protocol=0):
    one = socket.socket(family, socket.SOCK_STREAM, protocol)
    one.settimeout(1)
    return one
def connections():
    if f":{other:04X} " not in open("/proc/net/tcp").read():
        raise OSError("not there")
attempts = {
    "another port": lambda: tcp().connect(("127.0.0.1", other)),
    "another port over IPv6": lambda: tcp(socket.AF_INET6).connect(("::ffff:127.0.0.1", other)),
    "another machine": lambda: tcp().connect(("192.0.2.1", 80)),
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
    "the port of the proxy at another address": lambda: tcp().connect(("127.0.0.2", proxy)),
    "connections of this machine": connections,
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
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = other.local_addr().unwrap().port().to_string();
    for kind in kinds() {
        let ground = Ground::new(kind);
        let words = ["jail", "--allow-http", "GET http://example.com/**", "--", PYTHON, "-c", NETWORK, other.as_str()];
        let mut command = ground.fumehood(&words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut port = String::new();
        output.read_line(&mut port).unwrap();
        let _same_port = TcpListener::bind(format!("127.0.0.2:{}", port.trim())).unwrap();
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut shown = String::new();
        output.read_to_string(&mut shown).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{kind:?}: {shown} {}", errors(&ended));
        assert_eq!(shown.lines().count(), 16, "{shown}");
        let allowed: Vec<_> = shown.lines().filter_map(|line| line.strip_prefix("allowed: ")).collect();
        // Without a network namespace, the port is all that can be compared.
        let expected: &[&str] = if kind.has_namespaces {
            &[]
        } else {
            &["the port of the proxy at another address", "connections of this machine"]
        };
        assert_eq!(allowed, expected, "{kind:?}: {shown}");
        assert_eq!(errors(&ended).contains("no network namespaces"), !kind.has_namespaces, "{}", errors(&ended));
    }
}

#[test]
fn limits_end_a_program_and_say_so() {
    let ground = Ground::new(THIS_USER);
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
    let ground = Ground::new(Kind { as_nobody: *as_nobody, ..THIS_USER });
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
    let ground = Ground::new(THIS_USER);
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
    let ground = Ground::new(THIS_USER);
    let jail = ProgramJail { read: vec!["/nowhere".into()], ..ground.jail() };
    let ran = ground.run(&jail, &["/bin/true"]);
    assert!(ran.status.code() == Some(127) && errors(&ran).contains("cannot grant /nowhere"), "{ran:?}");
}
