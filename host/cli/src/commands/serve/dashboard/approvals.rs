//! Approvals for the dashboard: those of served components in the lock, and those of waiting calls in the event log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use fumehood::agent::agent::answer_saved;
use fumehood::agent::deferred::GivenAnswer;
use fumehood::approval::{ApprovalStatus, Change, LibraryItem, LibraryKind, ToolManifest};
use fumehood::boxed::BoxFuture;
use fumehood::event_log::{EventLog, Reader};
use fumehood::http_api::dashboard::ports::{
    ApprovalChange, ApprovalState, Approvals, ComponentApproval, Decision, PortError, WaitingApproval, WantedTool,
};
use fumehood::{ApprovalCheck, Host, Lock, McpTools, Namespace, PrintableText, Ungranted, Untrusted};

use crate::agent::saved;
use crate::commands::approve;
use crate::config::Config;
use crate::exit::UsageError;
use crate::render;
use crate::{configured, moment};

/// Maximum length of a reason, in bytes.
const MAX_REASON_BYTES: usize = 4096;
/// Name under which answers and approvals are stored.
const ANSWERED_BY: &str = "dashboard";

/// The approvals of a server.
#[derive(Clone)]
pub(super) struct ServedApprovals {
    host: Host,
    servers: Option<Arc<McpTools>>,
    /// The configuration, beside which the lock is.
    config: Config,
    /// True if components are loaded again after their approval changed.
    is_watched: bool,
    log: Option<Arc<EventLog>>,
}

impl ServedApprovals {
    pub(super) fn new(
        host: Host,
        servers: Option<Arc<McpTools>>,
        config: Config,
        is_watched: bool,
        log: Option<Arc<EventLog>>,
    ) -> Self {
        Self { host, servers, config, is_watched, log }
    }

    /// Returns the served components and the reached MCP servers that need an approval, by name.
    fn checks(&self) -> Vec<(Namespace, ApprovalCheck)> {
        let tools = self.host.tools();
        let names: BTreeSet<Namespace> = tools.iter().filter_map(|tool| tool.namespace().cloned()).collect();
        let check = |name: Namespace| approve::approval_check(&self.host, &name).map(|check| (name, check));
        let servers = self.servers.iter().flat_map(|servers| servers.approval_checks());
        names.into_iter().filter_map(check).chain(servers).collect()
    }

    fn list(&self) -> Result<Vec<ComponentApproval>> {
        let checks = self.checks();
        if checks.is_empty() {
            return Ok(Vec::new());
        }
        let lock = configured::open_lock(&self.config)?;
        Ok(checks.iter().map(|(name, check)| component(name, check, &lock)).collect())
    }

    fn store_decision(&self, name: &str, pin: &str, decision: Decision) -> Result<String> {
        let found = self.checks().into_iter().find(|(found, _)| found.as_str() == name);
        let (name, check) = found.with_context(|| format!("no served component or server `{name}` needs approval"))?;
        if check.parts().pin().to_string() != pin {
            let message = format!("`{name}` changed since you opened the page; review it again");
            return Err(UsageError(message).into());
        }
        let mut lock = configured::open_lock(&self.config)?;
        let done = match decision {
            Decision::Approve => {
                let note = approve::approval_note(Some(ANSWERED_BY));
                lock.approve_with_note(name.clone(), check.parts().clone(), note);
                format!("Approved `{name}` in {}.", lock.path().display())
            }
            Decision::Revoke => {
                lock.revoke(&name);
                format!("Revoked the approval of `{name}` in {}.", lock.path().display())
            }
        };
        lock.save().with_context(|| {
            let config = self.config.origin.display();
            let revoke = if matches!(decision, Decision::Revoke) { "--revoke " } else { "" };
            format!("nothing was changed; run `fumehood --config {config} approve {revoke}{name}` as a user who may write there")
        })?;
        render::note(&format!("the dashboard: {done}"));
        let is_server = self.host.component(name.as_str()).is_none();
        Ok(match self.is_watched && !is_server {
            true => format!("{done} It is reloaded within a few seconds."),
            false if is_server && matches!(decision, Decision::Approve) => {
                format!("{done} It takes effect within a few seconds.")
            }
            false if is_server => format!("{done} It takes effect after a restart."),
            false => format!("{done} It takes effect after SIGHUP or a restart, or at once with `--watch`."),
        })
    }

