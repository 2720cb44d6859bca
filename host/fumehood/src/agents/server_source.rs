//! The tools of one MCP server, as far as they may be called.

use std::sync::Arc;

use fumehood_agent::identity::ActorArguments;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::flow::ToolFlow;
use fumehood_core::policy::approval::{LibraryItem, Manifest};
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::Tool;
use fumehood_core::tool::definition::ToolDefinition;
use fumehood_core::tool::name::ToolName;
use fumehood_mcp::{Remote, RemoteTool, ToolNotice};

use crate::lock::approval_check::{ApprovalCheck, LockedApproval};

/// The calling convention of servers' tools, as approvals name it.
const CONTRACT: &str = "mcp";

/// The powers of servers' tools: nothing is known of them here.
const POWERS: &str = "do anything that its MCP server can, outside of the sandbox";

/// A server, and what is known of its tools since they were listed last.
pub(super) struct ServerSource {
    pub(super) remote: Remote,
    /// The approval that it needs, if it needs one.
    pub(super) pinned: Option<PinnedServer>,
    /// Tools that are left out, each with the reason.
    pub(super) refused: Vec<ToolNotice>,
    /// Parts of schemas that are not checked.
    pub(super) unchecked: Vec<ToolNotice>,
    /// The notice that resources and prompts could not be listed.
    unlisted: Option<ToolNotice>,
    /// The notices about resources and prompts that are among [`Self::refused`].
    pub(super) library_notices: Vec<ToolNotice>,
    /// The reason for which nothing of the server may be used.
    refusal: Option<CallError>,
}

/// A server whose tools have to be what was approved.
pub(super) struct PinnedServer {
    grants: Vec<String>,
    approved: LockedApproval,
    pub(super) check: ApprovalCheck,
    /// True once all of its tools were approved at one time. From then on, tools that are still what was approved stay
    /// callable while others wait.
    was_approved: bool,
}

/// The decision on the tools of a pinned server.
pub(super) enum Standing {
    /// All are what was approved. The flag is false if the approval does not cover instructions, icons and metadata.
    Approved { has_members: bool },
    /// Tools of this manifest may be called, and others wait.
    Partly(Box<Manifest>),
    /// None may be called.
    Refused(Option<CallError>),
}

impl PinnedServer {
    /// Creates a server with one line for each fact about itself, and its approval.
    pub(super) fn new(grants: Vec<String>, approved: LockedApproval) -> Self {
        let check = ApprovalCheck::compare(Manifest::new(None, CONTRACT, grants.clone(), &[]), &approved);
        Self { grants, approved, check, was_approved: false }
    }

    /// Compares these tools with the approval.
    pub(super) fn compare(&mut self, remote: &Remote, tools: &[RemoteTool]) -> Standing {
        let definitions: Vec<_> = tools.iter().map(|tool| tool.definition.clone()).collect();
        let instructions = remote.instructions().map(|text| Clone::clone(&*text));
        let whole = Manifest { instructions, ..Manifest::new(None, CONTRACT, self.grants.clone(), &definitions) };
        let library = remote.library();
        library.pin(self.approved.library());
        // What changed in the library is withheld item by item, and is no reason to withhold the tools.
        let approved_library = self.approved.library().to_vec();
        let tools_only = whole.clone().with_library(approved_library.clone());
        let bare = tools_only.without_mcp_members();
        let mut check = ApprovalCheck::compare(whole.with_library(library.items()), &self.approved);
        let tools_check = ApprovalCheck::compare(tools_only, &self.approved);
        let has_members = tools_check.standing().is_approved();
        let is_approved = has_members || ApprovalCheck::compare(bare, &self.approved).standing().is_approved();
        let escaped = (!is_approved).then(|| self.compare_escaped(tools, approved_library)).flatten();
        let standing = if is_approved || escaped.is_some() {
            self.was_approved = true;
            check = escaped.unwrap_or(check);
            Standing::Approved { has_members }
        } else {
            match self.approved.approved().filter(|approved| self.was_approved && covers_server(approved, &check)) {
                Some(approved) => Standing::Partly(Box::new(approved.clone())),
                None => Standing::Refused(tools_check.refusal(remote.name().as_str())),
            }
        };
        self.check = check;
        standing
    }

