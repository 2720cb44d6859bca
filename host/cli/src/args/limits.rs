//! Options for the limits of a call.

use std::time::Duration;

use clap::Args;
use fumehood::Limits;
use fumehood::limits::{LimitError, parse_count, parse_duration};

use crate::config::amount::parse_size;
use crate::exit::UsageError;

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArguments {
    /// Maximum wall time of the call, such as `250ms` or `2s` [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_negative_numbers = true)]
    timeout: Option<Duration>,

    /// Maximum fuel of the call, about one unit per instruction, such as `500M` [default: 10G]
    #[arg(long, value_name = "COUNT", value_parser = parse_count, allow_negative_numbers = true)]
    fuel: Option<u64>,

    /// Maximum memory of the call, such as `128MiB` [default: 64MiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_size, allow_negative_numbers = true)]
    memory: Option<usize>,

    /// Maximum size of the result, such as `4MiB` [default: 1MiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_size, allow_negative_numbers = true)]
    max_output: Option<usize>,

    /// Maximum size of log lines, progress, stdout and stderr together [default: 256KiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_size, allow_negative_numbers = true)]
    max_log: Option<usize>,

    /// Maximum size of a single string in the arguments [default: 10KiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_size, allow_negative_numbers = true)]
    max_string: Option<usize>,
}

impl LimitArguments {
    /// Applies what was typed to `defaults`.
    ///
    /// # Errors
    /// If a limit is zero, or beyond what this host gives.
    pub(crate) fn over(&self, defaults: Limits, ceiling: usize) -> Result<Limits, LimitError> {
        let limits = Limits {
            deadline: self.timeout.unwrap_or(defaults.deadline),
            fuel: self.fuel.unwrap_or(defaults.fuel),
            memory: self.memory.unwrap_or(defaults.memory),
            output: self.max_output.unwrap_or(defaults.output),
            log: self.max_log.unwrap_or(defaults.log),
            string: self.max_string.or(defaults.string),
            ..defaults
        };
        limits.check(ceiling).map(|()| limits)
    }

    /// Returns the wall time of the call, if it was typed.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns whether a limit was typed that only the sandbox enforces.
    pub(crate) fn has_sandbox_limits(&self) -> bool {
        let Self { timeout: _, fuel, memory, max_output, max_log, max_string } = self;
        fuel.is_some() || [memory, max_output, max_log, max_string].into_iter().any(Option::is_some)
    }
}

/// Names the option of a limit that cannot be set.
pub(crate) fn name_limit_option(error: &LimitError) -> UsageError {
    let flag = match error {
        LimitError::Zero(what) | LimitError::TooMuch { what, .. } => match *what {
            "deadline" => "--timeout: ",
            "fuel" => "--fuel: ",
            "memory" => "--memory: ",
            "output" => "--max-output: ",
            "string" => "--max-string: ",
            _ => "",
        },
        LimitError::Duration(_) | LimitError::Bytes(_) | LimitError::Count(_) => "",
    };
    UsageError(format!("{flag}{error}"))
}
