//! *Calls*: those that were recorded, each with its story; and sessions as waterfalls.

use askama::Template;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::text::abbreviation::abbreviate;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;
use http::StatusCode;
use url::form_urlencoded;

use super::super::charts::format_ms;
use super::super::ports::TimelineRecord;
use super::super::routes::{Fields, find};
use super::super::waterfall::{self, Span};
use super::{Layout, Visit, call_path, format_time, html, message, not_found, pretty, session_path, short_ids, tone};
use crate::http_api::history::{CallList, CallQuery, CallSummary, PortError, RUNNING_STATUS};
use crate::http_api::response::Response;

/// Number of calls in a page.
const PAGE_CALLS: usize = 50;
/// Maximum number of steps of a waterfall.
const MAX_STEPS: usize = 1000;

/// A call, as the pages show it.
struct CallView {
    id: PrintableText,
    href: Option<String>,
    model_call: Option<PrintableText>,
    tool: PrintableText,
    status: PrintableText,
    tone: &'static str,
    at: String,
    took: String,
    actor: PrintableText,
    client: PrintableText,
}

#[derive(Template)]
#[template(path = "dashboard/calls.html")]
struct CallsPage {
    layout: Layout,
    tool: PrintableText,
    tools: Vec<PrintableText>,
    outcome: PrintableText,
    outcomes: Vec<&'static str>,
    /// The id that a client or a model chose.
    model_call: PrintableText,
    is_recorded: bool,
    calls: Vec<CallView>,
    /// The URL of the next page.
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "dashboard/call.html")]
struct CallPage {
    layout: Layout,
    call: CallView,
    parts: Vec<(&'static str, PrintableText)>,
    spans: Vec<Span>,
    session: Option<String>,
}

#[derive(Template)]
#[template(path = "dashboard/session.html")]
struct SessionPage {
    layout: Layout,
    id: PrintableText,
    total: usize,
    spans: Vec<Span>,
}

impl CallsPage {
    fn is_wanted(&self, outcome: &str) -> bool {
        self.outcome == *outcome
    }
}

impl CallView {
    fn new(call: &CallSummary) -> Self {
        Self {
            id: call.id.as_str().into(),
            href: Some(call_path(&call.id)),
            model_call: call.model_call.as_deref().map(PrintableText::from),
            tool: call.tool.as_str().into(),
            status: call.status.as_str().into(),
            tone: tone(&call.status),
            at: format_time(Timestamp(call.started_at_ms)),
            took: call.duration_ms.map(format_ms).unwrap_or_default(),
            actor: call.actor.as_deref().unwrap_or_default().into(),
            client: call.client.as_deref().unwrap_or_default().into(),
        }
    }
}

/// Lists calls that match a query: those of the event log, or else the newest that have ended.
pub(crate) async fn list(visit: &Visit, query: &Fields) -> Response {
    let text = |name: &str| Some(find(query, name).to_owned()).filter(|text| !text.is_empty());
    let tool = text("tool");
    let outcome = text("outcome");
    let model_call = text("model_call");
    let options = &visit.shared.options;
    let (calls, next) = match &options.calls {
        Some(store) => {
            let before = find(query, "before").parse().ok();
            let tool = tool.clone();
            let status = outcome.clone();
            let model_call = model_call.clone();
            let wanted = CallQuery { tool, status, model_call, before, limit: PAGE_CALLS, ..CallQuery::default() };
            let CallList { calls, next } = match store.list(wanted).await {
                Ok(found) => found,
                Err(error) => return unreadable(visit, &error),
            };
            let next = next.map(|next| next_page(filters_of(query), next));
            let short = short_ids(visit, calls.iter().map(|call| call.id.clone()).collect()).await;
            let of_call = |call: &CallSummary| match short.get(&call.id) {
                Some(short) => CallView { id: short.into(), ..CallView::new(call) },
                None => CallView::new(call),
            };
            (calls.iter().map(of_call).collect(), next)
        }
        None => (newest(visit, tool.as_deref(), outcome.as_deref()), None),
    };
    let tools = visit.shared.tools.tools();
    let page = CallsPage {
        layout: visit.layout("calls", "Calls"),
        tool: tool.unwrap_or_default().into(),
        tools: tools.iter().map(|tool| tool.full_name().into()).collect(),
        outcome: outcome.unwrap_or_default().into(),
        outcomes: [RUNNING_STATUS, "ok"].into_iter().chain(ErrorKind::ALL.iter().map(|kind| kind.as_str())).collect(),
        model_call: model_call.unwrap_or_default().into(),
        is_recorded: options.calls.is_some(),
        calls,
        next,
    };
    html(StatusCode::OK, &page)
}

fn filters_of(query: &Fields) -> [(&'static str, &str); 3] {
    ["tool", "outcome", "model_call"].map(|name| (name, find(query, name)))
}

fn next_page(filters: [(&'static str, &str); 3], position: u64) -> String {
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(filters.iter().filter(|(_, value)| !value.is_empty()))
        .append_pair("before", &position.to_string())
        .finish();
    format!("/dashboard/calls?{query}")
}

/// Returns the newest calls since the start, of which nothing else is known.
fn newest(visit: &Visit, tool: Option<&str>, outcome: Option<&str>) -> Vec<CallView> {
    let statistics = visit.shared.statistics.lock();
    let matching = statistics
        .newest()
        .filter(|call| tool.is_none_or(|tool| tool == call.tool) && outcome.is_none_or(|it| it == call.outcome));
    matching
        .take(PAGE_CALLS)
        .map(|call| CallView {
            id: abbreviate(&call.id, statistics.newest().map(|other| other.id.as_str())).into(),
            href: None,
            model_call: None,
            tool: call.tool.as_str().into(),
            status: call.outcome.into(),
            tone: tone(call.outcome),
            at: format_time(Timestamp(
                call.at.0.saturating_sub(u64::try_from(call.elapsed.as_millis()).unwrap_or(u64::MAX)),
            )),
            took: format_ms(call.elapsed.as_secs_f64() * 1e3),
            actor: PrintableText::default(),
            client: PrintableText::default(),
        })
        .collect()
}

fn unreadable(visit: &Visit, PortError(why): &PortError) -> Response {
    let text = format!("Cannot read the event log: {why}");
    message(visit, StatusCode::INTERNAL_SERVER_ERROR, "Cannot read the event log", &text)
}

/// Shows the recorded call with this id, with what led to it; or the calls for which a client or a model chose the id.
pub(crate) async fn show(visit: &Visit, id: &str) -> Response {
    let options = &visit.shared.options;
    let found = match &options.calls {
        Some(store) => store.find(id.to_owned(), None).await,
        None => Ok(None),
    };
    let detail = match found {
        Ok(Some(detail)) => detail,
        Ok(None) => return list_or_not_found(visit, id).await,
        Err(error) => return unreadable(visit, &error),
    };
    let records = match &options.timelines {
        Some(timelines) => timelines.of_call(id.to_owned()).await,
        None => Ok(Vec::new()),
    };
    let records = match records {
        Ok(records) => records,
        Err(error) => return unreadable(visit, &error),
    };
    let is_of_call = |record: &TimelineRecord| record.call.as_deref() == Some(id);
    let story = waterfall::story(&records, is_of_call);
    let session = records.first().map(|record| session_path(&record.session));
    let parts = [
        ("Arguments", &detail.arguments),
        ("Result", &detail.result),
        ("Failure", &detail.error),
        ("Cost", &detail.usage),
    ];
    let page = CallPage {
        layout: visit.layout("calls", detail.summary.tool.as_str()),
        call: CallView::new(&detail.summary),
        parts: parts.into_iter().filter_map(|(name, value)| Some((name, pretty(value.as_ref()?)))).collect(),
        spans: spans(visit, &story).await,
        session,
    };
    html(StatusCode::OK, &page)
}

async fn list_or_not_found(visit: &Visit, model_call: &str) -> Response {
    let query = CallQuery { model_call: Some(model_call.to_owned()), limit: 1, ..CallQuery::default() };
    let found = match &visit.shared.options.calls {
        Some(store) => store.list(query).await,
        None => Ok(CallList::default()),
    };
    match found {
        Ok(CallList { calls, .. }) if calls.is_empty() => {
            not_found(visit, "The event log has no such call. Queued calls are recorded when they start.")
        }
        Ok(_) => list(visit, &vec![("model_call".to_owned(), model_call.to_owned())]).await,
        Err(error) => unreadable(visit, &error),
    }
}

/// Returns the spans of records, whose calls have short ids.
async fn spans(visit: &Visit, records: &[TimelineRecord]) -> Vec<Span> {
    let mut spans = waterfall::spans(records);
    let short = short_ids(visit, spans.iter().filter_map(|span| span.call.clone()).collect()).await;
    for span in &mut spans {
        span.short_call = span.call.as_ref().and_then(|call| short.get(call)).map(PrintableText::from);
    }
    spans
}

/// Shows the records of a session as a waterfall.
pub(crate) async fn session(visit: &Visit, id: &str) -> Response {
    let Some(timelines) = &visit.shared.options.timelines else {
        return not_found(visit, "The event log is off, so there are no sessions to show.");
    };
    let records = match timelines.of_session(id.to_owned()).await {
        Ok(records) => records,
        Err(error) => return unreadable(visit, &error),
    };
    let mut spans = spans(visit, &records).await;
    let total = spans.len();
    spans.truncate(MAX_STEPS);
    html(StatusCode::OK, &SessionPage { layout: visit.layout("calls", "Session"), id: id.into(), total, spans })
}
