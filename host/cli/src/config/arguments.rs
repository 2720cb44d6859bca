//! `[arguments]`: repairs of the arguments of models and MCP clients.

use std::collections::BTreeSet;

use fumehood::{DEFAULT_INJECTED, RepairPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arguments of models and MCP clients that do not fit the schema of a tool. What leaves nothing to guess is repaired: an
/// array or object that is written as a JSON text is parsed, `null` for an optional argument that does not take it is left out,
/// and so is what a client adds by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArgumentsSection {
    /// Repair nothing: arguments that do not fit are refused.
    #[serde(default)]
    pub(crate) strict: bool,
    /// Names of arguments that clients add by themselves. They are left out where a tool does not declare them, and would
    /// refuse them. Usually ["toolCallId", "sessionId", "action", "chatInput"], which n8n adds, and ["_sessionID"] of SiYuan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) injected: Option<BTreeSet<String>>,
}

impl ArgumentsSection {
    /// Returns the repairs; `None` if nothing is repaired.
    pub(crate) fn repairs(&self) -> Option<RepairPolicy> {
        if self.strict {
            return None;
        }
        Some(match &self.injected {
            Some(names) => RepairPolicy::new(names.iter().cloned()),
            None => RepairPolicy::new(DEFAULT_INJECTED),
        })
    }
}
