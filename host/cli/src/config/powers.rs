//! Powers of a tool as a file has them, in the form that the command line has too.

use std::path::Path;

use fumehood::Grant;
pub(crate) use fumehood_config::powers::{PowerFault, Powers};
use fumehood_config::secret::Values;

/// Reads a table with the powers of `[tools.NAME]`.
///
/// # Errors
/// The first thing in it that is unknown.
pub(crate) fn powers_of_table(table: &toml::Table) -> Result<Powers, String> {
    table.clone().try_into().map_err(|error: toml::de::Error| format!("`grant`: {}", error.message()))
}

/// Builds the grant of powers. Folders and files are relative to `base`.
///
/// # Errors
/// Everything in it that cannot be granted.
pub(crate) fn grant_of_powers(powers: &Powers, base: &Path, values: Values<'_>) -> Result<Grant, String> {
    powers.grant(base, values).map_err(|faults| {
        let lines: Vec<String> =
            faults.iter().map(|fault| format!("`grant`: {}: {}", fault.key, fault.message)).collect();
        lines.join("; ")
    })
}
