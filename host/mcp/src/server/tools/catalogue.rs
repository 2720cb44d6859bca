//! The tools as clients see them, computed once for each change of the set, and their names.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fumehood_core::digest::Digest;
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::definition::Annotations;
use fumehood_core::tool::{ResultForm, Tool};
use rmcp::model::{JsonObject, MetaObject, Tool as McpTool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::instructions::instructions;
use crate::server::sanitizer::Sanitizer;

/// Maximum number of known names in the error for an unknown one.
const MAX_SUGGESTIONS: usize = 10;
/// Prefix of a cursor; other texts are rejected.
const CURSOR_PREFIX: &str = "after:";

/// An immutable snapshot of the tools.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    /// Sorted by the names that clients see.
    tools: Vec<McpTool>,
    entries: HashMap<String, Entry>,
    /// The `instructions` of the server.
    instructions: Option<String>,
}

/// The data that a call of a tool needs.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The full name of the tool in this host.
    pub(crate) full_name: String,
    pub(crate) form: AnswerForm,
    /// True if it waits for an approval, so that it is not listed.
    is_waiting: bool,
}

/// The form of the answers of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AnswerForm {
    /// True if clients were given an output schema, so that they expect structured content.
    pub(crate) structured: bool,
    /// The form of its results.
    pub(crate) result: ResultForm,
}

/// A cursor that this server never returned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidCursor;

impl Catalogue {
    /// Builds the catalogue with names according to `naming`; `own` is the operator's part of the instructions.
    pub(crate) fn new(tools: &[Arc<Tool>], naming: Naming, own: Option<&str>) -> Self {
        let mut catalogue = Self { instructions: instructions(own, tools), ..Self::default() };
        let ambiguous = ambiguous_names(tools);
        for listed in tools {
            let name = match listed.definition().name.as_str() {
                short if naming == Naming::Short && !ambiguous.contains(short) => short.to_owned(),
                _ => to_client_name(listed.full_name()),
            };
            let tool = to_mcp_tool(name.clone(), listed);
            let form = AnswerForm { structured: tool.output_schema.is_some(), result: listed.result_form() };
            let entry = Entry { full_name: listed.full_name().to_owned(), form, is_waiting: !listed.is_approved() };
            // Two names with the same digest: the second cannot be called, so it is not listed either.
            if let std::collections::hash_map::Entry::Vacant(free) = catalogue.entries.entry(name) {
                free.insert(entry);
                if listed.is_approved() {
                    catalogue.tools.push(tool);
                }
            }
        }
        catalogue.tools.sort_by(|a, b| a.name.cmp(&b.name));
        catalogue
    }

