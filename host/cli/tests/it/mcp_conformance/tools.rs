//! Third-party programs: their folder, and running them.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fumehood_tests::skip::skip;

const TOOLS: &str = "FUMEHOOD_MCP_TOOLS";
/// Timeout of a program, far above what any of them takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// Returns the root of the project.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the folder with the programs; `None`, with a note on stderr, if those in this language are missing.
pub(crate) fn folder(language: &str, test: &str) -> Option<PathBuf> {
    let why = match std::env::var_os(TOOLS) {
        None => format!("`tests/mcp/setup target/mcp-tools`, then set {TOOLS}=target/mcp-tools to run it"),
        Some(folder) => {
            let folder = root().join(folder);
            let skipped = std::fs::read_to_string(folder.join("skipped"))
                .unwrap_or_else(|error| panic!("{}: {error}; run `tests/mcp/setup` first", folder.display()));
            match skipped.lines().find(|line| line.starts_with(language)) {
                None => return Some(folder),
                Some(line) => line.to_owned(),
            }
        }
    };
    skip("mcp-tools", &format!("{test}: {why}"));
    None
}

/// Returns the command that runs a script with Node.
pub(crate) fn node(folder: &Path, script: &str) -> Command {
    let mut command = Command::new(folder.join("bin/node"));
    command.arg(folder.join("node/node_modules").join(script));
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.join("bin").display()));
    command
}

/// The output of a program.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) succeeded: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

fn to_text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command) -> ProgramOutput {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).unwrap();
        text
    });
    let watching = std::thread::spawn(move || {
        let mut text = Vec::new();
        stdout.read_to_end(&mut text).unwrap();
        text
    });
    let started = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if started.elapsed() > PATIENCE => {
                child.kill().unwrap();
                panic!("{command:?} never ends");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    ProgramOutput {
        succeeded: status.success(),
        stdout: to_text(watching.join().unwrap()),
        stderr: to_text(reading.join().unwrap()),
    }
}
