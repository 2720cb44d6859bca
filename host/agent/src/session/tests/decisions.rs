//! Tests of each kind of decision, and of failures of the model.

use std::time::Duration;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::chat::{ModelError, ModelFailure, Response, StopReason, ToolChoice};

use super::world::{NOW, answers, call, calls, execution, go_on, run, says, session};
use crate::drivers::driver::DecisionFault;
use crate::execution::Status;
use crate::executor::{BatchEnd, BatchOutcome};
use crate::session::transcript::{Ending, StepKind};
use crate::session::{Action, Input, SessionConfig};

fn fails(failure: ModelFailure, status: Option<u16>, message: &str) -> Input {
    let error = ModelError { status, ..ModelError::new(failure, message) };
    Input::ModelFailed { error, streamed: Duration::ZERO }
}

#[test]
fn a_provider_without_tools_is_asked_once_more_without_them() {
    fn check(failure: ModelFailure, status: Option<u16>, message: &str, again: bool) {
        let mut session = session(SessionConfig::default());
        session.step(says("one"), NOW).unwrap();
        let action = session.step(fails(failure, status, message), NOW).unwrap();
        assert_eq!(matches!(action, Action::AskModel(_)), again, "{failure:?} {status:?} {message}");
        let Action::AskModel(request) = action else { return };
        assert!(request.tools.is_empty());
        assert_eq!(request.tool_choice, ToolChoice::None);
        assert!(session.current_run().unwrap().warnings[0].contains(message));
        let second = session.step(fails(failure, status, message), NOW).unwrap();
        assert!(matches!(second, Action::Finish(Ending::ModelFailed { .. })), "{second:?}");
        assert_eq!(session.transcript().runs[0].warnings.len(), 1);
    }

    check(ModelFailure::ToolsUnsupported, None, "no tools", true);
    check(ModelFailure::Refused, Some(400), "tools.3.custom.input_schema: invalid", false);
    check(ModelFailure::Refused, Some(422), "Invalid schema for function 'add'", false);
    check(ModelFailure::Refused, Some(401), "wrong key", false);
    check(ModelFailure::Unavailable, Some(500), "tools are down", false);
    check(ModelFailure::Refused, None, "tools", false);
    check(ModelFailure::RateLimited, Some(429), "too many tool calls", false);
}

#[test]
fn the_retry_can_answer_and_later_runs_leave_tools_out_at_once() {
    let mut session = session(SessionConfig::default());
    session.step(says("one"), NOW).unwrap();
    session.step(fails(ModelFailure::ToolsUnsupported, Some(400), "no tools"), NOW).unwrap();
    let done = session.step(answers(Response::text("done")), NOW).unwrap();
    assert_eq!(done, Action::Finish(Ending::Answered { text: "done".to_owned() }));
    let Action::AskModel(request) = session.step(says("two"), NOW).unwrap() else { panic!() };
    assert!(request.tools.is_empty());
}

#[test]
fn turns_notices_of_the_client_into_warnings() {
    let mut session = session(SessionConfig::default());
    session.step(says("one"), NOW).unwrap();
    let notices = vec!["the request was repeated without `temperature`".to_owned()];
    session.step(answers(Response { notices: notices.clone(), ..Response::text("done") }), NOW).unwrap();
    assert_eq!(session.transcript().runs[0].warnings, notices);
}

#[test]
fn repeated_notice_is_one_warning_of_the_session() {
    let mut session = session(SessionConfig::default());
    let response = Response { notices: vec!["the tool `a` is left out".to_owned()], ..Response::text("done") };
    for message in ["one", "two"] {
        session.step(says(message), NOW).unwrap();
        session.step(answers(response.clone()), NOW).unwrap();
    }
    let warnings: Vec<_> = session.transcript().runs.iter().map(|run| run.warnings.len()).collect();
    assert_eq!(warnings, [1, 0]);
}

fn ends_undecided(reply: &str, name: &str, fault: DecisionFault) {
    let mut session = session(SessionConfig::default());
    let action = run(&mut session, "one", vec![Response::text(reply)], Status::Ok);
    let Action::Finish(Ending::DecisionFailed { fault: found, .. }) = action else { panic!("{action:?}") };
    assert_eq!(found, fault);
    let step = session.transcript().runs[0].steps[0].clone();
    assert!(matches!(step.kind, StepKind::Error(_)));
    assert_eq!(step.executions[0].name(), name);
    assert!(step.executions[0].has_error());
    assert_eq!(step.calls().count(), 0, "it is no call");
    // It is no call, so it is not replayed.
    let Action::AskModel(request) = session.step(says("two"), NOW).unwrap() else { panic!() };
    assert_eq!(request.messages.len(), 2);
}

