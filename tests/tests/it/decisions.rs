//! The same calls through every face: each decides alike, whoever calls.

use std::convert::Infallible;
use std::sync::Arc;

use fumehood::agent::agent::SystemClock;
use fumehood::agent::code::{CodeMode, CodeProvider};
use fumehood::boxed::BoxFuture;
use fumehood::flow::{FlowLabel, FlowLabels, FlowPolicy};
use fumehood::listener::TenantTools;
use fumehood::mcp::Access;
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::policy::{Answer, Approver, Decision, Outcome, Policies, Policy, Question, Ruling};
use fumehood::{
    Arguments, Call, CallContext, CallError, CallResult, Content, ErrorKind, Host, Stack, ToolProvider, ValidatedCall,
};
use serde_json::{Value, json};

use crate::listener::test_server::{Face as Protocol, TestServer};
use crate::mcp::raw::host;

/// A way to a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Face {
    Stack,
    Program,
    Mcp,
    Http,
    AgentWithRule,
    AgentWithHook,
    ProgramOfAgent,
}

const FACES: [Face; 7] =
    [Face::Stack, Face::Program, Face::Mcp, Face::Http, Face::AgentWithRule, Face::AgentWithHook, Face::ProgramOfAgent];

/// A policy that decides by the first number of a call.
struct Numbers;

