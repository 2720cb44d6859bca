//! Sources of the dashboard's pages with markup and hidden characters in every text that a guest could have written.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::{Level, Progress};
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{CallContext, Usage};
use fumehood_core::policy::approval::ApprovalNote;
use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::text::untrusted::{PrintableText, Untrusted};
use fumehood_core::time::Timestamp;
use fumehood_core::tool::definition::{DefinitionLimits, RawDefinition};
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::{Changes, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall};
use fumehood_server::http_api::dashboard::ports::{
    ApprovalChange, ApprovalState, Approvals, ComponentApproval, Containment, Decision, PortError, StoredReport,
    TimelineRecord, Timelines, WaitingApproval, WantedTool,
};
use fumehood_server::http_api::{CallDetail, CallList, CallQuery, CallStore, CallSummary};
use serde_json::{Value, json};

/// Markup that runs a script wherever it is not escaped: in text, in attributes, in a script and in a textarea.
pub(crate) const MARKUP: &str = "</textarea></script>'\"><img src=x onerror=\"window.pwned=1\">\u{202e}{{7*7}}";
/// The beginning of [`MARKUP`] that must never reach a page as it is.
pub(crate) const RAW: &str = "<img src=x";
/// The same, escaped.
pub(crate) const ESCAPED: &str = "&#60;img src=x";

/// Tools that say [`MARKUP`] wherever they can. `wait` runs until it is stopped.
#[derive(Default)]
pub(crate) struct HostileTools {
    revision: Revision,
    tools: OnceLock<Vec<Arc<Tool>>>,
    pub(crate) started: AtomicUsize,
}

fn schemas() -> [(&'static str, Value); 6] {
    let any = json!({ "type": "object", "additionalProperties": true });
    let fields = json!({
        "type": "object", "required": ["text"], "additionalProperties": false,
        "properties": {
            "count": { "type": "integer", "default": 2, "description": MARKUP },
            "mode": { "enum": ["plain", MARKUP] },
            "text": { "type": "string", "default": MARKUP },
            MARKUP: { "type": "boolean" },
        },
    });
    let described = json!({ "type": "object", "additionalProperties": true, "description": MARKUP });
    [
        ("echo", fields),
        ("fail", any.clone()),
        ("nested", described),
        ("pending", any.clone()),
        ("say", any.clone()),
        ("wait", any),
    ]
}

fn tool(name: &str, schema: &Value) -> Arc<Tool> {
    let raw = RawDefinition {
        name: name.to_owned(),
        title: Some(format!("Title {MARKUP}")),
        description: format!("Description {MARKUP}"),
        input_schema: schema.to_string(),
        ..RawDefinition::default()
    };
    let definition = raw.parse(&DefinitionLimits::default()).unwrap();
    let gate = Gate::for_arguments(schema, GateLimits::default()).unwrap();
    let powers: Arc<[String]> = Arc::from([format!("read files in /{MARKUP}")]);
    let tool = Tool::new(definition, gate).in_namespace(&Namespace::parse("test").unwrap()).granted(powers);
    Arc::new(match name {
        "pending" => tool.withheld(Some(CallError::new(ErrorKind::NeedsApproval, format!("nobody approved {MARKUP}")))),
        _ => tool,
    })
}

impl HostileTools {
    async fn run(&self, call: &ValidatedCall, context: &CallContext) -> Result<Vec<Content>, CallError> {
        let observer = context.observer.as_ref().unwrap();
        observer.admitted(Duration::from_secs(60));
        observer.usage(Usage { fuel: 4321, peak_memory: 3 << 19 });
        observer.log(Level::Info, &format!("line {MARKUP}"));
        context.report(Progress { fraction: Some(0.25), message: Some(MARKUP.into()), partial: Vec::new() });
        match call.tool().definition().name.as_str() {
            "echo" => Ok(vec![Content::json(call.to_text().into_owned()).unwrap()]),
            "fail" => Err(CallError::new(ErrorKind::ToolFailed, MARKUP).with_hint(MARKUP)),
            "wait" => {
                self.started.fetch_add(1, Ordering::SeqCst);
                context.cancelled.as_ref().unwrap().cancelled().await;
                Err(CallError::cancelled())
            }
            _ => Ok(vec![
                Content::text(MARKUP),
                Content::json(json!({ MARKUP: MARKUP }).to_string()).unwrap(),
                Content::Blob { mime_type: Untrusted::from(MARKUP), data: vec![60; 100] },
                Content::Link {
                    uri: Untrusted::from("javascript:window.pwned=1"),
                    title: Some(Untrusted::from(MARKUP)),
                    mime_type: None,
                },
            ]),
        }
    }
}

impl ToolProvider for HostileTools {
    fn kind(&self) -> ProviderKind {
        ProviderKind::BuiltIn
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        self.tools.get_or_init(|| schemas().iter().map(|(name, schema)| tool(name, schema)).collect()).clone()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.tools().into_iter().find(|tool| tool.full_name() == name)
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let outcome = self.run(&call, &context).await;
            let metadata = Metadata::default().fuel_used(7).with_outcome(&outcome);
            Ok(CallResult { id: context.id, tool: call.tool().full_name().to_owned(), outcome, metadata })
        })
    }

    fn changes(&self) -> Changes {
        self.revision.subscribe()
    }
}

