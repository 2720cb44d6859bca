//! `[agent]`: settings of the loop between model and tools.

use std::num::NonZeroU32;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::{Bytes, Count, Time};
use crate::text::TextSource;

/// The form in which the model requests tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum DriverName {
    /// The provider's tool calls.
    #[cfg_attr(feature = "clap", value(help = "Tool calls of the provider"))]
    Native,
    /// One JSON decision per answer.
    #[cfg_attr(feature = "clap", value(help = "One JSON decision in each answer"))]
    React,
    /// Blocks of several calls in the text.
    Batch,
}

impl DriverName {
    /// Returns the name of the protocol, as a saved session has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::React => "react",
            Self::Batch => "batch",
        }
    }
}

/// Programs that the model writes and that call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected true, false, or \"only\"")]
pub enum CodeSetting {
    /// True: in addition to direct calls. False: no programs.
    Switch(bool),
    /// Instead of direct calls.
    Only(OnlyCode),
}

/// Programs instead of direct calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnlyCode {
    /// Programs instead of direct calls.
    Only,
}

/// The tools that the model sees from the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum ListedTools {
    /// All tools that it may call.
    #[default]
    All,
    /// The pinned tools, and `search_tools` to find others.
    #[cfg_attr(
        feature = "clap",
        value(help = "Tools that the configuration pins, and `search_tools` to find the others")
    )]
    Search,
}

/// Handling of calls that need approval while no person can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalSetting {
    /// They wait for `fumehood approve-call`.
    Defer,
    /// They are refused.
    Refuse,
}

/// The loop between model and tools.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSection {
    /// The form in which the model requests tool calls. "native" (default): the provider's tool calls. "react": one
    /// JSON decision per answer. "batch": blocks of several calls.
    pub driver: Option<DriverName>,
    /// JavaScript programs that the model writes and that call tools: true, or "only" to disable direct calls. Each
    /// call is checked like a direct call. Default: false.
    pub code: Option<CodeSetting>,
    /// The system prompt: a text, or { file = "PATH" }.
    pub system: Option<TextSource>,
    /// The default skill, from [skills].
    pub skill: Option<String>,
    /// The default channel, from [channels].
    pub channel: Option<String>,
    /// Maximum size of the history in a request. Above it, the oldest results are left out, and the model can read them
    /// with `read_result`. Default: no limit.
    pub context: Option<Bytes>,
    /// The tools that the model sees from the start. "all" (default): every tool that it may call. "search": the pinned
    /// tools, and `search_tools` to find others. Use "search" if the definitions of many tools would fill most of each
    /// request.
    pub tools: Option<ListedTools>,
    /// Full names of tools that the model sees from the start with tools = "search".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<String>,
    /// Tools that are available in every skill.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auto_tools: Vec<String>,
    /// Arguments that would let a model choose on whose behalf a tool runs, such as ["user_id", "tenant_id"]. A tool
    /// with such an argument is not used. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actor_arguments: Vec<String>,
    /// A file for the model's notes, relative to this configuration. The model gets the tools memory_read, memory_write
    /// and memory_search. Each actor has separate notes. Default: none.
    pub memory: Option<PathBuf>,
    /// Budget of one session.
    #[serde(default)]
    pub budget: BudgetSection,
    /// Maximum number of concurrent calls of one answer. Default: 16.
    pub concurrency: Option<NonZeroU32>,
    /// After a saved session was stopped, repeat its interrupted calls if the tools are read-only or idempotent.
    /// Default: false, and the model learns that they were interrupted.
    #[serde(default)]
    pub repeat_interrupted: bool,
    /// Calls that need approval while no person can be asked. "defer": they wait for `fumehood approve-call`. "refuse":
    /// they are refused. Default: saved sessions defer. Other sessions can only refuse.
    pub approval: Option<ApprovalSetting>,
    /// Durability of records. Default: each record survives a killed process before its call starts, and before the
    /// call is answered; a power failure may lose the last tenth of a second. `true`: each record waits for the disk,
    /// which takes milliseconds. `false`: calls wait for no record, and a killed process loses the newest.
    pub durable: Option<bool>,
    /// When requests to the model are used up, ask the person at the terminal for more. Default: true.
    pub ask_for_turns: Option<bool>,
    /// Driver "react": make the final answer in a separate request, and show it while it is written.
    #[serde(default)]
    pub separate_answer: bool,
    /// Driver "react": another model of the same provider for that request. Implies `separate_answer`. Default: the
    /// same model.
    pub final_model: Option<String>,
    /// Driver "native": "auto" (default), "required", "none", or the full name of the tool that the model must call. A
    /// requirement ends with the first call after each message of the user.
    pub tool_choice: Option<String>,
    /// Retries in a row after a reply without a valid decision. Default: 1 with "native", 2 with other drivers.
    pub retries: Option<u32>,
    /// Skip the rest of a batch after a call that a hook blocks. The calls of a batch then run one after the other.
    /// Default: false.
    #[serde(default)]
    pub stop_on_block: bool,
    /// End the run at the first call that fails, and skip the rest of its batch. The calls of a batch then run one
    /// after the other. Default: false.
    #[serde(default)]
    pub stop_on_failure: bool,
    /// End the run after this many equal calls in a row. Default: 3.
    pub repetitions: Option<NonZeroU32>,
    /// End the run after this many failed batches in a row. Default: 3.
    pub failed_batches: Option<NonZeroU32>,
}

/// Budget of one session. A limit that is left out has its default.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Budget"))]
#[serde(deny_unknown_fields)]
pub struct BudgetSection {
    /// Maximum requests to the model per message of the user. Default: 8.
    #[cfg_attr(
        feature = "clap",
        arg(
            long = "max-turns",
            value_name = "COUNT",
            value_parser = clap::value_parser!(u32).range(1..)
        )
    )]
    pub turns: Option<u32>,
    /// Maximum tool calls per message of the user, including refused calls. Default: 25, and 125 with `code`.
    #[cfg_attr(feature = "clap", arg(long = "max-calls", value_name = "COUNT"))]
    pub calls: Option<u32>,
    /// Maximum tool calls of the whole session. Default: 40, and 200 with `code`.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub calls_in_all: Option<Count>,
    /// Maximum total time per message of the user. Default: 10m.
    #[cfg_attr(feature = "clap", arg(long = "wall", value_name = "TIME"))]
    pub wall_time: Option<Time>,
    /// Maximum time per message of the user in which the model writes, from the first word of each answer. Default:
    /// 60s.
    #[cfg_attr(feature = "clap", arg(long = "stream-time", value_name = "TIME"))]
    pub stream_time: Option<Time>,
    /// Maximum tokens of all requests. Default: 150k.
    #[cfg_attr(feature = "clap", arg(long = "tokens-in", value_name = "COUNT"))]
    pub tokens_in: Option<Count>,
    /// Maximum tokens of all answers. Default: 20k.
    #[cfg_attr(feature = "clap", arg(long = "tokens-out", value_name = "COUNT"))]
    pub tokens_out: Option<Count>,
    /// Maximum fuel of all tools. Default: no limit.
    #[cfg_attr(feature = "clap", arg(long = "fuel-in-all", value_name = "COUNT"))]
    pub fuel: Option<Count>,
}
