//! Sources of values and texts, and the secrets that requests get.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The source of a secret value. The value is never written in this file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ValueSource {
    /// The environment variable of this name.
    Env(String),
    /// This file, which only its owner can read, without the line break at its end. The path is relative to this
    /// configuration.
    File(PathBuf),
    /// The entry of this name in the user's keyring in the kernel. `keyctl padd user keyring:NAME@fumehood @u` puts it there.
    Keyring(String),
}

/// A secret that the host puts into requests. The tool itself never sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretSection {
    /// The name that the tool uses for it.
    pub(crate) name: String,
    /// The source of the value.
    pub(crate) from: ValueSource,
    /// The requests that get it, such as "https://api.example.com/**". They have to be allowed by `http` too.
    #[serde(rename = "for")]
    pub(crate) requests: String,
    /// The header that carries it, such as "Authorization". Either this or `query`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) header: Option<String>,
    /// The query parameter that carries it. Either this or `header`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) query: Option<String>,
    /// The text that is sent, with {secret} in place of the value, such as "Bearer {secret}". Usually "{secret}".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
}

/// A text: itself, or the file that has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum TextSource {
    /// The text itself.
    Here(String),
    /// The file that has it.
    InFile(TextFile),
}

/// The file that has the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextFile {
    /// The path is relative to this configuration.
    pub(crate) file: PathBuf,
}

struct EitherForm;

impl<'de> serde::de::Visitor<'de> for EitherForm {
    type Value = TextSource;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text, or a table with `file`")
    }

    fn visit_str<E>(self, text: &str) -> Result<TextSource, E> {
        Ok(TextSource::Here(text.to_owned()))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<TextSource, A::Error> {
        TextFile::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(TextSource::InFile)
    }
}

impl<'de> Deserialize<'de> for TextSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EitherForm)
    }
}