/// A store of three pages of calls.
pub(crate) struct HostileCalls;

fn summary(number: u64) -> CallSummary {
    CallSummary {
        id: format!("call/{number} {MARKUP}"),
        // Every third call has the id of a model that starts again.
        model_call: number.is_multiple_of(3).then(|| format!("call_1_1 {MARKUP}")),
        tool: format!("test__echo {MARKUP}"),
        status: if number.is_multiple_of(2) { "ok".to_owned() } else { "deadline".to_owned() },
        started_at_ms: 1_700_000_000_000 + number * 1000,
        duration_ms: Some(12.5),
        actor: Some(MARKUP.to_owned()),
        client: Some(MARKUP.to_owned()),
        position: number,
    }
}

impl CallStore for HostileCalls {
    fn list(&self, query: CallQuery) -> BoxFuture<'_, Result<CallList, PortError>> {
        let all = (1..=120).rev().filter(|number| query.before.is_none_or(|before| *number < before)).map(summary);
        let matching = all.filter(|call| query.status.as_ref().is_none_or(|status| *status == call.status));
        let matching = matching.filter(|call| query.model_call.is_none() || query.model_call == call.model_call);
        let calls: Vec<_> = matching.take(query.limit).collect();
        let next = calls.last().filter(|_| calls.len() == query.limit).map(|last| last.position);
        Box::pin(std::future::ready(match query.tool.as_deref() {
            Some("unreadable") => Err(PortError(MARKUP.to_owned())),
            // As if the first part of a long log had none.
            Some("rare") if query.before.is_none() => Ok(CallList { calls: Vec::new(), next: Some(3) }),
            _ => Ok(CallList { calls, next }),
        }))
    }

    fn find(&self, id: String, actor: Option<String>) -> BoxFuture<'_, Result<Option<CallDetail>, PortError>> {
        assert_eq!(actor, None, "an operator sees the calls of all");
        let found = (1..=120).map(summary).find(|call| call.id == id).map(|summary| CallDetail {
            summary,
            arguments: Some(json!({ MARKUP: [MARKUP] })),
            result: Some(json!(MARKUP)),
            error: None,
            usage: Some(json!({ "fuel_used": 7 })),
        });
        Box::pin(std::future::ready(Ok(found)))
    }
}

/// The records of one session, in which the even calls were made.
pub(crate) struct HostileTimelines;

fn timeline_record(number: u64, parent: Option<u64>, kind: &'static str, call: Option<&str>) -> TimelineRecord {
    TimelineRecord {
        id: number.to_string(),
        parent: parent.map(|parent| parent.to_string()),
        session: format!("session {MARKUP}"),
        at_ms: 1_700_000_000_000 + number * 40,
        kind,
        call: call.map(str::to_owned),
        tool: call.map(|_| MARKUP.into()),
        status: Some(MARKUP.into()),
        body: format!("{{\"reason\": \"{MARKUP}\"}}").into(),
    }
}

fn records(call: &str) -> Vec<TimelineRecord> {
    vec![
        timeline_record(1, None, "session_started", None),
        timeline_record(2, Some(1), "user_message", None),
        timeline_record(3, Some(2), "model_asked", None),
        timeline_record(4, Some(3), "model_answered", None),
        timeline_record(5, Some(4), "verdict", Some(call)),
        timeline_record(6, Some(5), "tool_started", Some(call)),
        timeline_record(9, Some(6), "tool_finished", Some(call)),
        timeline_record(10, Some(4), "tool_started", Some("another")),
        timeline_record(12, Some(1), "session_finished", None),
    ]
}

impl Timelines for HostileTimelines {
    fn of_session(&self, _: String) -> BoxFuture<'_, Result<Vec<TimelineRecord>, PortError>> {
        Box::pin(std::future::ready(Ok(records("one"))))
    }

    fn of_call(&self, call: String) -> BoxFuture<'_, Result<Vec<TimelineRecord>, PortError>> {
        Box::pin(std::future::ready(Ok(records(&call))))
    }
}

/// Approvals that keep what was decided.
#[derive(Default)]
pub(crate) struct HostileApprovals {
    pub(crate) decided: Mutex<Vec<String>>,
}

