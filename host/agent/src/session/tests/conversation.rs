//! Tests of the messages of requests, and of the transcript.

use std::time::Duration;

use fumehood_core::chat::{Message, Response, Role};

use super::world::{NOW, Plain, answers, call, calls, go_on, outcome, run, says, session, spec};
use crate::execution::Status;
use crate::run_settings::RunSettings;
use crate::session::transcript::{Ending, PhaseKind, StepKind};
use crate::session::{Action, Input, Prompt, RecordedInput, Session, SessionConfig, StepError, replay};

fn texts(action: &Action) -> Vec<String> {
    let Action::AskModel(request) = action else { panic!("{action:?}") };
    let texts = request.messages.iter().map(|message| match message.tool_calls.first() {
        Some(call) => format!("call {}", call.id),
        None => message.content.clone(),
    });
    texts.collect()
}

#[test]
fn the_prompt_is_agent_and_skill_and_the_input_is_verbatim() {
    let prompt = Prompt { agent: "You add.".to_owned(), skill: Some("Adding: numbers.".to_owned()) };
    let mut session = session(SessionConfig { prompt, ..SessionConfig::default() });
    let input = "  <b>\"3 + 5\"\u{202e}\n\n";
    let Action::AskModel(request) = session.step(says(input), NOW).unwrap() else { panic!() };
    assert_eq!(request.messages, [Message::system("You add.\n\nAdding: numbers."), Message::user(input)]);
}

#[test]
fn without_a_prompt_there_is_no_system_message() {
    let action = session(SessionConfig::default()).step(says("hi"), NOW).unwrap();
    let Action::AskModel(request) = action else { panic!() };
    assert_eq!(request.messages.iter().map(|message| message.role).collect::<Vec<_>>(), [Role::User]);
}

#[test]
fn tools_are_bound_once_for_each_execution() {
    let plain = Plain::default();
    let bound = plain.bound.clone();
    let mut session = Session::new(SessionConfig::default(), Box::new(plain));
    run(&mut session, "one", vec![calls(1, 1), calls(2, 1), Response::text("done")], Status::Ok);
    session
        .step(
            Input::UserMessage { text: "two".to_owned(), tools: vec![spec("mul")], settings: RunSettings::default() },
            NOW,
        )
        .unwrap();
    assert_eq!(*bound.lock().unwrap(), [vec!["add".to_owned(), "odd".to_owned()], vec!["mul".to_owned()]]);
}

#[test]
fn a_step_adds_to_the_transcript_and_changes_nothing_of_it() {
    let mut session = session(SessionConfig::default());
    let action = run(&mut session, "one", vec![calls(1, 2)], Status::Ok);
    let before = session.current_run().unwrap().clone();
    let written = serde_json::to_string(&before.steps).unwrap();
    let done = go_on(&mut session, action, vec![Response::text("done")], Status::Ok);
    assert_eq!(done, Action::Finish(Ending::Answered { text: "done".to_owned() }));
    assert_eq!(serde_json::to_string(&before.steps).unwrap(), written);

    let run = &session.transcript().runs[0];
    assert!(std::sync::Arc::ptr_eq(&run.steps[0], &before.steps[0]));
    let [first, last] = run.steps.as_slice() else { panic!("{:?}", run.steps) };
    assert_eq!((first.number, &first.kind, first.executions.len()), (1, &StepKind::ToolCalls, 2));
    assert_eq!((first.input.as_ref().unwrap().messages.len(), first.output.len()), (1, 4));
    assert_eq!(first.response, Some(calls(1, 2)));
    assert_eq!((last.number, &last.kind, last.text.as_str()), (2, &StepKind::FinalResponse, "done"));
    // Messages of the previous request are not stored a second time.
    assert_eq!((last.input.as_ref().unwrap().repeated, last.input.as_ref().unwrap().messages.len()), (1, 4));
    assert_eq!(last.input.as_ref().unwrap().messages, first.output);
}

#[test]
fn executions_are_in_the_order_of_the_calls() {
    let mut session = session(SessionConfig::default());
    let reply = Response::calls(vec![call("a", "add", "1"), call("b", "odd", "2"), call("c", "add", "3")]);
    run(&mut session, "one", vec![reply], Status::Ok);
    let step = &session.current_run().unwrap().steps[0];
    let found: Vec<_> =
        step.executions.iter().map(|execution| (execution.call.id.as_str(), execution.status)).collect();
    assert_eq!(found, [("a", Status::Ok), ("b", Status::RejectedSchema), ("c", Status::Ok)]);
    assert_eq!(step.executions[1].error_message(), "odd is refused");
    assert_eq!(step.own, [1]);
}

#[test]
fn only_the_trace_of_the_current_execution_is_in_a_request() {
    let mut session = session(SessionConfig { replay_freshness: Duration::ZERO, ..SessionConfig::default() });
    let asked = run(&mut session, "one", vec![calls(1, 1)], Status::Ok);
    assert_eq!(texts(&asked), ["one", "call c1", "result of c1"]);
    go_on(&mut session, asked, vec![Response::text("first")], Status::Ok);
    let asked = run(&mut session, "two", vec![calls(2, 1)], Status::Ok);
    assert_eq!(texts(&asked), ["one", "first", "two", "call c2", "result of c2"]);
}

