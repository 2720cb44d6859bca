//! `[approval]`: whose approvals in the lock count beside this user's own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Approvals by other people that count like your own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalSection {
    /// Public keys: PEM, or its base64 alone. Approvals in the lock that one of these keys signed count. Default: none.
    /// Files are not accepted, because you trust only the text of this configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}
