//! Settings as JSON, with the name of the one that is wrong.

use serde::Deserializer;
use serde::de::DeserializeOwned;
use serde_json::Value;

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
    check_is_object(name, json)?;
    deserialize_setting(name, &mut serde_json::Deserializer::from_str(json))
}

/// Parses JSON settings without reading them.
pub(crate) fn parse_object(name: &str, json: &str) -> Result<Value, SettingError> {
    check_is_object(name, json)?;
    serde_json::from_str(json).map_err(|error| SettingError::new(name_of_whole(name), reason(&error)))
}

/// Reads settings from a deserializer.
pub(crate) fn deserialize_setting<'de, T, D>(name: &str, deserializer: D) -> Result<T, SettingError>
where
    T: DeserializeOwned,
    D: Deserializer<'de, Error = serde_json::Error>,
{
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let path = error.path().to_string();
        let setting = match (name, path.as_str()) {
            // A question mark is a place that has no name yet.
            (_, "." | "?") => name_of_whole(name).to_owned(),
            ("", _) => path,
            _ => format!("{name}.{path}"),
        };
        SettingError::new(setting, reason(error.inner()))
    })
}

/// Settings have names; without this check a list would be read as their values, in order.
fn check_is_object(name: &str, json: &str) -> Result<(), SettingError> {
    if json.trim_start().starts_with('{') {
        Ok(())
    } else {
        Err(SettingError::new(name_of_whole(name), "expected an object with settings"))
    }
}

fn name_of_whole(name: &str) -> &str {
    if name.is_empty() { "settings" } else { name }
}

/// The line and the column mean nothing to those who wrote a dictionary or an object.
fn reason(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.split(" at line ").next().unwrap_or(&message).to_owned()
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
