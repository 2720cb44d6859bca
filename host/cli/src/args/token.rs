//! Arguments of `fumehood token`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token for a tenant, and print it once
    ///
    /// The token goes to standard output and is kept nowhere. What belongs into the configuration, a digest that nobody can
    /// turn back into the token, goes to standard error.
    New {
        /// Name of the tenant
        #[arg(value_name = "NAME")]
        name: String,
    },
}
