//! Errors of settings, with the name of the one that is wrong.

use serde::de::DeserializeOwned;

use crate::host::BuildError;
use crate::lock::error::LockError;

/// Errors of settings, and of what they name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A setting is unknown, malformed or not possible.
    #[error("`{setting}`: {message}")]
    Setting {
        /// The path of the setting, such as `grants.http_limits.requests`.
        setting: String,
        /// The reason, and what is expected.
        message: String,
    },
    /// The folder for compiled code cannot be used.
    #[error("invalid `cache`")]
    Cache(#[source] fumehood_runtime::CacheError),
    /// The file with the keys and values of tools cannot be used.
    #[error("invalid `key_value_store`")]
    KeyValueStore(#[source] fumehood_storage::OpenError),
    /// The file with the approvals of components cannot be used.
    #[error("invalid `lock`")]
    Lock(#[source] LockError),
    /// The host cannot be built.
    #[error("cannot create the host")]
    Host(#[from] BuildError),
}

impl SettingsError {
    /// Creates the error of a setting.
    pub(super) fn setting(setting: impl Into<String>, message: impl ToString) -> Self {
        Self::Setting { setting: setting.into(), message: message.to_string() }
    }
}

/// Reads settings from JSON; `name` is that of the whole, for errors, or empty if its keys are known without it.
///
/// # Errors
/// If the text is not JSON of that type: the path of the setting, and the reason.
pub fn read_json<T: DeserializeOwned>(name: &str, json: &str) -> Result<T, SettingsError> {
    // Settings have names; without this a list would be read as their values, in order.
    if !json.trim_start().starts_with('{') {
        let setting = if name.is_empty() { "settings" } else { name };
        return Err(SettingsError::setting(setting.to_owned(), "expected an object with settings"));
    }
    let mut deserializer = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let setting = match (name, path.as_str()) {
            // A question mark is a place that has no name yet.
            ("", "." | "?") => "settings".to_owned(),
            ("", _) => path,
            (_, "." | "?") => name.to_owned(),
            _ => format!("{name}.{path}"),
        };
        let message = error.inner().to_string();
        // The line and the column mean nothing to those who wrote a dictionary or an object.
        SettingsError::setting(setting, message.split(" at line ").next().unwrap_or(&message))
    })
}

#[cfg(test)]
mod tests {
    use crate::settings::{LimitsSection, Powers, read_json};

    #[test]
    fn errors_name_the_setting() {
        check_message(r#"{"scratch": "much"}"#, "`grants.scratch`: invalid size `much`");
        check_message(r#"{"http_limits": {"requests": -1}}"#, "`grants.http_limits.requests`: ");
        check_message(
            r#"{"http_limits": {"request": 1}}"#,
            "`grants.http_limits.request`: unknown field `request`, expected",
        );
        check_message(r#"{"write": [{"folder": "."}]}"#, "`grants.write[0]`: missing field `guest`");
        check_message(
            r#"{"write": [5]}"#,
            "`grants.write[0]`: invalid type: integer `5`, expected a string \"HOST:GUEST\" or a table",
        );
        check_message(
            r#"{"secrets": [{"name": "a", "from": {"variable": "A"}, "for": "x"}]}"#,
            "`grants.secrets[0].from",
        );
        check_message(r#"{"env": {"A": 1}}"#, "`grants.env.A`: invalid type");
        check_message("[]", "`grants`: ");
        check_message("{", "`grants`: EOF");
        let error = read_json::<LimitsSection>("limits", r#"{"deadline": 2}"#).unwrap_err().to_string();
        assert!(error.starts_with("`limits.deadline`: invalid type: integer `2`"), "{error}");
    }

    fn check_message(json: &str, expected: &str) {
        let error = read_json::<Powers>("grants", json).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
