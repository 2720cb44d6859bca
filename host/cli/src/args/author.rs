//! Arguments of the commands for authors of tools: `new`, `build` and `test`.

use std::path::PathBuf;

use clap::Args;
use fumehood_author::{Dialect, Language};

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

    /// Call this tool, and record the call as a case
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
}
