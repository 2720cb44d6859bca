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

    /// Components that run without powers, besides those of the configuration
    #[arg(value_name = "COMPONENT")]
    pub(crate) components: Vec<PathBuf>,

    /// Time that running calls have to end after a SIGTERM [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) grace: Option<std::time::Duration>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerAction {
    /// Tell a worker to take no more calls and to end with the last of those that run, and wait until it is gone
    ///
    /// It is told in the name of the gateway of the configuration, which the worker must know.
    Drain {
        /// Name of the worker, as in [cell.workers]
        name: String,

        /// Maximum time to wait until it is gone [default: 60s]
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        timeout: Option<std::time::Duration>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Measure calls over the cell of the configuration, beside bare requests of the same sizes over its NATS server
    ///
    /// The callers of a round each make the next call when the one before has ended. The configuration is that of a gateway; its
    /// workers have to run. Bare requests are answered by as many processes as there are workers.
    Cell(BenchCell),

    /// Answer the bare requests of a measurement
    #[command(hide = true)]
    CellAnswers {
        /// Name of the measurement
        name: String,
    },
}

/// A measurement of a cell.
#[derive(Debug, Args)]
pub(crate) struct BenchCell {
    /// Full name of the tool that is called, such as `text__statistics`
    pub(crate) tool: String,

    /// Arguments of each call, as JSON [default: {}]
    pub(crate) arguments: Option<String>,

    /// Numbers of callers, one round for each
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 4, 16, 64])]
    pub(crate) callers: Vec<usize>,

    /// Time of each round [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) time: Option<std::time::Duration>,

    /// File for plots of throughput and latency, `.svg` or `.html`
    #[arg(long, value_name = "FILE", value_parser = parse_plot_file)]
    pub(crate) plot: Option<PlotFile>,
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