    /// Returns the `instructions` of the server.
    pub(crate) fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Returns the form of the answers of the tool of this full name.
    pub(crate) fn answer_form(&self, full_name: &str) -> AnswerForm {
        let entry = self.entries.values().find(|entry| entry.full_name == full_name);
        entry.map(|entry| entry.form).unwrap_or_default()
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&McpTool> {
        let at = self.tools.binary_search_by(|tool| tool.name.as_ref().cmp(name)).ok()?;
        self.tools.get(at)
    }

    /// Returns at most `size` tools from the cursor on, and the cursor of the next page. A cursor names the last tool
    /// before it, so that pages stay correct while tools are added and removed.
    pub(crate) fn page(
        &self,
        cursor: Option<&str>,
        size: usize,
    ) -> Result<(Vec<McpTool>, Option<String>), InvalidCursor> {
        let start = match cursor {
            None => 0,
            Some(cursor) => {
                let last = cursor.strip_prefix(CURSOR_PREFIX).ok_or(InvalidCursor)?;
                self.tools.partition_point(|tool| tool.name.as_ref() <= last)
            }
        };
        let rest = self.tools.get(start..).unwrap_or_default();
        let page = rest.get(..size).unwrap_or(rest);
        let next = page.last().filter(|_| page.len() < rest.len()).map(|last| format!("{CURSOR_PREFIX}{}", last.name));
        Ok((page.to_vec(), next))
    }

    /// Returns a sentence about the tools that wait for an approval here and did not wait, or were not there, before.
    pub(crate) fn waiting_since(&self, before: &Self) -> Option<String> {
        let waited = |name: &String| before.entries.get(name).is_some_and(|entry| entry.is_waiting);
        let waiting = self.entries.iter().filter(|(name, entry)| entry.is_waiting && !waited(name));
        let mut names: Vec<&str> = waiting.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let shown = names.iter().take(MAX_SUGGESTIONS).copied().collect::<Vec<_>>().join(", ");
        let more = names.len().saturating_sub(MAX_SUGGESTIONS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("these tools wait for an operator to approve them: {shown}{more}"))
    }

    /// Returns some of the names, for the error about an unknown one.
    pub(crate) fn suggestions(&self) -> String {
        let names: Vec<&str> = self.tools.iter().take(MAX_SUGGESTIONS).map(|tool| tool.name.as_ref()).collect();
        match self.tools.len() {
            0 => "no tools are loaded".to_owned(),
            all if all > names.len() => format!("some of the {all} tools are: {}", names.join(", ")),
            _ => format!("the tools are: {}", names.join(", ")),
        }
    }
}

/// Returns the bare names that are ambiguous: two tools have them, or they are the full name of another.
fn ambiguous_names(tools: &[Arc<Tool>]) -> HashSet<String> {
    let mut seen: HashSet<&str> = tools.iter().map(|tool| tool.full_name()).collect();
    let names = tools.iter().map(|tool| tool.definition().name.as_str());
    names.filter(|name| !seen.insert(name)).map(str::to_owned).collect()
}

fn to_mcp_tool(name: String, tool: &Tool) -> McpTool {
    let definition = tool.definition();
    let mut sanitizer = Sanitizer::default();
    let input_schema = definition.input_schema.to_sanitized();
    let mut tool = McpTool::new(name, sanitizer.untrusted(&definition.description), object_schema(&input_schema));
    tool.title = definition.title.as_ref().map(|title| sanitizer.untrusted(title));
    // Before 2026-07-28, structured content is an object. A tool whose result is something else answers with text.
    let output = definition.output_schema.as_ref().map(Untrusted::<Value>::to_sanitized);
    let output = output.as_deref().and_then(Value::as_object);
    tool.output_schema = output.filter(|schema| schema.get("type") == Some(&json!("object"))).cloned().map(Arc::new);
    tool.annotations = annotations(definition.annotations);
    if let Some(Value::Object(members)) =
        definition.mcp_members.as_ref().map(|members| members.to_sanitized().into_owned())
    {
        set_members(&mut tool, members);
    }
    sanitizer.at_least(definition.hidden_chars());
    sanitizer.report(&mut tool.meta);
    tool
}

/// Sets the members that only clients use, as the server wrote them.
fn set_members(tool: &mut McpTool, mut members: Map<String, Value>) {
    if let Some(Value::String(title)) = members.remove("title") {
        tool.annotations.get_or_insert_default().title = Some(title);
    }
    tool.icons = members.remove("icons").and_then(|icons| serde_json::from_value(icons).ok());
    if let Some(Value::Object(meta)) = members.remove("_meta") {
        tool.meta = Some(MetaObject(meta));
    }
}

/// Returns the schema with `"type": "object"` at its top, which the protocol requires of an `inputSchema`.
fn object_schema(schema: &Value) -> Arc<JsonObject> {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    if schema.get("type") != Some(&json!("object")) {
        schema.insert("type".to_owned(), json!("object"));
    }
    Arc::new(schema)
}

fn annotations(hints: Annotations) -> Option<ToolAnnotations> {
    let Annotations { read_only, destructive, idempotent, open_world } = hints;
    (hints != Annotations::default())
        .then(|| ToolAnnotations::from_raw(None, read_only, destructive, idempotent, open_world))
}

/// Maximum length of a name that all clients accept, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Number of hexadecimal digits of the digest that replace the end of a longer name.
const DIGEST_DIGITS: usize = 12;

/// The scheme of tool names that clients see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Naming {
    /// Full names, `component__tool`, which stay the same whatever else is served.
    #[default]
    Full,
    /// Bare names, `tool`. Tools that share one keep their full names, all of them.
    Short,
}

/// Returns the name under which clients see the tool with this full name: the full name itself, or, if that is longer
/// than 64 bytes, its beginning and a part of its digest.
///
/// The result depends on the full name alone; the catalogue maps it back. Clients accept at most 64 of the characters
/// `a-z`, `A-Z`, `0-9`, `_` and `-`.
pub(crate) fn to_client_name(full_name: &str) -> String {
    if full_name.len() <= MAX_NAME_BYTES {
        return full_name.to_owned();
    }
    let digits: String = Digest::of(full_name.as_bytes()).hex().chars().take(DIGEST_DIGITS).collect();
    let start: String = full_name.chars().take(MAX_NAME_BYTES - DIGEST_DIGITS - 1).collect();
    format!("{start}-{digits}")
}

