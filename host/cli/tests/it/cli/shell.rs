//! Blocks of pages, typed line by line into a shell at a terminal.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;

use super::terminal::TerminalCommand;
use super::workbench::Workbench;

/// Begins the line that a shell prints after each command of a block.
const MARK: &str = "[exit";

/// A shell in the folder of a test. It finds the built program, and the programs put beside it, before any other.
pub(crate) struct Shell<'a> {
    bench: &'a Workbench,
    folder: PathBuf,
    variables: Vec<(&'static str, PathBuf)>,
}

/// The outcome of a block.
#[derive(Debug)]
pub(crate) struct BlockOutcome {
    /// The exit code of each line.
    pub(crate) codes: Vec<i32>,
    /// Standard output, without the codes, and then standard error.
    pub(crate) output: String,
}

impl<'a> Shell<'a> {
    pub(crate) fn new(bench: &'a Workbench, variables: &[(&'static str, PathBuf)]) -> Self {
        let programs = bench.path("bin");
        std::fs::create_dir(&programs).unwrap();
        symlink(env!("CARGO_BIN_EXE_fumehood"), programs.join("fumehood")).unwrap();
        Self { bench, folder: bench.path("."), variables: variables.to_vec() }
    }

    /// Puts a program before the others, as the text of a script of `sh`.
    pub(crate) fn put_program(&self, name: &str, script: &str) {
        let path = self.bench.put(&format!("bin/{name}"), format!("#!/bin/sh\n{script}"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns the folder that the last block ended in.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Types a block, and yes at each of this number of questions.
    pub(crate) fn type_in(&mut self, block: &str, questions: usize) -> BlockOutcome {
        let mut script: String = block.lines().map(|line| format!("{line}\necho \"{MARK} $?\"\n")).collect();
        script.push_str("pwd\n");
        let mut terminal = TerminalCommand::of(self.command(&script));
        for _ in 0..questions {
            terminal.wait_for("[y/N]");
            terminal.type_in("y\n");
        }
        let passed = std::mem::take(&mut terminal.passed);
        let (code, stdout, rest) = terminal.finish();
        let screen = passed + &rest;
        assert_eq!(code, Some(0), "{stdout}{screen}");
        let mut lines: Vec<&str> = stdout.lines().collect();
        self.folder = PathBuf::from(lines.pop().unwrap());
        let code_of =
            |line: &&str| line.strip_prefix(MARK).map(|code| code.trim().trim_end_matches(']').parse().unwrap());
        let codes = lines.iter().filter_map(code_of).collect();
        lines.retain(|line| !line.starts_with(MARK));
        BlockOutcome { codes, output: format!("{}\n{screen}", lines.join("\n")) }
    }

    /// Returns a shell with the surroundings that the program has in other tests.
    fn command(&self, script: &str) -> Command {
        let program = self.bench.command_without_trust(&[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(&self.folder);
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        // MCP servers are started with a small environment. Without these, they would not find the approvals.
        shell.env_remove("XDG_STATE_HOME").env_remove("XDG_DATA_HOME").env("HOME", self.bench.path("."));
        let home = PathBuf::from(std::env::var_os("HOME").unwrap());
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            shell.env(name, std::env::var_os(name).unwrap_or(home.join(folder).into()));
        }
        let path = std::env::var("PATH").unwrap();
        shell.env("PATH", format!("{}:{path}", self.bench.path("bin").display()));
        shell.envs(self.variables.iter().map(|(name, value)| (name, value)));
        shell
    }
}

impl BlockOutcome {
    /// Checks that every line succeeded, and that these words were printed.
    pub(crate) fn assert_ok(&self, words: &[&str]) {
        assert!(self.codes.iter().all(|code| *code == 0), "{self:#?}");
        for word in words {
            assert!(self.output.contains(word), "{word:?} is missing in {self:#?}");
        }
    }
}
