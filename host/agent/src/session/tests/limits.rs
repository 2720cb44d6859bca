//! Tests of the limits of a session, and of what it keeps when it reaches one.

use std::num::NonZeroU32;
use std::time::Duration;

use fumehood_core::chat::{Response, ToolChoice, Usage};

use super::world::{NOW, Plain, answers, call, calls, go_on, outcome, run, says, session};
use crate::execution::Status;
use crate::executor::BatchOutcome;
use crate::session::budget::{Budget, BudgetKind};
use crate::session::synthetic::BUDGET_EXHAUSTED;
use crate::session::transcript::Ending;
use crate::session::{Action, Input, OnRepetition, Repetition, Session, SessionConfig};

fn with(budget: Budget) -> Session {
    session(SessionConfig { budget, ..SessionConfig::default() })
}

/// Creates a session with at most five calls for a message, the limit of the systems that this one follows.
fn of_five_calls() -> Session {
    with(Budget { calls: 5, ..Budget::default() })
}

fn exhausted(budget: BudgetKind) -> Action {
    Action::Finish(Ending::BudgetExhausted { budget, text: String::new() })
}

#[test]
fn the_ninth_request_is_not_made() {
    let mut session = with(Budget { calls: 100, ..Budget::default() });
    let asked = run(&mut session, "one", (0..7).map(|n| calls(n, 1)).collect(), Status::Ok);
    assert!(matches!(asked, Action::AskModel(_)));
    assert_eq!(session.budget_usage().turns, 8);
    assert_eq!(go_on(&mut session, asked, vec![calls(7, 1)], Status::Ok), exhausted(BudgetKind::Turns));
    assert_eq!(session.transcript().runs[0].steps.len(), 8);
    // The limit is for each message.
    let done = run(&mut session, "two", vec![Response::text("done")], Status::Ok);
    assert_eq!(done, Action::Finish(Ending::Answered { text: "done".to_owned() }));
}

#[test]
fn tokens_of_a_judge_count() {
    let mut session = with(Budget { tokens_in: Some(100), ..Budget::default() });
    let ask = session.step(says("one"), NOW).unwrap();
    assert!(matches!(ask, Action::AskModel(_)));
    let Action::RunTools(calls) = session.step(answers(calls(0, 1)), NOW).unwrap() else { panic!() };
    let usage = Usage::new(100, 7);
    let outcome = BatchOutcome { usage, ..outcome(&calls, Status::Ok, NOW) };
    let recorded = serde_json::to_string(&outcome).unwrap();
    assert_eq!(serde_json::from_str::<BatchOutcome>(&recorded).unwrap().usage, usage, "a replay needs it");
    let ended = session.step(Input::ToolsFinished { outcome, blocked: Duration::ZERO }, NOW).unwrap();
    assert_eq!(ended, exhausted(BudgetKind::TokensIn));
    assert_eq!(session.budget_usage().usage, usage);
    assert_eq!(session.transcript().runs[0].steps[0].usage, usage);
}

#[test]
fn asking_again_is_a_turn() {
    let mut session = session(SessionConfig::default());
    let replies = (0..8).map(|_| Response::text("AGAIN:x")).collect();
    assert_eq!(run(&mut session, "one", replies, Status::Ok), exhausted(BudgetKind::Turns));
    assert_eq!(session.transcript().runs[0].steps[0].attempts.len(), 8);
}

#[test]
fn a_person_may_allow_more() {
    let config = SessionConfig { ask_for_turns: true, ..SessionConfig::default() };
    let mut session = session(config);
    let replies: Vec<_> = (0..8).map(|_| Response::text("AGAIN:x")).collect();
    let asked = run(&mut session, "one", replies.clone(), Status::Ok);
    assert!(matches!(&asked, Action::AskApprover(question) if question.about == BudgetKind::Turns));
    let action = session.step(Input::ApproverAnswered { yes: true }, NOW).unwrap();
    let asked = go_on(&mut session, action, replies, Status::Ok);
    assert!(matches!(asked, Action::AskApprover(_)));
    assert_eq!(session.step(Input::ApproverAnswered { yes: false }, NOW).unwrap(), exhausted(BudgetKind::Turns));
}

