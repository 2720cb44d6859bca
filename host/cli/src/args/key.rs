//! Arguments of `fumehood key`, and those by which other commands name a key.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fumehood_registry::signature::Algorithm;

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Make a key that signs what you publish
    New(NewKey),
    /// Print the public half of a key, for those who trust your tools
    Export(ExportKey),
    /// Take over a key of another program, such as OpenSSL: PKCS #8 in PEM
    Import(ImportKey),
    /// List your keys
    List,
}

#[derive(Debug, Args)]
pub(crate) struct NewKey {
    #[command(flatten)]
    pub(crate) place: KeyPlaceArguments,

    /// Algorithm of the key; every program that reads Sigstore's bundles knows `p256`
    #[arg(long, value_enum, default_value = "p256")]
    pub(crate) algorithm: KeyAlgorithm,

    #[command(flatten)]
    pub(crate) passphrase: PassphraseArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ExportKey {
    /// Name of the key, or its file
    #[arg(value_name = "KEY", default_value = "default")]
    pub(crate) key: String,

    #[command(flatten)]
    pub(crate) passphrase: PassphraseArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ImportKey {
    /// File with the key, encrypted or not, readable only by you
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) place: KeyPlaceArguments,

    #[command(flatten)]
    pub(crate) passphrase: PassphraseArguments,
}

/// The place of a new key.
#[derive(Debug, Args)]
pub(crate) struct KeyPlaceArguments {
    /// Name of the key among yours
    #[arg(value_name = "NAME", default_value = "default", conflicts_with = "out")]
    pub(crate) name: String,

    /// File to write the key to, in place of your data folder; its public half goes beside it, as `.pub`
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// The source of a passphrase. There is no option that takes the passphrase itself: command lines are seen by others.
#[derive(Debug, Default, Args)]
pub(crate) struct PassphraseArguments {
    /// File with the passphrase of the key, readable only by you [default: $FUMEHOOD_KEY_PASSPHRASE, or a question]
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum KeyAlgorithm {
    /// ECDSA with the curve P-256
    P256,
    /// Ed25519
    Ed25519,
}

impl From<KeyAlgorithm> for Algorithm {
    fn from(algorithm: KeyAlgorithm) -> Self {
        match algorithm {
            KeyAlgorithm::P256 => Self::P256,
            KeyAlgorithm::Ed25519 => Self::Ed25519,
        }
    }
}
