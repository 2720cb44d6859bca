//! Tests of the ReAct driver, with a JSON decision in every step.

use fumehood_agent::driver::{Decision, DecisionError, DecisionFault, Driver, ToolRuntime};
use fumehood_agent::react::ReactDriver;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::chat::{Delta, Message, Request, Response, Role, ToolIntent};
use proptest::prelude::*;
use serde_json::json;

use super::play::{execution, intent, play, survive, texts, tools};

const ADD: &str = r#"{"thought": "sum first", "type": "call_tool", "tool": "add", "args": {"a": 3, "b": 5}}"#;
const MULTIPLY: &str =
    r#"{"thought": "then double", "type": "call_tool", "tool": "multiply", "args": {"a": 8, "b": 2}}"#;
const ANSWER: &str = r#"{"thought": "done", "type": "final_answer", "answer": "16"}"#;
const UNKNOWN: &str = r#"{"type": "call_tool", "tool": "rm", "args": {}}"#;

fn bound(mut driver: ReactDriver) -> ReactDriver {
    driver.bind(ToolRuntime { tools: tools() });
    driver
}

fn replies(texts: &[&str]) -> Vec<Response> {
    texts.iter().map(|text| Response::text(*text)).collect()
}

#[test]
fn the_react_driver_calculates() {
    let played = play(&mut ReactDriver::new(), "(3 + 5) * 2", replies(&[ADD, MULTIPLY, ANSWER]));
    assert_eq!(played.end, Decision::Answer("16".to_owned()));
    let expected = [
        "(3 + 5) * 2",
        "Thought: sum first\nAction: add\nAction Input: {\"a\": 3, \"b\": 5}",
        "Observation: 8",
        "Thought: then double\nAction: multiply\nAction Input: {\"a\": 8, \"b\": 2}",
        "Observation: 16",
    ];
    assert_eq!(texts(&played.requests[2])[1..], expected);
}

#[test]
fn the_system_prompt_describes_the_tools() {
    let mut driver = bound(ReactDriver::new().system_prompt("Be brief."));
    let request = driver.request(&[Message::user("hi")], &[]);
    let rules = &request.messages[0];
    assert_eq!(rules.role, Role::System);
    assert!(rules.content.starts_with("Be brief.\n\n"));
    assert!(rules.content.contains("- multiply: a * b\n"));
    assert_eq!(request.messages[1..], [Message::user("hi")]);
    assert_eq!(request.tools, []);
}

#[test]
fn the_defaults_are_json_two_retries_and_no_separate_answer() {
    let mut driver = bound(ReactDriver::default());
    let request = driver.request(&[Message::user("hi")], &[]);
    assert!(request.json_schema.as_ref().is_some_and(|schema| schema.to_string().contains("\"add\"")));
    let messages = request.messages.clone();
    let json_schema = request.json_schema.clone();
    let expected = Request { json: true, messages, json_schema, cache_breakpoints: vec![2], ..Request::default() };
    assert_eq!(request, expected);
    assert_eq!(driver.decide(&Response::text(ANSWER)), Decision::Answer("16".to_owned()));
    let ends: Vec<_> = (0..3).map(|_| matches!(driver.decide(&Response::text("?")), Decision::Failed(_))).collect();
    assert_eq!(ends, [false, false, true]);
    let request = bound(ReactDriver::new().json_mode(false)).request(&[], &[]);
    assert!(!request.json && request.json_schema.is_none());
}