#[test]
fn at_the_cap_calls_get_a_synthetic_result_and_the_model_writes_prose() {
    let mut session = of_five_calls();
    session.step(says("one"), NOW).unwrap();
    // Three calls, one of them refused: refused calls count as well.
    let first = Response::calls(vec![call("a", "add", "1"), call("b", "odd", "2"), call("c", "add", "3")]);
    let action = session.step(answers(first), NOW).unwrap();
    let action = go_on(&mut session, action, vec![], Status::Ok);
    assert!(matches!(&action, Action::AskModel(request) if request.tools.len() == 2));
    let Action::RunTools(run) = session.step(answers(calls(4, 4)), NOW).unwrap() else { panic!() };
    assert_eq!(run.len(), 2);
    let asked = go_on(&mut session, Action::RunTools(run), vec![], Status::Ok);
    let Action::AskModel(request) = &asked else { panic!("{asked:?}") };
    // The conversation has calls, so the request describes the tools, and forbids calls.
    assert_eq!((request.tools.len(), &request.tool_choice), (2, &ToolChoice::None));
    let rejected = request.messages.iter().filter(|message| message.content == BUDGET_EXHAUSTED).count();
    assert_eq!(rejected, 2);
    assert_eq!(BUDGET_EXHAUSTED, "[budget exhausted — tool call limit reached for this turn]");
    let done = go_on(&mut session, asked, vec![Response::text("prose")], Status::Ok);
    assert_eq!(done, Action::Finish(Ending::Answered { text: "prose".to_owned() }));
    assert_eq!(session.budget_usage().calls, 5);
}

#[test]
fn a_model_that_still_calls_is_not_asked_a_second_time() {
    // In the driver's protocol it may be no decision. The model was asked for prose, so the reply counts as prose.
    fn prose(text: &str) -> Action {
        Action::Finish(Ending::Answered { text: text.to_owned() })
    }

    fn check(reply: Response, expected: Action) {
        let mut session = of_five_calls();
        assert_eq!(run(&mut session, "one", vec![calls(1, 6), reply], Status::Ok), expected);
        assert_eq!(session.budget_usage().turns, 2);
        assert!(
            session.transcript().runs[0]
                .executions()
                .all(|execution| execution.call.id != "c9" || execution.has_error())
        );
    }

    check(calls(9, 1), exhausted(BudgetKind::Calls));
    check(Response::text("NONE:"), exhausted(BudgetKind::Calls));
    check(Response::text("AGAIN:prose"), prose("AGAIN:prose"));
    check(Response::text("EXTRACTION:prose"), prose("EXTRACTION:prose"));
}

#[test]
fn exactly_the_cap_is_not_over_it() {
    let mut session = of_five_calls();
    let asked = run(&mut session, "one", vec![calls(1, 5)], Status::Ok);
    assert!(matches!(&asked, Action::AskModel(request) if request.tool_choice == ToolChoice::Auto));
}

#[test]
fn default_budget_allows_four_batches_of_six_calls() {
    let mut session = session(SessionConfig::default());
    let replies = [1, 11, 21, 31].map(|first| calls(first, 6));
    let asked = run(&mut session, "one", replies.to_vec(), Status::Ok);
    assert!(matches!(&asked, Action::AskModel(request) if request.tool_choice == ToolChoice::Auto), "{asked:?}");
    assert_eq!(session.budget_usage().calls, 24);
}

#[test]
fn omits_tools_from_a_prose_request_without_calls() {
    let mut session = with(Budget { calls: 0, ..Budget::default() });
    session.step(says("one"), NOW).unwrap();
    let action = session.step(answers(Response::text("INFER:now answer")), NOW).unwrap();
    let Action::AskModel(request) = &action else { panic!("{action:?}") };
    assert_eq!((request.tools.len(), &request.tool_choice), (0, &ToolChoice::None));
}

#[test]
fn time_in_tools_is_not_time_of_the_stream() {
    let mut session = session(SessionConfig::default());
    session.step(says("one"), NOW).unwrap();
    let slow = Duration::from_secs(500);
    session.step(Input::ModelAnswered { response: calls(1, 1), streamed: Duration::from_secs(59) }, NOW).unwrap();
    let outcome = outcome(&[call("c1", "add", "{}")], Status::Ok, NOW);
    let later = NOW.saturating_add(slow);
    let asked = session.step(Input::ToolsFinished { outcome, blocked: slow }, later).unwrap();
    assert!(matches!(asked, Action::AskModel(_)), "a slow tool still yields an answer");
    assert_eq!(session.config().budget.remaining_stream_time(session.budget_usage()), Some(Duration::from_secs(1)));
    // The text that the model wrote before it was cut off is kept.
    let cut =
        Input::RanOut { budget: BudgetKind::StreamTime, text: "half an ans".to_owned(), after: Duration::from_secs(1) };
    let ending = Ending::BudgetExhausted { budget: BudgetKind::StreamTime, text: "half an ans".to_owned() };
    assert_eq!(session.step(cut, later).unwrap(), Action::Finish(ending));
    assert_eq!((session.budget_usage().streamed, session.budget_usage().blocked), (Duration::from_secs(60), slow));
}

