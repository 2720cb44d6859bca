//! Running one program, and the answer that a model gets.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::Level;
use fumehood_core::call::limits::display_bytes;
use fumehood_core::call::result::{CallError, Metadata};
use fumehood_core::call::{CancellationToken, FuelAccount};
use fumehood_core::program::{ConsoleLine, Program, ProgramError, ProgramExecution};
use fumehood_core::time::Timestamp;
use fumehood_core::tool::Stop;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::call_maker::CallMaker;
use super::calls::{Ended, InnerCalls, Spent};
use super::interpreter::Interpreter;
use super::limits::ProgramLimits;
use super::replay::Replay;
use super::value::embed;
use crate::deferred::DeferredCall;
use crate::program_record::ProgramRecords;

/// Maximum time in which a program that is ended from outside ends.
const MAX_END: Duration = Duration::from_secs(1);

/// One request to run a program.
pub(crate) struct ProgramRequest<'a> {
    pub(crate) code: &'a str,
    /// Full names of the tools that it can call, by their names in the program.
    pub(crate) names: HashMap<String, String>,
    pub(crate) limits: ProgramLimits,
    /// The id of the call that runs it. The ids of its calls begin with it.
    pub(crate) id: &'a str,
    /// A unique name of the execution, from which its random numbers are made.
    pub(crate) execution: &'a str,
    pub(crate) now: Timestamp,
    /// The records of programs, if they are kept.
    pub(crate) records: Option<&'a dyn ProgramRecords>,
    /// The account that the fuel of the program itself is taken from.
    pub(crate) account: Option<Arc<dyn FuelAccount>>,
}

/// The end of a run of a program.
pub(crate) enum ProgramEnd {
    /// It has ended.
    Report(Box<ProgramReport>),
    /// It waits for the answers of people, and is run again with them from its record.
    Suspended(Vec<DeferredCall>),
}

impl From<CallError> for ProgramEnd {
    fn from(error: CallError) -> Self {
        Self::Report(Box::new(ProgramReport::not_run(error)))
    }
}

/// The answer of a program to the model, and its cost with that of its calls.
pub(crate) struct ProgramReport {
    pub(crate) outcome: Result<Vec<Content>, CallError>,
    pub(crate) metadata: Metadata,
}

impl ProgramReport {
    /// Creates the answer of a program that did not run.
    fn not_run(error: CallError) -> Self {
        Self { outcome: Err(error), metadata: Metadata::default() }
    }
}

/// Runs a program. Dropping the future stops it and its calls.
///
/// # Errors
/// If one of its calls ends the whole run.
pub(crate) async fn run(
    interpreter: &dyn Interpreter,
    request: ProgramRequest<'_>,
    maker: &dyn CallMaker,
) -> Result<ProgramEnd, Stop> {
    let ProgramRequest { code, names, limits, id, execution, now, records, account } = request;
    if code.len() > limits.code {
        let found = display_bytes(code.len() as u64);
        let limit = display_bytes(limits.code as u64);
        let message = format!("the program has {found}; the maximum is {limit}");
        return Ok(CallError::new(ErrorKind::InvalidArguments, message).with_hint("write a shorter program").into());
    }
    let (replay, start) = match Replay::new(records, id, execution, now, code) {
        Ok(replay) => replay,
        Err(error) => return Ok(error.into()),
    };
    let mut tools: Vec<String> = names.keys().cloned().collect();
    // A map has no order, but a replayed program must see the same list.
    tools.sort_unstable();
    let meter = Arc::new(ProgramMeter::new(account));
    let cancelled = CancellationToken::new();
    let program = Program {
        code: code.to_owned(),
        tools,
        seed: seed(&start.execution),
        start_time_ms: start.now.0,
        limits: limits.of_interpreter(),
        cancelled: Some(cancelled.clone()),
        account: Some(Arc::clone(&meter) as _),
    };
    let (mut calls, mut ended) = InnerCalls::new(maker, names, limits, id, replay);
    let mut running = interpreter.run(program, &mut calls);
    let (ended, execution) = tokio::select! {
        // A requested end wins over a program that ends at the same time.
        biased;
        Ok(ended) = &mut ended => {
            cancelled.cancel();
            // For its cost.
            (Some(ended), tokio::time::timeout(MAX_END, &mut running).await.ok())
        }
        execution = &mut running => (None, Some(execution)),
    };
    // It borrows the calls, which are read below.
    drop(running);
    meter.settle(execution.as_ref().map_or(0, |execution| execution.metadata.fuel_used));
    let spent = calls.spent();
    let unfinished = calls.unfinished();
    Ok(match (ended, execution) {
        (None, Some(mut execution)) => {
            if let Some(error) = calls.unused_results() {
                execution.outcome = Err(ProgramError::Failed(error));
            }
            ProgramEnd::Report(Box::new(report(execution, spent, unfinished)))
        }
        (Some(Ended::Run(stop)), _) => return Err(stop),
        (Some(Ended::Suspended(deferred)), _) => ProgramEnd::Suspended(deferred),
        (Some(Ended::Program(error)), execution) => {
            let mut metadata = execution.map(|execution| execution.metadata).unwrap_or_default();
            metadata.fuel_used = metadata.fuel_used.saturating_add(spent.fuel);
            ProgramEnd::Report(Box::new(ProgramReport { outcome: Err(error), metadata }))
        }
        (None, None) => CallError::cancelled().into(),
    })
}

