//! The `[storage]` section: a PostgreSQL server.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::secret::ValueSource;

/// A PostgreSQL server for the event log, saved sessions, and data of tools with `key_value`. It replaces files on this
/// machine. Several gateways can share one.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageSection {
    /// The URL of the database, such as "postgres://fumehood@db.example/fumehood". Connections to other machines are
    /// encrypted.
    pub url: String,
    /// The source of the password, unless the URL has one.
    pub password: Option<ValueSource>,
    /// Certificates in PEM that verify the server. Default: the system's.
    pub tls_roots: Option<PathBuf>,
    /// Allow unencrypted connections to another machine.
    #[serde(default)]
    pub unencrypted: bool,
}
