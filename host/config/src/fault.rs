//! Faults of a configuration, with their positions.

use std::fmt;
use std::path::PathBuf;

use crate::file::Config;
use crate::position::Position;

/// A path of keys, and the fault there.
pub type KeyFault = (Vec<String>, String);

/// Finds what is wrong with a configuration whose values are each well-formed.
pub type Check<'a> = &'a dyn Fn(&Config) -> Vec<KeyFault>;

/// Creates a fault at `keys` of the section at `section`.
#[must_use]
pub fn key_fault(section: &[&str], keys: &[&str], message: String) -> KeyFault {
    (section.iter().chain(keys).map(|key| (*key).to_owned()).collect(), message)
}

/// A fault with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The position in the text.
    pub at: Position,
    /// What is wrong, what was expected, and what to do.
    pub message: String,
}

/// The faults of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    /// The file.
    pub file: PathBuf,
    /// Never empty; in the order of the file.
    pub faults: Vec<Fault>,
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
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}; name the configuration with `--config FILE`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The path is that of a folder, a device or a pipe.
    #[error("{0} is not a regular file; expected a `fumehood.toml`")]
    NotAFile(PathBuf),
    /// The file is too large.
    #[error("{0} is larger than 1 MiB, the maximum size of a configuration")]
    TooLarge(PathBuf),
    /// The file is not UTF-8.
    #[error("{0} is not UTF-8 text; expected TOML")]
    NotText(PathBuf),
    /// Its text has faults.
    #[error("{0}")]
    Wrong(Faults),
}