/// The fuel of a running program, taken from its account as the interpreter reports it.
#[derive(Debug)]
struct ProgramMeter {
    account: Option<Arc<dyn FuelAccount>>,
    taken: AtomicU64,
}

impl ProgramMeter {
    fn new(account: Option<Arc<dyn FuelAccount>>) -> Self {
        Self { account, taken: AtomicU64::new(0) }
    }

    /// Takes what is left of all that the program used: an interpreter need not report while it runs.
    fn settle(&self, used: u64) {
        let _has_more = self.spend(used.saturating_sub(self.taken.load(Ordering::Acquire)));
    }
}

impl FuelAccount for ProgramMeter {
    fn spend(&self, used: u64) -> bool {
        self.taken.fetch_add(used, Ordering::AcqRel);
        self.account.as_ref().is_none_or(|account| account.spend(used))
    }
}

/// Returns the seed of a program: it can be made again from the record of the call.
fn seed(execution: &str) -> u64 {
    let digest = Sha256::digest(execution.as_bytes());
    digest.iter().take(size_of::<u64>()).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

/// The value and the output of a program, as a model gets them.
#[derive(Serialize)]
struct ProgramReturn {
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    console: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

fn report(execution: ProgramExecution, spent: Spent, unfinished: usize) -> ProgramReport {
    let ProgramExecution { outcome, console, mut metadata } = execution;
    metadata.fuel_used = metadata.fuel_used.saturating_add(spent.fuel);
    let console: Vec<String> = console.iter().map(console_line).collect();
    let mut notes = Vec::new();
    if unfinished > 0 {
        notes.push(format!(
            "calls that were stopped or not made, because the program ended first: {unfinished}; use `await`"
        ));
    }
    let outcome = match outcome {
        Ok(value) => {
            if value.is_none() && console.is_empty() {
                notes.push("the program returned nothing: end it with `return VALUE`".to_owned());
            }
            let result = value.as_ref().and_then(embed);
            to_content(&ProgramReturn { result, console, notes })
        }
        Err(error) => Err(with_console(to_error(error), console, &notes)),
    };
    ProgramReport { outcome, metadata }
}

fn to_content(returned: &ProgramReturn) -> Result<Vec<Content>, CallError> {
    let bad = |error: serde_json::Error| {
        CallError::new(ErrorKind::BadResult, format!("cannot show the value of the program: {error}"))
            .with_hint("return a value that is nested less deeply")
    };
    let text = serde_json::to_string(returned).map_err(bad)?;
    Ok(vec![Content::json(text).map_err(bad)?])
}

fn to_error(error: ProgramError) -> CallError {
    match error {
        ProgramError::Exception(exception) => CallError::new(ErrorKind::ToolFailed, exception.to_string()),
        ProgramError::Failed(error) => error,
        other => CallError::new(ErrorKind::Host, other.to_string()),
    }
}

/// Adds what a program printed before it failed to its error.
fn with_console(mut error: CallError, console: Vec<String>, notes: &[String]) -> CallError {
    if !notes.is_empty() || !console.is_empty() {
        let mut lines = vec![error.message.to_string()];
        lines.extend_from_slice(notes);
        if !console.is_empty() {
            lines.push("console:".to_owned());
            lines.extend(console);
        }
        error.message = lines.join("\n").into();
    }
    error
}

fn console_line(line: &ConsoleLine) -> String {
    let text = line.text.to_sanitized();
    match line.level {
        Level::Info => text.into_owned(),
        level => format!("{}: {text}", level.as_str()),
    }
}