    fn waiting(&self) -> Result<Vec<WaitingApproval>> {
        let Some(log) = &self.log else { return Ok(Vec::new()) };
        waiting_calls(log.reader())
    }

    async fn store_answer(&self, id: &str, yes: bool, reason: String) -> Result<String> {
        if reason.len() > MAX_REASON_BYTES {
            return Err(UsageError(format!("the reason has more than {MAX_REASON_BYTES} bytes; shorten it")).into());
        }
        let log = self.log.as_ref().context("the event log is off, so no calls are waiting")?;
        let session = id.rsplit_once(':').map_or(id, |(session, _)| session);
        let missing = || format!("no call `{id}` is waiting for approval");
        let restored = saved::restore(log.reader(), session)?.with_context(missing)?;
        restored.session.check_answer(id)?;
        let answer = GivenAnswer { yes, reason, by: Some(ANSWERED_BY.to_owned()) };
        answer_saved(log.as_ref(), restored, id, answer, moment::now()).await?;
        log.flush().await?;
        let word = if yes { "allowed" } else { "denied" };
        Ok(format!(
            "The call {id} is {word}. Resume the session with the next message, with POST \
             /v1/sessions/{session}/resume, or with fumehood run --resume {session}."
        ))
    }

    /// Reads files or the log away from the thread that serves connections.
    async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T, PortError> {
        let approvals = self.clone();
        let read = tokio::task::spawn_blocking(move || read(&approvals)).await;
        read.map_err(|error| PortError(error.to_string()))?.map_err(|error| PortError(format!("{error:#}")))
    }
}

impl Approvals for ServedApprovals {
    fn components(&self) -> BoxFuture<'_, Result<Vec<ComponentApproval>, PortError>> {
        Box::pin(self.blocking(Self::list))
    }

    fn decide(&self, name: String, pin: String, decision: Decision) -> BoxFuture<'_, Result<String, PortError>> {
        Box::pin(self.blocking(move |approvals| approvals.store_decision(&name, &pin, decision)))
    }

    fn waiting_calls(&self) -> BoxFuture<'_, Result<Vec<WaitingApproval>, PortError>> {
        Box::pin(self.blocking(Self::waiting))
    }

    fn answer_call(&self, id: String, is_allowed: bool, reason: String) -> BoxFuture<'_, Result<String, PortError>> {
        Box::pin(async move {
            let stored = self.store_answer(&id, is_allowed, reason).await;
            stored.map_err(|error| PortError(format!("{error:#}")))
        })
    }

    fn ungranted(&self, component: &str) -> Vec<PrintableText> {
        let loaded = self.host.component(component);
        loaded.map(|loaded| by_power(loaded.component().ungranted())).unwrap_or_default()
    }
}

/// Returns a line for each power: `http: wasi:http/outgoing-handler@0.2.6, wasi:http/types@0.2.6`.
fn by_power(ungranted: &[Ungranted]) -> Vec<PrintableText> {
    let mut powers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for import in ungranted {
        powers.entry(import.power.as_str()).or_default().push(&import.name);
    }
    powers.into_iter().map(|(power, names)| format!("{power}: {}", names.join(", ")).into()).collect()
}

