//! Arguments of `fumehood top`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fumehood::limits::parse_duration;

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// URL of the server
    #[arg(default_value = "http://127.0.0.1:8080")]
    pub(crate) url: String,

    /// File with the bearer token of the server [default: $FUMEHOOD_MCP_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Time between updates, such as `500ms`
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    pub(crate) interval: Duration,

    /// Print the calls once and exit; implied by `--json`
    #[arg(long)]
    pub(crate) once: bool,
}