#[test]
fn call_tool_is_a_call() {
    let mut driver = bound(ReactDriver::new());
    let call = intent("", "add", r#"{"a": 3, "b": 5}"#);
    let expected = Decision::Call { text: "sum first".to_owned(), calls: vec![call], refused: Vec::new() };
    assert_eq!(driver.decide(&Response::text(ADD)), expected);
}

#[test]
fn final_answer_is_the_answer() {
    let mut driver = bound(ReactDriver::new());
    assert_eq!(driver.decide(&Response::text(ANSWER)), Decision::Answer("16".to_owned()));
}

#[test]
fn the_final_answer_can_be_a_request_of_its_own() {
    let options = json!({"seed": 7}).as_object().unwrap().clone();
    let mut driver = ReactDriver::new()
        .system_prompt("Be kind.")
        .model("small")
        .final_via_inference(true)
        .final_model("big")
        .final_options(options.clone());
    let played = play(&mut driver, "3 + 5", replies(&[ADD, ANSWER, "It is sixteen."]));
    assert_eq!(played.end, Decision::Answer("It is sixteen.".to_owned()));
    let last = &played.requests[2];
    assert_eq!((last.model.as_deref(), &last.options, last.json), (Some("big"), &options, false));
    assert_eq!(last.json_schema, None);
    assert!(last.tools.is_empty());
    let expected = [
        "Be kind.",
        "3 + 5",
        "Thought: sum first\nAction: add\nAction Input: {\"a\": 3, \"b\": 5}",
        "Observation: 8",
        "Thought: done\nAction: final_answer",
        "Now write the final answer for the user, in words, not as JSON.",
    ];
    assert_eq!(texts(last), expected);
}

#[test]
fn only_the_final_answer_is_shown_while_it_is_written() {
    fn pass_deltas(driver: &ReactDriver) -> Vec<Delta> {
        let mut seen = Vec::new();
        let mut sink = |delta: Delta| seen.push(delta);
        let mut filter = driver.filter_deltas(&mut sink);
        filter.delta(Delta::Thought("hm".to_owned()));
        filter.delta(Delta::Text("words".to_owned()));
        drop(filter);
        seen
    }

    let thought = Delta::Thought("hm".to_owned());
    let mut driver = bound(ReactDriver::new().final_via_inference(true));
    driver.request(&[Message::user("3 + 5")], &[]);
    assert_eq!(pass_deltas(&driver), std::slice::from_ref(&thought));
    assert!(matches!(driver.decide(&Response::text(ANSWER)), Decision::Infer(_)));
    assert_eq!(pass_deltas(&driver), [thought.clone(), Delta::Text("words".to_owned())]);
    assert_eq!(driver.decide(&Response::text("It is sixteen.")), Decision::Answer("It is sixteen.".to_owned()));
    assert_eq!(pass_deltas(&driver), [thought]);
}

#[test]
fn an_empty_final_reply_loses_nothing() {
    let mut driver = ReactDriver::new().model("small").final_via_inference(true);
    let played = play(&mut driver, "3 + 5", replies(&[ANSWER, " "]));
    assert_eq!(played.end, Decision::Answer("16".to_owned()));
    assert_eq!(played.requests[1].model.as_deref(), Some("small"));
    // The next execution decides again.
    assert_eq!(play(&mut driver, "4", replies(&[ANSWER, "done"])).end, Decision::Answer("done".to_owned()));
}

#[test]
fn a_reply_without_a_decision_fails_after_the_retries() {
    let played = play(&mut ReactDriver::new(), "hi", replies(&["no idea", "", "still none", "never asked for"]));
    let message = "No decision found: there is no JSON object in it.".to_owned();
    assert_eq!(
        played.end,
        Decision::Failed(DecisionError { fault: DecisionFault::Extraction, message: message.clone() })
    );
    assert_eq!(played.requests.len(), 3);
    let advice = format!("{message} Reply with exactly one JSON object that is a decision.");
    assert_eq!(texts(&played.requests[2])[1..], ["hi", "no idea", &advice, &advice]);
    assert_eq!(DecisionFault::Extraction.as_str(), "decision_extraction");
}

#[test]
fn a_good_decision_starts_the_count_of_retries_again() {
    let played = play(&mut ReactDriver::new(), "hi", replies(&["?", "?", ADD, "?", "?", ANSWER]));
    assert_eq!(played.end, Decision::Answer("16".to_owned()));
    let played = play(&mut ReactDriver::new().max_retries(0), "hi", replies(&["?"]));
    assert!(matches!(played.end, Decision::Failed(_)));
}

#[test]
fn an_invalid_decision_fails_after_the_retries_and_runs_nothing() {
    let played = play(&mut ReactDriver::new(), "hi", replies(&[UNKNOWN, UNKNOWN, UNKNOWN]));
    let message = "Requested tool is not available.".to_owned();
    assert_eq!(played.end, Decision::Failed(DecisionError { fault: DecisionFault::Validation, message }));
    assert!(played.executions.is_empty());
    assert_eq!(DecisionFault::Validation.as_str(), "decision_validation");
}

#[test]
fn a_step_is_thought_action_and_observation() {
    fn check(driver: &ReactDriver, outcome: Result<Vec<Content>, CallError>, expected: &str) {
        let failed = outcome.is_err();
        let messages = driver.trace(&Response::text(ADD), &[execution(call(), outcome)]);
        let action = "Thought: sum first\nAction: divide\nAction Input: {\"a\": 1, \"b\": 0}";
        assert_eq!((messages[0].role, messages[0].content.as_str()), (Role::Assistant, action));
        assert_eq!((messages[1].role, messages[1].content.as_str()), (Role::User, expected));
        assert_eq!(messages[1].is_error, failed);
        assert!(messages.iter().all(|message| message.tool_execution_id.as_deref() == Some("exec-c")));
    }

    fn call() -> ToolIntent {
        ToolIntent { id: "c".to_owned(), ..intent("", "divide", r#"{"a": 1, "b": 0}"#) }
    }

    let driver = bound(ReactDriver::new());
    check(&driver, Ok(vec![Content::text("8")]), "Observation: 8");
    check(
        &driver,
        Err(CallError::new(ErrorKind::ToolFailed, "Division by zero")),
        "Observation: ERROR - Division by zero",
    );
    let conclusion = driver.trace(&Response::text(ANSWER), &[]);
    assert_eq!(conclusion, [Message::assistant("Thought: done\nAction: final_answer")]);
    let replayed = driver.replay(&execution(call(), Ok(vec![Content::text("8")])));
    assert_eq!(replayed[0].content, "Action: divide\nAction Input: {\"a\": 1, \"b\": 0}");
}

#[test]
fn truncates_a_huge_reply_in_the_retry() {
    let mut driver = bound(ReactDriver::new());
    let Decision::Again { messages } = driver.decide(&Response::text("x".repeat(2 << 20))) else { panic!("taken") };
    assert!(messages.iter().all(|message| message.content.len() < 5000));
}

const NEAR: &str = r#"(.*|\{"type": ?"(call_tool|final_answer)", ?"(tool|answer)": ?"(add|x)".{0,12})"#;

proptest! {
    #[test]
    fn survives_any_replies(texts in prop::collection::vec(NEAR, 0..8), separate: bool) {
        let all = texts.iter().map(|text| Response::text(text.as_str())).collect();
        survive(&mut ReactDriver::new().final_via_inference(separate), all);
    }

    #[test]
    fn never_more_than_the_retries(retries in 0_u32..5, text in "[^{]*") {
        let mut driver = bound(ReactDriver::new().max_retries(retries));
        // Other JSON is no decision either.
        let again = |_: &i32| matches!(driver.decide(&Response::text(text.as_str())), Decision::Again { .. });
        prop_assert_eq!((0..10).take_while(again).count(), retries as usize);
    }
}
