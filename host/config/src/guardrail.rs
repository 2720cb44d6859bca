//! `[guardrails]`: rules about calls before they are made.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::{Bytes, Time};
use crate::text::TextSource;

/// Rules that are checked before a model's call runs.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardrailsSection {
    /// Folders. Paths in arguments must be below one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspace: Vec<String>,
    /// Arguments that hold paths, at any depth. Default: path, paths, file, directory, source and destination.
    pub path_arguments: Option<Vec<String>>,
    /// Lines as in a `.gitignore`: paths that no call may name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// A file with such lines, relative to this configuration.
    pub ignore_file: Option<PathBuf>,
    /// Maximum size of the arguments of one call. Default: 1MiB.
    pub argument_bytes: Option<Bytes>,
    /// Tools that need a person's approval for each call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// Tools that are never called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// A model that judges calls which no rule denied.
    pub judge: Option<JudgeSection>,
}

/// A model that judges calls which no rule denied. Only a clear yes allows a call. Its tokens count in the budget.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeSection {
    /// The policy in words: a text, or { file = "PATH" }.
    pub policy: TextSource,
    /// Another model of the same provider. Default: the answering model.
    pub model: Option<String>,
    /// Tools that are judged although they are marked read-only. Other read-only tools are not judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub always: Vec<String>,
    /// Tools that are never judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub never: Vec<String>,
    /// Let the judge change arguments.
    #[serde(default)]
    pub may_modify: bool,
    /// Without a clear verdict, ask the person at the terminal instead of denying the call.
    #[serde(default)]
    pub ask_in_doubt: bool,
    /// Maximum time to wait for a verdict. Default: 20s.
    pub timeout: Option<Time>,
}
