//! What can be typed.

pub(crate) mod log;
mod mcp;
pub(crate) mod run;
mod serve;
mod trust;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use fumehood::Limits;
use fumehood::limits::{LimitError, parse_bytes, parse_count, parse_duration};

use crate::exit::UsageError;
use crate::isolation::Mode;
use crate::power_arguments::PowerArguments;

pub(crate) use mcp::{CallRemote, Client, Config, List, Mcp, ServerOptions};
pub(crate) use serve::{Http, Serve, ServeMcp};
pub(crate) use trust::Trust;

/// The command by which this program is its own compiler.
pub(crate) const COMPILE_COMPONENT: &str = "compile-component";
/// The hidden command that becomes another program, which ends together with the process that is named first.
pub(crate) const END_WITH_PARENT: &str = "end-with-parent";

const SELFTEST: &str = "\
Takes some seconds. It reads, writes and listens in a folder and on ports of its own only, and sends nothing anywhere else.
The code is 0 if everything was contained, and 1 if anything was not.";

const EMBED_DOCS: &str = "\
Most toolchains drop the comments of WIT, so that a model reads nothing but types. They are put where hosts look for them: into
the section `package-docs`, in place of the one that the component has. `wit` in `[tools.NAME]` of the configuration does the
same without another file.";

const EXIT_CODES: &str = "\
Exit codes:
  0    it worked
  1    the tool ran and failed, or its result was bad
  2    the command line is wrong
  3    refused before anything ran: unknown tool, invalid arguments, not allowed, not approved, not trusted
  4    stopped by a limit: deadline, fuel, memory, output, quota
  5    the tool crashed
  6    the component could not be loaded
  7    the host itself failed
  8    the model gave no answer, or none that could be used
  9    the event log is not what was written
  10   whether the event log is what was written cannot be told
  130  interrupted";

/// Runs WebAssembly tools behind glass: every call in a fresh instance, with fuel, a deadline that is kept, a memory
/// ceiling and no powers but those you grant.
#[derive(Debug, Parser)]
#[command(name = "fumehood", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print JSON, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_enum)]
    pub(crate) color: Color,

    /// Where compiled code is kept [default: the user's cache folder]
    #[arg(long, global = true, value_name = "FOLDER", env = "FUMEHOOD_CACHE_DIR")]
    pub(crate) cache_dir: Option<PathBuf>,

    /// Keep no compiled code, wherever it would be kept
    // No conflict with `--cache-dir`: whoever has set the variable could never use this.
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,

    /// Where tools run: `auto`, `in-process`, `process` or `process=required`
    ///
    /// A process of its own, in a jail of the kernel, contains what a bug of the WebAssembly engine would let out. `auto` takes
    /// one for every component that is not approved. `process=required` refuses where the kernel lacks a part of the jail.
    #[arg(long, global = true, value_name = "MODE", value_parser = Mode::parse, hide_short_help = true)]
    pub(crate) isolation: Option<Mode>,

    /// The most compiled code that is kept there, such as `512MiB`; what was not used for longest goes first [default: 1GiB]
    #[arg(long, global = true, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) cache_size: Option<usize>,

    /// The configuration; naming it is trusting it [default: ./fumehood.toml, if there is one and it is trusted]
    #[arg(long, global = true, value_name = "FILE", env = "FUMEHOOD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Use ./fumehood.toml in this run whether or not it is trusted, for automation that checked it out itself
    // No variable: one that is left set would switch the question off everywhere.
    #[arg(long, global = true)]
    pub(crate) trust_config: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See tools at work and hostile tools contained: no network, no key, nothing to install
    Demo,
    /// Try hostile tools on this machine, and say how each of them was contained
    #[command(after_help = SELFTEST)]
    Selftest,
    /// Say what a component is, which tools it has, and what it could ever do
    Inspect(Inspect),
    /// Put the doc comments of WIT into a component, for models to read
    #[command(after_help = EMBED_DOCS)]
    EmbedDocs(EmbedDocs),
    /// Call one tool of a component
    #[command(after_help = EXIT_CODES, override_usage = "fumehood call [OPTIONS] COMPONENT TOOL [JSON]")]
    Call(Box<Call>),
    /// Have a model do a task with tools, and print its answer
    #[command(after_help = run::EXIT_CODES)]
    Run(run::Run),
    /// Talk to a model that has tools, line by line
    #[command(after_help = run::EXIT_CODES)]
    Chat(run::Chat),
    /// Look into the event log: list, show, follow, export, verify, head
    Log(log::Log),
    /// Look at what configured components are and may do, and let their tools be called
    Approve(Approve),
    /// Show what a configuration starts, grants and reads, and let it take effect from then on
    Trust(Trust),
    /// Check the configuration, or print what it may contain
    #[command(subcommand)]
    Config(Configuration),
    /// Compile one component for a host that is running
    // Never parsed: see `main`. It is here so that `help` knows it.
    #[command(hide = true)]
    CompileComponent,
    /// Run one component for a host that is running
    // Never parsed: see `main`.
    #[command(hide = true)]
    RunWorker,
    /// Serve tools to other programs
    #[command(subcommand)]
    Serve(Serve),
    /// Use the tools of MCP servers, or set clients up to use yours
    #[command(subcommand)]
    Mcp(Mcp),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

