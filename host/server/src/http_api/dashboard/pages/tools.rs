//! *Tools*: what each of them says of itself and may do, and a form that calls it.

use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use fumehood_core::call::{Call, CallContext, CancellationToken, Observer};
use fumehood_core::policy::approval::ApprovalNote;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::tool::Tool;
use fumehood_core::tool::definition::Annotations;
use http::StatusCode;

use super::super::call_form::{self, Field, Input, JSON_FIELD};
use super::super::ports::{ApprovalState, ComponentApproval};
use super::super::routes::{Fields, find};
use super::result_view::{CapturedLines, ResultView};
use super::{Layout, Notice, Visit, encode, format_time, html, not_found, pretty};
use crate::http_api::response::Response;

/// The name that calls of these pages have as their client.
const CLIENT: &str = "dashboard";

/// A declared effect.
struct Effect {
    text: &'static str,
    is_risky: bool,
}

/// A tool, as the pages show it. One that is withheld says nothing of itself.
struct ToolView {
    name: PrintableText,
    href: String,
    title: Option<PrintableText>,
    description: Option<PrintableText>,
    effects: Vec<Effect>,
    powers: Vec<PrintableText>,
    /// The imports without the power for them, one line for each power.
    ungranted: Vec<PrintableText>,
    digest: Option<String>,
    refusal: Option<PrintableText>,
    approval: &'static str,
    /// The approver and the time of the approval.
    approved: Option<PrintableText>,
    signer: Option<PrintableText>,
}

#[derive(Template)]
#[template(path = "dashboard/tools.html")]
struct ToolsPage {
    layout: Layout,
    tools: Vec<ToolView>,
}

#[derive(Template)]
#[template(path = "dashboard/tool.html")]
struct ToolPage {
    layout: Layout,
    csrf: String,
    tool: ToolView,
    /// The fields of its form; `None` if its arguments are written as JSON.
    fields: Option<Vec<Field>>,
    json: PrintableText,
    result: Option<ResultView>,
    input_schema: PrintableText,
    output_schema: Option<PrintableText>,
}

impl ToolView {
    fn new(visit: &Visit, tool: &Tool, approvals: &HashMap<String, ComponentApproval>) -> Self {
        let definition = tool.definition();
        let is_approved = tool.is_approved();
        let approval = tool.namespace().and_then(|name| approvals.get(name.as_str()));
        let approvals_of = visit.shared.options.approvals.as_ref().zip(tool.namespace());
        Self {
            name: tool.full_name().into(),
            href: format!("/dashboard/tools/{}", encode(tool.full_name())),
            title: definition.title.as_ref().filter(|_| is_approved).map(|title| title.to_sanitized().into()),
            description: is_approved.then(|| definition.description.to_sanitized().into()),
            effects: if is_approved { effects(&definition.annotations) } else { Vec::new() },
            powers: tool.powers().iter().map(PrintableText::from).collect(),
            ungranted: approvals_of.map(|(approvals, name)| approvals.ungranted(name.as_str())).unwrap_or_default(),
            digest: tool.digest().map(|digest| digest.to_string()),
            refusal: tool.refusal().map(|refusal| refusal.message.clone()),
            approval: match approval.map(|approval| approval.state) {
                Some(ApprovalState::Approved) => "approved",
                Some(_) => "approved earlier",
                None => "not required",
            },
            approved: approval.and_then(|approval| approval.note.as_ref()).map(format_note),
            signer: approval.and_then(|approval| approval.signer.clone()),
        }
    }
}

/// Says by whom and when something was approved.
fn format_note(note: &ApprovalNote) -> PrintableText {
    let at = format_time(note.at);
    note.by.as_ref().map_or_else(|| at.clone(), |by| format!("by {by}, {at}")).into()
}

