//! What can be typed after `fumehood run` and `fumehood chat`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fumehood::limits::{parse_count, parse_duration};

use super::LimitArguments;
use super::log::Recording;
use crate::config::model::Effort;
use crate::power_arguments::PowerArguments;

/// What the exit codes of these two mean.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    the model answered
  1    a tool ended the run, or tools failed too often
  2    the command line, the configuration or the script is wrong
  3    the configuration is not trusted
  4    a budget was exhausted, or the model asked for the same call again and again
  6    a component could not be loaded
  7    the host itself failed, or what happened could not be recorded
  8    the model gave no answer, or none that could be used
  130  interrupted";

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What to do, in words; `-` reads it from standard input
    pub(crate) task: String,

    #[command(flatten)]
    pub(crate) agent: AgentArguments,
}

#[derive(Debug, Args)]
pub(crate) struct Chat {
    #[command(flatten)]
    pub(crate) agent: AgentArguments,
}

/// How the model says what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DriverName {
    /// By the provider's own tool calls
    Native,
    /// By a JSON decision in each answer
    React,
    /// By blocks of several calls in its text
    Batch,
}

#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// A component whose tools the model may call, a `.wasm` file; may be given again. What it may do is said under
    /// Powers, for all that are named so
    #[arg(long, value_name = "FILE")]
    pub(crate) tool: Vec<PathBuf>,

    /// Let it call these tools only, by their full names such as `calculator__add`; may be given again [default: all]
    #[arg(long, value_name = "TOOL", alias = "only")]
    pub(crate) allow: Vec<String>,

    /// Ask here before each call of this tool; without a terminal such calls are refused; may be given again
    #[arg(long, value_name = "TOOL")]
    pub(crate) ask: Vec<String>,

    /// Compile components even if that takes many seconds
    #[arg(long)]
    pub(crate) allow_slow_compile: bool,

    #[command(flatten)]
    pub(crate) model: ModelArguments,

    /// How the model says what it wants [default: native]
    #[arg(long, value_enum)]
    pub(crate) driver: Option<DriverName>,

    /// Who the model is and how it should behave
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Use this skill of the configuration: its tools and no others
    #[arg(long, value_name = "NAME")]
    pub(crate) skill: Option<String>,

    /// Use this channel of the configuration: what can be used there and nothing else
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<String>,

    /// On whose behalf; tools can read it
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

#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArguments {
    /// Who answers, such as `ollama:llama3.2` or `openai:gpt-4o-mini` [default: what FUMEHOOD_MODEL says]
    #[arg(long, value_name = "PROVIDER:NAME", conflicts_with = "script")]
    pub(crate) model: Option<String>,

    /// Where the provider is [default: its own address, or what its environment variable says]
    #[arg(long, value_name = "URL", conflicts_with = "script")]
    pub(crate) base_url: Option<String>,

    /// Let a script answer instead of a model: JSON, one reply after the other
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

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Budget")]
pub(crate) struct BudgetArguments {
    /// Requests to the model for one message [default: 8]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,

    /// Tool calls for one message, refused ones included [default: 25]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_calls: Option<u32>,

    /// Time for one message, everything included [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) wall: Option<Duration>,

    /// Time that the model may spend writing for one message, from its first word on [default: 60s]
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
