//! *Approvals*: components that want one, old beside new, and calls that wait for a person.

use askama::Template;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;
use http::StatusCode;

use super::super::ports::{
    ApprovalChange, ApprovalState, ComponentApproval, Decision, PortError, WaitingApproval, WantedTool,
};
use super::super::routes::{Fields, find};
use super::{Layout, Notice, Visit, encode, format_time, html, session_path};
use crate::http_api::response::Response;

const NO_SOURCE: &str = "This server has no configuration with components that need approval.";
const NO_LOG: &str = "The event log is off, so no sessions are saved here.";

/// The calling convention of the tools of MCP servers.
const SERVER_CONTRACT: &str = "mcp";

/// A component or an MCP server, as the page shows it.
struct ComponentView {
    name: PrintableText,
    href: String,
    pin: String,
    is_server: bool,
    state: &'static str,
    tone: &'static str,
    is_open: bool,
    can_approve: bool,
    can_revoke: bool,
    digest: Option<String>,
    grants: Vec<PrintableText>,
    reference: Option<PrintableText>,
    signer: Option<PrintableText>,
    changes: Vec<ApprovalChange>,
    tools: Vec<WantedTool>,
}

/// A call that waits, as the page shows it.
struct CallView {
    id: PrintableText,
    href: String,
    session: PrintableText,
    session_href: String,
    tool: PrintableText,
    arguments: PrintableText,
    from: PrintableText,
    question: PrintableText,
    at: String,
}

#[derive(Template)]
#[template(path = "dashboard/approvals.html")]
struct ApprovalsPage {
    layout: Layout,
    csrf: String,
    components: Vec<ComponentView>,
    components_problem: Option<PrintableText>,
    calls: Vec<CallView>,
    calls_problem: Option<PrintableText>,
}

impl ComponentView {
    fn new(component: ComponentApproval) -> Self {
        let (state, tone) = match component.state {
            ApprovalState::Approved => ("approved", "good"),
            ApprovalState::Stored => ("approved, not reloaded yet", "good"),
            ApprovalState::Never => ("never approved", "warn"),
            ApprovalState::Changed => ("changed since the approval", "bad"),
        };
        let is_pending = matches!(component.state, ApprovalState::Never | ApprovalState::Changed);
        Self {
            href: format!("/dashboard/approvals/components/{}", encode(&component.name)),
            name: component.name,
            pin: component.pin,
            is_server: component.contract.as_str() == SERVER_CONTRACT,
            state,
            tone,
            is_open: is_pending,
            can_approve: is_pending,
            can_revoke: component.state != ApprovalState::Never,
            digest: component.digest,
            grants: component.grants,
            reference: component.reference,
            signer: component.signer,
            changes: component.changes,
            tools: component.tools,
        }
    }
}

impl CallView {
    fn new(call: WaitingApproval) -> Self {
        Self {
            href: format!("/dashboard/approvals/calls/{}", encode(&call.id)),
            id: call.id.into(),
            session_href: session_path(&call.session),
            session: call.session,
            tool: call.tool,
            arguments: call.arguments,
            from: call.from,
            question: call.question,
            at: format_time(Timestamp(call.asked_at_ms)),
        }
    }
}

/// Shows what waits for a decision, those that wait first.
pub(crate) async fn show(visit: &Visit, notice: Option<Notice>) -> Response {
    let (components, calls) = match &visit.shared.options.approvals {
        Some(approvals) => (approvals.components().await, approvals.waiting_calls().await),
        None => (Err(PortError(NO_SOURCE.to_owned())), Err(PortError(NO_LOG.to_owned()))),
    };
    fn split<T>(found: Result<Vec<T>, PortError>) -> (Vec<T>, Option<PrintableText>) {
        match found {
            Ok(found) => (found, None),
            Err(PortError(problem)) => (Vec::new(), Some(problem.into())),
        }
    }
    let (components, components_problem) = split(components);
    let (calls, calls_problem) = split(calls);
    let mut components: Vec<ComponentView> = components.into_iter().map(ComponentView::new).collect();
    components.sort_by_key(|component| !component.can_approve);
    let page = ApprovalsPage {
        layout: Layout { notice, ..visit.layout("approvals", "Approvals") },
        csrf: visit.csrf.clone(),
        components,
        components_problem,
        calls: calls.into_iter().map(CallView::new).collect(),
        calls_problem,
    };
    html(StatusCode::OK, &page)
}

/// Stores a decision about a component.
pub(crate) async fn decide(visit: &Visit, name: &str, fields: &Fields) -> Response {
    let decision = match find(fields, "decision") {
        "approve" => Decision::Approve,
        "revoke" => Decision::Revoke,
        _ => return show(visit, Some(Notice::bad("Expected `approve` or `revoke`. Nothing was done."))).await,
    };
    let Some(approvals) = &visit.shared.options.approvals else {
        return show(visit, Some(Notice::bad(NO_SOURCE))).await;
    };
    let done = approvals.decide(name.to_owned(), find(fields, "pin").to_owned(), decision).await;
    show(visit, Some(to_notice(done))).await
}

/// Stores the answer to a call that waits.
pub(crate) async fn answer(visit: &Visit, id: &str, fields: &Fields) -> Response {
    let is_allowed = match find(fields, "answer") {
        "allow" => true,
        "deny" => false,
        _ => return show(visit, Some(Notice::bad("Expected `allow` or `deny`. Nothing was done."))).await,
    };
    let Some(approvals) = &visit.shared.options.approvals else {
        return show(visit, Some(Notice::bad(NO_LOG))).await;
    };
    let done = approvals.answer_call(id.to_owned(), is_allowed, find(fields, "reason").to_owned()).await;
    show(visit, Some(to_notice(done))).await
}

fn to_notice(done: Result<String, PortError>) -> Notice {
    match done {
        Ok(done) => Notice::good(done),
        Err(PortError(problem)) => Notice::bad(problem),
    }
}
