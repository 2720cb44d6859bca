//! Finding the file and reading it.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::fault::ConfigError;
use super::file::Config;
use super::position::Position;
use super::{files, read};

/// What it is called where nothing else was named.
pub(crate) const DEFAULT_FILE_NAME: &str = "fumehood.toml";
/// More than this is no configuration.
const MOST_BYTES: u64 = 1 << 20;

impl Config {
    /// The empty configuration of a working folder without a file.
    pub(crate) fn none() -> Self {
        Self { origin: Self::place(None), ..Self::default() }
    }

    /// Where the configuration is that was named, or else the usual one; there need not be any.
    pub(crate) fn place(named: Option<&Path>) -> PathBuf {
        named.unwrap_or(Path::new(DEFAULT_FILE_NAME)).to_owned()
    }

    /// Where in its file something is, such as `fumehood.toml:8:9`; the file alone if that cannot be said any more.
    pub(crate) fn place_of(&self, keys: &[&str]) -> String {
        let file = self.origin.display();
        let found = text_of(&self.origin).ok().and_then(|text| read::place_of(&text, keys));
        found.map_or_else(|| file.to_string(), |Position { line, column }| format!("{file}:{line}:{column}"))
    }

    /// Reads the configuration in `file`, whether or not it is trusted: to check or to show it.
    ///
    /// # Errors
    /// If it cannot be read, or anything is wrong with it: then it says everything that is.
    pub(crate) fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::parse(file, &text_of(file)?)
    }

    /// The same, and opens the files and folders that it names: to check it on the machine that it is for.
    ///
    /// # Errors
    /// As [`Self::load`], or if any of them is missing or of another kind.
    pub(crate) fn load_with_files(file: &Path) -> Result<Self, ConfigError> {
        let text = text_of(file)?;
        let config = Self::parse(file, &text)?;
        match files::check(&config) {
            broken if broken.is_empty() => Ok(config),
            broken => Err(ConfigError::Wrong(read::placed(file, &text, broken))),
        }
    }

    /// The configuration that `text`, the content of `file`, stands for.
    ///
    /// # Errors
    /// If anything is wrong with it: then it says everything that is.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        read::read(file, text).map_err(ConfigError::Wrong)
    }
}

/// The content of a configuration.
///
/// # Errors
/// If it is not a regular file of text within the size of a configuration, or cannot be read.
pub(crate) fn text_of(path: &Path) -> Result<String, ConfigError> {
    let io = |source| ConfigError::Read { path: path.to_owned(), source };
    // Looked at before it is opened: opening a pipe would wait for somebody to write.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(ConfigError::NotAFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(io)?.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(ConfigError::TooLarge(path.to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| ConfigError::NotText(path.to_owned()))
}