#[test]
fn calls_of_the_last_300_seconds_are_told_again_and_older_ones_kept() {
    let mut session = session(SessionConfig::default());
    run(&mut session, "one", vec![calls(1, 1), Response::text("first")], Status::Ok);
    let at_the_edge = NOW.saturating_add(Duration::from_secs(300));
    let asked = session.step(says("two"), at_the_edge).unwrap();
    assert_eq!(texts(&asked), ["one", "call c1", "result of c1", "first", "two"]);
    session.step(answers(Response::text("second")), at_the_edge).unwrap();
    let asked = session.step(says("three"), at_the_edge.saturating_add(Duration::from_millis(1))).unwrap();
    assert_eq!(texts(&asked), ["one", "first", "two", "second", "three"]);
    assert_eq!(session.transcript().runs[0].executions().count(), 1);
}

#[test]
fn a_step_is_as_old_as_its_last_call() {
    let mut session = session(SessionConfig::default());
    let asked = run(&mut session, "one", vec![calls(1, 2)], Status::Ok);
    let Action::AskModel(_) = asked else { panic!("{asked:?}") };
    let reply = calls(3, 2);
    let Action::RunTools(intents) = session.step(answers(reply), NOW).unwrap() else { panic!() };
    let mut late = outcome(&intents, Status::Ok, NOW);
    late.executions[1].completed_at = NOW.saturating_add(Duration::from_secs(2));
    session.step(Input::ToolsFinished { outcome: late, blocked: Duration::ZERO }, NOW).unwrap();
    session.step(answers(Response::text("first")), NOW).unwrap();
    let then = NOW.saturating_add(Duration::from_secs(301));
    let asked = session.step(says("two"), then).unwrap();
    let whole = ["one", "call c3", "result of c3", "call c4", "result of c4", "first", "two"];
    assert_eq!(texts(&asked), whole, "a call is told with those that were made with it");
}

#[test]
fn the_current_phase_row_gets_the_calls_appended() {
    let mut session = session(SessionConfig::default());
    run(&mut session, "one", vec![calls(1, 2), Response::text("done")], Status::Ok);
    let phases = &session.transcript().runs[0].phases;
    let calls_of =
        |index: usize| phases[index].calls.iter().map(|call| (call.call.as_str(), call.status)).collect::<Vec<_>>();
    assert_eq!(calls_of(0), []);
    assert_eq!(calls_of(1), [("c1", Status::Ok), ("c2", Status::Ok)]);
    assert_eq!(calls_of(2), []);
}

#[test]
fn phases_take_turns_and_the_result_is_in_the_next_request() {
    let mut session = session(SessionConfig::default());
    let asked = run(&mut session, "one", vec![calls(1, 1), Response::calls(vec![call("o", "odd", "{}")])], Status::Ok);
    assert_eq!(texts(&asked), ["one", "call c1", "result of c1", "call o", "odd is refused"]);
    go_on(&mut session, asked, vec![Response::text("done")], Status::Ok);
    let phases = &session.transcript().runs[0].phases;
    use PhaseKind::{Deliberate, Execute};
    let kinds: Vec<_> = phases.iter().map(|phase| phase.kind).collect();
    assert_eq!(kinds, [Deliberate, Execute, Deliberate, Execute, Deliberate]);
    assert!(phases.iter().all(|phase| phase.ended_at == Some(NOW)));
}

#[test]
fn replays_a_session_to_the_same_actions() {
    fn to_json(session: &Session) -> String {
        serde_json::to_string(session.transcript()).unwrap()
    }

    let mut first = session(SessionConfig::default());
    let reply = Response::calls(vec![call("", "add", r#"{"b":1, "a":2}"#), call("", "odd", "nonsense")]);
    let ran = Input::ToolsFinished {
        outcome: outcome(&[call("/own-1", "add", r#"{"b":1, "a":2}"#)], Status::HandlerError, NOW),
        blocked: Duration::from_nanos(1_234_567),
    };
    let inputs = [says("one"), answers(reply), ran, answers(Response::text("AGAIN:why")), answers(Response::text("x"))];
    let more = [says("two"), answers(calls(7, 9)), Input::Cancelled, says("three")];
    let recorded: Vec<RecordedInput> = inputs
        .into_iter()
        .chain(more)
        .zip(0..)
        .map(|(input, n)| RecordedInput { at: NOW.saturating_add(Duration::from_secs(n)), input })
        .collect();
    let written = serde_json::to_string(&recorded).unwrap();
    let actions = replay(&mut first, recorded).unwrap();
    assert_eq!(actions.len(), 9);

    let mut second = session(SessionConfig::default());
    assert_eq!(replay(&mut second, serde_json::from_str(&written).unwrap()).unwrap(), actions);
    assert_eq!(to_json(&second), to_json(&first));
}

#[test]
fn rejects_an_unexpected_input() {
    let mut session = session(SessionConfig::default());
    let error = session.step(Input::Cancelled, NOW).unwrap_err();
    assert_eq!(error, StepError::Unexpected { expected: "a user message", found: "a cancellation" });
    session.step(says("one"), NOW).unwrap();
    assert!(session.step(says("two"), NOW).is_err());
    assert!(session.step(Input::ApproverAnswered { yes: true }, NOW).is_err());
    let done = session.step(answers(Response::text("done")), NOW).unwrap();
    assert_eq!(done, Action::Finish(Ending::Answered { text: "done".to_owned() }));
}
