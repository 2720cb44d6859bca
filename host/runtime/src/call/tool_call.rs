//! One call of a tool in this process: conversion of its arguments and of its result, in steps that count towards the
//! call's fuel and deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallError;
use fumehood_core::tool::resource::READ_RESOURCE;
use wasmtime::Store;
use wasmtime::component::Val;

use super::input::{Arguments, Ended, Input, Output, Returned};
use super::outcome::{self, Execution};
use super::place::Place;
use super::run::Runnable;
use crate::engine::deadline::Deadline;
use crate::engine::guest_runtime::move_over;
use crate::load::dialect::typed::{JsonReader, JsonWriter, TypedOutcome, TypedTool, ValueError};
use crate::load::dialect::{Callable, command};
use crate::wasi::bindings::fumehood::tool::types;
use crate::wasi::{CallState, HostServices, Invocation, guest_output};

/// Steps of a conversion between two turns of others: less than a millisecond.
const STEPS_PER_TURN: usize = 4096;
/// Steps of a conversion that cost no fuel: most results take fewer.
const FREE_STEPS: usize = 1024;
/// Fuel for each further step, which takes about as long as this many instructions.
const FUEL_PER_STEP: u64 = 32;
/// Number of bytes of a part that count as one step.
const BYTES_PER_STEP: usize = 256;
/// Maximum size of the text of a failure that is no string, in bytes; a message is cut to less.
const MAX_FAILURE_BYTES: usize = 64 << 10;
/// Number of calls that begin on the guest threads after one with a large result.
const CALLS_ELSEWHERE: u32 = 1000;

/// The record of a component's large results. The engine lifts a result in one piece, on the thread that runs the guest, so
/// that the calls after a large one begin on the guest threads.
#[derive(Debug, Default)]
pub(super) struct LargeResults(AtomicU32);

impl LargeResults {
    fn note(&self) {
        self.0.store(CALLS_ELSEWHERE, Ordering::Relaxed);
    }

    /// Returns whether the next call is to begin on the guest threads.
    pub(super) fn is_expected(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// Notes the end of a guest whose result was too large to be copied.
    pub(super) fn note_error(&self, error: &CallError) {
        if error.kind == ErrorKind::OutputTooLarge {
            self.note();
        }
    }
}

impl Runnable {
    /// Calls a tool in this process, and returns the deadline of the call with its end. Secrets in the result are not
    /// redacted yet.
    pub(crate) async fn call(
        &self,
        place: Place,
        tool: usize,
        arguments: Arguments,
        invocation: Arc<Invocation>,
        services: Option<HostServices>,
    ) -> (Execution, Deadline) {
        let input = match self.callable() {
            Callable::Contract { .. } if invocation.tool == READ_RESOURCE => Input::ReadResource { arguments },
            Callable::Contract { .. } => Input::Contract { arguments },
            Callable::Typed { .. } => Input::Typed { tool, arguments },
            Callable::Command { .. } => Input::Command { arguments },
        };
        let Ended { outcome, mut metadata, deadline } = self.run(place, input, invocation, services).await;
        let outcome = outcome.and_then(|output| match output {
            Output::Content(parts) => Ok(parts),
            Output::Described(_) | Output::Listed(_) => {
                Err(CallError::new(ErrorKind::BadResult, "the tool described itself instead of answering"))
            }
        });
        if let Err(error) = &outcome {
            metadata.sanitized += error.hidden_chars();
        }
        (Execution { outcome, metadata }, deadline)
    }
}

/// A conversion of one call, which is charged for its steps.
pub(super) struct Conversion<'c> {
    store: &'c mut Store<CallState>,
    limits: &'c Limits,
    large: &'c LargeResults,
    /// The steps that were charged.
    charged: usize,
}

impl<'c> Conversion<'c> {
    pub(super) fn new(store: &'c mut Store<CallState>, limits: &'c Limits, large: &'c LargeResults) -> Self {
        Self { store, limits, large, charged: 0 }
    }

    /// Converts the arguments of a typed function.
    ///
    /// # Errors
    /// If they do not fit the function, or the call may not go on.
    pub(super) fn arguments(&mut self, tool: &TypedTool, arguments: &Arguments) -> Result<Vec<Val>, CallError> {
        let mut reader = JsonReader::new(Some(self.store.data().deadline));
        let read = match arguments {
            Arguments::Validated(call) => tool.arguments(call.arguments(), &mut reader),
            Arguments::Text(text) => {
                let value = serde_json::from_str(text);
                let value = value.map_err(|error| CallError::new(ErrorKind::InvalidArguments, error.to_string()))?;
                tool.arguments(&value, &mut reader)
            }
        };
        self.charge(reader.steps())?;
        read.map_err(|error| self.error(&error))
    }

