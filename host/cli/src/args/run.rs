//! Arguments of `fumehood run` and `fumehood chat`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fumehood::limits::{parse_count, parse_duration};
use serde::{Deserialize, Serialize};

use super::LimitArguments;
use super::log::Recording;
use super::sessions::parse_session_id;
use crate::config::model::Effort;
use crate::power_arguments::PowerArguments;

/// Exit codes of `run` and `chat`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    the model answered
  1    a tool ended the run, or tools failed too often
  2    the command line, the configuration or the script is wrong
  3    the configuration is not trusted
  4    a budget was exhausted, or the model asked for the same call again and again
  6    a component could not be loaded
  7    the host itself failed, or the event log could not be written
  8    the model gave no answer, or none that could be used
  11   calls wait for approval: answer them with `fumehood approve-call`, then go on with `run --resume`
  12   the model's answer is incomplete: it was cut, filtered, refused or paused, or it failed
  130  interrupted; a saved run goes on with `run --resume`";

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Task, in words; `-` reads it from standard input
    #[arg(required_unless_present = "resume")]
    pub(crate) task: Option<String>,

    /// Save the session under this new id in the event log, so that it can be resumed after any stop
    #[arg(long, value_name = "ID", value_parser = parse_session_id, conflicts_with = "resume")]
    pub(crate) session: Option<String>,

    /// Go on with this saved session, its model and its lists of tools: end the run that was under way, then do the task if
    /// there is one
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) resume: Option<String>,

    #[command(flatten)]
    pub(crate) agent: AgentArguments,
}

#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// Save the session under this id in the event log; if there is one, go on with it
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) session: Option<String>,

    #[command(flatten)]
    pub(crate) agent: AgentArguments,
}

/// Protocol between model and loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DriverName {
    /// Tool calls of the provider
    Native,
    /// One JSON decision in each answer
    React,
    /// Blocks of several calls in the text
    Batch,
}

impl DriverName {
    /// Returns the name of the protocol, as a saved session has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::React => "react",
            Self::Batch => "batch",
        }
    }

    /// Finds the protocol of this name, as a saved session has it.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        clap::ValueEnum::from_str(name, false).ok()
    }
}

/// Offer of programs that call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CodeName {
    /// Beside direct calls
    Beside,
    /// Instead of direct calls
    Only,
    /// No programs
    Off,
}

/// Way in which calls that need approval are decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ApproveName {
    /// Nobody is asked now; they wait for `fumehood approve-call`
    Defer,
    /// Nobody is asked; they are refused
    Refuse,
    /// A program is asked: questions are lines of --json, answers lines of standard input
    Json,
}

/// Tools that the model sees from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ListedTools {
    /// All that it may call
    All,
    /// Those that the configuration pins, and `search_tools` to find the others
    Search,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AgentArguments {
    /// Component whose tools the model may call, a `.wasm` file or `[NAME=]REFERENCE`, with the powers below; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) tool: Vec<PathBuf>,

    /// Tool that the model may call, by its full name such as `calculator__add`, and no others; repeatable
    #[arg(long, value_name = "TOOL", alias = "only")]
    pub(crate) allow: Vec<String>,

    /// Tool whose every call needs approval; repeatable
    #[arg(long, value_name = "TOOL")]
    pub(crate) ask: Vec<String>,

    /// Decision on calls that need approval [default: ask at the terminal; without one, a saved session waits and any other
    /// refuses]
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) approve: Option<ApproveName>,

    /// Tools that the model sees from the start [default: all]
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) tools: Option<ListedTools>,

    /// Compile components even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,

    #[command(flatten)]
    pub(crate) model: ModelArguments,

    /// Protocol between model and loop [default: native]
    #[arg(long, value_enum)]
    pub(crate) driver: Option<DriverName>,

    /// Let the model write programs in JavaScript that call tools, each call checked like a direct one
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "beside")]
    pub(crate) code: Option<CodeName>,

    #[command(flatten)]
    pub(crate) decisions: DecisionArguments,

    /// System prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// JSON Schema that the answer must match; it is printed as one line of JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,

    /// Skill of the configuration: its tools and no others
    #[arg(long, value_name = "NAME")]
    pub(crate) skill: Option<String>,

    /// Channel of the configuration: its tools and skills and no others
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<String>,

    /// Actor of the session; tools can read it
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,

    /// The agent's state, for tools that may read it: JSON, or `@FILE`
    #[arg(long, value_name = "JSON")]
    pub(crate) state: Option<String>,

    #[command(flatten)]
    pub(crate) budget: BudgetArguments,

    #[command(flatten)]
    pub(crate) limits: LimitArguments,

    #[command(flatten)]
    pub(crate) powers: PowerArguments,

    #[command(flatten)]
    pub(crate) recording: Recording,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DecisionArguments {
    /// Let the model decide about calls (`auto`), require them (`required`) or forbid them (`none`), or give the full name of the
    /// tool that it must call; with the driver `native` [default: auto]
    #[arg(long, value_name = "CHOICE")]
    pub(crate) tool_choice: Option<String>,

    /// Times in a row that the model is asked again after a reply that is no decision [default: 1 with the driver `native`,
    /// 2 with others]
    #[arg(long, value_name = "COUNT")]
    pub(crate) retries: Option<u32>,

    /// Model of the same provider for the final answer, in a request of its own; with the driver `react`
    #[arg(long, value_name = "NAME")]
    pub(crate) final_model: Option<String>,

    /// Skip the rest of a batch after a call that a hook blocks
    #[arg(long)]
    pub(crate) stop_on_block: bool,

    /// End the run at the first call that fails
    #[arg(long)]
    pub(crate) stop_on_failure: bool,
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArguments {
    /// Model, such as `ollama:llama3.2` or `openai:gpt-4o-mini` [default: $FUMEHOOD_MODEL]
    #[arg(long, value_name = "PROVIDER:NAME", conflicts_with = "script")]
    pub(crate) model: Option<String>,

    /// Base URL of the provider [default: its environment variable, or its own address]
    #[arg(long, value_name = "URL", conflicts_with = "script")]
    pub(crate) base_url: Option<String>,

    /// Script that answers instead of a model: JSON Lines, one reply each
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    /// Sampling temperature, from 0 to 2 [default: the model's own]
    #[arg(long, value_name = "NUMBER", value_parser = temperature)]
    pub(crate) temperature: Option<f64>,

    /// Tokens of one answer [default: as many as the model can]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: Option<u32>,

    /// Reasoning before an answer [default: as much as the model does by itself]
    #[arg(long, value_name = "LEVEL", value_enum)]
    pub(crate) reasoning_effort: Option<Effort>,

    /// Time until the first word of an answer: a local model loads and reads the prompt in it [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) first_token_time: Option<Duration>,
}

fn temperature(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=2.0).contains(number));
    number.ok_or_else(|| format!("`{text}` is no temperature; write a number from 0 to 2"))
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Budget")]
pub(crate) struct BudgetArguments {
    /// Maximum requests to the model for one message [default: 8]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,

    /// Maximum tool calls for one message, refused ones included [default: 25, or 125 with --code]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_calls: Option<u32>,

    /// Wall time for one message, everything included [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) wall: Option<Duration>,

    /// Time that the model may write for one message, from its first word on [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) stream_time: Option<Duration>,

    /// Tokens of all requests [default: 150k]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) tokens_in: Option<u64>,

    /// Tokens of all answers [default: 20k]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) tokens_out: Option<u64>,

    /// Fuel of all tools together [default: no limit]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) fuel_in_all: Option<u64>,
}
