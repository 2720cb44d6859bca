//! Tests of the order of policies, and of what they may decide.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::boxed::BoxFuture;
use crate::call::client_requests::{ClientRequestKind, ClientRequests};
use crate::call::content::Content;
use crate::call::error_kind::ErrorKind;
use crate::call::event::Progress;
use crate::call::history::PastCall;
use crate::call::result::{CallError, CallResult, Metadata};
use crate::call::{Arguments, CallContext, ErrorDetails, Observer, ResultMembers};
use crate::policy::flow::FlowPolicy;
use crate::schema::gate::{Gate, GateLimits};
use crate::text::untrusted::Untrusted;
use crate::tool::definition::{Annotations, ToolDefinition};
use crate::tool::name::ToolName;
use crate::tool::{Tool, ValidatedCall};

type Log = Arc<Mutex<Vec<String>>>;
type Before = Box<dyn Fn(&Value) -> Result<Decision<Arguments>, CallError> + Send + Sync>;
type After = Box<dyn Fn(&Result<Vec<Content>, CallError>) -> Result<Decision<Outcome>, CallError> + Send + Sync>;

/// A hook made of functions, which writes down when it runs.
struct Scripted {
    name: &'static str,
    log: Log,
    denies: Option<Value>,
    before: Before,
    after: After,
}

impl Policy for Scripted {
    fn name(&self) -> &str {
        self.name
    }

    fn applies_to(&self, tool: &Tool) -> bool {
        tool.full_name() != "other"
    }

    fn decides_on_results(&self) -> bool {
        true
    }

    fn authorize<'a>(
        &'a self,
        call: &'a ValidatedCall,
        _: &'a CallContext,
    ) -> BoxFuture<'a, Result<Decision<Infallible>, CallError>> {
        self.log.lock().unwrap().push(format!("{} authorize {}", self.name, call.arguments()));
        let is_denied = self.denies.as_ref() == Some(call.arguments());
        let reason = "not you".to_owned();
        let decision = if is_denied { Decision::deny(reason) } else { Decision::Allow };
        Box::pin(std::future::ready(Ok(decision)))
    }

    fn before<'a>(&'a self, call: &'a ValidatedCall, _: &'a CallContext) -> BoxFuture<'a, Result<Ruling, CallError>> {
        self.log.lock().unwrap().push(format!("{} before {}", self.name, call.arguments()));
        Box::pin(std::future::ready((self.before)(call.arguments()).map(Ruling::from)))
    }

    fn after<'a>(
        &'a self,
        _: &'a ValidatedCall,
        _: &'a CallContext,
        outcome: &'a Result<Vec<Content>, CallError>,
    ) -> BoxFuture<'a, Result<Decision<Outcome>, CallError>> {
        self.log.lock().unwrap().push(format!("{} after", self.name));
        Box::pin(std::future::ready((self.after)(outcome)))
    }
}

fn hook(name: &'static str, log: &Log) -> Scripted {
    let before: Before = Box::new(|_| Ok(Decision::Allow));
    let after: After = Box::new(|_| Ok(Decision::Allow));
    Scripted { name, log: Arc::clone(log), denies: None, before, after }
}

fn hooks(hooks: impl IntoIterator<Item = Scripted>) -> CallChecks {
    let hooks = hooks.into_iter().map(|hook| Arc::new(hook) as Arc<dyn Policy>).collect();
    CallChecks { hooks, ..CallChecks::default() }
}

/// A delegate that collects decisions, and answers questions.
#[derive(Default)]
struct Desk {
    verdicts: Vec<String>,
    asked: Vec<CallQuestion>,
    answer: Option<Answer>,
}

impl CheckDelegate for Desk {
    fn decide_flow(&self, policy: &FlowPolicy, tool: &Tool) -> Decision<Infallible> {
        let past = [PastCall { tool: "gone".to_owned(), number: 1 }];
        policy.decide(tool, &past, |_| None::<Arc<Tool>>)
    }

    fn record<'a>(&'a mut self, verdict: Verdict<'a>) -> BoxFuture<'a, Result<(), CallError>> {
        let Verdict { by, decision, arguments, .. } = verdict;
        self.verdicts.push(format!("{by} {decision} {arguments}"));
        Box::pin(std::future::ready(Ok(())))
    }

    fn ask<'a>(&'a mut self, question: &'a CallQuestion) -> BoxFuture<'a, Option<Answer>> {
        self.asked.push(question.clone());
        Box::pin(std::future::ready(self.answer.clone()))
    }
}

