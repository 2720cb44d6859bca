//! `[flows]`: labels of tools, and the consequence for calls that would send private data to the public.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A label of a source of data, or of a place where data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FlowLabelName {
    /// Only some may see it.
    Private,
    /// Anybody may see it.
    Public,
}

/// The calls that are judged together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FlowScopeName {
    /// All calls of a session.
    #[default]
    Session,
    /// The calls of a program by themselves.
    Program,
}

/// The consequence for a call that would send private data to the public.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FlowActionName {
    /// A person is asked.
    #[default]
    Ask,
    /// The call is refused.
    Deny,
}

/// Flows of private data to the public. They are checked if this section is there, or a label anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowsSection {
    /// The calls that are judged together: those of a "session" (usual), or with "program" those of each program by
    /// themselves, and direct calls by the whole session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) per: Option<FlowScopeName>,
    /// The consequence for a call that would send private data to the public: "ask" a person (usual; where nobody can be
    /// asked it is refused), or "deny".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<FlowActionName>,
    /// Labels of single tools, by their full names. They go before those of a component or server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) tools: BTreeMap<String, FlowLabelsSection>,
}

/// The labels of one tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowLabelsSection {
    /// The data that it returns: "private" or "public".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<FlowLabelName>,
    /// The place where its arguments go: "public" or "private".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sink: Option<FlowLabelName>,
}
