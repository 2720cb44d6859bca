//! A test fixture: a pipeline with a recorder in memory, a few tools, and everything allowed.

use std::sync::{Arc, Mutex};

use fumehood_agent::allowlist::{Allowlists, DefaultAllowlist};
use fumehood_agent::execution::ToolExecution;
use fumehood_agent::executor::{BatchOutcome, Scope, ToolExecutor as _};
use fumehood_agent::pipeline::{Pipeline, PipelineBuilder};
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltIns};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::result::CallError;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::chat::ToolIntent;
use fumehood_core::policy::call::{Decision, Outcome, Policy, Ruling};
use fumehood_core::record::{Durability, Record, RecordError, RecordKind, Recorder};
use fumehood_core::tool::definition::Annotations;
use fumehood_core::tool::{Stop, ValidatedCall};
use schemars::JsonSchema;
use serde::Deserialize;

/// A recorder that collects all records.
#[derive(Default)]
pub(crate) struct RecordingRecorder(pub(crate) Mutex<Vec<Record>>);

impl Recorder for RecordingRecorder {
    fn record(&self, record: Record, _: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        self.0.lock().unwrap().push(record);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl RecordingRecorder {
    pub(crate) fn kinds(&self) -> Vec<RecordKind> {
        self.0.lock().unwrap().iter().map(|record| record.kind).collect()
    }

    pub(crate) fn of_kind(&self, kind: RecordKind) -> Vec<Record> {
        self.0.lock().unwrap().iter().filter(|record| record.kind == kind).cloned().collect()
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(&*self.0.lock().unwrap()).unwrap()
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Pair {
    /// The first number.
    pub(crate) a: i64,
    /// The second number.
    pub(crate) b: i64,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Text {
    pub(crate) text: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

pub(crate) fn read_only() -> Annotations {
    Annotations { read_only: Some(true), ..Annotations::default() }
}

/// Registers `add`, `divide`, `echo`, `panic`, `stop` and `fail`.
pub(crate) fn tools() -> Arc<BuiltIns> {
    let tools = BuiltIns::default();
    let add = |pair: Pair, _: CallContext| async move { Ok::<_, BuiltInError>(pair.a + pair.b) };
    tools.register(BuiltIn::new("add", "Adds.", add).unwrap().with_annotations(read_only())).unwrap();
    let divide = |pair: Pair, _: CallContext| async move {
        pair.a.checked_div(pair.b).ok_or_else(|| BuiltInError::from("Division by zero"))
    };
    tools.register(BuiltIn::new("divide", "Divides.", divide).unwrap()).unwrap();
    let echo = |text: Text, _: CallContext| async move { Ok::<_, BuiltInError>(text.text) };
    tools.register(BuiltIn::new("echo", "Echoes.", echo).unwrap()).unwrap();
    let panics = |_: Nothing, _: CallContext| async move {
        assert_eq!(1, 2, "broken on purpose");
        Ok::<_, BuiltInError>(())
    };
    tools.register(BuiltIn::new("panic", "Panics.", panics).unwrap()).unwrap();
    let stops = |_: Nothing, _: CallContext| async move { Err::<(), _>(BuiltInError::from(Stop::new("enough"))) };
    tools.register(BuiltIn::new("stop", "Stops.", stops).unwrap()).unwrap();
    let fails = |_: Nothing, _: CallContext| async move { Err::<(), _>(BuiltInError::from("it failed")) };
    tools.register(BuiltIn::new("fail", "Fails.", fails).unwrap()).unwrap();
    Arc::new(tools)
}

/// A pipeline, its recorder, and the scope of its calls.
pub(crate) struct Stage {
    pub(crate) pipeline: Pipeline,
    pub(crate) recorder: Arc<RecordingRecorder>,
    pub(crate) scope: Scope,
}

/// Returns allowlists that allow every tool.
pub(crate) fn everything() -> Allowlists {
    Allowlists { default: DefaultAllowlist::Everything, ..Allowlists::default() }
}

/// Creates a stage with the tools of [`tools`], configured by `with`.
pub(crate) fn stage(with: impl FnOnce(PipelineBuilder) -> PipelineBuilder) -> Stage {
    stage_of(tools(), with)
}

/// Creates a stage with these tools, configured by `with`.
pub(crate) fn stage_of(tools: Arc<BuiltIns>, with: impl FnOnce(PipelineBuilder) -> PipelineBuilder) -> Stage {
    let recorder = Arc::new(RecordingRecorder::default());
    let builder = PipelineBuilder::default().built_ins(tools).allowlists(everything()).recorder(recorder.clone());
    let scope = Scope { session: "s".to_owned(), execution: "e".to_owned(), step: 1, ..Scope::default() };
    Stage { pipeline: with(builder).build().unwrap(), recorder, scope }
}

type Before = dyn Fn(&ValidatedCall) -> Decision<Arguments> + Send + Sync;
type After = dyn Fn(&ValidatedCall, &Result<Vec<Content>, CallError>) -> Decision<Outcome> + Send + Sync;

/// A hook made of functions.
struct FnHook {
    name: &'static str,
    before: Box<Before>,
    after: Option<Box<After>>,
}

impl Policy for FnHook {
    fn name(&self) -> &str {
        self.name
    }

    fn decides_on_results(&self) -> bool {
        self.after.is_some()
    }

    fn before<'a>(&'a self, call: &'a ValidatedCall, _: &'a CallContext) -> BoxFuture<'a, Result<Ruling, CallError>> {
        Box::pin(async { Ok((self.before)(call).into()) })
    }

    fn after<'a>(
        &'a self,
        call: &'a ValidatedCall,
        _: &'a CallContext,
        outcome: &'a Result<Vec<Content>, CallError>,
    ) -> BoxFuture<'a, Result<Decision<Outcome>, CallError>> {
        Box::pin(async { Ok(self.after.as_ref().map_or(Decision::Allow, |after| after(call, outcome))) })
    }
}

/// Returns a hook that decides on calls.
pub(crate) fn before(
    name: &'static str,
    decide: impl Fn(&ValidatedCall) -> Decision<Arguments> + Send + Sync + 'static,
) -> Arc<dyn Policy> {
    Arc::new(FnHook { name, before: Box::new(decide), after: None })
}

/// Returns a hook that decides on results.
pub(crate) fn after(
    name: &'static str,
    decide: impl Fn(&ValidatedCall, &Result<Vec<Content>, CallError>) -> Decision<Outcome> + Send + Sync + 'static,
) -> Arc<dyn Policy> {
    Arc::new(FnHook { name, before: Box::new(|_| Decision::Allow), after: Some(Box::new(decide)) })
}

pub(crate) fn intent(id: &str, name: &str, arguments: &str) -> ToolIntent {
    ToolIntent { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

impl Stage {
    pub(crate) async fn batch(&self, calls: &[(&str, &str)]) -> BatchOutcome {
        let intents = calls.iter().enumerate().map(|(at, (name, args))| intent(&format!("c{at}"), name, args));
        self.pipeline.execute(intents.collect(), &self.scope).await
    }

    pub(crate) async fn call(&self, name: &str, arguments: &str) -> ToolExecution {
        let mut outcome = self.batch(&[(name, arguments)]).await;
        assert_eq!(outcome.ended, None);
        outcome.executions.remove(0)
    }
}
