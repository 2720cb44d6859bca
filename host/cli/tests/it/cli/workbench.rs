//! A folder for one test, and the command to run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fumehood_tests::contract::{Answer, ToolDescription};
use regex::Regex;

/// Timeout of a command, far above what any of them takes, so that a hang is a failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// Variables that would bring in files from outside the folder.
const ELSEWHERE: [&str; 20] = [
    "DOCKER_CONFIG",
    "FUMEHOOD_CONFIG",
    "FUMEHOOD_KEY_PASSPHRASE",
    "FUMEHOOD_LOG",
    "FUMEHOOD_LOG_KEY",
    "FUMEHOOD_MODEL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "GEMINI_API_KEY",
    "GEMINI_BASE_URL",
    "JOURNAL_STREAM",
    "OLLAMA_HOST",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_COMPATIBLE_KEY",
    "OPENAI_COMPATIBLE_URL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_SERVICE_NAME",
    "REGISTRY_AUTH_FILE",
    "RUST_LOG",
];

/// The code cache of all tests that do not ask for one of their own. Compiling the same components for each test would
/// take a third of the processor time of all of them.
const SHARED_CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/code-cache");

/// The folder of a test.
pub(crate) struct Workbench {
    folder: tempfile::TempDir,
    cache: PathBuf,
}

/// The outcome of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Workbench {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), cache: SHARED_CACHE.into() }
    }

    /// Returns a folder whose code cache does not exist before the first command.
    pub(crate) fn with_own_cache() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        Self { folder, cache }
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the folder of compiled code.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// Puts a file into the folder. Commands run there, so its name is enough to find it.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Puts one of the example tools there.
    pub(crate) fn example(&self, name: &str) -> &Self {
        let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../example-tools/dist");
        let file = format!("{name}.wasm");
        self.put(&file, std::fs::read(dist.join(&file)).unwrap());
        self
    }

    /// Puts one of the hostile programs there.
    pub(crate) fn program(&self, name: &str) -> &Self {
        self.put(&format!("{name}.wasm"), fumehood_tests::component(name).unwrap());
        self
    }

    /// Puts a component there that describes these tools and gives this answer.
    pub(crate) fn answering(&self, name: &str, tools: &[ToolDescription], answer: Answer<'_>) -> &Self {
        self.put(&format!("{name}.wasm"), fumehood_tests::answering(tools, answer).unwrap());
        self
    }

    /// Returns the command, ready to be run in the folder. A configuration there is trusted.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_without_trust(&[&["--trust-config"], arguments].concat())
    }

    /// Like [`Self::command`], but a configuration is not trusted.
    pub(crate) fn command_without_trust(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fumehood"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("FUMEHOOD_CACHE_DIR", self.cache())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_DATA_HOME", self.path("data"))
            .env("NO_COLOR", "1")
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        for variable in ELSEWHERE {
            command.env_remove(variable);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        Self::finish(assert_cmd::Command::from_std(self.command(arguments)))
    }

    /// Runs the command with this standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: impl Into<Vec<u8>>) -> CommandOutput {
        Self::run_command_with_input(self.command(arguments), input)
    }

    /// Runs a command to its end.
    pub(crate) fn run_command(command: Command) -> CommandOutput {
        Self::finish(assert_cmd::Command::from_std(command))
    }

    /// Runs a command to its end with this standard input.
    pub(crate) fn run_command_with_input(command: Command, input: impl Into<Vec<u8>>) -> CommandOutput {
        let mut command = assert_cmd::Command::from_std(command);
        command.write_stdin(input);
        Self::finish(command)
    }

    fn finish(mut command: assert_cmd::Command) -> CommandOutput {
        let output = command.timeout(PATIENCE).output().unwrap();
        CommandOutput {
            code: output.status.code().expect("it ends by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl CommandOutput {
    /// Formats both streams and the exit code for a snapshot, without the parts that differ between runs.
    pub(crate) fn shown(&self) -> String {
        let mut shown = String::new();
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                shown.push_str(&format!("── {name}\n{}", steady(text)));
            }
        }
        shown.push_str(&format!("── exit {}\n", self.code));
        shown
    }

    /// Parses standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Replaces durations, fuel, sizes, digests and versions of tools.
pub(crate) fn steady(text: &str) -> String {
    let replacements = [
        (r"[\d.]+ (µs|ms|s) of ", "[time] of "),
        (r"(B  |out, )[\d.]+ (µs|ms|s)", "$1[time]"),
        (r"session s[0-9a-f]{16}", "session [session]"),
        (r"[\d.]+( [kMG])? fuel, [\d.]+ ([KMG]i)?B peak memory", "[fuel] fuel, [memory] peak memory"),
        (r"sha256:([0-9a-f]{64}|[0-9a-f]{12}…)", "[digest]"),
        (r"(size +)[\d.]+ ([KMG]i)?B", "$1[size]"),
        (r"(wit-component|rustc|clang) [^\s,]+( \(.*\))?", "$1 [version]"),
        (r"offset 0x[0-9a-f]+", "offset [offset]"),
        (r"bound = \d+", "bound = [bound]"),
        (r"range \d+\.\.\d+", "range [range]"),
        (r"0x[0-9a-f]{2,}", "[address]"),
    ];
    replacements.iter().fold(text.to_owned(), |text, (pattern, with)| {
        Regex::new(pattern).unwrap().replace_all(&text, *with).into_owned()
    })
}
