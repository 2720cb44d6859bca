//! Arguments of the command line.

mod author;
#[cfg(feature = "cell")]
mod cell;
mod groups;
mod index;
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

use crate::config::amount::parse_size;
use crate::isolation::Mode;
use crate::power_arguments::PowerArguments;
use crate::render::FailureForm;

pub(crate) use author::{Build, New, Test};
#[cfg(feature = "cell")]
pub(crate) use cell::{Bench, BenchCell, Cell, CellKey, Worker, WorkerAction};
pub(crate) use index::{BuildIndex, Index, Search};
pub(crate) use key::{ExportKey, ImportKey, Key, KeyPlaceArguments, NewKey, PassphraseArguments};
pub(crate) use limits::{LimitArguments, name_limit_option};
pub(crate) use mcp::{CallRemote, Client, Config, List, Login, Logout, Mcp, ServerOptions};
pub(crate) use operator::{Add, Approve, Selftest, Store, Trust, Update};
pub(crate) use publish::Publish;
pub(crate) use serve::{Face, Http, Serve, ServeMcp, ServeOptions};
pub(crate) use token::Token;
pub(crate) use top::Top;

/// Name of the hidden command by which this program is its own compiler.
pub(crate) const COMPILE_COMPONENT: &str = "compile-component";
/// Name of the hidden command that becomes another program, which ends together with the process that is named first.
pub(crate) const END_WITH_PARENT: &str = "end-with-parent";

const SELFTEST: &str = "\
Takes some seconds. It reads, writes and listens in a folder and on ports of its own only, and sends nothing anywhere else.
The code is 0 if everything was contained, and 1 if anything was not.";

const EMBED_DOCS: &str = "\
Most toolchains drop the comments of WIT, so that a model reads nothing but types. They are put where hosts look for them: into
the section `package-docs`, in place of the one that the component has. `wit` in `[tools.NAME]` of the configuration does the
same without another file.";

const BUILD: &str = "\
Languages have their own tools, which have to be installed: cargo with the target wasm32-unknown-unknown, componentize-py,
Node with ComponentizeJS, or a C compiler. FUMEHOOD_GUEST_RUSTC, FUMEHOOD_COMPONENTIZE_PY, FUMEHOOD_NODE, FUMEHOOD_ZIG and
WASI_SDK_PATH name others than those that are found.";

const ADD: &str = "\
Nothing is downloaded that [registry] of the configuration refuses: by default, what no trusted key
has signed. What is got is kept in a store, verified again whenever it is loaded, and needs no network.";

const AUDIT: &str = "\
Exits with 3 if a component in use is revoked, or refused by [registry] for another reason. With
--offline, registries are not asked for updates.";
const PUBLISH: &str = "\
The component becomes an OCI artifact that wkg and others read. The signature is a Sigstore bundle over the name, both digests and
the origin. Credentials are those of `docker login` and `podman login`. The same bytes always have the same digest.

  fumehood key new
  fumehood publish oci://ghcr.io/acme/city-facts:1.0.0 --sign default";

const APPROVE_CALL: &str = "\
An answer holds for the tool, its code, its powers and the arguments that are shown; if one of them differs when the session goes
on, the call is asked about again. It runs nothing: `fumehood run --resume SESSION` does. The host knows no users: --by is written
down as it is typed.";

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    the tool ran and failed, or its result was bad
  2    the command line is wrong
  3    refused before anything ran: unknown tool, invalid arguments, not allowed, not approved, not trusted
  4    stopped by a limit: deadline, fuel, memory, output, quota
  5    the tool crashed
  6    the component could not be loaded
  7    the host itself failed
  8    the model gave no answer, or none that could be used
  9    verification of the event log or of the store failed
  10   the event log could not be verified
  11   calls of a run wait for approval
  12   the model's answer is incomplete: it was cut, filtered, refused or paused, or it failed
  130  interrupted";

