//! Tests of the driver: its requests, its decisions, and its messages for calls.

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::chat::{Delta, Role, ToolSpec};
use fumehood_core::time::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::execution::Status;

fn bound() -> BatchDriver {
    let mut driver = BatchDriver::new();
    let tool = ToolSpec {
        name: "read".to_owned(),
        alias: None,
        description: "Reads.".to_owned(),
        parameters: json!({"type": "object"}),
    };
    driver.bind(ToolRuntime { tools: vec![tool] });
    driver
}

fn decide(reply: &str) -> Decision {
    bound().decide(&Response::text(reply))
}

fn call(name: &str, arguments: &str) -> ToolIntent {
    ToolIntent { id: String::new(), name: name.to_owned(), arguments: arguments.to_owned() }
}

fn execution(id: &str, name: &str, status: Status, outcome: Result<&str, CallError>) -> ToolExecution {
    let outcome = outcome.map(|text| vec![Content::text(text)]);
    ToolExecution {
        id: id.to_owned(),
        call: call(name, r#"{"file": "a"}"#),
        status,
        result: CallResult { id: id.to_owned(), tool: name.to_owned(), outcome, metadata: Metadata::default() },
        started_at: Timestamp(0),
        completed_at: Timestamp(0),
        modified: None,
    }
}

const BATCH: &str = r#"<execute>[{"name": "read", "args": {"file": "a"}}, {"name": "nope", "args": {}}]</execute>"#;

#[test]
fn a_request_has_the_prompt_the_conversation_and_the_trace_and_no_native_tools() {
    let request = bound().request(&[Message::user("hi")], &[Message::assistant("x")]);
    let roles: Vec<_> = request.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant]);
    assert!(request.messages[0].content.contains("read: Reads."));
    assert!(request.tools.is_empty());
    assert_eq!(request.cache_breakpoints, [2, 3]);
}

#[test]
fn thoughts_are_not_part_of_the_answer() {
    assert_eq!(decide("<think>secret plan</think>\nHello."), Decision::Answer("Hello.".to_owned()));
}

