//! Secrets of a grant, as they are written, and the sources of their values.

use std::path::{Path, PathBuf};

use fumehood_core::policy::permission::{Injection, Secret, SecretValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A function that reads the values of secrets when a grant is made.
pub type Values<'a> = &'a dyn Fn(&ValueSource) -> Result<String, String>;

/// The source of a secret value. The value is never written in this file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ValueSource {
    /// The environment variable of this name.
    Env(String),
    /// A file that only its owner can read, relative to this configuration. A line break at its end is removed.
    File(PathBuf),
    /// The entry of this name in the user's kernel keyring. `keyctl padd user keyring:NAME@fumehood @u` creates it.
    Keyring(String),
}

/// A secret that the host adds to requests. The tool never sees it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretSection {
    /// The name of the secret.
    pub name: String,
    /// The source of the value.
    pub from: ValueSource,
    /// The requests that get it, such as `https://api.example.com/**`. `http` must allow them too.
    #[serde(rename = "for")]
    pub requests: String,
    /// The header that carries it, such as "Authorization". Set either `header` or `query`.
    pub header: Option<String>,
    /// The query parameter that carries it. Set either `header` or `query`.
    pub query: Option<String>,
    /// The text to send, where {secret} stands for the value, such as "Bearer {secret}". Default: "{secret}".
    pub value: Option<String>,
}

/// Quotes a name as JSON, so that its end is never in doubt.
fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl ValueSource {
    /// Describes the source of the value for people: a variable, a file, an entry of the keyring.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Env(name) => format!("the variable {}", quote(name)),
            Self::File(path) => format!("the file {}", quote(&path.to_string_lossy())),
            Self::Keyring(name) => format!("the keyring entry {}", quote(name)),
        }
    }
}

impl SecretSection {
    /// Reads the secret; `values` reads its value.
    ///
    /// # Errors
    /// If it cannot be put into requests as written, or its value is not available.
    pub(crate) fn read(&self, values: Values<'_>) -> Result<Secret, String> {
        let template = self.value.as_deref().unwrap_or("{secret}");
        let into = match (&self.header, &self.query) {
            (Some(header), None) => Injection::header(header, template),
            (None, Some(_)) if self.value.is_some() => return Err("`value` works only with `header`".to_owned()),
            (None, Some(query)) => Injection::query(query),
            (None, None) | (Some(_), Some(_)) => {
                let name = &self.name;
                return Err(format!("the secret `{name}` needs one of: header = \"Authorization\", query = \"NAME\""));
            }
        };
        let into = into.map_err(|error| error.to_string())?;
        let value = values(&self.from).map_err(|error| format!("the secret `{}`: {error}", self.name))?;
        let value = SecretValue::new(value).map_err(|error| format!("the secret `{}`: {error}", self.name))?;
        Secret::new(&self.name, value, &self.requests, into).map_err(|error| error.to_string())
    }
}

/// Resolves a path that is written relative to `base`, so that it can be used from the working folder.
#[must_use]
pub fn resolve(base: &Path, path: &Path) -> PathBuf {
    if base == Path::new(".") { path.to_owned() } else { base.join(path) }
}
