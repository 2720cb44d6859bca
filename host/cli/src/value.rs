//! Values that a configuration names and does not hold: where they are is for the library to know.

use std::path::Path;

use fumehood::SecretSource;

use crate::config::relative;
use crate::config::secret::ValueSource;

/// Service that entries of the keyring belong to.
const SERVICE: &str = "fumehood";

impl ValueSource {
    /// Names the place of the value for people: a variable, a file, an entry of the keyring.
    pub(crate) fn place(&self) -> String {
        // As JSON, so that where the name ends is never in doubt.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match self {
            Self::Env(name) => format!("the variable {}", quoted(name)),
            Self::File(path) => format!("the file {}", quoted(&path.to_string_lossy())),
            Self::Keyring(name) => format!("the keyring entry {}", quoted(name)),
        }
    }

    /// The value. Files are relative to `base`.
    ///
    /// # Errors
    /// If the value cannot be had: the place and the reason, in words. The value is never repeated.
    pub(crate) fn value(&self, base: &Path) -> Result<String, String> {
        let source = match self {
            Self::Env(name) => SecretSource::Env(name.clone()),
            Self::File(path) => SecretSource::File(relative::from(base, path)),
            Self::Keyring(name) => SecretSource::Keyring { service: SERVICE.to_owned(), user: name.clone() },
        };
        let value = source.read().map_err(|error| in_words(&error))?;
        Ok(value.expose().to_owned())
    }
}

/// The error, and what caused it.
fn in_words(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", in_words(cause)),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_value_is_read_or_its_lack_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str, mode: u32| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            ValueSource::File(name.into())
        };
        let check = |source: ValueSource, expected: &str| {
            let said = source.value(folder.path()).unwrap_or_else(|error| error);
            assert!(said.contains(expected), "{said}");
        };
        assert_eq!(put("token", "s3cret\r\n", 0o600).value(folder.path()), Ok("s3cret".to_owned()));
        check(put("open", "s3cret", 0o644), "run `chmod 600");
        check(put("empty", "", 0o600), "is no secret: the value of a secret has at least");
        check(ValueSource::File("absent".into()), "No such file");
        check(ValueSource::Env("FUMEHOOD_TEST_ABSENT".to_owned()), "is not set");
        check(ValueSource::Keyring("absent-from-tests".to_owned()), "keyring");
    }
}
