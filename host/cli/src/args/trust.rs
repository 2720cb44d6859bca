//! Arguments of `fumehood trust`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// The configuration, or the folder that it is in [default: ./fumehood.toml]
    pub(crate) path: Option<PathBuf>,

    /// Only show it; exit with 3 if it is not trusted
    #[arg(long)]
    pub(crate) check: bool,

    /// Take the trust in it back
    #[arg(long, conflicts_with = "check")]
    pub(crate) revoke: bool,

    /// List what is trusted
    #[arg(long, conflicts_with_all = ["path", "check", "revoke"])]
    pub(crate) list: bool,
}
