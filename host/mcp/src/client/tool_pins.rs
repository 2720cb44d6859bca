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
use super::remote_tool::{RemoteTool, SchemaLimits, max_description_bytes};
use super::tool_notice::ToolNotice;

/// The tools of one `tools/list`.
#[derive(Default)]
pub(crate) struct ToolList {
    tools: BTreeMap<Arc<str>, RemoteTool>,
    rejected: Vec<ToolNotice>,
    unchecked: Vec<ToolNotice>,
}

/// The current tools of a server and their pins.
#[derive(Default)]
pub(crate) struct ToolPins {
    listed: ToolList,
    pins: BTreeMap<Arc<str>, Digest>,
}

impl ToolList {
    /// Converts the tools that a server listed, limited to `only`. Compiles their schemas, which may take long.
    pub(crate) fn new(
        server: &Namespace,
        page: ToolPage,
        only: Option<&BTreeSet<String>>,
        limits: &SchemaLimits,
    ) -> Self {
        let ToolPage { tools, rejected, mended, .. } = page;
        let mut listed = Self { rejected, unchecked: mended, ..Self::default() };
        let max_bytes = max_description_bytes(&tools, limits.descriptions);
        for tool in tools.iter().filter(|tool| only.is_none_or(|only| only.contains(tool.name.as_ref()))) {
            if listed.tools.contains_key(tool.name.as_ref()) {
                listed.rejected.push(ToolNotice::new(&tool.name, "the server lists it twice; the first one is used"));
                continue;
            }
            match RemoteTool::from_tool(server, tool, limits, max_bytes) {
                Ok((known, notices)) => {
                    listed.unchecked.extend(notices);
                    listed.tools.insert(Arc::clone(&known.foreign), known);
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

    /// Replaces the list. Tools that were not pinned are pinned as they are now.
    pub(crate) fn update(&mut self, listed: ToolList) {
        for (name, known) in &listed.tools {
            self.pins.entry(Arc::clone(name)).or_insert_with(|| digest(known));
        }
        self.listed = listed;
    }

    /// Returns the tools that match their pins.
    pub(crate) fn tools(&self) -> Vec<RemoteTool> {
        let unchanged = self.listed.tools.values().filter(|known| !self.is_changed(known));
        unchanged.cloned().collect()
    }

    /// Returns the tools that cannot be used, each with the reason.
    pub(crate) fn rejected(&self) -> Vec<ToolNotice> {
        let changed = self.listed.tools.values().filter(|known| self.is_changed(known));
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
        match self.listed.tools.get(foreign) {
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

    fn is_changed(&self, tool: &RemoteTool) -> bool {
        self.pins.get(&tool.foreign).is_some_and(|pin| *pin != digest(tool))
    }
}

fn digest(tool: &RemoteTool) -> Digest {
    tool.tool.digest().unwrap_or_else(|| Digest::of(tool.foreign.as_bytes()))
}