impl Arguments {
    /// Whether failures are told as JSON on standard output. Not where that belongs to a protocol.
    pub(crate) fn json_failures(&self) -> bool {
        self.json && !matches!(self.command, Command::Serve(_))
    }
}

#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// Components of the configuration [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Approve without asking
    #[arg(long)]
    pub(crate) yes: bool,

    /// Show every line of every text, however long
    #[arg(long)]
    pub(crate) full: bool,

    /// Approve nothing; exit with 3 if something needs approval
    #[arg(long, conflicts_with = "yes")]
    pub(crate) check: bool,

    /// Take the approvals of these names back; what runs already, such as a server, keeps them until it is started again
    #[arg(long, requires = "names", conflicts_with_all = ["yes", "check"])]
    pub(crate) revoke: bool,

    /// Take back the approvals that belong to no component of the configuration
    #[arg(long, conflicts_with_all = ["names", "yes", "check", "revoke"])]
    pub(crate) prune: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Configuration {
    /// Say what is wrong with the configuration, or that it is fine
    Check {
        /// The file [default: ./fumehood.toml]
        file: Option<PathBuf>,
    },
    /// Print the JSON Schema of the configuration, for editors
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The component, a `.wasm` file
    pub(crate) component: PathBuf,

    /// Show every line of every text, however long
    #[arg(long)]
    pub(crate) full: bool,

    /// Compile it even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EmbedDocs {
    /// The component, a `.wasm` file that exports plain typed functions
    pub(crate) component: PathBuf,

    /// The WIT that it was made of: a file, or a folder with a package
    #[arg(value_name = "WIT")]
    pub(crate) wit: PathBuf,

    /// Where to write the component with its documentation; it may be the same file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The component: a `.wasm` file, or a name of the configuration
    pub(crate) component: PathBuf,

    /// The tool, as `inspect` shows it; without one, you are told which there are
    pub(crate) tool: Option<String>,

    /// The arguments, a JSON object; `-` reads them from standard input [default: {}]
    #[arg(value_name = "JSON", conflicts_with = "args_file")]
    pub(crate) arguments: Option<String>,

    /// Read the arguments from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) args_file: Option<PathBuf>,

    /// On whose behalf; the tool can read it
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,

    /// The agent's state, for a tool that may read it: JSON, or `@FILE`
    #[arg(long, value_name = "JSON")]
    pub(crate) state: Option<String>,

    /// Compile the component even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,

    #[command(flatten)]
    pub(crate) limits: LimitArguments,

    #[command(flatten)]
    pub(crate) powers: PowerArguments,

    #[command(flatten)]
    pub(crate) recording: log::Recording,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArguments {
    /// Wall time for the call, such as `250ms` or `2s` [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_negative_numbers = true)]
    timeout: Option<Duration>,

    /// Instructions for the call, such as `500M` [default: 10G]
    #[arg(long, value_name = "COUNT", value_parser = parse_count, allow_negative_numbers = true)]
    fuel: Option<u64>,

    /// Memory for the call, such as `64MiB` [default: 64MiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, allow_negative_numbers = true)]
    memory: Option<usize>,

    /// Size of the result, such as `1MiB` [default: 1MiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, allow_negative_numbers = true)]
    max_output: Option<usize>,

    /// Size of log lines and progress, and of stdout and stderr [default: 256KiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, allow_negative_numbers = true)]
    max_log: Option<usize>,

    /// Size of a single string in the arguments [default: 10KiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, allow_negative_numbers = true)]
    max_string: Option<usize>,
}

impl LimitArguments {
    /// These limits, but for what was typed.
    pub(crate) fn over(&self, usual: Limits, ceiling: usize) -> Result<Limits, LimitError> {
        let limits = Limits {
            deadline: self.timeout.unwrap_or(usual.deadline),
            fuel: self.fuel.unwrap_or(usual.fuel),
            memory: self.memory.unwrap_or(usual.memory),
            output: self.max_output.unwrap_or(usual.output),
            log: self.max_log.unwrap_or(usual.log),
            string: self.max_string.or(usual.string),
            ..usual
        };
        limits.check(ceiling).map(|()| limits)
    }
}

/// Begins with what to type, which is not always what the limit is called.
pub(crate) fn bad_limit(error: &LimitError) -> UsageError {
    let flag = match error {
        LimitError::Zero(what) | LimitError::TooMuch { what, .. } => match *what {
            "deadline" => "--timeout: ",
            "fuel" => "--fuel: ",
            "memory" => "--memory: ",
            "output" => "--max-output: ",
            "string" => "--max-string: ",
            _ => "",
        },
        LimitError::Duration(_) | LimitError::Bytes(_) | LimitError::Count(_) => "",
    };
    UsageError(format!("{flag}{error}"))
}

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Makes the choice for everything that is printed through `anstream`.
    pub(crate) fn write_global(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
