//! Arguments of the commands for operators: `add`, `update`, `store`, `approve`, `trust` and `selftest`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fumehood_config::limits::LimitsSection;
use fumehood_config::powers::Powers;

use super::key::PassphraseArguments;
use crate::plot::{PlotFile, parse_plot_file};

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Name of the component in the configuration
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Component: `oci://HOST/NAME:TAG`, `oci://HOST/NAME@sha256:…`, `https://…#sha256=…`, or a `.wasm` file; or the package of an
    /// MCP server: `npm:NAME@VERSION` or `pypi:NAME@VERSION`
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: String,

    /// Name in the configuration [default: the last part of the reference]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// File with the publisher's public key, which is trusted from now on for components of this name
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// Add and approve without asking
    #[arg(long)]
    pub(crate) yes: bool,

    /// Grant everything that its author asks for; folders, values and secrets without an option become comments
    #[arg(long)]
    pub(crate) grant_wishes: bool,

    /// Show all texts in full, and schemas as JSON
    #[arg(long)]
    pub(crate) full: bool,

    /// Compile it even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,

    /// Program of a package with several programs
    #[arg(long, value_name = "NAME")]
    pub(crate) program: Option<String>,

    #[command(flatten)]
    pub(crate) limits: LimitsSection,

    #[command(flatten)]
    pub(crate) powers: Powers,
}

#[derive(Debug, Args)]
pub(crate) struct Update {
    /// Components and servers to update, by their names in the configuration [default: all with a tag or a package]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Show new versions without changing anything; exit code 3 if there are any
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,

    /// Approve new versions without asking
    #[arg(long)]
    pub(crate) yes: bool,

    /// Show all texts in full, and schemas as JSON
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// List the components in the store
    List,
    /// Compare every component in the store with its digest
    ///
    /// Exit code 9 if a component is damaged or missing.
    Verify,
    /// Remove components that the lock of this configuration does not name
    ///
    /// Components that only locks in other folders name are removed too. They are downloaded again when they are used.
    Prune {
        /// Show what would be removed, without removing it
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Default, Args)]
pub(crate) struct Approve {
    /// Components and servers to approve, by their names in the configuration [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Approve without asking
    #[arg(long)]
    pub(crate) yes: bool,

    /// Show all texts in full, and schemas as JSON
    #[arg(long)]
    pub(crate) full: bool,

    /// Name of the approver, saved in the lock with the time
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,

    /// Only check; exit code 3 if something needs approval
    #[arg(long, conflicts_with = "yes")]
    pub(crate) check: bool,

    /// Sign your approvals with this key (a name or file), for people who list its public key in [approval]
    #[arg(long, value_name = "KEY", conflicts_with_all = ["check", "revoke", "prune"])]
    pub(crate) sign: Option<String>,

    #[command(flatten)]
    pub(crate) passphrase: PassphraseArguments,

    /// Revoke the approvals of these names; a running server without --watch keeps them until SIGHUP or a restart
    #[arg(long, requires = "names", conflicts_with_all = ["yes", "check"])]
    pub(crate) revoke: bool,

    /// Revoke the approvals of names that the configuration no longer has
    #[arg(long, conflicts_with_all = ["names", "yes", "check", "revoke"])]
    pub(crate) prune: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// Configuration, its folder, or a file with test cases [default: ./fumehood.toml]
    pub(crate) path: Option<PathBuf>,

    /// Trust without asking
    #[arg(long, conflicts_with_all = ["check", "revoke"])]
    pub(crate) yes: bool,

    /// Also review and approve its components and servers: for a configuration that you wrote
    #[arg(long, conflicts_with_all = ["check", "revoke"])]
    pub(crate) approve: bool,

    /// Only show it; exit code 3 if it is not trusted
    #[arg(long)]
    pub(crate) check: bool,

    /// Revoke the trust
    #[arg(long, conflicts_with = "check")]
    pub(crate) revoke: bool,

    /// List trusted configurations
    #[arg(long, conflicts_with_all = ["path", "yes", "approve", "check", "revoke"])]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Selftest {
    /// Write plots of overshoots, latency and outcomes to this file, `.svg` or `.html`
    #[arg(long, value_name = "FILE", value_parser = parse_plot_file)]
    pub(crate) plot: Option<PlotFile>,
}
