//! A batch that has not ended: its calls, and the questions about them.

use std::collections::VecDeque;

use fumehood_core::chat::{Response, ToolIntent};
use fumehood_core::time::Timestamp;

use super::approval::PendingCall;
use super::transcript::Ending;
use crate::deferred::{CallAnswer, DeferredCall, GivenAnswer};
use crate::execution::ToolExecution;

/// A reply with calls that have not ended.
pub(super) struct Pending {
    response: Response,
    text: String,
    slots: Vec<Slot>,
    /// The ending of the run after this batch, if it is decided already.
    end: Option<Ending>,
    /// The calls that wait for an answer, or have one and were not resumed yet.
    pub(super) asked: Vec<PendingCall>,
    /// The calls that were resumed.
    pub(super) former: Vec<PendingCall>,
    /// The answers to the calls that were resumed.
    pub(super) answers: Vec<CallAnswer>,
    /// [`BatchOutcome::answer`](crate::executor::BatchOutcome::answer).
    pub(super) answer: Option<String>,
    /// The time since which the batch waits for answers.
    pub(super) waits_since: Timestamp,
}

/// One call of a reply, in the order of the calls.
pub(super) enum Slot {
    /// A call for the executor.
    Run(ToolIntent),
    /// A call that waits for a person's answer.
    Waits(ToolIntent),
    /// A call that the executor ended.
    Ran(Box<ToolExecution>),
    /// A call that the session answered itself.
    Done(Box<ToolExecution>),
}

impl Pending {
    pub(super) fn new(response: Response, text: String, slots: Vec<Slot>, end: Option<Ending>) -> Self {
        let asked = Vec::new();
        let former = Vec::new();
        let answers = Vec::new();
        let answer = None;
        let waits_since = Timestamp::default();
        Self { response, text, slots, end, asked, former, answers, answer, waits_since }
    }

    /// Returns the calls for the executor.
    pub(super) fn calls(&self) -> Vec<ToolIntent> {
        let call = |slot: &Slot| match slot {
            Slot::Run(call) => Some(call.clone()),
            Slot::Waits(_) | Slot::Ran(_) | Slot::Done(_) => None,
        };
        self.slots.iter().filter_map(call).collect()
    }

    /// Returns the response, its text, the ending of the run that is decided already, and the calls.
    pub(super) fn into_parts(self) -> (Response, String, Option<Ending>, Vec<Slot>) {
        (self.response, self.text, self.end, self.slots)
    }

    /// Puts the results of the executor into the slots of their calls. Calls that are deferred wait; for others without
    /// a result, `reject` makes one. Results that belong to no call are appended, so that no result is lost.
    pub(super) fn settle(
        &mut self,
        executions: Vec<ToolExecution>,
        deferred: &[DeferredCall],
        mut reject: impl FnMut(ToolIntent) -> Box<ToolExecution>,
    ) {
        let mut results: VecDeque<ToolExecution> = executions.into();
        for slot in &mut self.slots {
            let Slot::Run(call) = slot else { continue };
            let has_result = results.front().is_some_and(|result| result.call.id == call.id);
            *slot = match if has_result { results.pop_front() } else { None } {
                Some(execution) => Slot::Ran(Box::new(execution)),
                None if deferred.iter().any(|deferred| deferred.call == call.id) => Slot::Waits(call.clone()),
                None => Slot::Done(reject(call.clone())),
            };
        }
        self.slots.extend(results.into_iter().map(|execution| Slot::Ran(Box::new(execution))));
        // A call that is asked about again may need the answers from before as well.
        self.answers.retain(|answer| deferred.iter().any(|deferred| deferred.call == answer.call));
    }

    /// Returns whether any call waits for an answer.
    pub(super) fn has_waiting(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::Waits(_)))
    }

    /// Returns whether the call of this id waits for an answer.
    pub(super) fn waits_for(&self, id: &str) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::Waits(call) if call.id == id))
    }

    /// Returns whether the question of this id is open.
    pub(super) fn can_answer(&self, id: &str) -> bool {
        self.asked.iter().any(|asked| asked.id == id && asked.answer.is_none())
    }

    /// Answers the question of this id.
    pub(super) fn answer(&mut self, id: &str, answer: GivenAnswer) {
        if let Some(asked) = self.asked.iter_mut().find(|asked| asked.id == id) {
            asked.answer = Some(answer);
        }
    }

    /// Makes the calls of these ids ready to run, with the answers to them.
    pub(super) fn resume(&mut self, calls: &[String]) {
        for slot in &mut self.slots {
            if let Slot::Waits(call) = slot
                && calls.contains(&call.id)
            {
                *slot = Slot::Run(call.clone());
            }
        }
        let (taken, asked) = std::mem::take(&mut self.asked)
            .into_iter()
            .partition(|asked: &PendingCall| calls.contains(&asked.deferred.call));
        self.asked = asked;
        self.former = taken;
        self.answers.extend(self.former.iter().filter_map(|former| {
            let DeferredCall { call, inner, binding, .. } = former.deferred.clone();
            Some(CallAnswer { id: former.id.clone(), call, inner, binding, given: former.answer.clone()? })
        }));
    }
}
