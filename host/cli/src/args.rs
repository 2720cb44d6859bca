//! Arguments of the command line.

mod author;
#[cfg(feature = "cell")]
mod cell;
mod groups;
mod index;
mod jail;
mod key;
mod limits;
pub(crate) mod log;
mod mcp;
mod operator;
pub(crate) mod parse;
mod publish;
pub(crate) mod run;
mod serve;
pub(crate) mod sessions;
mod token;
mod top;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use fumehood_config::limits::LimitsSection;

use crate::config::amount::parse_size;
use crate::config::logging::{LogFormat, LogLevel};
use crate::isolation::Mode;
use crate::logging::TypedLogging;
use crate::power_arguments::PowerArguments;
use crate::render::FailureForm;

pub(crate) use author::{Build, Dev, New, Test};
#[cfg(feature = "cell")]
pub(crate) use cell::{Bench, BenchCell, Cell, CellKey, Worker, WorkerAction};
pub(crate) use index::{BuildIndex, Index, Search};
pub(crate) use jail::{Jail, JailArguments};
pub(crate) use key::{ExportKey, ImportKey, Key, KeyPlaceArguments, NewKey, PassphraseArguments};
pub(crate) use limits::{has_sandbox_limits, limits_over};
pub(crate) use mcp::{CallRemote, Client, Config, List, Login, Logout, Mcp, ServerOptions};
pub(crate) use operator::{Add, Approve, Remove, Selftest, Store, Trust, Update};
pub(crate) use publish::Publish;
pub(crate) use serve::{Face, Http, Serve, ServeMcp, ServeOptions};
pub(crate) use token::Token;
pub(crate) use top::Top;

/// Name of the hidden command that compiles components in a separate process.
pub(crate) const COMPILE_COMPONENT: &str = "compile-component";
/// Name of the hidden command that runs another program until the process with the given id ends.
pub(crate) const END_WITH_PARENT: &str = "end-with-parent";

const SELFTEST: &str = "\
Takes some seconds. It uses a temporary folder and local ports, and sends nothing over the network. The exit code is 0 if every
attack was contained, and 1 otherwise.";

const EMBED_DOCS: &str = "\
Most toolchains drop the comments of WIT, so a model sees only types. This command writes them to the section `package-docs` of the
component, and replaces an existing one. `wit` in `[tools.NAME]` of the configuration does the same without another file.";

const BUILD: &str = "\
Install the tools of the language first: cargo with the target wasm32-unknown-unknown, componentize-py, Node with ComponentizeJS,
or a C compiler. To use others than those on the PATH, set FUMEHOOD_GUEST_RUSTC, FUMEHOOD_COMPONENTIZE_PY, FUMEHOOD_NODE,
FUMEHOOD_ZIG or WASI_SDK_PATH.";

const DEV: &str = "\
Every client on this machine can call the tools without a token, with the powers that you type here; ./fumehood.toml is not read.
While a build fails, the last good component stays served. Ctrl-C ends the command.";

const ADD: &str = "\
Packages of npm and PyPI are installed by npm, uv or pip, without scripts of packages, and start from the store in a kernel jail:

  fumehood add npm:@modelcontextprotocol/server-filesystem --allow-write /srv/docs --arg /srv/docs

[registry] of the configuration decides which components may be downloaded; by default, a trusted key must have signed them.
Downloaded components are kept in a store. They are verified whenever they are loaded, and need no network.";

const AUDIT: &str = "\
The exit code is 3 if a component in use is revoked, or if [registry] refuses it for another reason. With --offline, registries are
not asked for updates.";

const PUBLISH: &str = "\
The component becomes an OCI artifact that wkg and other tools can read. The signature is a Sigstore bundle over the name, both
digests and the origin. Uses the credentials of `docker login` and `podman login`. Equal components have equal digests.

  fumehood key new
  fumehood publish oci://ghcr.io/acme/city-facts:1.0.0 --sign default";