    /// Compares tools under the names of earlier releases with the approval. Returns the comparison if they are approved.
    fn compare_escaped(&self, tools: &[RemoteTool], library: Vec<LibraryItem>) -> Option<ApprovalCheck> {
        let escaped: Vec<_> = tools.iter().map(escaped_definition).collect();
        let escaped = Manifest::new(None, CONTRACT, self.grants.clone(), &escaped);
        let check = ApprovalCheck::compare(escaped.with_library(library).without_mcp_members(), &self.approved);
        check.standing().is_approved().then_some(check)
    }
}

/// Returns a definition with the name that earlier releases gave the tool: approvals of that time have it.
fn escaped_definition(tool: &RemoteTool) -> ToolDefinition {
    let definition = tool.definition.clone();
    match ToolName::escaped(&tool.foreign) {
        Some(name) if name.as_str() != &*tool.foreign => {
            ToolDefinition { name, export: Some(Untrusted::from(&*tool.foreign)), ..definition }
        }
        _ => definition,
    }
}

/// Returns whether an approval is for the same server, whatever its tools are.
fn covers_server(approved: &Manifest, check: &ApprovalCheck) -> bool {
    approved.grants == check.parts().grants && approved.contract == check.parts().contract
}

impl ServerSource {
    pub(super) fn new(remote: Remote, pinned: Option<PinnedServer>) -> Self {
        let [refused, unchecked, library_notices] = Default::default();
        Self { remote, pinned, refused, unchecked, unlisted: None, library_notices, refusal: None }
    }

    /// Lists the resources and prompts of the server. If it does not list them, it has none, with a notice.
    pub(super) async fn read_library(&mut self) {
        let listed = self.remote.library().refresh().await;
        self.unlisted = listed.err().map(|error| ToolNotice::new("resources and prompts", error.to_string()));
    }

    /// Returns whether the resources and prompts could not be listed yet.
    pub(super) fn is_unlisted(&self) -> bool {
        self.unlisted.is_some() && !self.remote.library().was_listed()
    }

    /// Returns the tools in place of requests for resources and prompts.
    pub(super) fn requests(&self) -> Vec<Tool> {
        let powers: Arc<[String]> = Arc::from([POWERS.to_owned()]);
        let tools = self.remote.library().tools().into_iter();
        let tools = tools.map(|tool| tool.granted(Arc::clone(&powers)).withheld(self.refusal.clone()));
        let is_pinned = self.pinned.is_some();
        tools.map(|tool| if is_pinned { tool } else { tool.with_flow(ToolFlow::UNAPPROVED) }).collect()
    }

    /// Sets the current approval, if it is known. Returns whether it is another one than before.
    pub(super) fn set_approval(&mut self, approved: Option<LockedApproval>) -> bool {
        let (Some(pinned), Some(approved)) = (&mut self.pinned, approved) else { return false };
        let is_other = pinned.approved != approved;
        pinned.approved = approved;
        is_other
    }

    /// Returns the tools that the server listed last, withheld unless they may be called. Tools that would let the model
    /// choose the actor are left out.
    pub(super) fn tools(&mut self, actor_arguments: &ActorArguments) -> Vec<Tool> {
        self.refused = self.remote.rejected_tools();
        self.unchecked = self.remote.unchecked_schemas();
        let (listed, refused) = acceptable(self.remote.listed_tools(), actor_arguments);
        self.refused.extend(refused);
        let standing = self.pinned.as_mut().map(|pinned| pinned.compare(&self.remote, &listed));
        let unlisted = self.unlisted.clone().filter(|_| self.is_unlisted());
        let library = self.remote.library();
        self.library_notices = unlisted.into_iter().chain(library.notices()).collect();
        // A server that is not approved has its own refusal, which covers its resources and prompts.
        if !matches!(standing, Some(Standing::Refused(_))) {
            self.library_notices.extend(library.waiting_notices());
        }
        self.refused.extend(self.library_notices.iter().cloned());
        self.refusal = match &standing {
            Some(Standing::Refused(refusal)) => refusal.clone(),
            _ => None,
        };
        let powers: Arc<[String]> = Arc::from([POWERS.to_owned()]);
        let instructions = self.remote.instructions();
        let mut tools = Vec::new();
        for listed in &listed {
            let tool = Tool::clone(&listed.tool).granted(Arc::clone(&powers));
            let tool = match &standing {
                None => tool
                    .with_flow(ToolFlow::UNAPPROVED)
                    .with_instructions(instructions.clone())
                    .withheld(self.remote.is_quarantined(listed).then(|| changed_refusal(listed))),
                Some(Standing::Refused(refusal)) => tool.withheld(refusal.clone()),
                Some(Standing::Approved { has_members }) => {
                    self.remote.accept(listed);
                    let tool = tool.with_instructions(instructions.clone().filter(|_| *has_members));
                    if *has_members { tool } else { without_mcp_members(tool) }
                }
                Some(Standing::Partly(approved)) => self.partly_approved(tool, listed, approved),
            };
            // Without its page, a client would take it for a tool of models.
            let has_page = tool.definition().mcp_members.is_some();
            tools.extend((tool.is_for_models() || has_page).then_some(tool));
        }
        tools
    }

