//! The replay of a program that was stopped, and the recording of one that runs.

use std::collections::HashMap;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::chat::ToolIntent;
use fumehood_core::digest::Digest;
use fumehood_core::program::FinishedCall;
use fumehood_core::time::Timestamp;

use crate::program_record::{CallState, ProgramEvent, ProgramRecord, ProgramRecords, ProgramStart, call_digest};

/// The way in which a call counts towards the budget of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// It was not made before.
    New,
    /// It was made before, and no budget has counted it, because the program was stopped with its host.
    Uncounted,
    /// It was made and counted before.
    Counted,
}

/// The record of the program as it was when it started, and the events since then.
pub(crate) struct Replay<'a> {
    /// `None` if nothing is recorded.
    records: Option<(&'a dyn ProgramRecords, &'a str)>,
    record: ProgramRecord,
    /// The digests and names of the calls that the program has started.
    started: HashMap<u32, (Digest, String)>,
    /// Events that are not stored yet.
    events: Vec<ProgramEvent>,
}

impl<'a> Replay<'a> {
    /// Takes the record of the program that this call runs, or begins one. Returns the conditions under which it runs
    /// as well.
    ///
    /// # Errors
    /// If it is the record of another program.
    pub(crate) fn new(
        records: Option<&'a dyn ProgramRecords>,
        call: &'a str,
        execution: &str,
        now: Timestamp,
        code: &str,
    ) -> Result<(Self, ProgramStart), CallError> {
        let record = records.map(|records| records.record(call)).unwrap_or_default();
        let digest = Digest::of(code.as_bytes());
        let mut events = Vec::new();
        let start = match &record.start {
            Some(start) if start.digest != digest => return Err(mismatch("its text differs")),
            Some(start) => start.clone(),
            None => {
                let start = ProgramStart { execution: execution.to_owned(), now, digest };
                events.push(ProgramEvent::Started(start.clone()));
                start
            }
        };
        let records = records.map(|records| (records, call));
        Ok((Self { records, record, started: HashMap::new(), events }, start))
    }

    /// Compares a call that the program starts with the record. Returns the error if it was refused before.
    ///
    /// # Errors
    /// If another call has this number in the record.
    pub(crate) fn start(&mut self, number: u32, name: &str, arguments: &str) -> Result<Option<CallError>, CallError> {
        if self.records.is_none() {
            return Ok(None);
        }
        let digest = call_digest(name, arguments);
        self.started.insert(number, (digest, name.to_owned()));
        match self.record.calls.get(&number) {
            Some(recorded) if recorded.call != digest => {
                let is_same_tool = recorded.name == name;
                let difference = if is_same_tool {
                    format!("call {number}, of `{name}`, has different arguments than before")
                } else {
                    format!("call {number} was of `{}`, and is now of `{name}`", recorded.name)
                };
                Err(mismatch(&difference))
            }
            Some(recorded) => Ok(match &recorded.state {
                CallState::Refused { error } => Some(error.clone()),
                CallState::Begun | CallState::Deferred | CallState::Finished { .. } => None,
            }),
            None => Ok(None),
        }
    }

    pub(crate) fn reservation(&self, number: u32) -> Reservation {
        match self.record.calls.contains_key(&number) {
            _ if number <= self.record.counted_until => Reservation::Counted,
            true => Reservation::Uncounted,
            false => Reservation::New,
        }
    }

    /// Returns whether the record has a result of this call.
    pub(crate) fn has_result(&self, number: u32) -> bool {
        let recorded = self.record.calls.get(&number);
        recorded.is_some_and(|recorded| matches!(recorded.state, CallState::Finished { .. }))
    }

    /// Returns whether this call had begun when the program was stopped, and is not made again.
    pub(crate) fn is_lost(&self, number: u32, intent: &ToolIntent) -> bool {
        let had_begun = self.record.calls.get(&number).is_some_and(|recorded| recorded.state == CallState::Begun);
        had_begun && !self.records.is_some_and(|(records, _)| records.may_repeat(intent))
    }

    /// Takes the next result that is recorded: the number of the call, its result, and the fuel that it used.
    ///
    /// # Errors
    /// If the program has not started that call.
    pub(crate) fn next_result(&mut self) -> Result<Option<(FinishedCall, u64)>, CallError> {
        let Some(number) = self.record.results.front().copied() else { return Ok(None) };
        let recorded = self.record.calls.get(&number);
        if !self.started.contains_key(&number) {
            let name = recorded.map_or("?", |recorded| recorded.name.as_str());
            return Err(mismatch(&format!("it waits before call {number}, of `{name}`")));
        }
        self.record.results.pop_front();
        Ok(recorded.and_then(|recorded| match &recorded.state {
            CallState::Finished { result, fuel } => Some((FinishedCall { id: number, result: result.clone() }, *fuel)),
            _ => None,
        }))
    }

    /// Returns the error of a program that ended before it had all results that are recorded of it.
    pub(crate) fn unused_results(&self) -> Option<CallError> {
        let unused = self.record.results.len();
        (unused > 0).then(|| mismatch(&format!("it ended with {unused} unused results")))
    }

    pub(crate) fn note_begun(&mut self, number: u32) {
        self.note(number, |call, name| ProgramEvent::Begun { number, call, name });
    }

    pub(crate) fn note_deferred(&mut self, number: u32) {
        self.note(number, |_, _| ProgramEvent::Deferred { number });
    }

    pub(crate) fn note_finished(&mut self, finished: &FinishedCall, fuel: u64) {
        let number = finished.id;
        let result = finished.result.clone();
        let is_refused = false;
        self.note(number, |call, name| ProgramEvent::Finished { number, call, name, result, fuel, is_refused });
    }

    /// Notes that a limit refused a call, unless that is recorded.
    pub(crate) fn note_refused(&mut self, number: u32, error: &CallError) {
        if !self.record.calls.contains_key(&number) {
            let result = Err(error.clone());
            let fuel = 0;
            let is_refused = true;
            self.note(number, |call, name| ProgramEvent::Finished { number, call, name, result, fuel, is_refused });
        }
    }

    fn note(&mut self, number: u32, event: impl FnOnce(Digest, String) -> ProgramEvent) {
        if let Some((digest, name)) = self.started.get(&number) {
            self.events.push(event(*digest, name.clone()));
        }
    }

    /// Stores the events that are not stored yet.
    ///
    /// # Errors
    /// If they cannot be stored.
    pub(crate) async fn flush(&mut self) -> Result<(), CallError> {
        let events = std::mem::take(&mut self.events);
        let Some((records, call)) = self.records.filter(|_| !events.is_empty()) else { return Ok(()) };
        let stored = records.append(call, events).await;
        stored.map_err(|error| CallError::new(ErrorKind::Host, format!("the program ended: {error}")))
    }
}

/// Returns the error of a program that does something else than is recorded of it.
fn mismatch(difference: &str) -> CallError {
    let message = format!("the program was stopped, and cannot be replayed from its recorded calls: {difference}");
    CallError::new(ErrorKind::Denied, message)
        .with_hint("its earlier calls may have had effects; check the current state, and write a new program")
}