const APPROVE_CALL: &str = "\
Your answer is valid for the tool, code, powers and arguments that are shown. If one of them differs when the session is resumed,
you are asked again. This command runs nothing; run `fumehood run --resume SESSION` afterwards. The name in --by is not verified.";

const JAIL: &str = "\
The exit code is that of the program, or 128 and the number of the signal that ended it. Signals are passed on. At the end, refused
requests are printed, each with the option that allows it.

  fumehood jail --allow-write . -- npm test
  fumehood jail --allow-read . --allow-http '* https://api.example.com/**' -- python3 report.py";

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    the tool ran and failed, or returned an invalid result
  2    invalid command line
  3    refused before it ran: unknown tool, invalid arguments, missing permission, not approved, untrusted configuration
  4    stopped by a limit: deadline, fuel, memory, output size, quota
  5    the tool crashed
  6    the component could not be loaded
  7    the host failed
  8    the model gave no usable answer
  9    verification of the event log or of the store failed
  10   the event log could not be verified
  11   calls are waiting for approval
  12   the model's answer is incomplete: cut, filtered, refused, paused or failed
  130  interrupted";

/// Runs WebAssembly tools in a sandbox: every call gets a fresh instance, a fuel limit, an enforced deadline, a memory limit and only
/// the powers that you grant
#[derive(Debug, Parser)]
#[command(name = "fumehood", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print JSON, also for errors
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_enum)]
    pub(crate) color: Color,

    /// Folder for compiled code [default: your cache folder]
    #[arg(long, global = true, value_name = "FOLDER", env = "FUMEHOOD_CACHE_DIR")]
    pub(crate) cache_dir: Option<PathBuf>,

    /// Do not cache compiled code
    // No conflict with `--cache-dir`: it would forbid this option wherever the variable is set.
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,

    /// Isolation mode: `auto`, `in-process`, `process` or `process=required`
    ///
    /// A separate process in a kernel jail contains bugs of the WebAssembly engine. `auto` uses one for every component
    /// that you have not approved. `process=required` fails if the kernel lacks a part of the jail.
    #[arg(long, global = true, value_name = "MODE", value_parser = Mode::parse, hide_short_help = true)]
    pub(crate) isolation: Option<Mode>,

    /// Maximum size of the folder for compiled code, such as `512MiB`; least recently used code is removed first
    /// [default: 1GiB]
    #[arg(long, global = true, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) cache_size: Option<usize>,

    /// Configuration file; naming it here trusts it for this run [default: ./fumehood.toml, if you trusted it]
    #[arg(long, global = true, value_name = "FILE", env = "FUMEHOOD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Use only components in the store, and contact no registry
    #[arg(long, global = true)]
    pub(crate) offline: bool,

    /// Minimum level of lines of the log; overrides RUST_LOG [default: info for `serve` and `worker`, otherwise warn]
    #[arg(long, global = true, value_name = "LEVEL", value_enum, hide_possible_values = true)]
    pub(crate) log_level: Option<LogLevel>,

    /// Form of lines of the log: `auto`, `pretty`, `json` or `journald`
    ///
    /// `auto` sends them to the systemd journal if standard error is connected to it, and prints text otherwise.
    #[arg(long, global = true, value_name = "FORMAT", value_enum, hide_possible_values = true, hide_short_help = true)]
    pub(crate) log_format: Option<LogFormat>,

    /// Trust ./fumehood.toml and the test cases for this run, for automation
    // Not an environment variable: left set, it would switch the question off everywhere.
    #[arg(long, global = true)]
    pub(crate) trust_config: bool,

    /// Accept every approval in the lock as yours, for services and automation that ship their own lock
    // Not an environment variable either, for the same reason.
    #[arg(long, global = true)]
    pub(crate) accept_lock: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run useful and hostile tools, without network, API key or setup
    Demo,
    /// Run about 100 attacks on this machine, and report how each was contained
    #[command(after_help = SELFTEST)]
    Selftest(Selftest),
    /// Show the tools of a component and the powers that it could use
    Inspect(Inspect),
    /// Embed the doc comments of WIT into a component, for models to read
    #[command(after_help = EMBED_DOCS)]
    EmbedDocs(EmbedDocs),
    /// Create a project: a tool in one of four languages, or a service with an agent
    New(New),
    /// Build the component of a project
    #[command(after_help = BUILD)]
    Build(Build),
    /// Run the test cases of a project, tests/*.toml, in the sandbox
    Test(Test),
    /// Build, test and serve a project whenever its files change
    #[command(after_help = DEV)]
    Dev(Box<Dev>),
    /// Create and manage the keys that sign your components
    #[command(subcommand)]
    Key(Key),
    /// Create bearer tokens for clients of `serve`
    #[command(subcommand)]
    Token(Token),
    /// Publish a component to a registry, with its signature and its inventory (SBOM)
    #[command(after_help = PUBLISH)]
    Publish(Box<Publish>),
    /// Publish a list of components, for others to search
    #[command(subcommand)]
    Index(Index),
    /// Search for tools in signed indexes
    Search(Search),
    /// Call one tool of a component
    ///
    /// Arguments are one JSON object or NAME=VALUE pairs: `add '{"a": 3, "b": 5}'` and `add a=3 b=5` are the same call.
    /// Tools of the configuration have full names such as `notes__read`.
    #[command(after_help = EXIT_CODES, override_usage = "fumehood call [OPTIONS] COMPONENT TOOL [JSON|NAME=VALUE...]")]
    Call(Box<Call>),
    /// Give a model with tools a task, and print its answer
    #[command(after_help = run::EXIT_CODES)]
    Run(run::Run),
    /// Chat with a model that has tools
    #[command(after_help = run::EXIT_CODES)]
    Chat(run::Chat),
    /// Read the event log: list, show, follow, export, verify, head
    Log(log::Log),
    /// Manage saved sessions: list, show, remove
    Sessions(sessions::Sessions),
    /// Approve or refuse calls of saved sessions; without an id, list the waiting calls
    #[command(after_help = APPROVE_CALL)]
    ApproveCall(sessions::ApproveCall),
    /// Download a component, review it, and add it to the configuration
    #[command(after_help = ADD)]
    Add(Add),
    /// Remove a component from the configuration, and revoke its approval
    Remove(Remove),
    /// Review configured components and servers, and approve them
    Approve(Approve),
    /// Check for new versions of components and packages, review and approve them
    Update(Update),
    /// Manage the store of downloaded components: list, verify, prune
    #[command(subcommand)]
    Store(Store),
    /// Report on every component in use: signer, age, unused grants, updates, revocations
    #[command(after_help = AUDIT)]
    Audit,
    /// Review and trust a configuration
    Trust(Trust),
    /// Check the configuration, or print its JSON Schema
    #[command(subcommand)]
    Config(Configuration),
    /// Serve tools to MCP and HTTP clients
    Serve(Box<Serve>),
    /// Run a worker of a cell: it executes the calls of gateways (`serve --cell`)
    ///
    /// [cell] of the configuration names the gateways. A worker runs a call only if its own configuration has the same
    /// component with the same powers, approved. On SIGTERM, running calls may finish. SIGHUP reloads the
    /// configuration.
    #[cfg(feature = "cell")]
    Worker(Worker),
    /// Create and show the keys of gateways and workers
    #[cfg(feature = "cell")]
    #[command(subcommand)]
    Cell(Cell),
    /// Measure the throughput and latency of a cell
    #[cfg(feature = "cell")]
    #[command(subcommand)]
    Bench(Bench),
    /// Watch the running calls of a server in the terminal; press q to quit
    Top(Top),
    /// Use the tools of MCP servers, or configure MCP clients to use yours
    #[command(subcommand)]
    Mcp(Mcp),
    /// Run any program in a kernel jail: without your files and network, until you grant them
    #[command(after_help = JAIL)]
    Jail(Box<Jail>),
    /// Print a completion script for a shell
    Completions {
        /// Shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all commands to a folder
    Man {
        /// Folder for one page per command [default: print one page]
        folder: Option<PathBuf>,
    },
}

