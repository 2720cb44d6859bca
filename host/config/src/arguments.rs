//! `[arguments]`: repairs of the arguments of models and MCP clients.

use std::collections::BTreeSet;

use fumehood_core::schema::gate::{DEFAULT_INJECTED, RepairPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Repairs of arguments from models and MCP clients that do not match the schema of a tool. Mistakes with only one
/// possible meaning are repaired: arrays and objects written as JSON text are parsed; `null` for an optional argument
/// that does not accept it is removed, and so are arguments that clients add by themselves.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArgumentsSection {
    /// Repair nothing, and refuse arguments that do not match.
    #[serde(default)]
    pub strict: bool,
    /// Names of arguments that clients add by themselves. They are removed for tools that do not declare them. Default:
    /// ["toolCallId", "sessionId", "action", "chatInput"] from n8n, and ["_sessionID"] from SiYuan.
    pub injected: Option<BTreeSet<String>>,
}

impl ArgumentsSection {
    /// Returns the repairs; `None` if nothing is repaired.
    pub fn repairs(&self) -> Option<RepairPolicy> {
        if self.strict {
            return None;
        }
        Some(match &self.injected {
            Some(names) => RepairPolicy::new(names.iter().cloned()),
            None => RepairPolicy::new(DEFAULT_INJECTED),
        })
    }
}
