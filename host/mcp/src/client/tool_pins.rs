//! The tools of a server as they were listed last, and the digests that they are pinned by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::digest::Digest;
use fumehood_core::text::sanitize::printable;
use fumehood_core::tool::Tool;
use fumehood_core::tool::name::Namespace;

use super::lenient::ToolPage;
use super::remote_tool::{RemoteTool, SchemaLimits};
use super::tool_notice::ToolNotice;

/// The tools of one `tools/list`.
#[derive(Default)]
pub(crate) struct ToolList {
    tools: ListedTools,
    rejected: Vec<ToolNotice>,
    unchecked: Vec<ToolNotice>,
}

/// Tools by the server's own names.
pub(crate) type ListedTools = BTreeMap<Arc<str>, ListedTool>;

/// A tool, and notices about the parts of its schemas that are not checked.
#[derive(Clone)]
pub(crate) struct ListedTool {
    tool: RemoteTool,
    notices: Vec<ToolNotice>,
}

/// The current tools of a server and their pins.
#[derive(Default)]
pub(crate) struct ToolPins {
    listed: ToolList,
    pins: BTreeMap<Arc<str>, Digest>,
}

impl ToolList {
    /// Converts the tools that a server listed, limited to `only`. Compiles their schemas, which may take long, except of
    /// those that are the same in the list before.
    pub(crate) fn new(
        server: &Namespace,
        page: ToolPage,
        only: Option<&BTreeSet<String>>,
        limits: &SchemaLimits,
        before: &ListedTools,
    ) -> Self {
        let ToolPage { tools, rejected, mended, .. } = page;
        let mut listed = Self { rejected, unchecked: mended, ..Self::default() };
        for tool in tools.iter().filter(|tool| only.is_none_or(|only| only.contains(tool.name.as_ref()))) {
            if listed.tools.contains_key(tool.name.as_ref()) {
                listed.rejected.push(ToolNotice::new(&tool.name, "the server lists it twice; the first one is used"));
                continue;
            }
            let same = before.get(tool.name.as_ref()).filter(|known| known.tool.is_same(tool, limits));
            let converted = match same {
                Some(known) => Ok(known.clone()),
                None => RemoteTool::from_tool(server, tool, limits).map(|(tool, notices)| ListedTool { tool, notices }),
            };
            match converted {
                Ok(known) => {
                    listed.unchecked.extend(known.notices.iter().cloned());
                    listed.tools.insert(Arc::clone(&known.tool.foreign), known);
                }
                Err(why) => listed.rejected.push(why),
            }
        }
        let missing = only.into_iter().flatten().filter(|name| tools.iter().all(|tool| tool.name != **name));
        listed.rejected.extend(missing.map(|name| ToolNotice::new(name, "the server has no such tool")));
        listed
    }
}

impl ToolPins {
    /// Creates the state of a server with tools that were pinned before.
    pub(crate) fn new(pins: BTreeMap<Arc<str>, Digest>) -> Self {
        Self { pins, listed: ToolList::default() }
    }

    /// Replaces the list, and returns whether it is another one. Tools that were not pinned are pinned as they are now.
    pub(crate) fn update(&mut self, listed: ToolList) -> bool {
        for (name, known) in &listed.tools {
            self.pins.entry(Arc::clone(name)).or_insert_with(|| digest(&known.tool));
        }
        let is_same = self.listed.rejected == listed.rejected
            && self.listed.tools.len() == listed.tools.len()
            && self
                .listed
                .tools
                .values()
                .zip(listed.tools.values())
                .all(|(old, new)| old.tool.foreign == new.tool.foreign && digest(&old.tool) == digest(&new.tool));
        self.listed = listed;
        !is_same
    }

    /// Returns the tools of the list as they were converted.
    pub(crate) fn converted(&self) -> ListedTools {
        self.listed.tools.clone()
    }

    /// Pins a tool as it is listed now, because it was approved.
    pub(crate) fn accept(&mut self, tool: &RemoteTool) {
        self.pins.insert(Arc::clone(&tool.foreign), digest(tool));
    }

    /// Returns the tools, including those that do not match their pins.
    pub(crate) fn listed(&self) -> Vec<RemoteTool> {
        self.listed.tools.values().map(|known| known.tool.clone()).collect()
    }

    /// Returns the tools that match their pins.
    pub(crate) fn tools(&self) -> Vec<RemoteTool> {
        self.listed().into_iter().filter(|known| !self.is_changed(known)).collect()
    }

    /// Returns the tools that cannot be used, each with the reason.
    pub(crate) fn rejected(&self) -> Vec<ToolNotice> {
        let changed = self.listed.tools.values().map(|known| &known.tool).filter(|known| self.is_changed(known));
        let changed = changed.map(|known| ToolNotice::new(&known.foreign, "it is not what was approved"));
        self.listed.rejected.iter().cloned().chain(changed).collect()
    }

    /// Returns the parts of schemas that are not checked.
    pub(crate) fn unchecked(&self) -> Vec<ToolNotice> {
        self.listed.unchecked.clone()
    }

    /// Checks that a tool is still what it was when its arguments were validated, and returns it.
    pub(crate) fn callable(&self, server: &Namespace, tool: &Tool) -> Result<RemoteTool, CallError> {
        let definition = tool.definition();
        let foreign = definition.export.as_ref().map_or(definition.name.as_str(), |export| export.expose_raw());
        match self.listed.tools.get(foreign).map(|known| &known.tool) {
            None => Err(CallError::new(
                ErrorKind::UnknownTool,
                format!("the server `{server}` no longer has the tool `{}`", printable(foreign)),
            )),
            Some(known) if self.is_changed(known) || tool.digest().is_some_and(|pin| pin != digest(known)) => {
                Err(CallError::new(
                    ErrorKind::NeedsApproval,
                    format!("the tool `{}` describes itself otherwise than when it was approved", tool.full_name()),
                )
                .with_hint("someone has to look at its new description and approve it"))
            }
            Some(known) => Ok(known.clone()),
        }
    }

    /// Returns whether a tool does not match its pin.
    pub(crate) fn is_changed(&self, tool: &RemoteTool) -> bool {
        self.pins.get(&tool.foreign).is_some_and(|pin| *pin != digest(tool))
    }
}

fn digest(tool: &RemoteTool) -> Digest {
    tool.tool.digest().unwrap_or_else(|| Digest::of(tool.foreign.as_bytes()))
}
