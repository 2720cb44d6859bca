//! Providers of one tool, with a function in place of a guest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::content::Content;
use fumehood_core::call::event::Level;
use fumehood_core::call::result::{CallError, CallResult, Metadata, RequestReport};
use fumehood_core::digest::Digest;
use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::tool::definition::{Annotations, DefinitionLimits, RawDefinition};
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::{Changes, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall};
use serde_json::{Value, json};

type Outcome = Result<Vec<Content>, CallError>;

type Guest = Box<dyn Fn(ValidatedCall, CallContext) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// A provider of one tool of the component `test`.
pub(crate) struct TestTool {
    tool: Arc<Tool>,
    guest: Guest,
    ran: AtomicUsize,
    revision: Revision,
}

impl TestTool {
    fn new(name: &str, properties: &Value, annotations: Annotations, guest: Guest) -> Arc<Self> {
        let schema = json!({"type": "object", "properties": properties});
        let raw = RawDefinition {
            name: name.to_owned(),
            description: "A test".to_owned(),
            input_schema: schema.to_string(),
            annotations,
            ..RawDefinition::default()
        };
        let gate = Gate::for_arguments(&schema, GateLimits::default()).unwrap();
        let tool = Tool::new(raw.parse(&DefinitionLimits::default()).unwrap(), gate)
            .in_namespace(&Namespace::parse("test").unwrap())
            .identified_by(Digest::of(name.as_bytes()))
            .grant_digest(Digest::of(b"no powers"));
        Arc::new(Self { tool: Arc::new(tool), guest, ran: AtomicUsize::new(0), revision: Revision::default() })
    }

    /// Makes the tool `echo`, which returns its arguments, or never ends if it stalls.
    pub(crate) fn echo(is_idempotent: bool, stalls: bool) -> Arc<Self> {
        let annotations = Annotations { idempotent: is_idempotent.then_some(true), ..Annotations::default() };
        let guest: Guest = Box::new(move |call, context| {
            // An actor stands for a call that reports.
            if let Some(observer) = context.observer.as_ref().filter(|_| context.actor.is_some()) {
                observer.log(Level::Info, "heard");
                observer.request(request_report());
            }
            Box::pin(async move {
                if stalls {
                    std::future::pending::<()>().await;
                }
                Ok(vec![Content::text(call.to_text().into_owned())])
            })
        });
        Self::new("echo", &json!({"text": {"type": "string"}}), annotations, guest)
    }

    /// Makes the tool `wait`, which waits for as long as its argument says, unless it is cancelled.
    pub(crate) fn waiting() -> Arc<Self> {
        let guest: Guest = Box::new(|call, context| {
            Box::pin(async move {
                let time = Duration::from_millis(call.arguments()["ms"].as_u64().unwrap_or(0));
                let waited = context.cancelled.unwrap_or_default().run_until_cancelled(tokio::time::sleep(time)).await;
                waited.map(|()| vec![Content::text("waited")]).ok_or_else(CallError::cancelled)
            })
        });
        Self::new("wait", &json!({"ms": {"type": "integer"}}), Annotations::default(), guest)
    }

    /// Returns the number of calls that ran.
    pub(crate) fn ran(&self) -> usize {
        self.ran.load(Ordering::Relaxed)
    }
}

impl ToolProvider for TestTool {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Component
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        vec![Arc::clone(&self.tool)]
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        (name == self.tool.full_name()).then(|| Arc::clone(&self.tool))
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        self.ran.fetch_add(1, Ordering::Relaxed);
        let id = context.id.clone();
        let tool = call.tool().full_name().to_owned();
        let running = (self.guest)(call, context);
        Box::pin(async move { Ok(CallResult { id, tool, outcome: running.await, metadata: Metadata::default() }) })
    }

    fn changes(&self) -> Changes {
        self.revision.subscribe()
    }
}

/// Returns the request that a call of `echo` reports.
pub(crate) fn request_report() -> RequestReport {
    let method = "GET".to_owned();
    let host = "example.com".to_owned();
    RequestReport { method, host, status: Some(200), reason: None, bytes_out: 1, bytes_in: 2 }
}
