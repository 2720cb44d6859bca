//! `[guardrails]`: rules about calls before they are made.

use std::path::PathBuf;

use fumehood::settings::TextSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Time};

/// Rules about a model's calls before they are made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuardrailsSection {
    /// Paths in arguments have to be below one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) workspace: Vec<String>,
    /// Arguments that hold paths, at any depth. Usually path, paths, file, directory, source and destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path_arguments: Option<Vec<String>>,
    /// Lines as in a `.gitignore`: paths that no call may name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ignore: Vec<String>,
    /// A file with such lines. The path is relative to this configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ignore_file: Option<PathBuf>,
    /// Size of the arguments of one call. Usually 1MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) argument_bytes: Option<Bytes>,
    /// Tools that a person has to agree to, each time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ask: Vec<String>,
    /// Tools that are never called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) deny: Vec<String>,
    /// A model that judges calls which no rule has denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) judge: Option<JudgeSection>,
}

/// A model that judges calls which no rule has denied. Only a clear yes allows a call. What it uses counts in the
/// budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JudgeSection {
    /// The policy, in words, of what may be done and what must not be: a text, or { file = "…" }.
    pub(crate) policy: TextSource,
    /// Another model of the same provider. Usually the one that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Tools whose calls are judged even if they say that they only read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) always: Vec<String>,
    /// Tools whose calls are never judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) never: Vec<String>,
    /// Let it change arguments.
    #[serde(default)]
    pub(crate) may_modify: bool,
    /// Ask the person at the terminal where it gives no verdict, instead of denying the call.
    #[serde(default)]
    pub(crate) ask_in_doubt: bool,
    /// Time to wait for a verdict. Usually 20s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Time>,
}
