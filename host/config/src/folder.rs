//! Folders of a grant, as they are written.

use fumehood_core::policy::permission::GrantError;
use fumehood_core::policy::permission::files::{Access, Folder, Quota};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::{Bytes, Count};

/// A folder that may be changed, with its quotas.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFolderTable {
    /// The folder on this machine, relative to this configuration.
    pub folder: String,
    /// The path at which the tool sees it, such as "/out".
    pub guest: String,
    /// Maximum number of bytes that tools may add.
    pub bytes: Option<Bytes>,
    /// Maximum number of files and folders that tools may add.
    pub entries: Option<Count>,
}

/// A folder that may be changed: "HOST:GUEST", or a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WriteFolder {
    /// "HOST:GUEST", with the default quotas.
    Text(String),
    /// A table, with quotas.
    Table(WriteFolderTable),
}

/// A visitor for either form. Unlike the one that serde derives, it reports what is wrong with a table.
struct EitherForm;

impl<'de> serde::de::Visitor<'de> for EitherForm {
    type Value = WriteFolder;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string \"HOST:GUEST\" or a table with `folder` and `guest`")
    }

    fn visit_str<E>(self, text: &str) -> Result<WriteFolder, E> {
        Ok(WriteFolder::Text(text.to_owned()))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<WriteFolder, A::Error> {
        WriteFolderTable::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(WriteFolder::Table)
    }
}

impl<'de> Deserialize<'de> for WriteFolder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EitherForm)
    }
}

impl WriteFolder {
    /// Returns the path at which the tool sees the folder; `None` if the text has none.
    #[must_use]
    pub fn guest(&self) -> Option<&str> {
        match self {
            Self::Text(text) => text.rsplit_once(':').map(|(_, guest)| guest),
            Self::Table(table) => Some(&table.guest),
        }
    }

    /// Returns the folder, as it is written: its path may be relative.
    ///
    /// # Errors
    /// If a path or a quota cannot be used.
    pub fn to_folder(&self) -> Result<Folder, GrantError> {
        match self {
            Self::Text(text) => Folder::write(text),
            Self::Table(WriteFolderTable { folder, guest, bytes, entries }) => {
                let bytes = bytes.map_or(Quota::DEFAULT_BYTES, |bytes| bytes.0 as u64);
                let quota = Quota::new(bytes, entries.map_or(Quota::DEFAULT_ENTRIES, |entries| entries.0))?;
                Folder::new(folder, guest, Access::Write(quota))
            }
        }
    }
}
