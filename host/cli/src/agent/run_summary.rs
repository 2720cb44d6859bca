//! The summary of a run for people and for programs, and its exit code.

use std::time::Duration;

use fumehood::agent::agent::Outcome;
use fumehood::agent::budget::BudgetKind;
use fumehood::agent::transcript::Ending;
use fumehood::chat::{ModelError, ModelFailure, StopReason, Usage};
use serde::Serialize;

use crate::config::price::{Cost, PriceSection};
use crate::exit::Exit;
use crate::render;
use crate::render::quotation::one_line;

/// The outcome of a run for programs: the last line of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct OutcomeEvent<'a> {
    event: &'static str,
    status: &'static str,
    exit: u8,
    session: &'a str,
    #[serde(flatten)]
    ending: &'a Ending,
    turns: usize,
    calls: usize,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cost>,
    duration_ms: u64,
}

/// A run that has ended.
pub(crate) struct RunSummary {
    pub(crate) session: String,
    pub(crate) outcome: Outcome,
    pub(crate) duration: Duration,
    /// The cost of its tokens, if the configuration has their price.
    pub(crate) cost: Option<Cost>,
}

impl RunSummary {
    /// Adds the cost of the tokens.
    pub(crate) fn with_price(self, price: Option<&PriceSection>) -> Self {
        let cost = price.map(|price| price.cost(self.usage()));
        Self { cost, ..self }
    }