#[test]
fn a_reply_without_a_decision_ends_in_a_pseudo_execution() {
    for reply in ["EXTRACTION:", "", "  \n\t"] {
        ends_undecided(reply, "decision_extraction", DecisionFault::Extraction);
    }
}

#[test]
fn an_invalid_decision_ends_in_a_pseudo_execution() {
    ends_undecided("VALIDATION:", "decision_validation", DecisionFault::Validation);
}

#[test]
fn incomplete_answer_ends_the_run_and_is_no_success() {
    for stop in [StopReason::Length, StopReason::Filtered, StopReason::Refused, StopReason::Paused, StopReason::Failed]
    {
        let mut session = session(SessionConfig::default());
        let cut = Response { stop, ..Response::text("The sum is") };
        let action = run(&mut session, "one", vec![cut], Status::Ok);
        let text = "The sum is".to_owned();
        assert_eq!(action, Action::Finish(Ending::IncompleteAnswer { stop, text }));
        // It is part of the conversation, which can go on.
        let Action::AskModel(request) = session.step(says("two"), NOW).unwrap() else { panic!() };
        assert_eq!(request.messages[1].content, "The sum is", "{stop:?}");
    }
}

#[test]
fn calls_of_an_incomplete_reply_are_not_made() {
    let mut session = session(SessionConfig::default());
    let cut = Response { stop: StopReason::Length, ..calls(1, 2) };
    let action = run(&mut session, "one", vec![cut], Status::Ok);
    let expected = Ending::IncompleteAnswer { stop: StopReason::Length, text: String::new() };
    assert_eq!(action, Action::Finish(expected));
    let step = session.transcript().runs[0].steps[0].clone();
    assert_eq!(step.calls().count(), 0);
    assert_eq!(step.kind, StepKind::Error("the answer was cut at its length limit".to_owned()));
    // A reply of text in which a driver finds calls may have whole ones.
    let text = Response { stop: StopReason::Length, ..Response::text("NONE:") };
    let done = run(&mut session, "two", vec![text, Response::text("done")], Status::Ok);
    assert_eq!(done, Action::Finish(Ending::Answered { text: "done".to_owned() }));
}

#[test]
fn reply_without_a_decision_that_is_incomplete_says_so() {
    for text in ["EXTRACTION:", ""] {
        let mut session = session(SessionConfig::default());
        let refused = Response { stop: StopReason::Refused, ..Response::text(text) };
        let action = run(&mut session, "one", vec![refused], Status::Ok);
        let Action::Finish(Ending::IncompleteAnswer { stop: StopReason::Refused, .. }) = action else {
            panic!("{action:?}")
        };
    }
}

#[test]
fn asking_again_is_one_step_of_several_requests() {
    let mut session = session(SessionConfig::default());
    let replies = vec![Response::text("AGAIN:say it properly"), Response::text("done")];
    run(&mut session, "one", replies, Status::Ok);
    let steps = &session.transcript().runs[0].steps;
    assert_eq!((steps.len(), steps[0].attempts.len()), (1, 1));
    assert_eq!(steps[0].input.as_ref().unwrap().messages[1].content, "say it properly");
}

#[test]
fn the_final_answer_can_take_a_request_of_its_own() {
    let mut session = session(SessionConfig::default());
    let action = run(&mut session, "one", vec![Response::text("INFER:now answer")], Status::Ok);
    let Action::AskModel(request) = &action else { panic!() };
    assert_eq!((request.messages[0].content.as_str(), request.tools.len()), ("now answer", 0));
    // Its form does not matter: it is the answer.
    let done = go_on(&mut session, action, vec![Response::text("AGAIN: and again")], Status::Ok);
    assert_eq!(done, Action::Finish(Ending::Answered { text: "AGAIN: and again".to_owned() }));
}

#[test]
fn continues_after_an_empty_batch() {
    let mut session = session(SessionConfig::default());
    let done = run(&mut session, "one", vec![Response::text("NONE:"), Response::text("done")], Status::Ok);
    assert_eq!(done, Action::Finish(Ending::Answered { text: "done".to_owned() }));
    let steps = &session.transcript().runs[0].steps;
    assert_eq!((&steps[0].kind, steps[0].executions.len()), (&StepKind::ToolCalls, 0));
}

