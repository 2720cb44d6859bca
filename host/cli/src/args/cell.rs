//! Arguments of `fumehood worker`, `fumehood cell` and `fumehood bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use fumehood::limits::parse_duration;

use crate::plot::{PlotFile, parse_plot_file};

/// A worker of a cell.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Worker {
    #[command(subcommand)]
    pub(crate) action: Option<WorkerAction>,

    /// Components to run without powers, in addition to the configuration's
    #[arg(value_name = "COMPONENT")]
    pub(crate) components: Vec<PathBuf>,

    /// Time for running calls to finish after SIGTERM [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) grace: Option<std::time::Duration>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerAction {
    /// Drain a worker: it accepts no more calls, finishes its running calls, and exits; waits until then
    ///
    /// The request is signed with the key of the configuration's gateway, which the worker must know.
    Drain {
        /// Name of the worker, as in [cell.workers]
        name: String,

        /// Maximum time to wait for its exit [default: 60s]
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        timeout: Option<std::time::Duration>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Measure calls over a cell, and plain NATS requests of the same sizes for comparison
    ///
    /// Each caller starts its next call when the previous call has ended. Use the configuration of a gateway, and start
    /// its workers first. Plain requests are answered by as many processes as there are workers.
    Cell(BenchCell),

    /// Answer the plain requests of a measurement
    #[command(hide = true)]
    CellAnswers {
        /// Name of the measurement
        name: String,
    },
}

/// A measurement of a cell.
#[derive(Debug, Args)]
pub(crate) struct BenchCell {
    /// Full name of the tool to call, such as `text__statistics`
    pub(crate) tool: String,

    /// Arguments of each call, as JSON [default: {}]
    pub(crate) arguments: Option<String>,

    /// Numbers of callers, with one round for each number
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 4, 16, 64])]
    pub(crate) callers: Vec<usize>,

    /// Time of each round [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) time: Option<std::time::Duration>,

    /// Write plots of throughput and latency to this file, `.svg` or `.html`
    #[arg(long, value_name = "FILE", value_parser = parse_plot_file)]
    pub(crate) plot: Option<PlotFile>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Cell {
    /// Create the key of a gateway or worker, or show its public key
    #[command(subcommand)]
    Key(CellKey),
}

#[derive(Debug, Subcommand)]
pub(crate) enum CellKey {
    /// Create a private key in a new file that only you can read, and print the public key
    New {
        /// File for the private key
        file: PathBuf,
    },
    /// Print the public key, for [cell.workers] or [cell.gateways] of other nodes
    Show {
        /// File of the private key
        file: PathBuf,
    },
}