impl Approvals for HostileApprovals {
    fn components(&self) -> BoxFuture<'_, Result<Vec<ComponentApproval>, PortError>> {
        let change = ApprovalChange { what: MARKUP.into(), old: Some(MARKUP.into()), new: Some("new".into()) };
        let tool = WantedTool {
            name: MARKUP.into(),
            description: MARKUP.into(),
            annotations: vec![MARKUP.into()],
            arguments: MARKUP.into(),
            input_schema: MARKUP.into(),
        };
        let approval = |name: &str, state| ComponentApproval {
            name: name.into(),
            pin: "sha256:1".to_owned(),
            state,
            digest: Some("sha256:2".to_owned()),
            contract: MARKUP.into(),
            grants: vec![MARKUP.into()],
            reference: Some(MARKUP.into()),
            signer: Some(MARKUP.into()),
            note: Some(ApprovalNote { by: Some(MARKUP.into()), at: Timestamp(1_700_000_000_000) }),
            changes: vec![change.clone()],
            tools: vec![tool.clone()],
        };
        let server = ComponentApproval { contract: "mcp".into(), ..approval("remote", ApprovalState::Never) };
        let found =
            vec![approval("test", ApprovalState::Approved), approval("changed", ApprovalState::Changed), server];
        Box::pin(std::future::ready(Ok(found)))
    }

    fn decide(&self, name: String, pin: String, decision: Decision) -> BoxFuture<'_, Result<String, PortError>> {
        let decided = format!("{name} {pin} {decision:?}");
        let answer = match pin.as_str() {
            "sha256:1" => Ok(format!("Stored: {decided} {MARKUP}")),
            _ => Err(PortError(format!("it has changed {MARKUP}"))),
        };
        if answer.is_ok() {
            self.decided.lock().unwrap().push(decided);
        }
        Box::pin(std::future::ready(answer))
    }

    fn waiting_calls(&self) -> BoxFuture<'_, Result<Vec<WaitingApproval>, PortError>> {
        let call = WaitingApproval {
            id: "s-1:4".to_owned(),
            session: MARKUP.into(),
            tool: MARKUP.into(),
            arguments: MARKUP.into(),
            from: MARKUP.into(),
            question: MARKUP.into(),
            asked_at_ms: 1_700_000_000_000,
        };
        Box::pin(std::future::ready(Ok(vec![call])))
    }

    fn answer_call(&self, id: String, is_allowed: bool, reason: String) -> BoxFuture<'_, Result<String, PortError>> {
        let decided = format!("{id} {is_allowed} {reason}");
        self.decided.lock().unwrap().push(decided.clone());
        Box::pin(std::future::ready(Ok(format!("Answered: {decided}"))))
    }

    fn ungranted(&self, component: &str) -> Vec<PrintableText> {
        if component == "test" { vec![format!("http: {MARKUP}").into()] } else { Vec::new() }
    }
}

/// A self-test with one attack that was contained, and one that was not. As a history, it has one report already.
#[derive(Default)]
pub(crate) struct HostileSelfTest {
    pub(crate) stored: Mutex<Vec<StoredReport>>,
}

impl Containment for HostileSelfTest {
    fn run(&self) -> BoxFuture<'static, Result<String, PortError>> {
        Box::pin(std::future::ready(Ok(report())))
    }

    fn load(&self, _: usize) -> Vec<StoredReport> {
        let at = Timestamp(1_700_000_000_000);
        let duration = Duration::from_secs(60);
        vec![StoredReport { at, duration, text: report() }]
    }

    fn store(&self, report: StoredReport, max: usize) -> Result<(), PortError> {
        assert_eq!(max, 20);
        self.stored.lock().unwrap().push(report);
        Ok(())
    }
}

fn case_report(row: u32, contained: bool, overshoot: Value) -> Value {
    json!({"row": row, "what": format!("loop for ever {MARKUP}"), "attempts": 3, "contained": contained,
            "ended": MARKUP, "overshoot_ms": overshoot, "peak_memory": 65536, "growth": 0, "descriptors": 0, "threads": 0})
}

fn report() -> String {
    let report = json!({ "modes": [{
        "isolation": "in-process", "jail_lacks": "",
        "cases": [case_report(1, true, json!([0.5, 1.25, 2.0])), case_report(2, false, json!([]))],
        "summary": { "contained": 1, "cases": 2, "attempts": 6, "overshoot_p99_ms": 2.0, "overshoot_max_ms": 2.0,
            "growth_max": 0, "honest_calls": 100, "honest_wrong": 0, "honest_p99_ms": 0.2, "honest_alone_p99_ms": 0.1,
            "ended_in_ms": 3.0, "descriptors_left": 0, "threads_left": 0, "wrong": [MARKUP] },
    }]});
    report.to_string()
}
