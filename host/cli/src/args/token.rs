//! Arguments of `fumehood token`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Create a token for a tenant, and print it once
    ///
    /// The token is printed on standard output and is not saved. Its digest, for the configuration, is printed on
    /// standard error.
    New {
        /// Name of the tenant
        #[arg(value_name = "NAME")]
        name: String,
    },
}
