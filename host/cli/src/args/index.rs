//! Arguments of `fumehood index` and `fumehood search`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fumehood_registry::reference::OciReference;

use super::key::PassphraseArguments;
use super::publish::RegistryArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum Index {
    /// Create a signed index: one file that lists published components
    Build(BuildIndex),
}

#[derive(Debug, Args)]
pub(crate) struct BuildIndex {
    /// Published components, such as `oci://ghcr.io/acme/city-facts:1.0.0`
    #[arg(value_name = "REFERENCE", required = true)]
    pub(crate) references: Vec<OciReference>,

    /// File to write; the index is named after the file, without `.json`
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,

    /// Key that signs the index: the name of your key, or a file
    #[arg(long, value_name = "KEY", default_value = "default")]
    pub(crate) sign: String,

    /// Public key of a publisher: a PEM file, or the name of your key; repeatable [default: the key that signs the
    /// index]
    #[arg(long, value_name = "KEY")]
    pub(crate) trust: Vec<String>,

    /// Also list components without a signature by these keys
    #[arg(long)]
    pub(crate) allow_unsigned: bool,

    #[command(flatten)]
    pub(crate) passphrase: PassphraseArguments,

    #[command(flatten)]
    pub(crate) registry: RegistryArguments,
}

#[derive(Debug, Args)]
pub(crate) struct Search {
    /// Words that must all occur
    #[arg(value_name = "WORD", required = true)]
    pub(crate) words: Vec<String>,

    /// Index: a file or URL; repeatable [default: the indexes of the configuration]
    #[arg(long, value_name = "FILE|URL", requires = "index_key")]
    pub(crate) index: Vec<String>,

    /// Public key that verifies the indexes: a PEM file, or the name of your key; repeatable
    #[arg(long, value_name = "KEY", requires = "index")]
    pub(crate) index_key: Vec<String>,

    #[command(flatten)]
    pub(crate) registry: RegistryArguments,
}