    /// Returns the outcome for programs.
    pub(crate) fn to_event(&self) -> OutcomeEvent<'_> {
        let exit = self.exit();
        OutcomeEvent {
            event: "outcome",
            status: match exit {
                Exit::Ok => "ok",
                Exit::Waiting => "waiting",
                _ if matches!(self.outcome.ending, Ending::Suspended) => "suspended",
                _ => "error",
            },
            exit: exit as u8,
            session: &self.session,
            ending: &self.outcome.ending,
            turns: self.turns(),
            calls: self.calls(),
            usage: self.usage(),
            cost: self.cost.clone(),
            duration_ms: u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Returns the summary for people, in one line.
    pub(crate) fn to_line(&self) -> String {
        let mut parts = vec![count(self.turns(), "request"), count(self.calls(), "call")];
        let usage = self.usage();
        if matches!(self.outcome.ending, Ending::WaitingForApproval { .. } | Ending::Suspended) {
            // The step under way is counted once it has ended.
            parts.clear();
        } else if usage.input > 0 || usage.output > 0 {
            let cached = match usage.cache_read {
                0 => String::new(),
                tokens => format!(" ({tokens} from the cache)"),
            };
            parts.push(format!("{} tokens in{cached}, {} out", usage.input, usage.output));
        }
        if let Some(Cost { amount, currency }) = self.cost.as_ref().filter(|_| !parts.is_empty()) {
            parts.push(format!("{amount:.4} {currency}"));
        }
        parts.push(render::format_duration(self.duration));
        let ending = self.outcome.ending.as_str().replace('_', " ");
        format!("{ending}: {}, session {}", parts.join(", "), self.session)
    }

    pub(crate) fn exit(&self) -> Exit {
        match self.outcome.ending {
            Ending::InvalidAnswer { .. } if self.outcome.run.is_skill_call() => Exit::ToolFailed,
            Ending::Answered { .. } => Exit::Ok,
            Ending::ToolFailed { .. } | Ending::Stopped { .. } | Ending::CircuitOpen { .. } => Exit::ToolFailed,
            Ending::BudgetExhausted { .. } | Ending::LoopDetected { .. } => Exit::Stopped,
            Ending::DecisionFailed { .. } | Ending::ModelFailed { .. } | Ending::InvalidAnswer { .. } => Exit::NoAnswer,
            Ending::IncompleteAnswer { .. } => Exit::Incomplete,
            Ending::WaitingForApproval { .. } => Exit::Waiting,
            Ending::Cancelled | Ending::Suspended => Exit::Interrupted,
        }
    }

    /// Returns what to do about a run that has not ended, line by line; nothing about one that has.
    pub(crate) fn next_steps(&self) -> Vec<String> {
        if self.outcome.ending == Ending::Suspended {
            return vec![format!("suspended; resume it with `fumehood run --resume {}`", self.session)];
        }
        let Ending::WaitingForApproval { waiting } = &self.outcome.ending else { return Vec::new() };
        let mut lines: Vec<String> = waiting
            .iter()
            .map(|call| {
                let tool = one_line(&call.tool);
                let question = one_line(&call.question);
                format!("{}  {tool} is waiting for approval: {question}", call.id)
            })
            .collect();
        lines.push("review a call with `fumehood approve-call ID`, and answer with `--yes` or `--no`".to_owned());
        lines.push(format!("then resume the session with `fumehood run --resume {}`", self.session));
        lines
    }

    /// Explains why there is no answer, with a hint on what to do; `None` if there is one. `stopped` are the tools that
    /// ran when the run was cancelled.
    pub(crate) fn failure_message(&self, stopped: &[String]) -> Option<String> {
        match &self.outcome.ending {
            Ending::InvalidAnswer { message, .. } if self.outcome.run.is_skill_call() => {
                Some(format!("the result of the skill does not match its `output_schema`: {message}"))
            }
            ending => failure_message(ending, stopped),
        }
    }

    fn turns(&self) -> usize {
        self.outcome.run.steps.iter().map(|step| step.requests()).sum()
    }

    fn calls(&self) -> usize {
        self.outcome.run.steps.iter().map(|step| step.calls().count()).sum()
    }

    fn usage(&self) -> Usage {
        self.outcome.run.steps.iter().fold(Usage::default(), |mut usage, step| {
            usage += step.usage;
            usage
        })
    }
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn failure_message(ending: &Ending, stopped: &[String]) -> Option<String> {
    Some(match ending {
        Ending::Answered { .. } => return None,
        Ending::BudgetExhausted { budget, .. } => {
            let more = budget_flag(*budget).map_or_else(String::new, |flag| format!("; raise it with `{flag}`"));
            format!("the limit on {budget} was reached{more}")
        }
        Ending::IncompleteAnswer { stop, .. } => format!("{}; {}", stop.describe(), stop_hint(*stop)),
        Ending::InvalidAnswer { message, .. } => {
            format!("the model's answer does not match the schema, even after retries: {message}")
        }
        Ending::DecisionFailed { message, .. } => {
            format!("the model's reply could not be used: {message}; try another `--driver`, or another model")
        }
        Ending::ModelFailed { error } => format!("the model did not answer: {}{}", error.message, hint(error)),
        Ending::ToolFailed { tool, message } => format!("the call of {tool} failed: {message}"),
        Ending::Stopped { reason } => format!("the run ended: {reason}"),
        Ending::CircuitOpen { .. } => "too many calls failed in a row".to_owned(),
        Ending::LoopDetected { tool, times } => {
            format!("the model repeated the same call of {tool} {times} times in a row")
        }
        // Not a failure: it is shown as what to do next.
        Ending::WaitingForApproval { .. } | Ending::Suspended => return None,
        Ending::Cancelled if stopped.is_empty() => "interrupted".to_owned(),
        Ending::Cancelled => format!("interrupted; stopped {}", stopped.join(", ")),
    })
}

/// Returns what to change where an answer is incomplete.
fn stop_hint(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Length => "raise `--max-tokens` (`max_tokens` in [model]) or `--tokens-out`",
        StopReason::Filtered => "rephrase the task, or use another `--model`",
        StopReason::Refused => "change the task, or use another `--model`",
        StopReason::Done | StopReason::Paused | StopReason::Failed => "try again, or use another `--model`",
    }
}

fn hint(error: &ModelError) -> String {
    if let Some(setting) = &error.setting {
        return match setting_flag(setting) {
            Some(flag) => format!("; change it with `{flag}`, or `{setting}` in [model]"),
            None => format!("; change it with `{setting}` in [model]"),
        };
    }
    let hint = match error.failure {
        ModelFailure::Unavailable => "; set the provider's address with `--base-url`",
        ModelFailure::ToolsUnsupported => "; `--driver react` works without the provider's tool calls",
        ModelFailure::Refused => "; choose another model with `--model`",
        ModelFailure::RateLimited => "; try again later",
        ModelFailure::Timeout | ModelFailure::Malformed | ModelFailure::Setup => "",
    };
    hint.to_owned()
}

/// Returns the flag for a setting of `[model]`.
fn setting_flag(setting: &str) -> Option<&'static str> {
    match setting {
        "temperature" => Some("--temperature"),
        "max_tokens" => Some("--max-tokens"),
        "reasoning_effort" => Some("--reasoning-effort"),
        "first_token_timeout" => Some("--first-token-time"),
        _ => None,
    }
}

/// Returns the flag that raises a budget.
fn budget_flag(budget: BudgetKind) -> Option<&'static str> {
    match budget {
        BudgetKind::Turns => Some("--max-turns"),
        BudgetKind::Calls => Some("--max-calls"),
        BudgetKind::WallTime => Some("--wall"),
        BudgetKind::StreamTime => Some("--stream-time"),
        BudgetKind::TokensIn => Some("--tokens-in"),
        BudgetKind::TokensOut => Some("--tokens-out"),
        BudgetKind::Fuel => Some("--fuel-in-all"),
        BudgetKind::CallsInAll | BudgetKind::TenantFuel => None,
    }
}