impl Policy for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }

    fn decides_on_results(&self) -> bool {
        true
    }

    fn authorize<'a>(
        &'a self,
        call: &'a ValidatedCall,
        _: &'a CallContext,
    ) -> BoxFuture<'a, Result<Decision<Infallible>, CallError>> {
        let decision = if call.arguments()["a"] == 10 { Decision::deny("not you") } else { Decision::Allow };
        Box::pin(std::future::ready(Ok(decision)))
    }

    fn before<'a>(&'a self, call: &'a ValidatedCall, _: &'a CallContext) -> BoxFuture<'a, Result<Ruling, CallError>> {
        let rewrite = |arguments: Value| Decision::Rewrite { to: Arguments::Value(arguments), note: None };
        Box::pin(async move {
            let decision = match call.arguments()["a"].as_i64() {
                Some(20) => rewrite(json!({"a": 1, "b": 1})),
                Some(21) => rewrite(json!({"a": 10, "b": 1})),
                Some(22) => rewrite(json!({"a": "one"})),
                Some(30) => Decision::deny("not today"),
                Some(31) => return Err(CallError::new(ErrorKind::Trap, "it failed")),
                Some(32) => panic!("broken on purpose"),
                Some(40) => Decision::ask("may it?"),
                _ => Decision::Allow,
            };
            Ok(decision.into())
        })
    }

    fn after<'a>(
        &'a self,
        call: &'a ValidatedCall,
        _: &'a CallContext,
        _: &'a Result<Vec<Content>, CallError>,
    ) -> BoxFuture<'a, Result<Decision<Outcome>, CallError>> {
        let json = |text: &str| vec![Content::json(text.to_owned()).unwrap()];
        let decision = match call.arguments()["a"].as_i64() {
            Some(50) => Decision::Rewrite { to: Ok(json(r#"{"result": 7}"#)), note: None },
            Some(51) => Decision::Rewrite { to: Ok(json(r#"{"result": "seven"}"#)), note: None },
            Some(52) => Decision::deny("not for you"),
            _ => Decision::Allow,
        };
        Box::pin(std::future::ready(Ok(decision)))
    }
}

/// A person who always gives this answer.
struct Person(Answer);

impl Approver for Person {
    fn ask<'a>(&'a self, _: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(self.0.clone()))
    }
}

/// The last of some calls of the calculator, with the outcome without a person, with a yes, and with a no.
struct Case {
    calls: &'static [(&'static str, &'static str)],
    outcomes: [&'static str; 3],
}

const fn case(calls: &'static [(&'static str, &'static str)], outcome: &'static str) -> Case {
    Case { calls, outcomes: [outcome; 3] }
}

const CASES: [Case; 14] = [
    case(&[("add", r#"{"a": 1, "b": 2}"#)], "3"),
    case(&[("add", r#"{"a": 1}"#)], "invalid_arguments"),
    case(&[("add", r#"{"a": 10, "b": 2}"#)], "unauthorized"),
    case(&[("add", r#"{"a": 20, "b": 2}"#)], "2"),
    // What a policy changed is authorized and validated again.
    case(&[("add", r#"{"a": 21, "b": 2}"#)], "unauthorized"),
    case(&[("add", r#"{"a": 22, "b": 2}"#)], "denied"),
    case(&[("add", r#"{"a": 30, "b": 2}"#)], "denied"),
    case(&[("add", r#"{"a": 31, "b": 2}"#)], "denied"),
    case(&[("add", r#"{"a": 32, "b": 2}"#)], "denied"),
    Case { calls: &[("add", r#"{"a": 40, "b": 2}"#)], outcomes: ["needs_approval", "42", "denied"] },
    case(&[("add", r#"{"a": 50, "b": 2}"#)], "7"),
    case(&[("add", r#"{"a": 51, "b": 2}"#)], "denied"),
    case(&[("add", r#"{"a": 52, "b": 2}"#)], "denied"),
    Case {
        calls: &[("divide", r#"{"a": 4, "b": 2}"#), ("add", r#"{"a": 1, "b": 2}"#)],
        outcomes: ["needs_approval", "3", "denied"],
    },
];

fn flows(is_denied: bool) -> FlowPolicy {
    FlowPolicy::new()
        .deny(is_denied)
        .label_tool("calculator__divide", FlowLabels::default().source(FlowLabel::Private))
        .label_tool("calculator__add", FlowLabels::default().sink(FlowLabel::Public))
}

/// A host with a policy, and perhaps a person who is asked.
struct Setting {
    host: Host,
    flows: FlowPolicy,
    answer: Option<Answer>,
}

impl Setting {
    fn policies() -> Policies {
        [Arc::new(Numbers) as Arc<dyn Policy>].into_iter().collect()
    }

    fn approver(&self) -> Option<Arc<dyn Approver>> {
        self.answer.clone().map(|answer| Arc::new(Person(answer)) as _)
    }

    fn stack(&self) -> Arc<dyn ToolProvider> {
        let stack = Stack::new().policies(Self::policies()).flows(Some(self.flows.clone()));
        stack.approver(self.approver()).around([self.host.clone()])
    }

    /// Makes these calls, and returns the outcome of the last one: its number, or the kind of its error.
    async fn last_outcome(&self, face: Face, calls: &[(&str, &str)]) -> String {
        match face {
            Face::Stack => {
                let tools = self.stack();
                let mut last = String::new();
                for (tool, arguments) in calls {
                    last = outcome_of(&tools.dispatch(Call::new(format!("calculator__{tool}"), *arguments)).await);
                }
                last
            }
            Face::Program => {
                let interpreter = Arc::new(self.host.javascript());
                let mode = CodeMode::only();
                let tools = CodeProvider::new(self.stack(), interpreter, mode, Arc::new(SystemClock)).unwrap();
                outcome_in(
                    &tools.dispatch(Call::new("run_code", json!({"code": program(calls)}))).await.text().unwrap(),
                )
            }
            Face::Mcp | Face::Http => self.last_answer(face, calls).await,
            Face::AgentWithRule | Face::AgentWithHook => {
                let replies = calls
                    .iter()
                    .map(|(tool, arguments)| ScriptedReply::call(format!("calculator__{tool}"), *arguments));
                outcome_of(&self.last_result(face, replies.collect()).await)
            }
            Face::ProgramOfAgent => {
                let code = json!({"code": program(calls)}).to_string();
                let result = self.last_result(face, vec![ScriptedReply::call("run_code", code)]).await;
                outcome_in(&result.text().unwrap())
            }
        }
    }

    async fn last_answer(&self, face: Face, calls: &[(&str, &str)]) -> String {
        let protocol = if face == Face::Mcp { Protocol::Mcp } else { Protocol::Http };
        let served = TestServer::both(protocol, TenantTools::new(self.stack()), Access::Anyone).await;
        let mut last = String::new();
        for (tool, arguments) in calls {
            let arguments = serde_json::from_str(arguments).unwrap();
            last = served.send(&served.call(&[], &format!("calculator__{tool}"), &arguments)).await.1;
        }
        served.end().await;
        outcome_in(&last)
    }

    /// Runs an agent whose model makes these calls, and returns the result of the last one.
    async fn last_result(&self, face: Face, mut replies: Vec<ScriptedReply>) -> CallResult {
        replies.push(ScriptedReply::text("done"));
        let agent = self.host.agent(Arc::new(ScriptedModel::new(replies))).allow_everything().flows(self.flows.clone());
        let mut agent = match face {
            Face::AgentWithRule => agent.pipeline(|pipeline| pipeline.rule(Arc::new(Numbers))),
            Face::ProgramOfAgent => agent.hooks(Self::policies()).code(CodeMode::only()),
            _ => agent.hooks(Self::policies()),
        };
        if let Some(approver) = self.approver() {
            agent = agent.approver(approver);
        }
        let outcome = agent.build().unwrap().run("go").await.unwrap();
        outcome.run.executions().last().unwrap().result.clone()
    }
}

/// Returns a program that makes these calls and returns what became of the last one, in the form of an answer.
fn program(calls: &[(&str, &str)]) -> String {
    let calls = calls.iter().map(|(tool, arguments)| format!("last = await tools.calculator.{tool}({arguments});"));
    let calls = calls.collect::<String>();
    format!(
        "let last; try {{ {calls} return {{result: last.result ?? last}} }} catch (e) {{ return {{kind: e.kind}} }}"
    )
}

fn outcome_of(result: &CallResult) -> String {
    match result.error() {
        Some(error) => error.kind.to_string(),
        None => outcome_in(&result.text().unwrap()),
    }
}

/// Returns the kind of an error in an answer, or its number.
fn outcome_in(answer: &str) -> String {
    let after = |name: &str| answer.rsplit_once(name).map(|(_, rest)| rest.trim_start_matches([' ', '"']));
    let found = after(r#""kind":"#).or_else(|| after(r#""result":"#)).unwrap_or_else(|| panic!("{answer}"));
    found.chars().take_while(|char| char.is_ascii_alphanumeric() || *char == '_').collect()
}

#[tokio::test]
async fn every_face_decides_alike() {
    let host = host(&["calculator"], &[]).await;
    for (number, answer) in [None, Some(Answer::Allow), Some(Answer::no())].into_iter().enumerate() {
        for face in FACES {
            let setting = Setting { host: host.clone(), flows: flows(false), answer: answer.clone() };
            for Case { calls, outcomes } in &CASES {
                let outcome = setting.last_outcome(face, calls).await;
                assert_eq!(outcome, outcomes[number], "{face:?}, {answer:?}: {calls:?}");
            }
            let setting = Setting { flows: flows(true), ..setting };
            let outcome = setting.last_outcome(face, CASES[CASES.len() - 1].calls).await;
            assert_eq!(outcome, "denied", "{face:?}, {answer:?}");
        }
    }
}
