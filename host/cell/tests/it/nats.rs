//! A NATS server for one test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use fumehood_cell::ServerOptions;
use fumehood_tests::skip::skip;

/// Timeout of every wait, far above what any of them takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the program of a NATS server. Returns `None`, after printing `SKIPPED`, if there is none on this machine.
pub(crate) fn program() -> Option<PathBuf> {
    let program = std::env::var_os("FUMEHOOD_NATS_SERVER").map(PathBuf::from);
    if program.is_none() {
        skip("nats", "FUMEHOOD_NATS_SERVER names no NATS server; `tests/cell/setup` installs one");
    }
    program
}

/// Returns a port on which nothing listens.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a server, and waits until it listens on the port.
pub(crate) fn spawn(command: &mut Command, port: u16) -> Child {
    let server = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(began.elapsed() < PATIENCE, "NATS does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    server
}

/// Writes a certificate for `localhost` and its private key, and returns the two files.
pub(crate) fn create_certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = folder.join(format!("{name}.pem"));
    let key = folder.join(format!("{name}.key"));
    std::fs::write(&certificate, to_pem("CERTIFICATE", made.cert.der())).unwrap();
    std::fs::write(&key, to_pem("PRIVATE KEY", &made.signing_key.serialize_der())).unwrap();
    (certificate, key)
}

fn to_pem(label: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Starts what says that it is a NATS server of this version, and knows nothing else than to answer pings. Returns its URL.
pub(crate) fn old_server(version: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let info = format!(
        "INFO {{\"server_id\":\"OLD\",\"version\":\"{version}\",\"proto\":1,\"headers\":true,\"jetstream\":true,\"max_payload\":1048576}}\r\n"
    );
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            stream.write_all(info.as_bytes()).unwrap();
            std::thread::spawn(move || {
                let reader = BufReader::new(stream.try_clone().unwrap());
                for line in reader.lines().map_while(Result::ok).filter(|line| line == "PING") {
                    if stream.write_all(line.replace("PING", "PONG\r\n").as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// A NATS server, which ends with the test.
pub(crate) struct Nats {
    program: PathBuf,
    port: u16,
    /// The folder of JetStream; `None` without it.
    folder: Option<tempfile::TempDir>,
    child: Option<Child>,
}

impl Nats {
    /// Starts a server without JetStream. Returns `None`, after printing `SKIPPED`, if there is none on this machine.
    pub(crate) fn start() -> Option<Self> {
        Self::start_in(None)
    }

    /// Starts a server with JetStream.
    pub(crate) fn start_with_jetstream() -> Option<Self> {
        Self::start_in(Some(tempfile::tempdir().unwrap()))
    }

    fn start_in(folder: Option<tempfile::TempDir>) -> Option<Self> {
        let mut nats = Self { program: program()?, port: free_port(), folder, child: None };
        nats.resume();
        Some(nats)
    }

    /// Starts the server again.
    pub(crate) fn resume(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(["--addr", "127.0.0.1", "--port", &self.port.to_string()]);
        if let Some(folder) = &self.folder {
            command.arg("-js").arg("-sd").arg(folder.path());
        }
        self.child = Some(spawn(&mut command, self.port));
    }

    /// Kills the server. What JetStream has stays on disk.
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns the way to this server for a node.
    pub(crate) fn server(&self, name: &str) -> ServerOptions {
        ServerOptions {
            nats: self.url(),
            prefix: "test".to_owned(),
            name: name.to_owned(),
            password: None,
            tls_roots: None,
            tls_identity: None,
        }
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.stop();
    }
}