#[test]
fn every_budget_trip_is_typed_and_discards_nothing() {
    fn check(budget: Budget, kind: BudgetKind, ran: usize) {
        let mut session = with(budget);
        let mut first = calls(1, 3);
        first.usage = Usage::new(100, 10);
        assert_eq!(run(&mut session, "one", vec![first, calls(4, 1)], Status::Ok), exhausted(kind), "{kind:?}");
        let run = &session.transcript().runs[0];
        assert_eq!(run.executions().filter(|execution| execution.status == Status::Ok).count(), ran, "{kind:?}");
    }

    check(Budget { calls_in_all: Some(2), ..Budget::default() }, BudgetKind::CallsInAll, 2);
    check(Budget { tokens_in: Some(100), ..Budget::default() }, BudgetKind::TokensIn, 3);
    check(Budget { tokens_out: Some(10), ..Budget::default() }, BudgetKind::TokensOut, 3);
    check(Budget { fuel: Some(30), ..Budget::default() }, BudgetKind::Fuel, 3);
    check(Budget { turns: 1, ..Budget::default() }, BudgetKind::Turns, 3);
    check(Budget { stream_time: Some(Duration::from_millis(5)), ..Budget::default() }, BudgetKind::StreamTime, 3);
    check(Budget { turns: 0, ..Budget::default() }, BudgetKind::Turns, 0);
}

#[test]
fn tokens_of_answers_are_counted_and_only_a_limit_of_the_drivers_is_sent() {
    fn check(max_tokens: Option<u32>, expected: Option<u32>) {
        let plain = Plain { max_tokens, ..Plain::default() };
        let budget = Budget { tokens_out: Some(100), ..Budget::default() };
        let mut session = Session::new(SessionConfig { budget, ..SessionConfig::default() }, Box::new(plain));
        let mut first = calls(1, 1);
        first.usage.output = 70;
        let action = run(&mut session, "one", vec![first], Status::Ok);
        assert!(matches!(&action, Action::AskModel(request) if request.max_tokens == expected), "{action:?}");
    }

    check(None, None);
    check(Some(20), Some(20));
    check(Some(50), Some(30));
}

#[test]
fn calls_that_the_tenant_has_no_fuel_for_are_kept() {
    let mut session = session(SessionConfig::default());
    session.step(says("one"), NOW).unwrap();
    session.step(answers(calls(1, 1)), NOW).unwrap();
    let budget = BudgetKind::TenantFuel;
    let out = Input::RanOut { budget, text: String::new(), after: Duration::ZERO };
    assert_eq!(session.step(out, NOW).unwrap(), exhausted(budget));
    assert_eq!(session.transcript().runs[0].steps[0].executions[0].status, Status::RejectedBudget);
}

#[test]
fn the_same_call_for_ever_is_a_loop() {
    fn same_call() -> Response {
        Response::calls(vec![call("x", "add", r#"{"a":1}"#)])
    }

    let mut session = session(SessionConfig::default());
    let done = run(&mut session, "one", vec![same_call(), same_call(), same_call()], Status::Ok);
    assert_eq!(done, Action::Finish(Ending::LoopDetected { tool: "add".to_owned(), times: 3 }));
    let statuses: Vec<_> = session.transcript().runs[0].executions().map(|execution| execution.status).collect();
    assert_eq!(statuses, [Status::Ok, Status::Ok, Status::RejectedDenied]);
}

#[test]
fn a_loop_can_be_told_instead() {
    fn same_call() -> Response {
        Response::calls(vec![call("x", "add", r#"{"a":1}"#)])
    }

    let repetition = NonZeroU32::new(2).map(|times| Repetition { times, then: OnRepetition::Tell });
    let mut session = session(SessionConfig { repetition, ..SessionConfig::default() });
    let asked = run(&mut session, "one", vec![same_call(), same_call()], Status::Ok);
    let Action::AskModel(request) = &asked else { panic!("{asked:?}") };
    assert!(request.messages.last().unwrap().content.contains("2 times in a row"));
}
