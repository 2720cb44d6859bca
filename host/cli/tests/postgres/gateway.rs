//! A gateway for one test: a folder with a configuration and a state folder, and the database that it shares with others.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fumehood_tests::postgres::Postgres;
use serde_json::Value;

/// Timeout of every wait, far above what any of them takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An answer of the model for `--script`: one call, and a text.
pub const SCRIPT: &str = r#"{"calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}}]}
{"text": "It is 8."}"#;

/// The outcome of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl CommandOutput {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A gateway with a key of its own.
pub struct Gateway {
    folder: tempfile::TempDir,
}

impl Gateway {
    /// Makes a gateway that keeps everything in this database.
    pub fn new(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../example-tools/dist");
        for name in ["calculator.wasm", "notes.wasm"] {
            std::fs::copy(dist.join(name), folder.path().join(name)).unwrap();
        }
        let config = format!(
            "[storage]\nurl = \"{url}\"\n[agent]\ndurable = true\n\
             [tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n\
             [tools.notes]\ncomponent = \"notes.wasm\"\napproval = \"off\"\nkey_value = \"1MiB\"\n"
        );
        std::fs::write(folder.path().join("fumehood.toml"), config).unwrap();
        std::fs::write(folder.path().join("script.jsonl"), SCRIPT).unwrap();
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the file of its key.
    pub fn key(&self) -> String {
        self.path("state/fumehood/postgres.key").display().to_string()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fumehood"));
        command
            .args(["--config", "fumehood.toml", "--isolation", "in-process"])
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("FUMEHOOD_CACHE_DIR", cache())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_DATA_HOME", self.path("data"))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.command(arguments).output().unwrap().into()
    }

    /// Runs a command that succeeds.
    pub fn succeed(&self, arguments: &[&str]) -> CommandOutput {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran
    }

    /// Calls the calculator.
    pub fn add(&self, a: u32, b: u32) -> CommandOutput {
        self.run(&["call", "calculator__add", &format!("{{\"a\":{a},\"b\":{b}}}")])
    }

    /// Returns the statuses of recorded calls of the calculator, the newest first.
    pub fn recorded(&self) -> Vec<String> {
        let rows = self.succeed(&["--json", "log", "list", "--limit", "1000"]).json();
        rows.as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap().to_owned()).collect()
    }

    /// Starts the HTTP API, and returns its process and address.
    pub fn serve(&self) -> (ServerProcess, String) {
        let errors = self.path("serve.errors");
        let file = std::fs::File::create(&errors).unwrap();
        let mut command = self.command(&["serve", "http", "--listen", "127.0.0.1:0", "--no-auth", "--calls", "16"]);
        let served = ServerProcess(command.stdout(Stdio::null()).stderr(file).spawn().unwrap());
        let began = Instant::now();
        loop {
            let said = std::fs::read_to_string(&errors).unwrap();
            if let Some((_, rest)) = said.split_once(" at http://") {
                let address = rest.split(['/', '\n']).next().unwrap().to_owned();
                return (served, address);
            }
            assert!(began.elapsed() < PATIENCE, "the server does not start: {said}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Code that was compiled once is used by all tests.
fn cache() -> PathBuf {
    std::env::temp_dir().join("fumehood-postgres-tests-cache")
}

/// A process that is killed when this is dropped.
pub struct ServerProcess(pub Child);

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts a server with an empty database. Returns `None`, after printing `SKIPPED`, if there is none on this machine.
pub fn server() -> Option<(Postgres, String)> {
    let server = Postgres::start().unwrap()?;
    let url = server.create_database("fumehood").unwrap();
    Some((server, url))
}