    /// Converts what a function of the contract returned.
    ///
    /// # Errors
    /// The tool's failure, the reason for which its result is not accepted, or the reason to end the call.
    pub(super) async fn returned(&mut self, returned: Returned) -> Result<Vec<Content>, CallError> {
        let parts = returned.map_err(outcome::from_failure)?;
        self.check_size(parts.len(), parts.iter().map(raw_bytes).sum())?;
        let mut contents = Vec::with_capacity(parts.len());
        let mut steps = 0;
        for part in parts {
            steps += 1 + raw_bytes(&part) / BYTES_PER_STEP;
            contents.push(guest_output::to_content(part)?);
            if steps >= self.charged + STEPS_PER_TURN {
                self.take_turn(steps).await?;
            }
        }
        self.charge(steps)?;
        Ok(contents)
    }

    /// Converts what a program wrote to its standard output.
    ///
    /// # Errors
    /// If the call may not go on.
    pub(super) fn stdout(&mut self, stdout: Vec<u8>) -> Result<Vec<Content>, CallError> {
        self.check_size(1, stdout.len())?;
        self.charge(stdout.len() / BYTES_PER_STEP)?;
        Ok(command::to_content(stdout))
    }

    /// Converts the results of a typed function.
    ///
    /// # Errors
    /// See [`Self::returned`].
    pub(super) async fn results(&mut self, tool: &TypedTool, results: &[Val]) -> Result<Vec<Content>, CallError> {
        match tool.outcome(results).map_err(|error| self.error(&error))? {
            TypedOutcome::Nothing => Ok(Vec::new()),
            TypedOutcome::Text(text) => {
                self.check_size(1, text.len())?;
                Ok(vec![Content::text(text)])
            }
            TypedOutcome::Value(value, shape) => {
                let mut writer = JsonWriter::new(value, shape, self.limits.output);
                if !self.write(&mut writer).await? {
                    return Err(outcome::output_too_large(None, self.limits));
                }
                Ok(vec![guest_output::json(writer.into_text())?])
            }
            TypedOutcome::Failed(message) => Err(tool_failure(message)),
            TypedOutcome::FailedValue(value, shape) => {
                let mut writer = JsonWriter::new(value, shape, MAX_FAILURE_BYTES);
                let _is_whole = self.write(&mut writer).await?;
                Err(tool_failure(&writer.into_text()))
            }
        }
    }

    /// Writes a value as JSON text. Returns false if it became too large; what was written until then stays.
    async fn write(&mut self, writer: &mut JsonWriter<'_>) -> Result<bool, CallError> {
        loop {
            match writer.advance(STEPS_PER_TURN) {
                Ok(Some(steps)) => self.take_turn(steps).await?,
                ended => {
                    self.charge(writer.steps())?;
                    return match ended {
                        Err(ValueError::TooLarge) => Ok(false),
                        Err(error) => Err(self.error(&error)),
                        Ok(_) => Ok(true),
                    };
                }
            }
        }
    }

    /// Checks the limit on results before anything is converted.
    fn check_size(&self, parts: usize, bytes: usize) -> Result<(), CallError> {
        let checked = outcome::check_size(parts, bytes, self.limits);
        if checked.is_err() {
            self.large.note();
        }
        checked
    }

    /// Charges for the steps of a conversion that is not over, and lets others have their turn.
    async fn take_turn(&mut self, steps: usize) -> Result<(), CallError> {
        self.large.note();
        self.charge(steps)?;
        move_over().await;
        Ok(())
    }

    /// Charges fuel for all steps so far, and compares clocks.
    ///
    /// # Errors
    /// If the fuel is used up, or the deadline has passed.
    fn charge(&mut self, steps: usize) -> Result<(), CallError> {
        let fuel = (charged_steps(steps) - charged_steps(self.charged.min(steps))).saturating_mul(FUEL_PER_STEP);
        self.charged = steps.max(self.charged);
        if fuel > 0 {
            let host = |error: wasmtime::Error| CallError::new(ErrorKind::Host, error.to_string());
            let left = self.store.get_fuel().map_err(host)?;
            self.store.set_fuel(left.saturating_sub(fuel)).map_err(host)?;
            if left < fuel {
                return Err(outcome::out_of_fuel(self.limits));
            }
        }
        if self.store.data().deadline.passed() { Err(outcome::deadline(self.limits)) } else { Ok(()) }
    }

    fn error(&self, error: &ValueError) -> CallError {
        match error {
            ValueError::Argument { .. } => CallError::new(ErrorKind::InvalidArguments, error.to_string()),
            ValueError::Answer(_) => CallError::new(ErrorKind::BadResult, error.to_string()),
            ValueError::TooLarge => outcome::output_too_large(None, self.limits),
            ValueError::Deadline => outcome::deadline(self.limits),
        }
    }
}

fn tool_failure(message: &str) -> CallError {
    CallError::new(ErrorKind::ToolFailed, guest_output::message(message))
}

fn charged_steps(steps: usize) -> u64 {
    steps.saturating_sub(FREE_STEPS) as u64
}

/// Returns the size of a part in bytes.
pub(super) fn raw_bytes(part: &types::Content) -> usize {
    match part {
        types::Content::Text(text) | types::Content::Json(text) => text.len(),
        types::Content::Blob(blob) => blob.mime_type.len() + blob.data.len(),
        types::Content::Link(link) => {
            let optional = [&link.title, &link.mime_type];
            link.uri.len() + optional.into_iter().flatten().map(String::len).sum::<usize>()
        }
    }
}
