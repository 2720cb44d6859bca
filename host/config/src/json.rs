//! Settings as JSON, with the name of the one that is wrong.

use serde::de::DeserializeOwned;

/// A setting that is unknown, malformed or not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{setting}`: {message}")]
pub struct SettingError {
    /// The path of the setting, such as `grants.http_limits.requests`.
    pub setting: String,
    /// The reason, and what is expected.
    pub message: String,
}

impl SettingError {
    /// Creates the error of a setting.
    pub fn new(setting: impl Into<String>, message: impl ToString) -> Self {
        Self { setting: setting.into(), message: message.to_string() }
    }
}

/// Reads settings from JSON; `name` is that of the whole, for errors, or empty if its keys are known without it.
///
/// # Errors
/// If the text is not JSON of that type: the path of the setting, and the reason.
pub fn read_json<T: DeserializeOwned>(name: &str, json: &str) -> Result<T, SettingError> {
    // Settings have names; without this a list would be read as their values, in order.
    if !json.trim_start().starts_with('{') {
        let setting = if name.is_empty() { "settings" } else { name };
        return Err(SettingError::new(setting.to_owned(), "expected an object with settings"));
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
        SettingError::new(setting, message.split(" at line ").next().unwrap_or(&message))
    })
}

#[cfg(test)]
mod tests {
    use crate::json::read_json;
    use crate::limits::LimitsSection;
    use crate::powers::Powers;

    #[test]
    fn errors_name_the_setting() {
        let check = |json: &str, expected: &str| {
            let error = read_json::<Powers>("grants", json).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        };
        check(r#"{"scratch": "much"}"#, "`grants.scratch`: invalid size `much`");
        check(r#"{"http_limits": {"requests": -1}}"#, "`grants.http_limits.requests`: ");
        check(r#"{"http_limits": {"request": 1}}"#, "`grants.http_limits.request`: unknown field `request`, expected");
        check(r#"{"write": [{"folder": "."}]}"#, "`grants.write[0]`: missing field `guest`");
        check(
            r#"{"write": [5]}"#,
            "`grants.write[0]`: invalid type: integer `5`, expected a string \"HOST:GUEST\" or a table",
        );
        check(r#"{"secrets": [{"name": "a", "from": {"variable": "A"}, "for": "x"}]}"#, "`grants.secrets[0].from");
        check(r#"{"env": {"A": 1}}"#, "`grants.env.A`: invalid type");
        check("[]", "`grants`: ");
        check("{", "`grants`: EOF");
        let error = read_json::<LimitsSection>("limits", r#"{"deadline": 2}"#).unwrap_err().to_string();
        assert!(error.starts_with("`limits.deadline`: invalid type: integer `2`"), "{error}");
    }
}
