//! Debian's PostgreSQL for tests: a server of one test, in a temporary folder, on a free port of this machine.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::skip::skip;
use anyhow::{Context as _, Result, bail, ensure};

/// The variable that names the folder of the server's programs.
pub const BIN: &str = "FUMEHOOD_POSTGRES_BIN";

/// The user that owns the databases.
pub const USER: &str = "fumehood";

/// Timeout of starting and stopping, far above what they take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The user and group that the server runs as where the tests run as root, which it refuses. Every system has them.
const NOBODY: u32 = 65534;

/// The size of the files of the server's journal, the smallest that there is, in MiB.
const SEGMENT_MB: u64 = 1;

/// Settings of a server that need not outlive the machine: nothing waits for the disk.
const QUICK: [&str; 3] = ["fsync=off", "full_page_writes=off", "max_wal_size=256MB"];

/// A running server, which ends when it is dropped.
#[derive(Debug)]
pub struct Postgres {
    folder: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
    /// Settings beside the usual ones.
    settings: Vec<String>,
    server: Option<Child>,
    /// Processes that were stopped.
    paused: Vec<String>,
}

impl Postgres {
    /// Makes a cluster and starts its server. Returns `None`, after printing `SKIPPED`, if there is none on this machine.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start() -> Result<Option<Self>> {
        Self::start_with(&[])
    }

    /// Like [`Self::start`], with settings such as `ssl=on`.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_with(settings: &[&str]) -> Result<Option<Self>> {
        let Some(programs) = std::env::var_os(BIN).map(PathBuf::from).filter(|bin| bin.join("postgres").is_file())
        else {
            let missing = format!("{BIN} names no folder of a PostgreSQL server; `tests/postgres/setup` installs one");
            skip("postgres", &missing);
            return Ok(None);
        };
        let folder = tempfile::tempdir()?;
        give_away(folder.path())?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut postgres = Self { folder, programs, port, settings, server: None, paused: Vec::new() };
        let data = postgres.data().display().to_string();
        let made = postgres
            .command("initdb")
            .args(["--pgdata", &data, "--username", USER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C"])
            .args(["--no-sync", "--no-instructions", "--wal-segsize", &SEGMENT_MB.to_string()])
            .output()
            .context("initdb")?;
        ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        postgres.run()?;
        Ok(Some(postgres))
    }

    /// Returns the folder of the cluster.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns the port of the server.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of a database.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }

    /// Makes an empty database, and returns its URL.
    ///
    /// # Errors
    /// If there is one of this name.
    pub fn create_database(&self, name: &str) -> Result<String> {
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.url(name))
    }

    /// Runs statements in a database with `psql`, and returns the values that they select, one row in a line.
    ///
    /// # Errors
    /// If a statement fails.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String> {
        let done = self
            .command("psql")
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"])
            .args(["--dbname", &self.url(database), "--command", sql])
            .output()
            .context("psql")?;
        ensure!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(String::from_utf8(done.stdout)?.trim_end().to_owned())
    }

    /// Starts the server again, on the same port.
    ///
    /// # Errors
    /// If it does not start.
    pub fn run(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.folder.path().join("log"))?;
        let data = self.data();
        let port = self.port.to_string();
        let sockets = self.folder.path().to_owned();
        let mut command = self.command("postgres");
        command.arg("-D").arg(data).arg("-k").arg(sockets).args(["-h", "127.0.0.1", "-p", &port]);
        for setting in QUICK.into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        self.server = Some(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?);
        let began = Instant::now();
        while self.sql("postgres", "SELECT 1").is_err() {
            if began.elapsed() > PATIENCE {
                bail!("the server does not start: {}", self.log());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Puts a file into the folder of the cluster, readable by the server alone.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add_file(&self, name: &str, text: &str) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.data().join(name);
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        give_away(&path)
    }

    /// Adds a setting such as `ssl=on`, for the next start.
    pub fn set(&mut self, setting: &str) {
        self.settings.push(setting.to_owned());
    }

    /// Lets the server read its files again.
    ///
    /// # Errors
    /// If it does not.
    pub fn reload(&self) -> Result<()> {
        let data = self.data().display().to_string();
        let done = self.command("pg_ctl").args(["reload", "--pgdata", &data]).output()?;
        ensure!(done.status.success(), "pg_ctl reload: {}", String::from_utf8_lossy(&done.stderr));
        std::thread::sleep(Duration::from_millis(500));
        Ok(())
    }

    /// Fills the disk, or makes room there: connections cannot extend a file beyond a limit of the system, whose signal the
    /// server ignores so that it is to them what a full disk is. The limit is the size of the files of the journal, so that a
    /// table must be larger to be concerned, and the server itself goes on.
    ///
    /// # Errors
    /// If the server was ended, or the limit cannot be set.
    pub fn fill_disk(&self, is_full: bool) -> Result<()> {
        let limit = if is_full { format!("--fsize={}:", SEGMENT_MB << 20) } else { "--fsize=unlimited:".to_owned() };
        let server = self.server.as_ref().map(Child::id).context("the server was ended")?.to_string();
        // Connections that are made later have the limit of the process that makes them.
        ensure!(self.limit(&server, &limit)?, "the limit of the server cannot be set");
        let connections = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'";
        for connection in self.sql("postgres", connections)?.lines() {
            // One that is gone meanwhile, as that of the query is, needs none.
            self.limit(connection, &limit)?;
        }
        Ok(())
    }

    /// Sets a limit of a process, as its user: it takes more than being root.
    fn limit(&self, pid: &str, limit: &str) -> Result<bool> {
        Ok(self.command("prlimit").args([limit, "--pid", pid]).stderr(Stdio::null()).status()?.success())
    }

    /// Stops the server and its connections with `SIGSTOP`: it takes further connections and answers nothing.
    ///
    /// # Errors
    /// If the server was ended.
    pub fn pause(&mut self) -> Result<()> {
        let server = self.server.as_ref().map(Child::id).context("the server was ended")?.to_string();
        let connections = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'";
        let connections = self.sql("postgres", connections)?;
        self.paused = connections.lines().map(str::to_owned).chain([server]).collect();
        self.signal_paused("-STOP")
    }

    /// Lets what was stopped go on.
    ///
    /// # Errors
    /// If there is no program that sends signals.
    pub fn resume(&mut self) -> Result<()> {
        self.signal_paused("-CONT")?;
        self.paused.clear();
        Ok(())
    }

    fn signal_paused(&self, signal: &str) -> Result<()> {
        for process in &self.paused {
            // One that is gone meanwhile, as that of a query is, needs none.
            self.command("kill").args([signal, process]).stderr(Stdio::null()).status()?;
        }
        Ok(())
    }

    /// Ends the server as a crash would, without writing anything.
    ///
    /// # Errors
    /// If that does not happen in time.
    pub fn crash(&mut self) -> Result<()> {
        self.stop("immediate")
    }

    /// Ends the server after closing its connections.
    ///
    /// # Errors
    /// If that does not happen in time.
    pub fn shut_down(&mut self) -> Result<()> {
        self.stop("fast")
    }

    /// Returns what the server wrote about itself.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn stop(&mut self, mode: &str) -> Result<()> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        let data = self.data().display().to_string();
        let stopped =
            self.command("pg_ctl").args(["stop", "--pgdata", &data, "--mode", mode, "--timeout", "30"]).output()?;
        if !stopped.status.success() {
            server.kill()?;
        }
        server.wait()?;
        Ok(())
    }

    /// Returns a command of the server's programs, run by the user that owns the cluster.
    fn command(&self, program: &str) -> Command {
        let own = self.programs.join(program);
        let mut command = Command::new(if own.is_file() { own } else { program.into() });
        command.current_dir(self.folder.path()).env_remove("PGPASSWORD").env("LC_ALL", "C").stdin(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Nothing of the cluster is needed any more.
        drop(self.resume());
        drop(self.crash());
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Gives a file or folder to the user that the server runs as.
fn give_away(path: &Path) -> Result<()> {
    if is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY))?;
    }
    Ok(())
}