/// Takes a call through checks where nobody can be asked.
async fn clear(checks: &CallChecks, call: ValidatedCall) -> Result<ValidatedCall, CallError> {
    let cleared = checks.clear(call, &CallContext::default(), &mut Desk::default()).await;
    cleared.map_err(CheckError::into_error)
}

fn tool(name: &str) -> Arc<Tool> {
    let input = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let output = json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
    let gate = Gate::for_arguments(&input, GateLimits::default()).unwrap();
    let results = Gate::for_results(&output, GateLimits::default()).unwrap();
    let definition = ToolDefinition {
        name: ToolName::parse(name).unwrap(),
        export: None,
        title: None,
        description: "Adds.".to_owned().into(),
        input_schema: input.into(),
        output_schema: Some(output.into()),
        annotations: Annotations::default(),
        mcp_members: None,
    };
    Arc::new(Tool::new(definition, gate).result_gate(Some(results)))
}

fn call(arguments: Value) -> ValidatedCall {
    tool("add").validate(Arguments::Value(arguments)).unwrap()
}

fn result() -> CallResult {
    let outcome = Ok(vec![Content::json(r#"{"sum":3}"#.to_owned()).unwrap()]);
    CallResult { id: "1".to_owned(), tool: "add".to_owned(), outcome, metadata: Metadata::default() }
}

fn modify(arguments: &str) -> Before {
    let arguments = arguments.to_owned();
    Box::new(move |_| Ok(Decision::Rewrite { to: Arguments::Text(arguments.clone()), note: None }))
}

#[tokio::test]
async fn runs_hooks_in_order_and_authorizes_changed_arguments_again() {
    let log = Log::default();
    let first = Scripted { before: modify(r#"{"n":2}"#), ..hook("first", &log) };
    let cleared = clear(&hooks([first, hook("second", &log)]), call(json!({"n": 1}))).await.unwrap();
    assert_eq!(cleared.arguments(), &json!({"n": 2}));
    let expected = [
        r#"first authorize {"n":1}"#,
        r#"second authorize {"n":1}"#,
        r#"first before {"n":1}"#,
        r#"second before {"n":2}"#,
        r#"first authorize {"n":2}"#,
        r#"second authorize {"n":2}"#,
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}

/// Returns the error of a call with `{"n": 1}` before which this hook runs.
async fn refusal(hook: Scripted) -> CallError {
    clear(&hooks([hook]), call(json!({"n": 1}))).await.unwrap_err()
}

#[tokio::test]
async fn refuses_what_hooks_deny_or_change_to_invalid_arguments() {
    fn error() -> CallError {
        CallError::new(ErrorKind::Denied, "never on Sundays")
    }

    async fn check(hook: Scripted, kind: ErrorKind, part: &str) {
        let error = refusal(hook).await;
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.as_str().contains("`h`") && error.message.as_str().contains(part), "{error}");
    }

    let log = Log::default();
    check(Scripted { denies: Some(json!({"n": 1})), ..hook("h", &log) }, ErrorKind::Unauthorized, "not you").await;
    let changed = Scripted { denies: Some(json!({"n": 2})), before: modify(r#"{"n":2}"#), ..hook("h", &log) };
    check(changed, ErrorKind::Unauthorized, "not you").await;
    for widened in ["{}", r#"{"n":"2"}"#, r#"{"n":2,"m":3}"#, r#"{"n":2,"n":3}"#, "nonsense", ""] {
        check(Scripted { before: modify(widened), ..hook("h", &log) }, ErrorKind::Denied, "to invalid ones").await;
    }
    let denies: Before = Box::new(move |_| Ok(Decision::Deny { error: error() }));
    check(Scripted { before: denies, ..hook("h", &log) }, ErrorKind::Denied, "never on Sundays").await;
    let fails: Before = Box::new(|_| Err(CallError::new(ErrorKind::Deadline, "too slow")));
    check(Scripted { before: fails, ..hook("h", &log) }, ErrorKind::Denied, "deadline: too slow").await;
}

#[tokio::test]
async fn asks_questions_with_the_name_of_their_hook() {
    let log = Log::default();
    let asks: Before = Box::new(|_| Ok(Decision::ask("Really?")));
    let asking = hooks([Scripted { before: asks, ..hook("h", &log) }]);
    for (answer, kind) in [
        (None, Some(ErrorKind::NeedsApproval)),
        (Some(Answer::Defer), Some(ErrorKind::NeedsApproval)),
        (Some(Answer::no()), Some(ErrorKind::Denied)),
        (Some(Answer::Allow), None),
    ] {
        let mut desk = Desk { answer, ..Desk::default() };
        let cleared = asking.clear(call(json!({"n": 1})), &CallContext::default(), &mut desk).await;
        assert_eq!(cleared.err().map(|uncleared| uncleared.into_error().kind), kind);
        let [question] = desk.asked.as_slice() else { panic!("{:?}", desk.asked) };
        assert_eq!((question.from.as_str(), question.question.as_str()), ("the hook `h`", "Really?"));
        assert_eq!(question.proposed.arguments, json!({"n": 1}));
    }
}

#[tokio::test]
async fn rules_and_flows_decide_again_on_what_a_hook_changed() {
    let log = Log::default();
    let rule = Scripted { denies: Some(json!({"n": 3})), ..hook("rule", &log) };
    let asks: Before =
        Box::new(|arguments| Ok(if arguments["n"] == 2 { Decision::ask("Two?") } else { Decision::Allow }));
    let rules: Policies = [Arc::new(Scripted { before: asks, ..rule }) as Arc<dyn Policy>].into_iter().collect();
    let with = |to: &str| {
        let changing = hooks([Scripted { before: modify(to), ..hook("hook", &log) }]);
        CallChecks { rules: rules.clone(), flows: Some(FlowPolicy::new()), ..changing }
    };
    let mut desk = Desk { answer: Some(Answer::Allow), ..Desk::default() };
    let checks = with(r#"{"n":2}"#);
    let cleared = checks.clear(call(json!({"n": 1})), &CallContext::default(), &mut desk).await.unwrap();
    assert_eq!(cleared.arguments(), &json!({"n": 2}));
    let expected = [
        r#"rule allow {"n":1}"#,
        r#"flows ask {"n":1}"#,
        r#"human allow {"n":1}"#,
        r#"hook modify {"n":2}"#,
        r#"rule ask {"n":2}"#,
        r#"human allow {"n":2}"#,
        r#"flows ask {"n":2}"#,
        r#"human allow {"n":2}"#,
    ];
    assert_eq!(desk.verdicts, expected);
    let refused = with(r#"{"n":3}"#).clear(call(json!({"n": 1})), &CallContext::default(), &mut desk).await;
    assert!(matches!(&refused, Err(CheckError::Refused { by: Check::Rule, .. })), "{refused:?}");
}

#[tokio::test]
async fn panics_of_policies_refuse_the_call_or_withhold_the_result() {
    let log = Log::default();
    let panics: Before = Box::new(|_| panic!("broken on purpose"));
    let error = refusal(Scripted { before: panics, ..hook("h", &log) }).await;
    assert_eq!(
        (error.kind, error.message.as_str().contains("broken on purpose")),
        (ErrorKind::Denied, true),
        "{error}"
    );
    let panics: After = Box::new(|_| panic!("broken on purpose"));
    let after = hooks([Scripted { after: panics, ..hook("h", &log) }]);
    let result = after.after(&call(json!({"n": 1})), &CallContext::default(), result()).await;
    assert_eq!(result.error().map(|error| error.kind), Some(ErrorKind::Denied));
}

#[tokio::test]
async fn withholds_what_hooks_reject_or_change_to_invalid_results() {
    async fn check(after: After, part: &str) {
        let hooks = hooks([Scripted { after, ..hook("h", &Log::default()) }]);
        let result = hooks.after(&call(json!({"n": 1})), &CallContext::default(), result()).await;
        let error = result.error().unwrap();
        assert_eq!(error.kind, ErrorKind::Denied);
        assert!(error.message.as_str().contains("`h`") && error.message.as_str().contains(part), "{error}");
    }

    fn wrong_result() -> Vec<Content> {
        vec![Content::json(r#"{"sum":"3"}"#.to_owned()).unwrap()]
    }

    check(Box::new(|_| Ok(Decision::deny("secret"))), "secret").await;
    check(Box::new(|_| Err(CallError::new(ErrorKind::Trap, "it crashed"))), "trap: it crashed").await;
    check(Box::new(|_| Ok(Decision::Rewrite { to: Ok(vec![Content::text("3")]), note: None })), "to an invalid one")
        .await;
    check(Box::new(|_| Ok(Decision::Rewrite { to: Ok(Vec::new()), note: None })), "to an invalid one").await;
    check(Box::new(move |_| Ok(Decision::Rewrite { to: Ok(wrong_result()), note: None })), "to an invalid one").await;
}

#[tokio::test]
async fn passes_on_replaced_results_and_messages() {
    let log = Log::default();
    let four: After = Box::new(|_| {
        Ok(Decision::Rewrite { to: Ok(vec![Content::json(r#"{"sum":4}"#.to_owned()).unwrap()]), note: None })
    });
    let replacing = hooks([Scripted { after: four, ..hook("h", &log) }]);
    let replaced = replacing.after(&call(json!({"n": 1})), &CallContext::default(), result()).await;
    assert_eq!(replaced.text().as_deref(), Some(r#"{"sum":4}"#));
    let message: After = Box::new(|_| Ok(Decision::Rewrite { to: Err("[left out]".to_owned()), note: None }));
    let failed = CallError::new(ErrorKind::Quota, "a@b.c").with_hint("write to a@b.c");
    let failed = CallResult { outcome: Err(failed), ..result() };
    let rewriting = hooks([Scripted { after: message, ..hook("h", &log) }]);
    let rewritten = rewriting.after(&call(json!({"n": 1})), &CallContext::default(), failed).await;
    assert_eq!(rewritten.error(), Some(&CallError::new(ErrorKind::Quota, "[left out]")));
}

/// A client that answers everything.
struct Willing;

impl ClientRequests for Willing {
    fn session(&self) -> u64 {
        7
    }

    fn send(&self, _kind: ClientRequestKind, params: Value) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(std::future::ready(Ok(params)))
    }
}

#[tokio::test]
async fn what_hooks_do_not_see_is_dropped() {
    fn members() -> Option<Box<ResultMembers>> {
        Some(Box::new(ResultMembers { meta: member(), parts: None }))
    }

    fn member() -> Option<Untrusted<Value>> {
        Some(Untrusted::new(json!({"a": "a@b.c"})))
    }

    let hooks = hooks([hook("h", &Log::default())]);
    let details = ErrorDetails { data: member(), ..ErrorDetails::default() };
    let failed = CallError::new(ErrorKind::ToolFailed, "no").with_details(details);
    for outcome in [result().outcome, Err(failed)] {
        let mut given = CallResult { outcome, ..result() };
        given.metadata.members = members();
        let kept = hooks.after(&call(json!({"n": 1})), &CallContext::default(), given).await;
        assert!(
            kept.metadata.members.is_none() && kept.error().is_none_or(|error| error.details.is_none()),
            "{kept:?}"
        );
    }
    let client_meta = json!({"a": 1}).as_object().cloned().map(Arc::new);
    for (tool, expected) in [("add", Err("the tool has hooks")), ("other", Ok(()))] {
        let client_requests = Some(Arc::new(Willing) as Arc<dyn ClientRequests>);
        let mut context = CallContext { client_meta: client_meta.clone(), client_requests, ..CallContext::default() };
        hooks.hold_back(&self::tool(tool), &mut context);
        assert_eq!(context.client_meta.is_some(), expected.is_ok(), "{tool}");
        let client = context.client_requests.unwrap();
        let answer = client.send(ClientRequestKind::Elicitation, json!({})).await;
        assert_eq!((client.session(), answer.is_ok()), (7, expected.is_ok()), "{tool}");
        if let (Err(why), Err(expected)) = (answer, expected) {
            assert!(why.starts_with(expected), "{why}");
        }
    }
}

#[tokio::test]
async fn leaves_other_tools_alone() {
    let log = Log::default();
    let hooks = hooks([Scripted { denies: Some(json!({"n": 1})), ..hook("h", &log) }]);
    let other = tool("other").validate(Arguments::Value(json!({"n": 1}))).unwrap();
    assert!(clear(&hooks, other).await.is_ok());
    assert!(!hooks.decide_on_results(&tool("other")) && hooks.decide_on_results(&tool("add")));
    assert!(log.lock().unwrap().is_empty());
}

#[test]
fn holds_back_partial_results() {
    #[derive(Default)]
    struct Seen(Mutex<Vec<Progress>>);
    impl Observer for Seen {
        fn progress(&self, progress: Progress) {
            self.0.lock().unwrap().push(progress);
        }
    }
    let seen = Arc::new(Seen::default());
    let mut context = CallContext { observer: Some(Arc::clone(&seen) as _), ..CallContext::default() };
    hooks([hook("h", &Log::default())]).hold_back(&tool("add"), &mut context);
    let partial = vec![Content::text("a@b.c")];
    context.report(Progress { fraction: Some(0.5), message: Some("a@b.c".into()), partial: partial.clone() });
    context.report(Progress { fraction: None, message: None, partial });
    let seen = seen.0.lock().unwrap();
    assert!(
        matches!(seen.as_slice(), [only] if only.fraction == Some(0.5) && only.partial.is_empty() && only.message.is_none())
    );
}
