//! The order of the layers, and what each face records and returns for the same calls.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{Arguments, Call, CallContext};
use fumehood_core::flow::{FlowLabel, FlowLabels, FlowPolicy};
use fumehood_core::policy::call::{Answer, Approver, Decision, Outcome, Policies, Policy, PolicyFn, Question, Ruling};
use fumehood_core::record::{Durability, Record, RecordError, Recorder};
use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::tool::definition::{Annotations, ToolDefinition};
use fumehood_core::tool::name::ToolName;
use fumehood_core::tool::{Changes, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall};
use fumehood_layers::{CallLog, CallLogOptions, Source, Stack};
use serde_json::{Value, json};

/// What happened, in order.
type Log = Arc<Mutex<Vec<String>>>;

/// Tools that write down that they ran: `echo`, `read` and `fail`.
struct Tools {
    tools: Vec<Arc<Tool>>,
    log: Log,
    revision: Revision,
}

impl Tools {
    fn new(log: &Log) -> Self {
        let tools = ["echo", "fail", "read"].map(tool).to_vec();
        Self { tools, log: Arc::clone(log), revision: Revision::default() }
    }
}

fn tool(name: &str) -> Arc<Tool> {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let gate = Gate::for_arguments(&schema, GateLimits::default()).unwrap();
    let definition = ToolDefinition {
        name: ToolName::parse(name).unwrap(),
        export: None,
        title: None,
        description: name.to_owned().into(),
        input_schema: schema.into(),
        output_schema: None,
        annotations: Annotations::default(),
        mcp_members: None,
    };
    Arc::new(Tool::new(definition, gate))
}

impl ToolProvider for Tools {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Component
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        self.tools.clone()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.tools.iter().find(|tool| tool.full_name() == name).cloned()
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let tool = call.tool().full_name().to_owned();
        self.log.lock().unwrap().push(format!("run {tool} {}", call.to_text()));
        let outcome = match tool.as_str() {
            "fail" => Err(CallError::new(ErrorKind::ToolFailed, "it failed")),
            _ => Ok(vec![Content::text(call.arguments()["text"].as_str().unwrap())]),
        };
        let result = CallResult { id: context.id, tool, outcome, metadata: Metadata::default() };
        Box::pin(std::future::ready(Ok(result)))
    }

    fn changes(&self) -> Changes {
        self.revision.subscribe()
    }
}

/// A recorder that writes down the kind and the status of each record of a call.
struct Records(Log);

impl Recorder for Records {
    fn record(&self, record: Record, _: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        if record.call.is_some() {
            let status = record.status.as_deref().unwrap_or("-");
            let arguments = record.body.get("arguments").map(Value::to_string).unwrap_or_default();
            let line = format!("{} {status} {arguments}", record.kind.as_str());
            self.0.lock().unwrap().push(line.trim_end().to_owned());
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A policy that decides by the text of a call, before and after it runs.
struct Words(Log);

impl Policy for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn decides_on_results(&self) -> bool {
        true
    }

    fn before<'a>(&'a self, call: &'a ValidatedCall, _: &'a CallContext) -> BoxFuture<'a, Result<Ruling, CallError>> {
        self.0.lock().unwrap().push("before".to_owned());
        let decision = match call.arguments()["text"].as_str() {
            Some("rewrite") => {
                Decision::Rewrite { to: Arguments::Text(r#"{"text":"rewritten"}"#.to_owned()), note: None }
            }
            Some("break") => Decision::Rewrite { to: Arguments::Text("{}".to_owned()), note: None },
            Some("deny") => Decision::deny("not today"),
            Some("ask") => Decision::ask("may it?"),
            _ => Decision::Allow,
        };
        Box::pin(std::future::ready(Ok(decision.into())))
    }

    fn after<'a>(
        &'a self,
        _: &'a ValidatedCall,
        _: &'a CallContext,
        outcome: &'a Result<Vec<Content>, CallError>,
    ) -> BoxFuture<'a, Result<Decision<Outcome>, CallError>> {
        self.0.lock().unwrap().push("after".to_owned());
        let text = outcome.as_ref().ok().and_then(|parts| parts.first()).map(|part| format!("{part:?}"));
        let is_secret = text.is_some_and(|text| text.contains("secret"));
        let to = Ok(vec![Content::text("[left out]")]);
        let decision = if is_secret { Decision::Rewrite { to, note: None } } else { Decision::Allow };
        Box::pin(std::future::ready(Ok(decision)))
    }
}

