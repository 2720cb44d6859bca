//! Arguments of `fumehood add`, `update`, `store` and `audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

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
