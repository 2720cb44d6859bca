//! The messages at the start of a run: all earlier messages and answers, and the recent calls.
//!
//! Two specifications differ here. One requires that traces of earlier executions are absent from a request; the other
//! that calls which ended within the last 300 s are replayed. Both are met: a trace is never repeated, and a recent
//! call is replayed as a pair of messages, the call and its result, made by [`Driver::replay`]. With a freshness of
//! zero there are none. The selection is made once, at the start of a run, so that its requests share one prefix that a
//! provider can cache. The calls of one step are replayed together, so that a protocol that has them in one block keeps
//! it whole: it is as old as the call of it that ended last.

use std::borrow::Cow;
use std::time::Duration;

use fumehood_core::chat::Message;
use fumehood_core::time::Timestamp;

use super::transcript::{Ending, Run, Step, StepKind, Transcript};
use crate::drivers::driver::Driver;
use crate::execution::{Status, ToolExecution};

/// Builds the messages at the start of a run: the system prompt, the earlier runs, and the user message of this one.
pub(super) fn build_conversation(
    prompt: Option<String>,
    transcript: &Transcript,
    freshness: Duration,
    run: &Run,
    driver: &dyn Driver,
) -> Vec<Message> {
    let mut messages: Vec<Message> = prompt.map(Message::system).into_iter().collect();
    for earlier in &transcript.runs {
        messages.push(earlier.message.clone());
        for step in &earlier.steps {
            let executions = replayed_executions(step, freshness, run.started_at);
            if !executions.is_empty() {
                messages.extend(driver.replay_batch(&step.text, &executions));
            }
        }
        messages.extend(last_text(earlier).map(|text| Message::assistant(text.into_owned())));
    }
    messages.push(run.message.clone());
    messages
}

/// Returns the last text of a run: the answer, or the part of an answer before an interruption. Of the call of a skill,
/// it is what a model may see of its result.
fn last_text(run: &Run) -> Option<Cow<'_, str>> {
    let ending = run.ending.as_ref()?;
    if run.is_skill_call() {
        return run.executions().find(|execution| !execution.has_error())?.result.text();
    }
    let interrupted = || {
        let step = run.steps.last().filter(|_| *ending == Ending::Cancelled)?;
        Some(step.text.as_str()).filter(|text| !text.trim().is_empty())
    };
    ending.text().or_else(interrupted).map(Cow::Borrowed)
}

/// Returns the executions of a step that are replayed: its tried calls, if the last of them ended no longer ago than
/// `freshness`.
fn replayed_executions(step: &Step, freshness: Duration, now: Timestamp) -> Vec<&ToolExecution> {
    let tried = step.executions.iter().filter(|execution| {
        // A pseudo-execution of a failed decision is no call.
        let is_call = step.kind == StepKind::ToolCalls || execution.status.has_run();
        is_call && !matches!(execution.status, Status::RejectedBudget | Status::Skipped)
    });
    let tried: Vec<&ToolExecution> = tried.collect();
    let last = tried.iter().map(|execution| execution.completed_at).max();
    let is_fresh = !freshness.is_zero() && last.is_some_and(|last| now.since(last) <= freshness);
    if is_fresh { tried } else { Vec::new() }
}
