//! Arguments of what operators do: `add`, `update`, `store`, `approve`, `trust` and `selftest`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::key::PassphraseArguments;
use crate::plot::{PlotFile, parse_plot_file};

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Component: `oci://HOST/NAME:TAG`, `oci://HOST/NAME@sha256:…`, `https://…#sha256=…`, or a `.wasm` file
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: String,

    /// Name in the configuration [default: the last part of the reference]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// File with the publisher's public key, trusted from now on for components of this name
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// Add and approve without asking
    #[arg(long)]
    pub(crate) yes: bool,

    /// Show every line of every text, and schemas as JSON
    #[arg(long)]
    pub(crate) full: bool,

    /// Compile it even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Update {
    /// Names of components of the configuration [default: all with a tag]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Show what is new and change nothing; exit with 3 if something is
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,

    /// Approve what is new without asking
    #[arg(long)]
    pub(crate) yes: bool,

    /// Show every line of every text, and schemas as JSON
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// List the components in the store
    List,
    /// Read everything in the store, and compare it with its digests
    ///
    /// Exits with 9 if something is damaged or missing.
    Verify,
    /// Remove what the lock of this configuration does not name
    ///
    /// Locks in other folders are not known here: components that only they name are removed, and got again when they are used.
    Prune {
        /// Count what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Default, Args)]
pub(crate) struct Approve {
    /// Names of components and servers of the configuration [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Approve without asking
    #[arg(long)]
    pub(crate) yes: bool,

    /// Show every line of every text, and schemas as JSON
    #[arg(long)]
    pub(crate) full: bool,

    /// Name of the approver, kept in the lock with the time
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,

    /// Approve nothing; exit with 3 if something needs approval
    #[arg(long, conflicts_with = "yes")]
    pub(crate) check: bool,

    /// Key, by name or file, that signs all your approvals, for those who have its public half in `[approval]`
    #[arg(long, value_name = "KEY", conflicts_with_all = ["check", "revoke", "prune"])]
    pub(crate) sign: Option<String>,

    #[command(flatten)]
    pub(crate) passphrase: PassphraseArguments,

    /// Revoke the approvals of these names; a running server keeps them until SIGHUP, or its end, unless it has `--watch`
    #[arg(long, requires = "names", conflicts_with_all = ["yes", "check"])]
    pub(crate) revoke: bool,

    /// Revoke the approvals of names that the configuration does not have
    #[arg(long, conflicts_with_all = ["names", "yes", "check", "revoke"])]
    pub(crate) prune: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// Configuration, its folder, or a file with cases of `test` [default: ./fumehood.toml]
    pub(crate) path: Option<PathBuf>,

    /// Trust it without asking
    #[arg(long, conflicts_with_all = ["check", "revoke"])]
    pub(crate) yes: bool,

    /// Review its components and servers as well, and approve them: for a configuration of your own
    #[arg(long, conflicts_with_all = ["check", "revoke"])]
    pub(crate) approve: bool,

    /// Show it without trusting it; exit with 3 if it is not trusted
    #[arg(long)]
    pub(crate) check: bool,

    /// Revoke the trust in it
    #[arg(long, conflicts_with = "check")]
    pub(crate) revoke: bool,

    /// List trusted configurations
    #[arg(long, conflicts_with_all = ["path", "yes", "approve", "check", "revoke"])]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Selftest {
    /// File for plots of overshoots, latency and outcomes, `.svg` or `.html`
    #[arg(long, value_name = "FILE", value_parser = parse_plot_file)]
    pub(crate) plot: Option<PlotFile>,
}
