//! Arguments of `fumehood index` and `fumehood search`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fumehood_registry::reference::OciReference;

use super::key::PassphraseArguments;
use super::publish::RegistryArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum Index {
    /// Make one signed file that lists published components, for others to search
    Build(BuildIndex),
}

#[derive(Debug, Args)]
pub(crate) struct BuildIndex {
    /// Published components, such as `oci://ghcr.io/acme/city-facts:1.0.0`
    #[arg(value_name = "REFERENCE", required = true)]
    pub(crate) references: Vec<OciReference>,

    /// File to write; its name without `.json` is the name of the index
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,

    /// Key to sign the index with: its name among yours, or its file
    #[arg(long, value_name = "KEY", default_value = "default")]
    pub(crate) sign: String,

    /// Public key of a publisher: a file in PEM, or the name of one of yours; repeatable [default: the key of the index]
    #[arg(long, value_name = "KEY")]
    pub(crate) trust: Vec<String>,

    /// List components without a signature of these keys as well
    #[arg(long)]
    pub(crate) allow_unsigned: bool,

    #[command(flatten)]
    pub(crate) passphrase: PassphraseArguments,

    #[command(flatten)]
    pub(crate) registry: RegistryArguments,
}

#[derive(Debug, Args)]
pub(crate) struct Search {
    /// Words, all of which have to occur
    #[arg(value_name = "WORD", required = true)]
    pub(crate) words: Vec<String>,

    /// Index: a file, or its URL; repeatable [default: those of the configuration]
    #[arg(long, value_name = "FILE|URL", requires = "index_key")]
    pub(crate) index: Vec<String>,

    /// Public key that the indexes are signed with: a file in PEM, or the name of one of yours; repeatable
    #[arg(long, value_name = "KEY", requires = "index")]
    pub(crate) index_key: Vec<String>,

    #[command(flatten)]
    pub(crate) registry: RegistryArguments,
}
