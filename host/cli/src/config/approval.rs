//! `[approval]`: whose approvals in the lock count beside this user's own.

use fumehood_registry::signature::PublicKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::KeyFault;
use super::file::Config;

/// Approvals by other people that count like your own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalSection {
    /// Public keys: PEM, or its base64 alone. Approvals in the lock that one of these keys signed count. Default: none.
    /// Files are not accepted, because you trust only the text of this configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) keys: Vec<String>,
}

impl ApprovalSection {
    /// Returns the keys. Malformed keys were rejected when the file was read.
    pub(crate) fn public_keys(&self) -> Vec<PublicKey> {
        self.keys.iter().filter_map(|key| key.parse().ok()).collect()
    }
}

/// Adds the faults of the section.
pub(super) fn check(faults: &mut Vec<KeyFault>, config: &Config) {
    for (index, key) in config.approval.keys.iter().enumerate() {
        if let Err(error) = key.parse::<PublicKey>() {
            faults.push((vec!["approval".to_owned(), "keys".to_owned(), index.to_string()], error.to_string()));
        }
    }
}
