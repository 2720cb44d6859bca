//! The tools of a server as they were listed last, and the digests that they are pinned by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fumehood_core::digest::Digest;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::gate::{Gate, GateLimits};
use fumehood_core::name::Namespace;
use fumehood_core::result::CallError;
use fumehood_core::sanitize::printable;
use fumehood_core::untrusted::Untrusted;
use rmcp::model::Tool;
use serde_json::Value;

use super::remote_tool::RemoteTool;
use super::tool_notice::ToolNotice;

/// Reason of the notice about a tool whose results are not checked.
const UNREADABLE_OUTPUT_SCHEMA: &str = "its output schema cannot be read, so that its results are not checked";

/// A tool, and the validator of its results.
#[derive(Clone)]
pub(crate) struct ListedTool {
    pub(crate) tool: RemoteTool,
    pub(crate) results: Option<Arc<Gate>>,
}

/// The tools of one `tools/list`.
#[derive(Default)]
pub(crate) struct ToolList {
    tools: BTreeMap<Arc<str>, ListedTool>,
    rejected: Vec<ToolNotice>,
    unchecked: Vec<ToolNotice>,
}

/// Size limits of arguments and results, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Maximum size of one string in the arguments of a call.
    pub(crate) string: usize,
    /// Maximum size of one result.
    pub(crate) output: usize,
}

/// The current tools of a server and their pins.
#[derive(Default)]
pub(crate) struct ToolPins {
    listed: ToolList,
    pins: BTreeMap<Arc<str>, Digest>,
}

impl ToolList {
    /// Converts the tools that a server listed, limited to `only`. Compiles their schemas, which may take long.
    pub(crate) fn new(server: &Namespace, tools: &[Tool], only: Option<&BTreeSet<String>>, sizes: Sizes) -> Self {
        let mut listed = Self::default();
        for tool in tools.iter().filter(|tool| only.is_none_or(|only| only.contains(tool.name.as_ref()))) {
            match listed.parse_tool(server, tool, sizes) {
                Ok(known) => drop(listed.tools.insert(Arc::clone(&known.tool.foreign), known)),
                Err(why) => listed.rejected.push(why),
            }
        }
        let missing = only.into_iter().flatten().filter(|name| tools.iter().all(|tool| tool.name != **name));
        listed.rejected.extend(missing.map(|name| ToolNotice::new(name, "the server has no such tool")));
        listed
    }

    fn parse_tool(&mut self, server: &Namespace, tool: &Tool, sizes: Sizes) -> Result<ListedTool, ToolNotice> {
        let limits = GateLimits::default().with_string_bytes(sizes.string);
        let (tool, mut notices) = RemoteTool::from_tool(server, tool, &limits)?;
        self.unchecked.append(&mut notices);
        // Results are bounded as a whole, so a long string in one is accepted.
        let limits = GateLimits { document_bytes: sizes.output, string_bytes: sizes.output, ..GateLimits::default() };
        let compile = |schema: &Untrusted<Value>| Gate::for_foreign_results(schema.expose_raw(), limits);
        let results = match tool.output_schema.as_ref().map(compile) {
            Some(Ok(gate)) => Some(Arc::new(gate)),
            // The output schema cannot be enforced here, so results are accepted unchecked.
            Some(Err(_)) => {
                self.unchecked.push(ToolNotice::new(&tool.foreign, UNREADABLE_OUTPUT_SCHEMA));
                None
            }
            None => None,
        };
        Ok(ListedTool { tool, results })
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
            self.pins.entry(Arc::clone(name)).or_insert(known.tool.digest);
        }
        self.listed = listed;
    }

    /// Returns the tools that match their pins.
    pub(crate) fn tools(&self) -> Vec<RemoteTool> {
        let unchanged = self.listed.tools.values().filter(|known| !self.is_changed(&known.tool));
        unchanged.map(|known| known.tool.clone()).collect()
    }

    /// Returns the tools that cannot be used, each with the reason.
    pub(crate) fn rejected(&self) -> Vec<ToolNotice> {
        let changed = self.listed.tools.values().filter(|known| self.is_changed(&known.tool));
        let changed = changed.map(|known| ToolNotice::new(&known.tool.foreign, "it is not what was approved"));
        self.listed.rejected.iter().cloned().chain(changed).collect()
    }

    /// Returns the parts of schemas that are not checked.
    pub(crate) fn unchecked(&self) -> Vec<ToolNotice> {
        self.listed.unchecked.clone()
    }

    /// Returns the tool with this name, if it may be called.
    pub(crate) fn callable(&self, server: &Namespace, foreign: &str) -> Result<ListedTool, CallError> {
        match self.listed.tools.get(foreign) {
            None => Err(CallError::new(
                ErrorKind::UnknownTool,
                format!("the server `{server}` no longer has the tool `{}`", printable(foreign)),
            )),
            Some(known) if self.is_changed(&known.tool) => Err(CallError::new(
                ErrorKind::NeedsApproval,
                format!("the tool `{}` describes itself otherwise than when it was approved", known.tool.name),
            )
            .with_hint("someone has to look at its new description and approve it")),
            Some(known) => Ok(known.clone()),
        }
    }

    fn is_changed(&self, tool: &RemoteTool) -> bool {
        self.pins.get(&tool.foreign).is_some_and(|pin| *pin != tool.digest)
    }
}
