//! The decisions of a session on the response of the model, or on its failure.

use fumehood_core::chat::{Message, ModelError, ModelFailure, Response, StopReason};
use fumehood_core::time::Timestamp;

use super::input::Action;
use super::machine::{Session, StepEnd};
use super::synthetic;
use super::transcript::{Ending, StepKind};
use crate::drivers::driver::{Decision, DecisionError, DecisionFault};
use crate::output_schema::{MAX_REPAIRS, repair_request};

impl Session {
    pub(super) fn handle_response(&mut self, final_answer: bool, response: Response, now: Timestamp) -> Action {
        if final_answer {
            let text = response.reply.text().to_owned();
            return self.finish_with_answer(response, text, now);
        }
        match self.driver.decide(&response) {
            Decision::Answer(text) => self.finish_with_answer(response, text, now),
            // The name or the arguments of a call may lack their end. A driver that reads calls in a text knows which are whole.
            Decision::Call { text, .. } if is_incomplete(&response) && !response.reply.calls().is_empty() => {
                self.finish_with_incomplete(response, text, now)
            }
            Decision::Call { text, calls, refused } => self.handle_calls(response, text, calls, refused, now),
            // The model was asked for prose, so its reply is prose, in whatever form.
            Decision::Again { .. } | Decision::Failed(_) if self.prose_only => {
                let text = response.reply.text().to_owned();
                self.finish_with_answer(response, text, now)
            }
            Decision::Again { messages } => {
                self.trace.extend(messages);
                self.draft.attempts.push(response);
                self.ask(now)
            }
            Decision::Infer(request) => {
                self.draft.attempts.push(response);
                self.ask_for_final_answer(*request, now)
            }
            Decision::Failed(failure) => self.fail_decision(response, &failure, now),
        }
    }

    /// Ends the run with an answer. A blank answer is a failure, because the user would see neither text nor reason.
    fn finish_with_answer(&mut self, response: Response, text: String, now: Timestamp) -> Action {
        if text.trim().is_empty() {
            let message =
                "The model's reply was empty; expected an answer or tool calls. Try again, or use another model.";
            let failure = DecisionError { fault: DecisionFault::Extraction, message: message.to_owned() };
            return self.fail_decision(response, &failure, now);
        }
        let read = self.output().map(|schema| schema.read(&text, response.stop));
        let text = match read {
            None if is_incomplete(&response) => return self.finish_with_incomplete(response, text, now),
            None => text,
            Some(Ok(json)) => json,
            Some(Err(problem)) => return self.reject_answer(response, text, problem, now),
        };
        let output = vec![Message::assistant(text.clone())];
        let end_of_step = StepEnd {
            response: Some(response),
            text: text.clone(),
            executions: Vec::new(),
            own: Vec::new(),
            output,
            kind: StepKind::FinalResponse,
        };
        self.end_step(end_of_step, now);
        self.finish(Ending::Answered { text }, now)
    }

    /// Sends an answer that does not match the schema back to the model, or ends the run.
    fn reject_answer(&mut self, response: Response, text: String, problem: String, now: Timestamp) -> Action {
        // A shorter answer may match. Another reason is not mended by asking for another form.
        let is_repairable = matches!(response.stop, StopReason::Done | StopReason::Length);
        if is_repairable && self.repairs < MAX_REPAIRS {
            self.repairs = self.repairs.saturating_add(1);
            self.trace.extend([Message::assistant(text), Message::user(repair_request(&problem))]);
            self.draft.attempts.push(response);
            return self.ask(now);
        }
        if is_incomplete(&response) {
            return self.finish_with_incomplete(response, text, now);
        }
        let end_of_step = StepEnd { response: Some(response), text: text.clone(), ..StepEnd::error(problem.clone()) };
        self.end_step(end_of_step, now);
        self.finish(Ending::InvalidAnswer { text, message: problem }, now)
    }

    /// Ends the run with an answer that is incomplete. Its text is for the person, and part of the conversation.
    fn finish_with_incomplete(&mut self, response: Response, text: String, now: Timestamp) -> Action {
        let stop = response.stop;
        let output = if text.trim().is_empty() { Vec::new() } else { vec![Message::assistant(text.clone())] };
        let kind =
            if output.is_empty() { StepKind::Error(stop.describe().to_owned()) } else { StepKind::FinalResponse };
        let end_of_step = StepEnd {
            response: Some(response),
            text: text.clone(),
            executions: Vec::new(),
            own: Vec::new(),
            output,
            kind,
        };
        self.end_step(end_of_step, now);
        self.finish(Ending::IncompleteAnswer { stop, text }, now)
    }

    fn fail_decision(&mut self, response: Response, failure: &DecisionError, now: Timestamp) -> Action {
        if is_incomplete(&response) {
            let text = response.reply.text().to_owned();
            return self.finish_with_incomplete(response, text, now);
        }
        let id = self.next_own_id();
        let execution = synthetic::failed_decision(id, failure, response.reply.text(), now);
        let text = response.reply.text().to_owned();
        let end_of_step = StepEnd {
            response: Some(response),
            text,
            executions: vec![execution],
            own: vec![0],
            ..StepEnd::error(failure.message.clone())
        };
        self.end_step(end_of_step, now);
        self.finish(Ending::DecisionFailed { fault: failure.fault, message: failure.message.clone() }, now)
    }

    /// Adds notices of the client to the warnings of the run, unless the session has had them: what applies to all
    /// requests to a model comes with each response.
    pub(super) fn add_warnings(&mut self, notices: Vec<String>) {
        let Some(run) = &mut self.run else { return };
        for notice in notices {
            let is_known = |warnings: &[String]| warnings.contains(&notice);
            if !is_known(&run.warnings) && !self.transcript.runs.iter().any(|run| is_known(&run.warnings)) {
                run.warnings.push(notice);
            }
        }
    }

    /// Ends the run with the failure of the model. If the model supports no tools at all, repeats the request without
    /// tools instead, with a warning. The repeated request has no tools, so it is not repeated again. A tool that the
    /// provider refuses is left out by the client, see [`Response::notices`].
    pub(super) fn handle_model_failure(&mut self, error: ModelError, now: Timestamp) -> Action {
        let had_tools = self.draft.input.as_ref().is_some_and(|request| !request.tools.is_empty());
        if had_tools && error.failure == ModelFailure::ToolsUnsupported {
            self.toolless = true;
            if let Some(run) = &mut self.run {
                run.warnings.push(format!(
                    "the request was repeated without tools, because the model does not support tools: {error}"
                ));
            }
            return self.ask(now);
        }
        self.end_step(StepEnd::error(error.message.clone()), now);
        self.finish(Ending::ModelFailed { error }, now)
    }
}

/// Returns whether a response was cut, filtered, refused or paused, or failed.
fn is_incomplete(response: &Response) -> bool {
    response.stop != StopReason::Done
}
