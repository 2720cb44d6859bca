//! Values of secrets, read from the sources that settings name.

use std::path::Path;

use fumehood_config::secret::{ValueSource, resolve};

use super::error::error_chain;
use crate::secrets::SecretSource;

/// Service that entries of the keyring belong to.
const KEYRING_SERVICE: &str = "fumehood";

/// Reads a value. Files are relative to `base`.
///
/// # Errors
/// If the value is not available: the source and the reason. The message never contains the value.
pub fn read_value(source: &ValueSource, base: &Path) -> Result<String, String> {
    let source = match source {
        ValueSource::Env(name) => SecretSource::Env(name.clone()),
        ValueSource::File(path) => SecretSource::File(resolve(base, path)),
        ValueSource::Keyring(name) => SecretSource::Keyring { service: KEYRING_SERVICE.to_owned(), user: name.clone() },
    };
    let value = source.read().map_err(|error| error_chain(&error))?;
    Ok(value.expose().to_owned())
}
