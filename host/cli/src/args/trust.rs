//! Arguments of `fumehood trust`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// Configuration, or its folder [default: ./fumehood.toml]
    pub(crate) path: Option<PathBuf>,

    /// Show it without trusting it; exit with 3 if it is not trusted
    #[arg(long)]
    pub(crate) check: bool,

    /// Revoke the trust in it
    #[arg(long, conflicts_with = "check")]
    pub(crate) revoke: bool,

    /// List trusted configurations
    #[arg(long, conflicts_with_all = ["path", "check", "revoke"])]
    pub(crate) list: bool,
}
