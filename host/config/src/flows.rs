//! `[flows]`: labels of tools, and the consequence for calls that would send private data to the public.

use std::collections::BTreeMap;

use fumehood_core::flow::{FlowLabel, FlowLabels};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A label of a tool's results (`source`) or arguments (`sink`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowLabelName {
    /// Not everybody may see the data.
    Private,
    /// Everybody may see the data.
    Public,
}

/// The calls that are judged together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowScopeName {
    /// All calls of a session.
    #[default]
    Session,
    /// The calls of a program by themselves.
    Program,
}

/// The action for a call that would send private data to the public.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowActionName {
    /// Ask a person.
    #[default]
    Ask,
    /// Refuse the call.
    Deny,
}

/// Rules that keep private data from public tools. They apply if this section or any label exists.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowsSection {
    /// The calls that are judged together. "session" (default): each call is judged with all calls of its session.
    /// "program": calls of a program are judged by themselves.
    pub per: Option<FlowScopeName>,
    /// The action for a call that would send private data to the public: "ask" a person (default), or "deny". Calls are
    /// denied while no person can be asked.
    pub action: Option<FlowActionName>,
    /// Labels of single tools, by their full names. They override the labels of the component or server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, FlowLabelsSection>,
}

/// The labels of one tool.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowLabelsSection {
    /// The data that it returns: "private" or "public".
    pub source: Option<FlowLabelName>,
    /// The place where its arguments go: "public" or "private".
    pub sink: Option<FlowLabelName>,
}

impl FlowLabelsSection {
    /// Creates the labels.
    #[must_use]
    pub fn new(source: Option<FlowLabelName>, sink: Option<FlowLabelName>) -> Self {
        Self { source, sink }
    }

    /// Returns whether there is a label.
    #[must_use]
    pub fn has_any(self) -> bool {
        self.source.is_some() || self.sink.is_some()
    }

    /// Returns the labels as a policy has them.
    #[must_use]
    pub fn labels(self) -> FlowLabels {
        FlowLabels { source: self.source.map(FlowLabel::from), sink: self.sink.map(FlowLabel::from) }
    }
}

impl From<FlowLabelName> for FlowLabel {
    fn from(name: FlowLabelName) -> Self {
        match name {
            FlowLabelName::Private => Self::Private,
            FlowLabelName::Public => Self::Public,
        }
    }
}
