//! Texts of settings: written there, or in a file of their own.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A text, or a file with the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum TextSource {
    /// The text.
    Here(String),
    /// A file with the text.
    InFile(TextFile),
}

/// A file with a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextFile {
    /// The path of the file, relative to this configuration.
    pub file: PathBuf,
}

struct EitherForm;

impl<'de> serde::de::Visitor<'de> for EitherForm {
    type Value = TextSource;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string, or a table with `file`")
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
