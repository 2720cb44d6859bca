//! Faults of a configuration, with their positions.

use std::fmt;
use std::path::PathBuf;

use super::position::Position;

/// A path of keys, and the fault there.
pub(crate) type KeyFault = (Vec<String>, String);

/// Creates a fault at `keys` of the section at `section`.
pub(super) fn key_fault(section: &[&str], keys: &[&str], message: String) -> KeyFault {
    (section.iter().chain(keys).map(|key| (*key).to_owned()).collect(), message)
}

/// A fault with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: Position,
    pub(crate) message: String,
}

/// The faults of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) file: PathBuf,
    /// Never empty; in the order of the file.
    pub(crate) faults: Vec<Fault>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            let Position { line, column } = fault.at;
            write!(f, "{newline}{}:{line}:{column}: {}", self.file.display(), fault.message)?;
        }
        Ok(())
    }
}

/// The configuration cannot be used. Nothing of it was applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read {path}; name the configuration with `--config FILE`")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{0} is not a regular file; expected a `fumehood.toml`")]
    NotAFile(PathBuf),
    #[error("{0} is larger than 1 MiB, the maximum size of a configuration")]
    TooLarge(PathBuf),
    #[error("{0} is not UTF-8 text; expected TOML")]
    NotText(PathBuf),
    #[error("{0}")]
    Wrong(Faults),
}