    /// Returns a tool of a server of which some tools wait for an approval.
    fn partly_approved(&self, tool: Tool, listed: &RemoteTool, approved: &Manifest) -> Tool {
        let alone = Manifest::new(None, CONTRACT, Vec::new(), std::slice::from_ref(&listed.definition));
        let has_members = alone.tools.iter().all(|tool| approved.tools.contains(tool));
        if !has_members && !alone.without_mcp_members().tools.iter().all(|tool| approved.tools.contains(tool)) {
            let is_new = !approved.tools.iter().any(|tool| tool.name == listed.definition.name.as_str());
            return tool.withheld(Some(waiting_refusal(&self.remote, listed, is_new)));
        }
        self.remote.accept(listed);
        let instructions = self.remote.instructions().filter(|text| approved.instructions.as_ref() == Some(&**text));
        let tool = tool.with_instructions(instructions);
        if has_members { tool } else { without_mcp_members(tool) }
    }
}

/// Returns the tools that can be used, and a notice about each of the others.
pub(super) fn acceptable(
    tools: Vec<RemoteTool>,
    actor_arguments: &ActorArguments,
) -> (Vec<RemoteTool>, Vec<ToolNotice>) {
    let mut acceptable = Vec::new();
    let mut refused = Vec::new();
    for tool in tools {
        match actor_arguments.check(tool.tool.full_name(), tool.tool.input_schema()) {
            Ok(()) => acceptable.push(tool),
            Err(why) => refused.push(ToolNotice::new(&tool.foreign, why.to_string())),
        }
    }
    (acceptable, refused)
}

fn without_mcp_members(tool: Tool) -> Tool {
    tool.with_definition(|definition| definition.mcp_members = None)
}

/// Returns the error of a tool that changed although nobody approves the tools of its server.
fn changed_refusal(tool: &RemoteTool) -> CallError {
    let name = tool.tool.full_name();
    let message = format!("the description of the tool `{name}` changed since it was first listed");
    let hint = "an operator must review it; a restart accepts the new description";
    CallError::new(ErrorKind::NeedsApproval, message).with_hint(hint)
}

/// Returns the error of a tool that appeared, or changed, after its server was approved.
fn waiting_refusal(server: &Remote, tool: &RemoteTool, is_new: bool) -> CallError {
    let name = tool.tool.full_name();
    let server = server.name();
    let what = if is_new { "appeared" } else { "changed" };
    let message = format!("the tool `{name}` {what} after the server `{server}` was approved");
    let hint = format!("an operator must review and approve it: `fumehood approve {server}`");
    CallError::new(ErrorKind::NeedsApproval, message).with_hint(hint)
}

/// Returns the error of a tool that its server no longer has.
pub(super) fn removed_refusal(tool: &Tool) -> CallError {
    let name = &tool.definition().name;
    let server = tool.namespace().map_or("", |server| server.as_str());
    CallError::new(ErrorKind::UnknownTool, format!("the server `{server}` no longer has the tool `{name}`"))
        .with_hint("list the tools again")
}