/// A person who gives this answer.
struct Person(Log, Answer);

impl Approver for Person {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        self.0.lock().unwrap().push(format!("asked {}", question.text()));
        Box::pin(std::future::ready(self.1.clone()))
    }
}

fn words(log: &Log) -> Policies {
    [Arc::new(Words(Arc::clone(log))) as Arc<dyn Policy>].into_iter().collect()
}

async fn call_log(log: &Log) -> CallLog {
    CallLog::begin(Arc::new(Records(Arc::clone(log))), CallLogOptions::new("test")).await.unwrap()
}

/// Calls a tool, and returns what happened and the result in one word.
async fn called(tools: &Arc<dyn ToolProvider>, log: &Log, tool: &str, arguments: &str) -> (Vec<String>, String) {
    log.lock().unwrap().clear();
    let result = tools.dispatch(Call::new(tool, arguments)).await;
    let word = match result.error() {
        Some(error) => format!("{}: {}", error.kind, error.message),
        None => result.text().unwrap().into_owned(),
    };
    (std::mem::take(&mut *log.lock().unwrap()), word)
}

/// A call, what happens with an approver who says yes, and the result.
const TABLE: &[(&str, &str, &[&str], &str)] = &[
    (
        "echo",
        r#"{"text": "hello"}"#,
        &[
            "before",
            r#"tool_started - {"text":"hello"}"#,
            r#"run echo {"text":"hello"}"#,
            "after",
            "tool_finished ok",
            "tool_result ok",
        ],
        "hello",
    ),
    (
        "echo",
        r#"{"text": "rewrite"}"#,
        &[
            "before",
            r#"tool_started - {"text":"rewritten"}"#,
            r#"run echo {"text":"rewritten"}"#,
            "after",
            "tool_finished ok",
            "tool_result ok",
        ],
        "rewritten",
    ),
    (
        "echo",
        r#"{"text": "secret"}"#,
        &[
            "before",
            r#"tool_started - {"text":"secret"}"#,
            r#"run echo {"text":"secret"}"#,
            "after",
            "tool_finished ok",
            "tool_result ok",
        ],
        "[left out]",
    ),
    (
        "echo",
        r#"{"text": "deny"}"#,
        &["before", r#"tool_rejected denied {"text":"deny"}"#],
        "denied: denied by the hook `words`: not today",
    ),
    (
        "echo",
        r#"{"text": "ask"}"#,
        &[
            "before",
            "asked may it?",
            r#"tool_started - {"text":"ask"}"#,
            r#"run echo {"text":"ask"}"#,
            "after",
            "tool_finished ok",
            "tool_result ok",
        ],
        "ask",
    ),
    (
        "fail",
        r#"{"text": "x"}"#,
        &[
            "before",
            r#"tool_started - {"text":"x"}"#,
            r#"run fail {"text":"x"}"#,
            "after",
            "tool_finished tool_failed",
            "tool_result tool_failed",
        ],
        "tool_failed: it failed",
    ),
];

#[tokio::test]
async fn calls_pass_the_layers_in_order() {
    let log = Log::default();
    let person: Arc<dyn Approver> = Arc::new(Person(Arc::clone(&log), Answer::Allow));
    let stack = Stack::new().policies(words(&log)).approver(Some(person)).log(Some(call_log(&log).await));
    let tools = stack.around([Source::Provider(Arc::new(Tools::new(&log)))]);
    for (tool, arguments, happened, result) in TABLE {
        let found = called(&tools, &log, tool, arguments).await;
        let happened: Vec<String> = happened.iter().map(|&line| line.to_owned()).collect();
        assert_eq!(found, (happened, (*result).to_owned()), "{tool} {arguments}");
    }
}

#[tokio::test]
async fn refused_calls_do_not_run_and_are_recorded() {
    let log = Log::default();
    let refusing: Arc<dyn Approver> = Arc::new(Person(Arc::clone(&log), Answer::no()));
    for (approver, kind) in [(None, "needs_approval"), (Some(refusing), "denied")] {
        let stack = Stack::new().policies(words(&log)).approver(approver).log(Some(call_log(&log).await));
        let tools = stack.around([Source::Provider(Arc::new(Tools::new(&log)))]);
        let (happened, result) = called(&tools, &log, "echo", r#"{"text": "ask"}"#).await;
        assert_eq!(happened.last().unwrap(), &format!(r#"tool_rejected {kind} {{"text":"ask"}}"#));
        assert!(result.starts_with(kind), "{result}");
        for (arguments, kind) in [(r#"{"text": 1}"#, "invalid_arguments"), (r#"{"text": "break"}"#, "denied")] {
            let (happened, result) = called(&tools, &log, "echo", arguments).await;
            assert!(result.starts_with(kind), "{result}");
            assert!(happened.last().unwrap().starts_with(&format!("tool_rejected {kind}")), "{happened:?}");
            assert!(!happened.iter().any(|line| line.starts_with("run")), "{happened:?}");
        }
    }
}

#[tokio::test]
async fn flows_come_before_policies_and_are_recorded() {
    let log = Log::default();
    let flows = FlowPolicy::new()
        .label_tool("read", FlowLabels::default().source(FlowLabel::Private))
        .label_tool("echo", FlowLabels::default().sink(FlowLabel::Public));
    let stack = Stack::new().policies(words(&log)).flows(Some(flows)).log(Some(call_log(&log).await));
    let tools = stack.around([Source::Provider(Arc::new(Tools::new(&log)))]);
    assert_eq!(called(&tools, &log, "echo", r#"{"text": "a"}"#).await.1, "a");
    assert_eq!(called(&tools, &log, "read", r#"{"text": "b"}"#).await.1, "b");
    let (happened, result) = called(&tools, &log, "echo", r#"{"text": "c"}"#).await;
    assert_eq!(happened, [r#"tool_rejected needs_approval {"text":"c"}"#]);
    assert!(result.starts_with("needs_approval: this call needs approval: private data may become public"), "{result}");
}

#[tokio::test]
async fn only_named_tools_are_offered_and_the_first_of_a_name_is_called() {
    let log = Log::default();
    let other = Log::default();
    let stack = Stack::new().only(["echo".to_owned()]);
    let sources = [Source::Provider(Arc::new(Tools::new(&log))), Source::Provider(Arc::new(Tools::new(&other)))];
    let tools = stack.around(sources);
    assert_eq!(tools.tools().iter().map(|tool| tool.full_name()).collect::<Vec<_>>(), ["echo"]);
    assert!(tools.find("read").is_none());
    let (happened, result) = called(&tools, &log, "echo", r#"{"text": "a"}"#).await;
    assert_eq!((happened.len(), result.as_str()), (1, "a"));
    assert!(other.lock().unwrap().is_empty());
    let read = tool("read").validate(Arguments::Text(r#"{"text": "a"}"#.to_owned())).unwrap();
    let refused = tools.call(read, CallContext::default()).await.unwrap();
    assert_eq!(refused.error().unwrap().kind, ErrorKind::Unavailable);
    assert!(log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn without_layers_the_provider_itself_is_called() {
    let log = Log::default();
    let inner: Arc<dyn ToolProvider> = Arc::new(Tools::new(&log));
    let tools = Stack::new().around([Source::Provider(Arc::clone(&inner))]);
    assert!(Arc::ptr_eq(&tools, &inner));
    let allow = PolicyFn::new("allow", |_: &ValidatedCall, _: &CallContext| Decision::Allow);
    let policies: Policies = [Arc::new(allow) as Arc<dyn Policy>].into_iter().collect();
    let tools = Stack::new().policies(policies).around([Source::Provider(inner)]);
    assert_eq!(called(&tools, &log, "echo", r#"{"text": "a"}"#).await.1, "a");
}