/// Runs WebAssembly tools in a sandbox: every call in a fresh instance, with fuel, an enforced deadline, a memory ceiling
/// and only the powers that you grant.
#[derive(Debug, Parser)]
#[command(name = "fumehood", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print JSON, failures and usage errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Use of colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_enum)]
    pub(crate) color: Color,

    /// Folder for compiled code [default: the user's cache folder]
    #[arg(long, global = true, value_name = "FOLDER", env = "FUMEHOOD_CACHE_DIR")]
    pub(crate) cache_dir: Option<PathBuf>,

    /// Keep no compiled code
    // No conflict with `--cache-dir`: it would forbid this option wherever the variable is set.
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,

    /// Isolation of tools: `auto`, `in-process`, `process` or `process=required`
    ///
    /// A process of its own, in a jail of the kernel, contains a bug of the WebAssembly engine. `auto` uses one for every
    /// component that is not approved. `process=required` fails if the kernel lacks a part of the jail.
    #[arg(long, global = true, value_name = "MODE", value_parser = Mode::parse, hide_short_help = true)]
    pub(crate) isolation: Option<Mode>,

    /// Maximum size of the folder for compiled code, such as `512MiB`; the least recently used is removed first [default: 1GiB]
    #[arg(long, global = true, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) cache_size: Option<usize>,

    /// Configuration, trusted because it is named [default: ./fumehood.toml, if it exists and is trusted]
    #[arg(long, global = true, value_name = "FILE", env = "FUMEHOOD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Ask no registry: use what is in the store
    #[arg(long, global = true)]
    pub(crate) offline: bool,

    /// Use ./fumehood.toml, or the cases of `test`, in this run even if not trusted, for automation that checked them out itself
    // No variable: one that stays set would switch the question off everywhere.
    #[arg(long, global = true)]
    pub(crate) trust_config: bool,

    /// Take every approval in the lock for yours, whoever wrote it, for services and automation that brought the lock themselves
    // No variable either, for the same reason.
    #[arg(long, global = true)]
    pub(crate) accept_lock: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run useful and hostile tools, without a network, a key or an installation
    Demo,
    /// Run hostile tools on this machine and report how each one was contained
    #[command(after_help = SELFTEST)]
    Selftest(Selftest),
    /// Show the tools of a component and the powers that it could use
    Inspect(Inspect),
    /// Put the doc comments of WIT into a component, for models to read
    #[command(after_help = EMBED_DOCS)]
    EmbedDocs(EmbedDocs),
    /// Make a new project: a tool in one of four languages, or a service with an agent
    New(New),
    /// Build the component of the project in this folder
    #[command(after_help = BUILD)]
    Build(Build),
    /// Call the component of the project in the sandbox as the cases in tests/*.toml say
    Test(Test),
    /// Make and manage the keys that sign what you publish
    #[command(subcommand)]
    Key(Key),
    /// Make tokens for the clients of `serve`
    #[command(subcommand)]
    Token(Token),
    /// Publish a component to a registry, with its signature and its inventory
    #[command(after_help = PUBLISH)]
    Publish(Box<Publish>),
    /// List published components in a file of your own
    #[command(subcommand)]
    Index(Index),
    /// Look for tools in signed indexes
    Search(Search),
    /// Call one tool of a component
    ///
    /// Arguments are one JSON object or NAME=VALUE words: `add '{"a": 3, "b": 5}'` and `add a=3 b=5` are the same call. A tool
    /// of the configuration may be named as a whole, such as `notes__read`.
    #[command(after_help = EXIT_CODES, override_usage = "fumehood call [OPTIONS] COMPONENT TOOL [JSON|NAME=VALUE...]")]
    Call(Box<Call>),
    /// Give a task to a model with tools, and print its answer
    #[command(after_help = run::EXIT_CODES)]
    Run(run::Run),
    /// Talk to a model that has tools
    #[command(after_help = run::EXIT_CODES)]
    Chat(run::Chat),
    /// Read the event log: list, show, follow, export, verify, head
    Log(log::Log),
    /// Look after saved sessions: list, show, remove
    Sessions(sessions::Sessions),
    /// Answer calls of saved sessions that wait for approval; without an id, list them
    #[command(after_help = APPROVE_CALL)]
    ApproveCall(sessions::ApproveCall),
    /// Get a component, look at it, and add it to the configuration
    #[command(after_help = ADD)]
    Add(Add),
    /// Review configured components and servers, and approve them
    Approve(Approve),
    /// Look for newer versions of components, and approve them
    Update(Update),
    /// Look after the store of components: list, verify, prune
    #[command(subcommand)]
    Store(Store),
    /// List every component in use: signer, age, unused grants, updates, revocations
    #[command(after_help = AUDIT)]
    Audit,
    /// Review a configuration, and trust it
    Trust(Trust),
    /// Check the configuration, or print its schema
    #[command(subcommand)]
    Config(Configuration),
    /// Serve tools to other programs
    Serve(Box<Serve>),
    /// Run the calls of gateways, which `serve --cell` are, as [cell] of the configuration says
    ///
    /// A worker runs a call only if its own configuration has the same component with the same powers, approved. SIGTERM lets
    /// the running calls end, and SIGHUP reads the configuration again.
    #[cfg(feature = "cell")]
    Worker(Worker),
    /// Make and show the keys of gateways and workers
    #[cfg(feature = "cell")]
    #[command(subcommand)]
    Cell(Cell),
    /// Measure what a cell costs
    #[cfg(feature = "cell")]
    #[command(subcommand)]
    Bench(Bench),
    /// Watch the running calls of a `fumehood serve` in the terminal; q ends it
    Top(Top),
    /// Use the tools of MCP servers, or configure clients to use yours
    #[command(subcommand)]
    Mcp(Mcp),
    /// Print a completion script for a shell
    Completions {
        /// Name of the shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write those of all commands to a folder
    Man {
        /// Folder for one page of each command [default: one page on standard output]
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
}

#[derive(Debug, Subcommand)]
pub(crate) enum Configuration {
    /// Report every error of the configuration, missing components and folders included
    Check {
        /// Configuration to check [default: ./fumehood.toml]
        file: Option<PathBuf>,
    },
    /// Print the JSON Schema of the configuration, for editors
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Component: a `.wasm` file, a name of the configuration, or a reference such as `oci://HOST/NAME:TAG`
    pub(crate) component: PathBuf,

    /// Show every line of every text
    #[arg(long)]
    pub(crate) full: bool,

    /// Compile it even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EmbedDocs {
    /// Component: a `.wasm` file that exports plain typed functions
    pub(crate) component: PathBuf,

    /// WIT that it was made of: a file, or a folder with a package
    #[arg(value_name = "WIT")]
    pub(crate) wit: PathBuf,

    /// File to write the component with its documentation to; it may be the same file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Call {
    /// Component: a `.wasm` file, a name of the configuration, or a reference such as `oci://HOST/NAME:TAG`
    pub(crate) component: PathBuf,

    /// Tool, as `inspect` shows it; without one, the tools are listed
    pub(crate) tool: Option<String>,

    /// Arguments: a JSON object, `-` to read one from standard input, or NAME=VALUE pairs [default: {}]
    #[arg(value_name = "JSON|NAME=VALUE", conflicts_with = "args_file")]
    pub(crate) arguments: Vec<String>,

    /// File to read the arguments from, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) args_file: Option<PathBuf>,

    /// Actor of the call; the tool can read it
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

    /// Help texts begin with a verb or a noun, not with a question word.
    #[test]
    fn no_help_text_begins_with_a_question_word() {
        fn check(command: &clap::Command, found: &mut Vec<String>) {
            let texts = command.get_arguments().filter_map(|argument| argument.get_help()).chain(command.get_about());
            let begins = |text: &String| {
                let first = text.split([' ', ',', ':']).next().unwrap_or_default().to_lowercase();
                ["what", "which", "why", "how", "who", "where", "when", "on"].contains(&first.as_str())
            };
            found.extend(texts.map(ToString::to_string).filter(begins));
            command.get_subcommands().for_each(|command| check(command, found));
        }
        let mut found = Vec::new();
        check(&Arguments::command(), &mut found);
        assert!(found.is_empty(), "{found:#?}");
    }
}
