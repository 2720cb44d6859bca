//! Arguments of `fumehood worker` and `fumehood cell`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use fumehood::limits::parse_duration;

/// A worker of a cell.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    /// Components that run without powers, besides those of the configuration
    #[arg(value_name = "COMPONENT")]
    pub(crate) components: Vec<PathBuf>,

    /// Time that running calls have to end after a SIGTERM [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) grace: Option<std::time::Duration>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Cell {
    /// Make the key of a gateway or worker, or show its public half
    #[command(subcommand)]
    Key(CellKey),
}

#[derive(Debug, Subcommand)]
pub(crate) enum CellKey {
    /// Make a key in a new file that only you can read, and print its public half
    New {
        /// File for the private key
        file: PathBuf,
    },
    /// Print the public half, which the others put into [cell.workers] or [cell.gateways]
    Show {
        /// File of the private key
        file: PathBuf,
    },
}
