//! Location and reading of the file.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::fault::{Check, ConfigError, KeyFault};
use crate::file::Config;
use crate::position::Position;
use crate::{files, read};

/// Name of the file where no other one is named.
pub const DEFAULT_FILE_NAME: &str = "fumehood.toml";
/// Maximum size of a configuration, in bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

impl Config {
    /// Returns the empty configuration of a working folder without a file.
    pub fn none() -> Self {
        Self { origin: Self::place(None), ..Self::default() }
    }

    /// Returns the path of the configuration that was named, or else the default. The file need not exist.
    pub fn place(named: Option<&Path>) -> PathBuf {
        named.unwrap_or(Path::new(DEFAULT_FILE_NAME)).to_owned()
    }

    /// Returns the place of a key, such as `fumehood.toml:8:9`; the file alone if the place is not known any more.
    pub fn place_of(&self, keys: &[&str]) -> String {
        let file = self.origin.display();
        let found = text_of(&self.origin).ok().and_then(|text| read::place_of(&text, keys));
        found.map_or_else(|| file.to_string(), |Position { line, column }| format!("{file}:{line}:{column}"))
    }

    /// Reads the configuration in `file`, whether or not it is trusted: to check or to show it.
    ///
    /// # Errors
    /// If it cannot be read, or has faults: the error lists all of them.
    pub fn load(file: &Path, check: Check<'_>) -> Result<Self, ConfigError> {
        Self::parse(file, &text_of(file)?, check)
    }

    /// Like [`Self::load`], and opens the files and folders that it names, to check it on the machine that it is for.
    ///
    /// # Errors
    /// Like [`Self::load`], or if any of them is missing or of another kind.
    pub fn load_with_files(file: &Path, check: Check<'_>) -> Result<Self, ConfigError> {
        let text = text_of(file)?;
        let config = Self::parse(file, &text, check)?;
        match files::check(&config) {
            faults if faults.is_empty() => Ok(config),
            faults => Err(ConfigError::Wrong(read::locate(file, &text, faults))),
        }
    }

    /// Returns an error with these faults, each with its place in the file. Does nothing if there are none.
    ///
    /// # Errors
    /// If there are any, or the file cannot be read again.
    pub fn reject(&self, faults: Vec<KeyFault>) -> Result<(), ConfigError> {
        if faults.is_empty() {
            return Ok(());
        }
        Err(ConfigError::Wrong(read::locate(&self.origin, &text_of(&self.origin)?, faults)))
    }

    /// Parses `text`, the content of `file`. `check` adds faults that only the program knows.
    ///
    /// # Errors
    /// If it has faults: the error lists all of them.
    pub fn parse(file: &Path, text: &str, check: Check<'_>) -> Result<Self, ConfigError> {
        read::read(file, text, check).map_err(ConfigError::Wrong)
    }
}

/// Reads the text of a configuration.
///
/// # Errors
/// If it is not a regular file of UTF-8 text of at most 1 MiB, or cannot be read.
pub fn text_of(path: &Path) -> Result<String, ConfigError> {
    let io = |source| ConfigError::Read { path: path.to_owned(), source };
    // The kind is checked before, because opening a pipe would wait for a writer.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(ConfigError::NotAFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(io)?.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_CONFIG_BYTES {
        return Err(ConfigError::TooLarge(path.to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| ConfigError::NotText(path.to_owned()))
}
