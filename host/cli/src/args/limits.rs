//! Limits of a call that were typed.

use fumehood::Limits;
use fumehood::limits::LimitError;
use fumehood_config::limits::LimitsSection;

use crate::exit::UsageError;

/// Applies the limits that were typed to `defaults`.
///
/// # Errors
/// If a limit is zero, or beyond `ceiling`, the memory that this host gives: with its option.
pub(crate) fn limits_over(typed: &LimitsSection, defaults: Limits, ceiling: usize) -> Result<Limits, UsageError> {
    let limits = typed.over(defaults);
    limits.check(ceiling).map(|()| limits).map_err(|error| name_option(&error))
}

/// Returns whether a limit was typed that only the sandbox enforces.
pub(crate) fn has_sandbox_limits(typed: &LimitsSection) -> bool {
    *typed != LimitsSection { deadline: typed.deadline, ..LimitsSection::default() }
}

/// Names the option of a limit that cannot be set.
fn name_option(error: &LimitError) -> UsageError {
    let flag = match error {
        LimitError::Zero(what) | LimitError::TooMuch { what, .. } => match *what {
            "deadline" => "--timeout: ",
            "fuel" => "--fuel: ",
            "memory" => "--memory: ",
            "output" => "--max-output: ",
            "string" => "--max-string: ",
            _ => "",
        },
        _ => "",
    };
    UsageError(format!("{flag}{error}"))
}