fn effects(annotations: &Annotations) -> Vec<Effect> {
    let Annotations { read_only, destructive, idempotent, open_world } = *annotations;
    let declared = [
        (read_only, "read-only", "may change data"),
        (destructive, "may be destructive", "not destructive"),
        (idempotent, "idempotent", "not idempotent"),
        (open_world, "open world", "closed world"),
    ];
    let mut found = Vec::new();
    for (is_declared, yes, no) in declared {
        let Some(is) = is_declared else { continue };
        let text = if is { yes } else { no };
        let is_risky = matches!(text, "may be destructive" | "open world" | "may change data");
        found.push(Effect { text, is_risky });
    }
    if found.is_empty() { vec![Effect { text: "declares no effects", is_risky: true }] } else { found }
}

/// Returns the approvals of components by name. Without a source there are none to show.
async fn approvals_by_name(visit: &Visit) -> HashMap<String, ComponentApproval> {
    let Some(approvals) = &visit.shared.options.approvals else { return HashMap::new() };
    let components = approvals.components().await.unwrap_or_default();
    components.into_iter().map(|component| (component.name.to_string(), component)).collect()
}

/// Shows all tools.
pub(crate) async fn list(visit: &Visit) -> Response {
    let approvals = approvals_by_name(visit).await;
    let tools = visit.shared.tools.tools();
    let tools = tools.iter().map(|tool| ToolView::new(visit, tool, &approvals)).collect();
    html(StatusCode::OK, &ToolsPage { layout: visit.layout("tools", "Tools"), tools })
}

/// Shows one tool, and the form for its arguments.
pub(crate) async fn show(visit: &Visit, name: &str) -> Response {
    match visit.shared.tools.find(name) {
        Some(tool) => page(visit, &tool, None, &Fields::new(), None).await,
        None => not_found(visit, "Unknown tool. It may have been removed since you opened the page."),
    }
}

/// Calls a tool with the arguments of a form, and shows the result.
pub(crate) async fn call(visit: &Visit, name: &str, fields: &Fields) -> Response {
    let Some(tool) = visit.shared.tools.find(name) else {
        return not_found(visit, "Unknown tool. It may have been removed since you opened the page.");
    };
    let arguments = match call_form::arguments(tool.input_schema(), fields) {
        Ok(arguments) => arguments,
        Err(problem) => return page(visit, &tool, None, fields, Some(Notice::bad(problem))).await,
    };
    let lines = Arc::new(CapturedLines::default());
    let cancelled = CancellationToken::new();
    let context = CallContext {
        actor: visit.shared.options.actor.clone(),
        client: Some(CLIENT.to_owned()),
        observer: Some(Arc::clone(&lines) as Arc<dyn Observer>),
        cancelled: Some(cancelled.clone()),
        ..CallContext::default()
    };
    let call = Call { tool: name.to_owned(), arguments: arguments.into(), context };
    let mut call = std::pin::pin!(visit.shared.tools.dispatch(call));
    let result = tokio::select! {
        biased;
        result = &mut call => result,
        () = visit.shared.stopped.cancelled() => {
            cancelled.cancel();
            call.await
        }
    };
    page(visit, &tool, Some(ResultView::new(&result, &lines)), fields, None).await
}

async fn page(
    visit: &Visit,
    tool: &Tool,
    result: Option<ResultView>,
    sent: &Fields,
    notice: Option<Notice>,
) -> Response {
    let definition = tool.definition();
    let approvals = approvals_by_name(visit).await;
    // Of the schema as it was written: its names are those that the gate knows. Fields are shown without hidden characters.
    let mut fields = call_form::fields(tool.input_schema());
    for field in fields.iter_mut().flatten() {
        if let Some((_, value)) = sent.iter().find(|(name, _)| *name == field.key()) {
            field.value = value.into();
        }
    }
    let json = match find(sent, JSON_FIELD) {
        "" => "{}",
        json => json,
    };
    let page = ToolPage {
        layout: Layout { notice, ..visit.layout("tools", tool.full_name()) },
        csrf: visit.csrf.clone(),
        tool: ToolView::new(visit, tool, &approvals),
        fields,
        json: json.into(),
        result,
        input_schema: pretty(&definition.input_schema.to_sanitized()),
        output_schema: definition.output_schema.as_ref().map(|schema| pretty(&schema.to_sanitized())),
    };
    html(StatusCode::OK, &page)
}
