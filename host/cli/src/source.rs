//! Values that fumehood.toml names without holding them: secrets, and texts in files.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use crate::config::Config;
use crate::config::secret::ValueSource;
use crate::config::text::TextSource;
use crate::exit::UsageError;

/// More than this is no text for a model.
const MOST: u64 = 1 << 20;

/// A value that is never written in the configuration itself.
pub(crate) fn secret(config: &Config, source: &ValueSource, what: &str) -> Result<String> {
    Ok(source.value(config.folder()).map_err(|error| UsageError(format!("{what}: {error}")))?)
}

/// A text, wherever it is.
pub(crate) fn text(config: &Config, source: &TextSource) -> Result<String> {
    match source {
        TextSource::Here(text) => Ok(text.clone()),
        TextSource::InFile(file) => read(&config.path(&file.file), "a text of fumehood.toml"),
    }
}

/// The agent's state, as it was typed: JSON, or a file that has it.
///
/// # Errors
/// If it is not JSON, or the file cannot be read.
pub(crate) fn state(typed: &str) -> Result<Arc<str>> {
    let text = match typed.strip_prefix('@') {
        Some(file) => read(Path::new(file), "`--state`")?,
        None => typed.to_owned(),
    };
    let json: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| UsageError(format!("`--state` is not JSON: {error}; write JSON, or `@FILE`")))?;
    Ok(json.to_string().into())
}

/// A whole small file of text.
pub(crate) fn read(path: &Path, what: &str) -> Result<String> {
    let wrong = |why: String| UsageError(format!("{what}: {} {why}", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > MOST {
        return Err(wrong("is larger than 1 MiB".to_owned()).into());
    }
    Ok(String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8 text".to_owned()))?)
}
