//! `[log]`: the record of what happened.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::{Count, Time};
use super::secret::ValueSource;

/// The record of what happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSection {
    /// The database. The path is relative to this configuration. Usually in the user's state folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<PathBuf>,
    /// Keep no record at all.
    #[serde(default)]
    pub(crate) off: bool,
    /// The source of the key that seals the record: 64 hexadecimal digits. Usually a file beside the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<ValueSource>,
    /// Age above which records are removed when a session ends, such as "90days". Usually none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<Time>,
    /// Number of the newest rows that are kept when a session ends. Usually all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep_rows: Option<Count>,
    /// Keep what the model is told and what it says, too. Arguments and results of calls are in the records of the calls
    /// alone.
    #[serde(default)]
    pub(crate) texts: bool,
}