/// Describes a component. A stored approval that equals it takes effect once the component is loaded again.
fn component(name: &Namespace, check: &ApprovalCheck, lock: &Lock) -> ComponentApproval {
    let parts = check.parts();
    let stored = ApprovalStatus::compare(parts, lock.get(name));
    let (state, changes) = match (check.standing(), &stored) {
        (ApprovalStatus::Approved, ApprovalStatus::Approved) => (ApprovalState::Approved, &[][..]),
        (_, ApprovalStatus::Approved) => (ApprovalState::Stored, &[][..]),
        (_, ApprovalStatus::NeverApproved) => (ApprovalState::Never, &[][..]),
        (_, ApprovalStatus::Changed(changes) | ApprovalStatus::Proposed(changes)) => {
            (ApprovalState::Changed, changes.as_slice())
        }
    };
    let origin = parts.origin.as_ref();
    let grants = parts.grants.iter().map(|grant| render::format_grant(grant).into());
    let instructions = parts.instructions.iter().map(|text| format!("tell models: {}", text.to_sanitized()).into());
    ComponentApproval {
        name: name.as_str().into(),
        pin: parts.pin().to_string(),
        state,
        digest: parts.component.map(|digest| digest.to_string()),
        contract: parts.contract.as_str().into(),
        grants: grants.chain(instructions).collect(),
        reference: origin.map(|origin| origin.reference.clone()),
        signer: origin.and_then(|origin| origin.signer.clone()),
        note: lock.get(name).and_then(|approval| approval.note().cloned()),
        changes: changes.iter().map(change).collect(),
        tools: parts.tools.iter().map(wanted_tool).chain(parts.library.iter().map(wanted_item)).collect(),
    }
}

fn change(change: &Change) -> ApprovalChange {
    ApprovalChange {
        what: change.what.as_str().into(),
        old: change.old.as_ref().map(pretty_text),
        new: change.new.as_ref().map(pretty_text),
    }
}

fn wanted_tool(tool: &ToolManifest) -> WantedTool {
    let annotations = tool.annotations.iter().map(|(name, is)| format!("{name} = {is}").into());
    let members = tool.mcp_members.iter().map(|text| format!("icons and metadata = {}", text.to_sanitized()).into());
    WantedTool {
        name: format!("Tool {}", tool.name).into(),
        description: tool.description.to_sanitized().into(),
        annotations: annotations.chain(members).collect(),
        arguments: describe_arguments(&tool.input_schema),
        input_schema: pretty_text(&tool.input_schema),
    }
}

/// Describes the arguments of a tool as `fumehood approve --full` does, one line for each.
fn describe_arguments(schema: &Untrusted<String>) -> PrintableText {
    let schema = schema.parse_json();
    schema.map(|schema| render::describe_schema(&schema.to_sanitized()).join("\n").into()).unwrap_or_default()
}

/// Describes a prompt or a resource template of a server.
fn wanted_item(item: &LibraryItem) -> WantedTool {
    let name = match item.kind {
        LibraryKind::Resources => "Resources".to_owned(),
        LibraryKind::Resource => format!("Resource {}", item.name.to_sanitized()),
        LibraryKind::Template => format!("Resource template {}", item.name.to_sanitized()),
        LibraryKind::Prompt => format!("Prompt {}", item.name.to_sanitized()),
    };
    WantedTool {
        name: name.into(),
        description: PrintableText::default(),
        annotations: Vec::new(),
        arguments: PrintableText::default(),
        input_schema: pretty_text(&item.definition),
    }
}

/// Returns a text without hidden characters; a JSON object or list is indented.
fn pretty_text(text: &Untrusted<String>) -> PrintableText {
    let json = text.parse_json().map(|value| value.to_sanitized().into_owned());
    let json = json.filter(|value| value.is_object() || value.is_array());
    let pretty = json.and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.map_or_else(|| text.to_sanitized().into(), PrintableText::from)
}

fn waiting_calls(reader: &Reader) -> Result<Vec<WaitingApproval>> {
    let mut found = Vec::new();
    for info in reader.saved_sessions()? {
        // One that cannot be read does not hide the others; `fumehood approve-call` says why.
        let Ok(Some(restored)) = saved::restore(reader, &info.session) else { continue };
        let waiting = restored.session.waiting_calls().iter().filter(|call| call.answer.is_none());
        found.extend(waiting.map(|call| WaitingApproval {
            id: call.id.clone(),
            session: info.session.as_str().into(),
            tool: call.deferred.tool.as_str().into(),
            arguments: pretty_text(&call.deferred.arguments.to_string().into()),
            from: call.deferred.from.as_str().into(),
            question: call.deferred.question.as_str().into(),
            asked_at_ms: call.asked_at.0,
        }));
    }
    Ok(found)
}