#[test]
fn assigns_ids_to_calls_without_unique_ones() {
    let mut session = session(SessionConfig::default());
    session.step(says("one"), NOW).unwrap();
    let reply = ["", "a", "a", ""].map(|id| call(id, "add", "{}"));
    let Action::RunTools(calls) = session.step(answers(Response::calls(reply.to_vec())), NOW).unwrap() else {
        panic!()
    };
    let ids: std::collections::BTreeSet<_> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), 4);
    assert!(ids.contains("a") && !ids.contains(""));
}

#[test]
fn a_failed_call_is_told_and_the_run_goes_on() {
    let mut session = session(SessionConfig::default());
    for status in [Status::HandlerError, Status::RejectedSchema, Status::RejectedDenied] {
        let action = run(&mut session, "one", vec![calls(1, 1)], status);
        let Action::AskModel(request) = &action else { panic!("{action:?}") };
        assert_eq!(request.messages.last().unwrap().content, "c1 failed");
        go_on(&mut session, action, vec![Response::text("done")], status);
    }
}

/// The second of three calls fails, and the batch ends so: nothing is lost.
fn ends_early(ended: BatchEnd, expected: Option<Ending>) {
    let mut session = session(SessionConfig::default());
    session.step(says("one"), NOW).unwrap();
    let Action::RunTools(calls) = session.step(answers(calls(1, 3)), NOW).unwrap() else { panic!() };
    let executions = vec![execution(&calls[1], Status::HandlerError, NOW)];
    let outcome = BatchOutcome::new(executions, Some(ended));
    let action = session.step(Input::ToolsFinished { outcome, blocked: Duration::ZERO }, NOW).unwrap();
    let last = session.transcript().runs.last().map(AsRef::as_ref);
    let steps = last.or(session.current_run()).unwrap().steps.clone();
    let statuses: Vec<_> = steps[0].executions.iter().map(|execution| execution.status).collect();
    assert_eq!(statuses, [Status::Skipped, Status::HandlerError, Status::Skipped]);
    match expected {
        Some(ending) => assert_eq!(action, Action::Finish(ending)),
        None => assert!(matches!(action, Action::AskModel(_))),
    }
}

#[test]
fn a_stop_ends_the_run() {
    let stopped = Ending::Stopped { reason: "enough".to_owned() };
    ends_early(BatchEnd::Stop { reason: "enough".to_owned() }, Some(stopped));
}

#[test]
fn a_failure_that_is_to_end_the_step_ends_the_run() {
    let failed = Ending::ToolFailed { tool: "add".to_owned(), message: "c2 failed".to_owned() };
    ends_early(BatchEnd::Failed { index: 0 }, Some(failed));
}

#[test]
fn a_block_skips_the_rest_and_the_run_goes_on() {
    ends_early(BatchEnd::Blocked { index: 0 }, None);
}

#[test]
fn the_third_failed_batch_in_a_row_ends_the_run() {
    let mut session = session(SessionConfig::default());
    let replies = (1..4).map(|n| calls(n, 1)).collect();
    let done = run(&mut session, "one", replies, Status::HandlerError);
    assert_eq!(done, Action::Finish(Ending::CircuitOpen { text: "Max failures. Terminating.".to_owned() }));

    let asked = run(&mut session, "two", vec![calls(1, 1), calls(2, 1)], Status::HandlerError);
    let asked = go_on(&mut session, asked, vec![calls(3, 1)], Status::Ok);
    let asked = go_on(&mut session, asked, vec![calls(4, 1), calls(5, 1)], Status::HandlerError);
    assert!(matches!(asked, Action::AskModel(_)), "{asked:?}");
}

#[test]
fn keeps_interrupted_calls_of_a_cancelled_run() {
    let mut session = session(SessionConfig::default());
    session.step(says("one"), NOW).unwrap();
    assert_eq!(session.step(Input::Cancelled, NOW).unwrap(), Action::Finish(Ending::Cancelled));

    session.step(says("two"), NOW).unwrap();
    session.step(answers(calls(1, 1)), NOW).unwrap();
    assert_eq!(session.step(Input::Cancelled, NOW).unwrap(), Action::Finish(Ending::Cancelled));
    let run = &session.transcript().runs[1];
    assert_eq!(run.steps[0].executions[0].error().unwrap().kind, ErrorKind::Cancelled);
    assert_eq!(run.steps[0].executions[0].status, Status::HandlerError);
}
