//! `[agent]`: settings of the loop between model and tools.

use std::num::NonZeroU32;
use std::path::PathBuf;

use fumehood::settings::TextSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Count, Time};

/// The protocol by which the model requests tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DriverName {
    /// By the provider's own tool calls.
    Native,
    /// By a JSON decision in each answer.
    React,
    /// By blocks of several calls in its text.
    Batch,
}

/// The offer of programs that call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum CodeSetting {
    /// Beside direct calls, or not at all.
    Switch(bool),
    /// Instead of direct calls.
    Only(OnlyCode),
}

/// The word for programs instead of direct calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnlyCode {
    /// The only word.
    Only,
}

struct SwitchOrWord;

impl serde::de::Visitor<'_> for SwitchOrWord {
    type Value = CodeSetting;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("true, false, or \"only\"")
    }

    fn visit_bool<E: serde::de::Error>(self, is_on: bool) -> Result<CodeSetting, E> {
        Ok(CodeSetting::Switch(is_on))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<CodeSetting, E> {
        match text {
            "only" => Ok(CodeSetting::Only(OnlyCode::Only)),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for CodeSetting {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SwitchOrWord)
    }
}

/// The tools that the model sees from the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ListedTools {
    /// All that it may call.
    #[default]
    All,
    /// The pinned ones, and `search_tools`, with which it finds the others.
    Search,
}

/// The fate of calls that need approval where nobody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApprovalSetting {
    /// They wait for an answer from elsewhere.
    Defer,
    /// They are refused.
    Refuse,
}

/// Settings of the loop between model and tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentSection {
    /// The protocol by which the model requests tool calls: "native" (usual), "react" or "batch".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) driver: Option<DriverName>,
    /// Programs in JavaScript that the model writes and that call tools, each call checked like a direct one: true, or
    /// "only" for no direct calls. Usually false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<CodeSetting>,
    /// The system prompt, about the model's role and behaviour: a text, or { file = "…" }.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system: Option<TextSource>,
    /// The skill in use when none is named: one of [skills].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) skill: Option<String>,
    /// The channel in use when none is named: one of [channels].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) channel: Option<String>,
    /// Size of what a request to the model repeats. Once there is more, the oldest results of calls are left out, and the
    /// model has `read_result` to read them. Usually there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<Bytes>,
    /// The tools that the model sees from the start: "all" that it may call (usual), or "search": the pinned ones, and
    /// `search_tools`, with which it finds the others. For many tools, whose definitions would take most of each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<ListedTools>,
    /// Tools that the model sees from the start with tools = "search", by their full names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pinned: Vec<String>,
    /// Tools that are always at hand, whatever the skill.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) auto_tools: Vec<String>,
    /// Arguments by which a model would choose on whose behalf a tool runs, such as ["user_id", "tenant_id"]: a tool of a
    /// component or server that has one is not used. Usually none, and such names are data like any other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) actor_arguments: Vec<String>,
    /// The file in which the model may keep notes of its own, those of each actor apart. Usually none, and it has no tools
    /// for that. The path is relative to this configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<PathBuf>,
    /// Budget of one session.
    #[serde(default)]
    pub(crate) budget: BudgetSection,
    /// Maximum number of tool calls of one answer that run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) concurrency: Option<NonZeroU32>,
    /// Make calls again that were under way when a saved session was stopped, if their tools say that they are read-only or
    /// idempotent. Usually false, and the model is told that they were interrupted.
    #[serde(default)]
    pub(crate) repeat_interrupted: bool,
    /// Calls that need approval where nobody can be asked: "defer" ends the run until `fumehood approve-call` answers,
    /// "refuse" tells the model that they are refused. Usually a saved session defers; any other can only refuse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) approval: Option<ApprovalSetting>,
    /// Usually each record is with the operating system before its call starts, and before the call is answered: it survives
    /// a killed process, and the last tenth of a second is lost with the machine. `true`: it is on disk, which takes
    /// milliseconds. `false`: it is in the memory of the process, and the newest records are lost with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) durable: Option<bool>,
    /// Ask the person at the terminal for more turns before ending for want of them. Usually true; without a terminal
    /// nobody is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ask_for_turns: Option<bool>,
    /// Driver "react": make the final answer with a request of its own, so that it is shown while it is written.
    #[serde(default)]
    pub(crate) separate_answer: bool,
    /// Driver "react": the model of that request, another one of the same provider. It makes `separate_answer` true. Usually
    /// the model that decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) final_model: Option<String>,
    /// Driver "native": whether the model may call tools ("auto", usual), must ("required"), or must not ("none"), or the
    /// full name of the tool that it must call. What it must do holds until its first call for each message of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<String>,
    /// Number of times in a row that the model is asked again after a reply that is no decision. Usually 1 with the driver
    /// "native", and 2 with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retries: Option<u32>,
    /// Skip the rest of a batch after a call that a hook blocks; the run goes on. The calls of a batch then run one after the
    /// other. Usually false.
    #[serde(default)]
    pub(crate) stop_on_block: bool,
    /// End the run at the first call that fails; the rest of its batch is skipped. The calls of a batch then run one after
    /// the other. Usually false, and the model is told.
    #[serde(default)]
    pub(crate) stop_on_failure: bool,
    /// Number of equal calls in a row after which the run ends. Usually 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) repetitions: Option<NonZeroU32>,
    /// Number of failed batches in a row after which the run ends. Usually 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed_batches: Option<NonZeroU32>,
}

/// Budget of one session. A limit that is left out has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BudgetSection {
    /// Requests to the model for one message of the user. Usually 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turns: Option<u32>,
    /// Tool calls for one message of the user, rejected ones included. Usually 25, and 125 with `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) calls: Option<u32>,
    /// Tool calls of the whole session. Usually 40, and 200 with `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) calls_in_all: Option<Count>,
    /// Time for one message of the user, everything included. Usually 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wall_time: Option<Time>,
    /// Time that the model may spend writing for one message of the user, from the first word of each answer. Usually 60s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stream_time: Option<Time>,
    /// Tokens of all requests. Usually 150k.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens_in: Option<Count>,
    /// Tokens of all answers. Usually 20k.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens_out: Option<Count>,
    /// Fuel of all tools. Usually not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fuel: Option<Count>,
}
