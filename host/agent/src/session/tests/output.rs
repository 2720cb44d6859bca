//! Tests of answers that have to match a schema.

use fumehood_core::chat::{Response, StopReason};
use serde_json::json;

use super::world::{calls, run, session};
use crate::execution::Status;
use crate::output_schema::MAX_REPAIRS;
use crate::session::transcript::Ending;
use crate::session::{Action, OutputSchema, Session, SessionConfig};

fn config() -> SessionConfig {
    let schema = json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
    SessionConfig { output: Some(OutputSchema::new(schema).unwrap()), ..SessionConfig::default() }
}

fn after(replies: Vec<Response>) -> (Session, Action) {
    let mut session = session(config());
    let action = run(&mut session, "one", replies, Status::Ok);
    (session, action)
}

fn answered(text: &str) -> Action {
    Action::Finish(Ending::Answered { text: text.to_owned() })
}

#[test]
fn answer_that_matches_the_schema_is_compact_json() {
    for text in ["{ \"sum\": 8 }", "```json\n{\"sum\":8}\n```", "<think>3 + 5</think>{\"sum\":8}"] {
        let (_, action) = after(vec![calls(1, 1), Response::text(text)]);
        assert_eq!(action, answered(r#"{"sum":8}"#), "{text}");
    }
}

#[test]
fn model_is_told_the_schema_and_what_is_wrong() {
    let (_, action) = after(vec![Response::text("It is 8.")]);
    let Action::AskModel(request) = action else { panic!("{action:?}") };
    let said: Vec<&str> = request.messages.iter().map(|message| message.content.as_str()).collect();
    let [system, "one", "It is 8.", repair] = said[..] else { panic!("{said:?}") };
    assert!(system.contains(r#""required":["sum"]"#), "{system}");
    assert!(repair.contains("there is no JSON object in it"), "{repair}");
    let (_, action) = after(vec![Response::text(r#"{"sum": "8"}"#), Response::text(r#"{"sum": 8}"#)]);
    assert_eq!(action, answered(r#"{"sum":8}"#));
}

#[test]
fn answer_is_sent_back_at_most_twice() {
    fn wrong_answer(text: &str) -> Response {
        Response::text(format!(r#"{{"total": "{text}"}}"#))
    }

    let (session, action) = after(vec![wrong_answer("a"), calls(1, 1), wrong_answer("b"), wrong_answer("c")]);
    let Action::Finish(Ending::InvalidAnswer { text, message }) = action else { panic!("{action:?}") };
    assert_eq!(text, r#"{"total": "c"}"#);
    assert!(message.contains("sum"), "{message}");
    let run = &session.transcript().runs[0];
    let attempts: usize = run.steps.iter().map(|step| step.attempts.len()).sum();
    assert_eq!(attempts, MAX_REPAIRS as usize);
    assert_eq!(run.ending.as_ref().unwrap().text(), None, "what does not match is no answer");
}

#[test]
fn answer_that_was_cut_off_is_not_completed() {
    let cut = Response { stop: StopReason::Length, ..Response::text(r#"{"sum": 8"#) };
    let (_, action) = after(vec![cut]);
    assert!(matches!(action, Action::AskModel(_)), "{action:?}");
}

#[test]
fn incomplete_answer_is_repaired_only_if_it_was_cut() {
    fn with(stop: StopReason, text: &str) -> Response {
        Response { stop, ..Response::text(text) }
    }

    let (_, action) = after(vec![with(StopReason::Refused, "I can't.")]);
    let text = "I can't.".to_owned();
    assert_eq!(action, Action::Finish(Ending::IncompleteAnswer { stop: StopReason::Refused, text }));
    let (_, action) = after(vec![with(StopReason::Length, r#"{"sum": 8"#); 1 + MAX_REPAIRS as usize]);
    let text = r#"{"sum": 8"#.to_owned();
    assert_eq!(action, Action::Finish(Ending::IncompleteAnswer { stop: StopReason::Length, text }));
    let (_, action) = after(vec![with(StopReason::Length, r#"{"sum": 8}"#)]);
    assert_eq!(action, answered(r#"{"sum":8}"#));
}

#[test]
fn repairs_are_counted_for_each_run() {
    let (mut session, _) = after(vec![Response::text("a"), Response::text("b"), Response::text("c")]);
    let action = run(&mut session, "two", vec![Response::text("d"), Response::text(r#"{"sum":1}"#)], Status::Ok);
    assert_eq!(action, answered(r#"{"sum":1}"#));
}

#[test]
fn configuration_with_a_schema_survives_serialization() {
    let text = serde_json::to_string(&config()).unwrap();
    assert_eq!(serde_json::from_str::<SessionConfig>(&text).unwrap(), config());
    let broken = text.replace("\"integer\"", "\"integr\"");
    assert!(serde_json::from_str::<SessionConfig>(&broken).is_err());
    assert!(!serde_json::to_string(&SessionConfig::default()).unwrap().contains("output"));
}
