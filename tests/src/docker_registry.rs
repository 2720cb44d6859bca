//! Debian's `docker-registry` on a free port of this machine, for tests of publishing and getting components. It has no API for
//! referrers, so that the fallback tag is needed.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::skip::skip;

const PROGRAM: &str = "docker-registry";
/// The program that makes the file of passwords.
const PASSWORD_PROGRAM: &str = "htpasswd";
/// Timeout of the start, far above what it takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Member of a line of the log with the time of a request.
const DURATION: &str = "http.response.duration=";

/// A user of registries that ask for a password.
pub const USER: &str = "ann";
/// The password of [`USER`].
pub const PASSWORD: &str = "correct horse";

/// A running registry, which ends when it is dropped.
#[derive(Debug)]
pub struct DockerRegistry {
    program: Child,
    host: String,
    log: PathBuf,
}

/// Settings of a registry. By default it is plain, and open to everybody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings<'a> {
    /// Files with a certificate and its key, in PEM.
    pub tls: Option<(&'a Path, &'a Path)>,
    /// True if it asks for the password of [`USER`].
    pub has_password: bool,
}

impl DockerRegistry {
    /// Starts a registry with its files in `folder`. Returns `None`, after printing `SKIPPED`, if a program that it takes is
    /// not installed.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(folder: &Path, settings: Settings<'_>) -> Result<Option<Self>> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let host = format!("127.0.0.1:{port}");
        let storage = folder.join("storage").display().to_string();
        let mut configuration = format!(
            "version: 0.1\nlog:\n  level: info\n  accesslog:\n    disabled: true\nstorage:\n  filesystem:\n    rootdirectory: {storage}\nhttp:\n  addr: {host}\n"
        );
        if let Some((certificate, key)) = settings.tls {
            let certificate = certificate.display();
            let key = key.display();
            configuration.push_str(&format!("  tls:\n    certificate: {certificate}\n    key: {key}\n"));
        }
        if settings.has_password {
            let Ok(made) = Command::new(PASSWORD_PROGRAM).args(["-Bbn", USER, PASSWORD]).output() else {
                return Ok(skipped(PASSWORD_PROGRAM));
            };
            let path = folder.join("passwords");
            std::fs::write(&path, made.stdout)?;
            configuration.push_str(&format!("auth:\n  htpasswd:\n    realm: test\n    path: {}\n", path.display()));
        }
        let path = folder.join("config.yml");
        std::fs::write(&path, configuration)?;
        let log = folder.join("log");
        let written = std::fs::File::create(&log)?;
        let started = Command::new(PROGRAM).arg("serve").arg(&path).stdout(Stdio::null()).stderr(written).spawn();
        let Ok(program) = started else { return Ok(skipped(PROGRAM)) };
        let registry = Self { program, host, log };
        let began = Instant::now();
        while TcpStream::connect(&registry.host).is_err() {
            let log = || std::fs::read_to_string(&registry.log).unwrap_or_default();
            ensure!(began.elapsed() < PATIENCE, "{PROGRAM} does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(registry))
    }

    /// Returns host and port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the time that the registry has spent on requests since it started, as its log says.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn time_spent(&self) -> Result<Duration> {
        let log = std::fs::read_to_string(&self.log)?;
        let times = log.lines().filter_map(|line| line.split_once(DURATION));
        times.map(|(_, rest)| parse_duration(rest.trim_start_matches('"'))).sum()
    }
}

/// Parses the time at the beginning of a text as Go writes it, below a minute, such as `1.5ms`.
fn parse_duration(text: &str) -> Result<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    let unit =
        [("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)].into_iter().find(|(unit, _)| rest.starts_with(unit));
    let (_, seconds) =
        unit.with_context(|| format!("unknown unit of time: {}", text.split_whitespace().next().unwrap_or("")))?;
    Ok(Duration::from_secs_f64(number.parse::<f64>()? * seconds))
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        // One that ended by itself is as good.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn skipped(program: &str) -> Option<DockerRegistry> {
    skip(PROGRAM, &format!("{program} is not installed"));
    None
}
