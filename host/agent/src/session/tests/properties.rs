//! Property tests: for any replies and results, no budget is exceeded, and the run ends in a typed state.

use std::time::Duration;

use fumehood_core::chat::{ModelError, ModelFailure, Response, ToolIntent, Usage};
use proptest::prelude::*;

use super::world::{NOW, execution, says, session};
use crate::execution::Status;
use crate::executor::{BatchEnd, BatchOutcome};
use crate::session::budget::{Budget, BudgetKind};
use crate::session::{Action, Input, SessionConfig};

fn any_call() -> impl Strategy<Value = ToolIntent> {
    let id = prop_oneof![Just(String::new()), Just("a".to_owned()), ".{0,4}"];
    let name =
        prop_oneof![Just("add".to_owned()), Just("odd".to_owned()), Just("decision_extraction".to_owned()), ".{0,6}"];
    let arguments = prop_oneof![Just("{}".to_owned()), Just(r#"{"a":1}"#.to_owned()), ".{0,20}"];
    (id, name, arguments).prop_map(|(id, name, arguments)| ToolIntent { id, name, arguments })
}

fn any_text() -> impl Strategy<Value = String> {
    let forms = prop::sample::select(vec!["", " \n", "AGAIN:x", "INFER:x", "NONE:", "EXTRACTION:", "VALIDATION:"]);
    prop_oneof![
        8 => forms.prop_map(str::to_owned),
        3 => ".{0,30}",
        1 => Just("x".repeat(2 << 20)),
    ]
}

/// Generates an input in response to a request.
fn any_reply() -> impl Strategy<Value = Input> {
    let usage = prop_oneof![Just(0u64), 0..10_000u64, Just(u64::MAX)];
    let time = prop_oneof![Just(Duration::ZERO), (0..70_000u64).prop_map(Duration::from_millis), Just(Duration::MAX)];
    let failures = vec![ModelFailure::ToolsUnsupported, ModelFailure::Refused, ModelFailure::Timeout];
    let body = prop_oneof![
        any_text().prop_map(Response::text),
        prop::collection::vec(any_call(), 0..9).prop_map(Response::calls)
    ];
    let answer = (body, usage, time).prop_map(|(response, tokens, streamed)| {
        let usage = Usage::new(tokens, tokens);
        Input::ModelAnswered { response: Response { usage, ..response }, streamed }
    });
    let failure = prop::sample::select(failures).prop_map(|failure| {
        let error = ModelError { status: Some(400), ..ModelError::new(failure, "tools") };
        Input::ModelFailed { error, streamed: Duration::ZERO }
    });
    let cut = Just(Input::RanOut { budget: BudgetKind::StreamTime, text: "x".to_owned(), after: Duration::MAX });
    prop_oneof![20 => answer, 2 => failure, 1 => cut, 1 => Just(Input::Cancelled)]
}

/// Generates the behaviour of tools: the number of results, whether they succeed, and the end of the batch.
fn any_batch() -> impl Strategy<Value = (usize, bool, Option<BatchEnd>)> {
    let ended = prop_oneof![
        8 => Just(None),
        1 => Just(Some(BatchEnd::Stop { reason: "x".to_owned() })),
        1 => (0..9usize).prop_map(|index| Some(BatchEnd::Failed { index })),
        1 => (0..9usize).prop_map(|index| Some(BatchEnd::Blocked { index })),
    ];
    (prop_oneof![Just(usize::MAX), 0..4usize], any::<bool>(), ended)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_run_ends_within_its_budget(
        replies in prop::collection::vec(any_reply(), 1..12),
        batches in prop::collection::vec(any_batch(), 1..12),
        turns in 0..10u32,
        calls in 0..7u32,
        loops in any::<bool>(),
    ) {
        let budget = Budget { turns, calls, fuel: Some(150), ..Budget::default() };
        let config = SessionConfig { budget, ..SessionConfig::default() };
        let repetition = config.repetition.filter(|_| loops);
        let mut session = session(SessionConfig { repetition, failed_batches: None, ..config });
        for _ in 0..3 {
            let (mut asked, mut ran) = (0, 0);
            let mut asked_for = 0;
            let mut action = session.step(says("go"), NOW).unwrap();
            loop {
                let input = match &action {
                    Action::AskModel(_) => {
                        asked += 1;
                        prop_assert!(asked <= turns, "{asked} requests of {turns}");
                        replies[asked as usize % replies.len()].clone()
                    }
                    Action::RunTools(wanted) => {
                        asked_for += wanted.len();
                        prop_assert!(!wanted.is_empty());
                        ran += wanted.len();
                        prop_assert!(ran <= calls as usize, "{ran} calls of {calls}");
                        let (back, ok, ended) = batches[asked as usize % batches.len()].clone();
                        let status = if ok { Status::Ok } else { Status::HandlerError };
                        let executions = wanted.iter().take(back).map(|call| execution(call, status, NOW)).collect();
                        Input::ToolsFinished { outcome: BatchOutcome::new(executions, ended), blocked: Duration::MAX }
                    }
                    Action::AskApprover(_) | Action::AwaitAnswers(_) => panic!("nobody is to be asked"),
                    Action::Finish(_) => break,
                };
                action = session.step(input, NOW).unwrap();
            }
            let run = session.transcript().runs.last().unwrap();
            prop_assert!(run.ending.is_some() && session.current_run().is_none());
            prop_assert!(run.executions().count() >= asked_for, "no call is lost");
            prop_assert!(session.budget_usage().calls <= calls && session.budget_usage().calls_in_all <= 40);
            prop_assert!(session.budget_usage().fuel <= 150 + 10 * 7);
        }
    }
}
