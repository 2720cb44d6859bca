//! Arguments of the commands for authors of tools: `new`, `build`, `test` and `dev`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use fumehood_author::{Dialect, Language};
use fumehood_config::limits::LimitsSection;

use super::log::Recording;
use crate::config::Powers;
use crate::power_arguments::PowerArguments;

#[derive(Debug, Args)]
pub(crate) struct New {
    /// Name of the project, its component and its folder
    pub(crate) name: String,

    /// Language: `rust`, `python`, `javascript`, `typescript` or `c`; `rs`, `py`, `js` and `ts` are short for them
    #[arg(long, value_name = "LANGUAGE", default_value = "rust", conflicts_with = "agent")]
    pub(crate) lang: Language,

    /// Interface: `contract`, where the code describes its tools, or `typed`, plain functions [default: contract; C:
    /// typed]
    #[arg(long, conflicts_with = "agent")]
    pub(crate) dialect: Option<Dialect>,

    /// Create a service that embeds an agent, with a channel, a policy and a tool
    #[arg(long)]
    pub(crate) agent: bool,

    /// Create a hook, which decides on calls of tools, in Rust or Python
    #[arg(long, conflicts_with_all = ["agent", "dialect"])]
    pub(crate) hook: bool,

    /// Folder of a template of your own: its files, with `{{name}}` and `{{identifier}}` replaced by the name
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["lang", "dialect", "agent", "hook", "sdk"])]
    pub(crate) template: Option<PathBuf>,

    /// Replace the files of a new project in a folder that exists; other files stay
    #[arg(long)]
    pub(crate) force: bool,

    /// Checkout of Fumehood to depend on, instead of the published version
    #[arg(long, value_name = "FOLDER")]
    pub(crate) sdk: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Build {
    /// Folder of the project
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) project: PathBuf,

    /// Build once more from nothing, and fail if the components differ
    #[arg(long)]
    pub(crate) check: bool,

    /// File to write the component to [default: dist/NAME.wasm in the project]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Run the cases whose names contain this [default: all cases]
    #[arg(value_name = "NAME", conflicts_with = "record")]
    pub(crate) names: Vec<String>,

    /// Folder of the project
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) project: PathBuf,

    /// Component to test [default: the project's own]
    #[arg(long, value_name = "FILE")]
    pub(crate) component: Option<PathBuf>,

    /// Update the cases with the actual results
    #[arg(long, conflicts_with = "record")]
    pub(crate) update: bool,

    /// Build the component, and run all its cases, whenever a file of the project changes
    #[arg(long, conflicts_with_all = ["component", "update", "record"])]
    pub(crate) watch: bool,

    /// Call this tool, and record the call as a case, with what servers answer
    #[arg(long, value_name = "TOOL")]
    pub(crate) record: Option<String>,

    /// Arguments of the recorded call: a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}", requires = "record")]
    pub(crate) arguments: String,

    /// Name of the recorded case [default: made from the call]
    #[arg(long, value_name = "NAME", requires = "record")]
    pub(crate) name: Option<String>,

    /// File of the recorded case [default: tests/TOOL.toml in the project]
    #[arg(long, value_name = "FILE", requires = "record")]
    pub(crate) into: Option<PathBuf>,

    /// Print the JSON Schema of files of cases, for editors
    #[arg(long, conflicts_with_all = ["names", "component", "update", "watch", "record"])]
    pub(crate) schema: bool,

    #[command(flatten, next_help_heading = "Powers of a recorded call")]
    pub(crate) powers: Powers,
}

#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Folder of the project
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) project: PathBuf,

    /// Loopback address for clients: MCP at /mcp, the HTTP API at /v1
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", help_heading = "HTTP")]
    pub(crate) listen: SocketAddr,

    /// Loopback address of the dashboard
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081", help_heading = "HTTP")]
    pub(crate) dashboard: SocketAddr,

    /// Build the component as `fumehood build` does, also in Rust, Python and JavaScript, where that takes longer
    #[arg(long)]
    pub(crate) full: bool,

    #[command(flatten)]
    pub(crate) limits: LimitsSection,

    #[command(flatten)]
    pub(crate) powers: PowerArguments,

    #[command(flatten)]
    pub(crate) recording: Recording,
}
