//! Arguments of `fumehood key`, and options of other commands that name a key.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fumehood_registry::signature::Algorithm;

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Create a key that signs your components
    New(NewKey),
    /// Print the public key, for people who trust your tools
    Export(ExportKey),
    /// Import a key of another program, such as OpenSSL: PKCS #8 in PEM
    Import(ImportKey),
    /// List your keys
    List,
}

#[derive(Debug, Args)]
pub(crate) struct NewKey {
    #[command(flatten)]
    pub(crate) place: KeyPlaceArguments,

    /// Algorithm of the key; `p256` works with every program that reads Sigstore bundles
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
    /// Name of the key
    #[arg(value_name = "NAME", default_value = "default", conflicts_with = "out")]
    pub(crate) name: String,

    /// File to write the private key to, with the public key next to it as `.pub` [default: in your data folder]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// The source of a passphrase. There is no option for the passphrase itself, because other users can see command lines.
#[derive(Debug, Default, Args)]
pub(crate) struct PassphraseArguments {
    /// File with the passphrase of the key, readable only by you [default: $FUMEHOOD_KEY_PASSPHRASE, or ask]
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum KeyAlgorithm {
    /// ECDSA with curve P-256
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