#[cfg(test)]
mod tests {
    use fumehood_core::call::result::CallError;
    use fumehood_core::schema::gate::{Gate, GateLimits};
    use fumehood_core::tool::definition::RawDefinition;
    use fumehood_core::tool::name::QualifiedName;

    use super::*;

    fn tool(name: &str) -> Arc<Tool> {
        let QualifiedName { namespace, tool } = QualifiedName::parse(name).unwrap();
        let raw = RawDefinition { name: tool.to_string(), input_schema: "{}".to_owned(), ..RawDefinition::default() };
        let gate = Gate::for_arguments(&json!({}), GateLimits::default()).unwrap();
        Arc::new(Tool::new(raw.parse(&Default::default()).unwrap(), gate).in_namespace(&namespace))
    }

    fn withheld(tool: &Arc<Tool>) -> Arc<Tool> {
        Arc::new(Tool::clone(tool).withheld(Some(CallError::cancelled())))
    }

    #[test]
    fn pagination_survives_changes() {
        let catalogue = |names: &[&str]| {
            Catalogue::new(&names.iter().map(|name| tool(name)).collect::<Vec<_>>(), Naming::Full, None)
        };
        let names = |page: &[McpTool]| page.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>().join(" ");
        let all = catalogue(&["c__1", "a__1", "b__1", "d__1", "e__1"]);
        let (first, next) = all.page(None, 2).unwrap();
        assert_eq!((names(&first).as_str(), next.as_deref()), ("a__1 b__1", Some("after:b__1")));
        let fewer = catalogue(&["a__1", "d__1", "e__1"]);
        let (second, end) = fewer.page(next.as_deref(), 2).unwrap();
        assert_eq!((names(&second).as_str(), end), ("d__1 e__1", None));
        assert_eq!(all.page(Some("2"), 2).unwrap_err(), InvalidCursor);
        assert_eq!(Catalogue::default().page(None, 2).unwrap(), (Vec::new(), None));
    }

    #[test]
    fn adds_object_type_to_input_schemas() {
        let catalogue = Catalogue::new(&[tool("a__t")], Naming::Full, None);
        let listed = catalogue.tool("a__t").unwrap();
        assert_eq!(Value::Object(listed.input_schema.as_ref().clone()), json!({"type": "object"}));
        assert_eq!((&listed.output_schema, &listed.annotations), (&None, &None));
    }

    #[test]
    fn withheld_tools_keep_their_name_and_are_not_listed() {
        let mut tools = ["a__add", "b__get"].map(tool);
        tools[0] = withheld(&tools[0]);
        let catalogue = Catalogue::new(&tools, Naming::Short, None);
        assert!(catalogue.tool("add").is_none());
        assert_eq!(catalogue.suggestions(), "the tools are: get");
        assert_eq!(catalogue.find("add").unwrap().full_name, "a__add");
    }

    #[test]
    fn uses_short_names_where_unambiguous() {
        let tools = ["a__add", "a__get", "b__get", "c__a__add"].map(tool);
        let names = |naming| {
            let (page, _) = Catalogue::new(&tools, naming, None).page(None, 10).unwrap();
            page.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(Naming::Full), "a__add a__get b__get c__a__add");
        assert_eq!(names(Naming::Short), "a__get add b__get c__a__add");
        let catalogue = Catalogue::new(&["a__add", "a__get", "b__get"].map(tool), Naming::Short, None);
        assert_eq!(catalogue.suggestions(), "the tools are: a__get, add, b__get");
        assert_eq!(catalogue.find("add").unwrap().full_name, "a__add");
        assert!(catalogue.find("a__add").is_none(), "what is not listed cannot be called");
    }

    #[test]
    fn truncates_long_names_to_distinct_ones() {
        assert_eq!(to_client_name("calculator__add"), "calculator__add");
        let longest = "a".repeat(64);
        assert_eq!(to_client_name(&longest), longest);
        let long = |last: char| format!("{}__{}{last}", "n".repeat(64), "t".repeat(63));
        let (a, b) = (to_client_name(&long('a')), to_client_name(&long('b')));
        assert_eq!((a.len(), b.len()), (64, 64));
        assert_ne!(a, b);
        assert!(a.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-'), "{a}");
    }
}