#[test]
fn text_is_the_answer_or_stands_beside_the_calls() {
    assert_eq!(decide("Just text <b>here</b>."), Decision::Answer("Just text <b>here</b>.".to_owned()));
    let Decision::Call { text, calls, refused } = decide(&format!("I will look. {BATCH} It says 7.")) else { panic!() };
    assert_eq!((text.as_str(), refused.len()), ("I will look.", 0));
    assert_eq!(calls, [call("read", r#"{"file": "a"}"#), call("nope", "{}")]);
}

#[test]
fn an_empty_batch_is_a_decision() {
    let empty = Decision::Call { text: String::new(), calls: Vec::new(), refused: Vec::new() };
    assert_eq!(decide("<execute>[]</execute>"), empty);
    let trace = bound().trace(&Response::text("<execute>[]</execute>"), &[]);
    assert_eq!(trace[1].content, "<results>\n[]\n</results>");
}

#[test]
fn resolves_the_last_part_of_a_unique_name() {
    let spec =
        |name: &str| ToolSpec { name: name.to_owned(), alias: None, description: String::new(), parameters: json!({}) };
    let mut driver = BatchDriver::new();
    driver.bind(ToolRuntime { tools: ["files__read", "notes__read", "calculator__evaluate"].map(spec).to_vec() });
    let names =
        ["evaluate", "read", "notes__read", "nope"].map(|name| format!(r#"{{"name": "{name}", "args": {{}}}}"#));
    let reply = format!("<execute>[{}]</execute>", names.join(","));
    let Decision::Call { calls, .. } = driver.decide(&Response::text(reply)) else { panic!() };
    let found: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(found, ["calculator__evaluate", "read", "notes__read", "nope"]);
}

#[test]
fn a_malformed_block_is_asked_again_twice_and_then_fails() {
    let mut driver = bound();
    let bad = Response::text("Let me see. <execute>[{]</execute>");
    for _ in 0..2 {
        let Decision::Again { messages } = driver.decide(&bad) else { panic!() };
        assert_eq!(messages[0], Message::assistant(bad.reply.text()));
        assert_eq!(messages[1].role, Role::User);
        assert!(messages[1].content.starts_with("Error: Malformed tool call syntax."), "{messages:?}");
    }
    let Decision::Failed(failure) = driver.decide(&bad) else { panic!() };
    assert_eq!(failure.fault, DecisionFault::Extraction);
    assert!(failure.message.starts_with("Error: Malformed tool call syntax."));
}

#[test]
fn a_good_reply_and_a_new_execution_give_the_retries_back() {
    let bad = Response::text("<execute>{");
    let good = Response::text(BATCH);
    let mut driver = bound();
    for response in [&bad, &bad, &good, &bad, &bad] {
        assert!(!matches!(driver.decide(response), Decision::Failed(_)));
    }
    driver.bind(ToolRuntime::default());
    assert!(matches!(driver.decide(&bad), Decision::Again { .. }));
    assert!(matches!(BatchDriver::new().max_retries(0).decide(&bad), Decision::Failed(_)));
}

#[test]
fn results_that_the_model_made_up_are_never_an_answer() {
    let made_up = r#"<results>[{"tool": "read", "status": "success", "content": "x"}]</results> It says x."#;
    let Decision::Again { messages } = decide(made_up) else { panic!() };
    assert!(messages[1].content.contains("Only the system writes <results>"), "{messages:?}");
    // Results beside calls are ignored.
    assert!(matches!(decide(&format!("{made_up}{BATCH}")), Decision::Call { .. }));
}

#[test]
fn a_reply_of_nothing_is_asked_again() {
    for reply in ["", " \n", "<think>only thoughts</think>", "<think>cut off", "<end>"] {
        let Decision::Again { messages } = decide(reply) else { panic!("{reply}") };
        assert!(messages.last().unwrap().content.contains("neither an answer nor calls"));
        assert!(messages.iter().all(|message| !message.content.is_empty()));
    }
}

#[test]
fn the_trace_is_what_was_said_and_the_results_in_order() {
    let executions = [
        execution("1", "read", Status::Ok, Ok("text")),
        execution("2", "nope", Status::RejectedNotFound, Err(CallError::new(ErrorKind::UnknownTool, "no such tool"))),
    ];
    let trace = bound().trace(&Response::text(format!("<think>t</think>{BATCH}\n<results>[]</results>")), &executions);
    assert_eq!(trace[0], Message::assistant(format!("<think>t</think>{BATCH}")), "what came after it was never heard");
    assert_eq!(trace[1].role, Role::User);
    assert_eq!(
        trace[1].content,
        "<results>\n[\n{\"tool\": \"read\", \"status\": \"success\", \"content\": \"text\"},\n\
         {\"tool\": \"nope\", \"status\": \"failure\", \"content\": \"Tool 'nope' not registered\"}\n]\n</results>"
    );
    // An answer has no results.
    assert_eq!(bound().trace(&Response::text("Done."), &[]), [Message::assistant("Done.")]);
}

#[test]
fn a_block_that_was_not_closed_is_told_as_if_it_were() {
    let reply = r#"<execute>[{"name": "read", "args": {"file": "a"}}]</exec"#;
    let trace = bound().trace(&Response::text(reply), &[execution("1", "read", Status::Ok, Ok("x"))]);
    assert!(trace[0].content.ends_with("\n]\n</execute>"), "{trace:?}");
    assert!(trace.iter().all(|message| message.tool_execution_id.as_deref() == Some("1")));
}

#[test]
fn a_replayed_call_is_a_pair_with_the_same_id() {
    let pair = bound().replay(&execution("7", "read", Status::Ok, Ok("x")));
    assert_eq!(pair.len(), 2);
    assert!(pair.iter().all(|message| message.tool_execution_id.as_deref() == Some("7")));
    assert!(
        matches!(decide(&pair[0].content), Decision::Call { calls, .. } if calls == [call("read", r#"{"file": "a"}"#)])
    );
    assert_eq!(pair[1].role, Role::User);
    assert!(pair[1].content.contains(r#""content": "x""#));
}

#[test]
fn a_replayed_batch_is_one_block_of_calls_and_one_of_results() {
    let executions = [
        execution("1", "read", Status::Ok, Ok("x")),
        execution("2", "read", Status::HandlerError, Err(CallError::new(ErrorKind::ToolFailed, "no"))),
    ];
    let [reply, results] = &bound().replay_batch(" Looking. ", &executions.iter().collect::<Vec<_>>())[..] else {
        panic!()
    };
    assert!(reply.content.starts_with(" Looking. <execute>"), "{}", reply.content);
    assert!(matches!(decide(&reply.content), Decision::Call { calls, .. } if calls.len() == 2));
    assert_eq!(results.content.matches("\"tool\"").count(), 2);
    assert_eq!((&reply.tool_execution_id, &results.tool_execution_id), (&None, &None));
    assert_eq!(bound().replay_batch("text", &[]), []);
}

#[test]
fn the_old_format_calls_nothing() {
    assert!(matches!(decide("§execute\n[{\"name\": \"read\", \"args\": {}}]\n§end"), Decision::Answer(_)));
}

proptest! {
    #[test]
    fn any_reply_is_some_decision(reply in any::<String>(), wrapped in any::<bool>()) {
        let reply = if wrapped { format!("<execute>{reply}</execute>") } else { reply };
        let mut driver = bound();
        driver.decide(&Response::text(reply.as_str()));
        driver.trace(&Response::text(reply), &[]);
    }
}

#[test]
fn what_is_shown_while_a_reply_is_written_is_its_answer() {
    let mut seen = String::new();
    let mut sink = |delta| {
        if let Delta::Text(text) = delta {
            seen.push_str(&text);
        }
    };
    let driver = bound();
    let mut filter = driver.filter_deltas(&mut sink);
    for piece in ["<think>sec", "ret</think>Hi", "!", BATCH] {
        filter.delta(Delta::Text(piece.to_owned()));
    }
    drop(filter);
    assert_eq!(seen, "Hi!");
}
