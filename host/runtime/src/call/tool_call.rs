//! One call of a tool in this process: conversion of its arguments and of its result.

use std::sync::Arc;

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, Metadata};

use super::outcome::{self, Execution};
use super::place::Place;
use super::run::{Arguments, Input, Output, Runnable};
use crate::load::dialect::typed::TypedOutcome;
use crate::wasi::http::OutboundConfig;
use crate::wasi::{Invocation, guest_output};

impl Runnable {
    /// Calls a tool in this process. Secrets in the result are not redacted yet.
    pub(crate) async fn call(
        &self,
        place: Place,
        tool: usize,
        arguments: Arguments,
        invocation: Arc<Invocation>,
        outbound: Option<OutboundConfig>,
    ) -> Execution {
        let input = match self.input(tool, arguments) {
            Ok(input) => input,
            Err(error) => return Execution { outcome: Err(error), metadata: Metadata::default() },
        };
        let limits = invocation.limits;
        let (output, mut metadata) = self.run(place, input, invocation, outbound).await;
        let outcome = output.and_then(|output| self.content(output));
        let outcome = outcome.and_then(|parts| outcome::check_size(&parts, &limits).map(|()| parts));
        if let Err(error) = &outcome {
            metadata.sanitized += error.hidden_chars();
        }
        Execution { outcome, metadata }
    }

    fn input(&self, tool: usize, arguments: Arguments) -> Result<Input, CallError> {
        let refused = |message: String| CallError::new(ErrorKind::InvalidArguments, message);
        let Some(typed) = self.typed() else {
            return Ok(Input::Contract { arguments });
        };
        let found = typed.get(tool).ok_or_else(|| CallError::new(ErrorKind::UnknownTool, "no such tool"))?;
        let arguments = match arguments {
            Arguments::Validated(call) => found.arguments(call.arguments()),
            Arguments::Text(text) => {
                let value = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
                found.arguments(&value)
            }
        };
        Ok(Input::Typed { tool, arguments: arguments.map_err(|error| refused(error.to_string()))? })
    }

    fn content(&self, output: Output) -> Result<Vec<Content>, CallError> {
        let bad = |message: String| CallError::new(ErrorKind::BadResult, message);
        match output {
            Output::Described(_) => Err(bad("the tool described itself instead of answering".to_owned())),
            Output::Contract(Ok(parts)) => parts.into_iter().map(guest_output::to_content).collect(),
            Output::Contract(Err(failure)) => Err(outcome::from_failure(failure)),
            Output::Typed { tool, results } => {
                let typed = self.typed().and_then(|typed| typed.get(tool));
                let typed = typed.ok_or_else(|| bad("an unknown tool answered".to_owned()))?;
                match typed.outcome(&results).map_err(|error| bad(error.to_string()))? {
                    TypedOutcome::Nothing => Ok(Vec::new()),
                    TypedOutcome::Text(text) => Ok(vec![Content::text(text)]),
                    TypedOutcome::Json(text) => Ok(vec![guest_output::json(text)?]),
                    TypedOutcome::Failed(message) => {
                        Err(CallError::new(ErrorKind::ToolFailed, guest_output::message(&message)))
                    }
                }
            }
        }
    }
}
