//! Arguments of `fumehood run` and `fumehood chat`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fumehood::limits::parse_duration;
pub(crate) use fumehood_config::agent::{BudgetSection, DriverName, ListedTools};
use fumehood_config::limits::LimitsSection;
use serde::{Deserialize, Serialize};

use super::log::Recording;
use super::sessions::parse_session_id;
use crate::config::model::Effort;
use crate::power_arguments::PowerArguments;

/// Exit codes of `run` and `chat`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    the model answered
  1    a tool ended the run, or tools failed too often
  2    invalid command line, configuration or script
  3    untrusted configuration
  4    a budget was used up, or the model repeated the same call too often
  6    a component could not be loaded
  7    the host failed, or the event log could not be written
  8    the model gave no usable answer
  11   calls are waiting for approval: answer them with `fumehood approve-call`, then use `run --resume`
  12   the model's answer is incomplete: cut, filtered, refused, paused or failed
  130  interrupted; resume a saved session with `run --resume`";

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Task for the model; `-` reads it from standard input
    #[arg(required_unless_present = "resume")]
    pub(crate) task: Option<String>,

    /// Save the session under this new id, so that you can resume it
    #[arg(long, value_name = "ID", value_parser = parse_session_id, conflicts_with = "resume")]
    pub(crate) session: Option<String>,

    /// Resume this saved session with its model and tools: finish the interrupted run, then do the task, if given
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) resume: Option<String>,

    #[command(flatten)]
    pub(crate) agent: AgentArguments,
}

#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// Save the session under this id, or resume it if it exists
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) session: Option<String>,

    #[command(flatten)]
    pub(crate) agent: AgentArguments,
}

/// Availability of programs that call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CodeName {
    /// In addition to direct calls
    Beside,
    /// Instead of direct calls
    Only,
    /// No programs
    Off,
}

/// Handling of calls that need approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ApproveName {
    /// Let them wait for `fumehood approve-call`
    Defer,
    /// Refuse them
    Refuse,
    /// Ask a program: questions are lines of the --json output, answers are lines of standard input
    Json,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AgentArguments {
    /// Component whose tools the model may call, with the powers below: a `.wasm` file or `[NAME=]REFERENCE`;
    /// repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) tool: Vec<PathBuf>,

    /// Allow only this tool, by its full name such as `calculator__add`; repeatable
    #[arg(long, value_name = "TOOL", alias = "only")]
    pub(crate) allow: Vec<String>,

    /// Require approval for each call of this tool; repeatable
    #[arg(long, value_name = "TOOL")]
    pub(crate) ask: Vec<String>,

    /// Handling of calls that need approval [default: ask at the terminal; without a terminal, saved sessions wait and
    /// others refuse]
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

    /// Let the model write JavaScript programs that call tools; each call is checked like a direct call
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "beside")]
    pub(crate) code: Option<CodeName>,

    #[command(flatten)]
    pub(crate) decisions: DecisionArguments,

    /// System prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// File with a JSON Schema that the answer must match; the answer is printed as one line of JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,

    /// Skill of the configuration; only its tools are available
    #[arg(long, value_name = "NAME")]
    pub(crate) skill: Option<String>,

    /// Channel of the configuration; only its tools and skills are available
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<String>,

    /// Actor of the session, which tools can read
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,

    /// Agent state for tools that may read it: JSON, or `@FILE`
    #[arg(long, value_name = "JSON")]
    pub(crate) state: Option<String>,

    #[command(flatten)]
    pub(crate) budget: BudgetSection,

    #[command(flatten)]
    pub(crate) limits: LimitsSection,

    #[command(flatten)]
    pub(crate) powers: PowerArguments,

    #[command(flatten)]
    pub(crate) recording: Recording,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DecisionArguments {
    /// Driver `native`: let the model decide about calls (`auto`), require them (`required`), forbid them (`none`), or
    /// name the tool that it must call [default: auto]
    #[arg(long, value_name = "CHOICE")]
    pub(crate) tool_choice: Option<String>,

    /// Retries in a row after a reply without a valid decision [default: 1 with the driver `native`, 2 with others]
    #[arg(long, value_name = "COUNT")]
    pub(crate) retries: Option<u32>,

    /// Driver `react`: another model of the same provider for the final answer, in a separate request
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

    /// Base URL of the provider [default: its environment variable, or its public address]
    #[arg(long, value_name = "URL", conflicts_with = "script")]
    pub(crate) base_url: Option<String>,

    /// Script that replaces the model: JSON Lines, one reply per line
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    /// Sampling temperature, from 0 to 2 [default: the model's own]
    #[arg(long, value_name = "NUMBER", value_parser = temperature)]
    pub(crate) temperature: Option<f64>,

    /// Maximum tokens of one answer [default: the model's maximum]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: Option<u32>,

    /// Amount of reasoning before an answer [default: the model's own]
    #[arg(long, value_name = "LEVEL", value_enum)]
    pub(crate) reasoning_effort: Option<Effort>,

    /// Maximum time until the first word of an answer; a local model loads in this time [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) first_token_time: Option<Duration>,
}

fn temperature(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=2.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 2".to_owned())
}
