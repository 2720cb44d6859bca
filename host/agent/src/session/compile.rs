//! Which messages a run begins with: all that was said, and of what was done only what is still fresh.
//!
//! Two sources differ here. One says that traces of earlier executions are absent from a request; the other that calls
//! which ended within the last 300 s are told again. Both hold: a trace as such is never repeated, and a fresh call is
//! told again as a pair, its call and its result, in the driver's own words. With a freshness of zero there are none.
//! What is fresh is settled when a run begins, so that its requests share one beginning that a provider can cache.

use std::time::Duration;

use fumehood_core::chat::Message;
use fumehood_core::time::Timestamp;

use crate::driver::Driver;
use crate::execution::{Status, ToolExecution};
use crate::transcript::{Ending, Run, Step, StepKind, Transcript};

/// The system prompt, the earlier runs, and the message that begins this one.
pub(super) fn conversation(
    prompt: Option<String>,
    transcript: &Transcript,
    freshness: Duration,
    run: &Run,
    driver: &dyn Driver,
) -> Vec<Message> {
    let mut messages: Vec<Message> = prompt.map(Message::system).into_iter().collect();
    for earlier in &transcript.runs {
        messages.push(earlier.message.clone());
        for execution in earlier.steps.iter().flat_map(|step| told_again(step, freshness, run.started_at)) {
            messages.extend(driver.replay(execution));
        }
        messages.extend(said_last(earlier).map(Message::assistant));
    }
    messages.push(run.message.clone());
    messages
}

/// Returns the last text of a run: the answer, or the part of one that was written before an interruption.
fn said_last(run: &Run) -> Option<&str> {
    let ending = run.ending.as_ref()?;
    let interrupted = || {
        let step = run.steps.last().filter(|_| *ending == Ending::Cancelled)?;
        Some(step.text.as_str()).filter(|text| !text.trim().is_empty())
    };
    ending.text().or_else(interrupted)
}

fn told_again(step: &Step, freshness: Duration, now: Timestamp) -> impl Iterator<Item = &ToolExecution> {
    // What stands for a failed decision is no call.
    let is_call = move |execution: &ToolExecution| step.kind == StepKind::ToolCalls || execution.status.has_run();
    step.executions.iter().filter(move |execution| {
        let tried = !matches!(execution.status, Status::RejectedBudget | Status::Skipped);
        !freshness.is_zero() && tried && is_call(execution) && now.since(execution.completed_at) <= freshness
    })
}