impl Arguments {
    /// Returns the form of failures. Standard output of `serve` belongs to a protocol, and is never written to.
    pub(crate) fn failure_form(&self) -> FailureForm<'_> {
        match &self.command {
            _ if !self.json => FailureForm::Text,
            Command::Serve(_) => FailureForm::Text,
            Command::Call(call) => FailureForm::Call { tool: call.tool.as_deref().unwrap_or_default() },
            Command::Mcp(Mcp::Call(call)) => FailureForm::Call { tool: &call.tool },
            _ => FailureForm::Json,
        }
    }

    /// Returns the settings of the log.
    pub(crate) fn logging(&self) -> TypedLogging {
        let is_drill = matches!(self.command, Command::Demo | Command::Selftest(_));
        TypedLogging { level: self.log_level, format: self.log_format, is_service: self.is_service(), is_drill }
    }

    /// Returns whether the command runs until it is stopped.
    fn is_service(&self) -> bool {
        match &self.command {
            Command::Serve(_) => true,
            #[cfg(feature = "cell")]
            Command::Worker(worker) => worker.action.is_none(),
            _ => false,
        }
    }

    /// Returns whether the command begins the log itself, when it has read the configuration.
    pub(crate) fn begins_log(&self) -> bool {
        self.is_service() || matches!(self.command, Command::Call(_) | Command::Run(_) | Command::Chat(_))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Configuration {
    /// Report every error of the configuration, including missing components and folders
    Check {
        /// Configuration to check [default: ./fumehood.toml]
        file: Option<PathBuf>,
    },
    /// Print the JSON Schema of the configuration, for editors
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Component: a `.wasm` file, a name in the configuration, or a reference such as `oci://HOST/NAME:TAG`
    pub(crate) component: PathBuf,

    /// Show all texts in full
    #[arg(long)]
    pub(crate) full: bool,

    /// Compile it even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EmbedDocs {
    /// Component: a `.wasm` file that exports typed functions
    pub(crate) component: PathBuf,

    /// WIT source of the component: a file, or a folder with a package
    #[arg(value_name = "WIT")]
    pub(crate) wit: PathBuf,

    /// File to write; it may be the input file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Call {
    /// Component: a `.wasm` file, a name in the configuration, or a reference such as `oci://HOST/NAME:TAG`
    pub(crate) component: PathBuf,

    /// Tool, as `inspect` lists it [default: list the tools]
    pub(crate) tool: Option<String>,

    /// Arguments: a JSON object, `-` to read one from standard input, or NAME=VALUE pairs [default: {}]
    #[arg(value_name = "JSON|NAME=VALUE", conflicts_with = "args_file")]
    pub(crate) arguments: Vec<String>,

    /// JSON file with the arguments
    #[arg(long, value_name = "FILE")]
    pub(crate) args_file: Option<PathBuf>,

    /// Actor of the call, which the tool can read
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,

    /// Agent state for a tool that may read it: JSON, or `@FILE`
    #[arg(long, value_name = "JSON")]
    pub(crate) state: Option<String>,

    /// Also print the lines of a configuration that would allow what the call was refused
    #[arg(long)]
    pub(crate) observe: bool,

    /// Compile the component even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,

    /// Grant everything that its author asks for, but for folders, values and secrets without an option
    #[arg(long)]
    pub(crate) grant_wishes: bool,

    #[command(flatten)]
    pub(crate) limits: LimitsSection,

    #[command(flatten)]
    pub(crate) powers: PowerArguments,

    #[command(flatten)]
    pub(crate) recording: log::Recording,
}

/// Use of colours.
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
    /// Applies the choice to everything that is printed through `anstream`.
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
        parse::command().debug_assert();
    }
}
