//! The tools of a server as they were listed last, and the digests that they are pinned by.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::digest::Digest;
use fumehood_core::text::sanitize::printable;
use fumehood_core::tool::Tool;
use fumehood_core::tool::name::{NameError, Namespace, ToolName};

use rmcp::model::Tool as McpTool;

use super::lenient::ToolPage;
use super::library::LibraryMethod;
use super::remote_tool::{RemoteTool, SchemaLimits, max_description_bytes};
use super::tool_notice::{Notices, ToolNotice};

/// Maximum number of names of tools in a notice.
const MAX_LISTED_NAMES: usize = 20;

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
    /// The maximum size of its description, in bytes.
    max_bytes: usize,
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
        let ToolPage { tools, unused, rejected, mended, .. } = page;
        let [rejected, unchecked] = [rejected, mended].map(Notices::into_vec);
        let mut listed = Self { rejected, unchecked, ..Self::default() };
        let names = names_in_host(tools.iter().map(|tool| tool.name.as_ref()));
        let is_used = |tool: &&McpTool| only.is_none_or(|only| only.iter().any(|only| is_named(tool, only, &names)));
        let max_bytes = max_description_bytes(&tools, limits.descriptions);
        for tool in tools.iter().filter(is_used) {
            if listed.tools.contains_key(tool.name.as_ref()) {
                listed.rejected.push(ToolNotice::new(&tool.name, "the server lists it twice; the first is used"));
                continue;
            }
            let Some(name) = names.get(tool.name.as_ref()) else {
                listed.rejected.push(ToolNotice::new(&tool.name, NameError::Empty.to_string()));
                continue;
            };
            if name.as_str() != tool.name {
                let reason = format!("its name is not valid, so it is called `{name}` here");
                listed.unchecked.push(ToolNotice::new(&tool.name, reason));
            }
            let is_same = |known: &&ListedTool| {
                known.max_bytes == max_bytes && known.tool.is_same(tool, limits) && known.tool.definition.name == *name
            };
            let converted = match before.get(tool.name.as_ref()).filter(is_same) {
                Some(known) => Ok(known.clone()),
                None => RemoteTool::from_tool(server, name.clone(), tool, limits, max_bytes)
                    .map(|(tool, notices)| ListedTool { tool, notices, max_bytes }),
            };
            match converted {
                Ok(known) => {
                    listed.unchecked.extend(known.notices.iter().cloned());
                    listed.tools.insert(Arc::clone(&known.tool.foreign), known);
                }
                Err(why) => listed.rejected.push(why),
            }
        }
        let missing: Vec<&String> =
            only.into_iter().flatten().filter(|name| !tools.iter().any(|tool| is_named(tool, name, &names))).collect();
        if !missing.is_empty() {
            let has = names.keys().copied().chain(unused.iter().map(String::as_str));
            let reason = format!("the server has no such tool; {}", list_names(has));
            listed.rejected.extend(missing.into_iter().map(|name| ToolNotice::new(name, reason.as_str())));
        }
        listed
    }
}

/// Lists the names of tools that a server has, as far as a line takes them.
fn list_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.collect();
    let listed: Vec<&str> = names.iter().copied().take(MAX_LISTED_NAMES).collect();
    let more = if names.len() > listed.len() { ", …" } else { "" };
    if listed.is_empty() { "it has none".to_owned() } else { format!("it has: {}{more}", listed.join(", ")) }
}

/// Returns the names that the tools of one list have in this host: their own where MCP allows them and no request has them,
/// and otherwise similar ones that no other tool of the list has. An empty name has none.
fn names_in_host<'a>(foreign: impl Iterator<Item = &'a str>) -> HashMap<&'a str, ToolName> {
    let foreign: BTreeSet<&str> = foreign.collect();
    let mut names = HashMap::new();
    let mut taken: BTreeSet<ToolName> = foreign.iter().filter_map(|name| parse_usable(name)).collect();
    for foreign in foreign.into_iter().filter(|name| !name.is_empty()) {
        let similar =
            || (0..=u32::MAX).map(|salt| ToolName::similar_to(foreign, salt)).find(|name| !taken.contains(name));
        if let Some(name) = parse_usable(foreign).or_else(similar) {
            taken.insert(name.clone());
            names.insert(foreign, name);
        }
    }
    names
}

fn parse_usable(name: &str) -> Option<ToolName> {
    ToolName::parse(name).ok().filter(|name| !LibraryMethod::has_name(name))
}

/// Returns whether a tool has this name at its server, or in this host.
fn is_named(tool: &McpTool, wanted: &str, names: &HashMap<&str, ToolName>) -> bool {
    let own = tool.name.as_ref();
    own == wanted || names.get(own).is_some_and(|name| name.as_str() == wanted)
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
        let changed = changed.map(|known| ToolNotice::new(&known.foreign, "it differs from its approval"));
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
                    format!("the description of the tool `{}` changed since it was approved", tool.full_name()),
                )
                .with_hint("an operator must review and approve its new description"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_made_is_never_the_name_of_another_tool() {
        let made = ToolName::similar_to("ns:tool", 0).to_string();
        for all in [["ns:tool", made.as_str(), "Get", "get", ""], ["", "get", "Get", made.as_str(), "ns:tool"]] {
            let names = names_in_host(all.into_iter());
            assert_eq!((names["Get"].as_str(), names["get"].as_str(), names.len()), ("Get", "get", 4));
            assert_eq!(names[made.as_str()].as_str(), made);
            assert_eq!(names["ns:tool"], ToolName::similar_to("ns:tool", 1));
        }
        let reserved = names_in_host(["resources/read", "resources/list"].into_iter());
        assert_eq!(reserved["resources/list"].as_str(), "resources/list");
        assert_eq!(reserved["resources/read"], ToolName::similar_to("resources/read", 0));
    }
}
