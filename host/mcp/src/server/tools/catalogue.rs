//! The tools as clients see them, computed once for each change of the set, and their names.

use std::collections::HashMap;
use std::sync::Arc;

use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::definition::Annotations;
use fumehood_core::tool::{NameForm, ResultForm, Tool, ToolAliases};
use rmcp::model::{JsonObject, MetaObject, Tool as McpTool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::instructions::instructions;
use crate::apps;
use crate::server::component_library::ComponentLibrary;
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
    /// By full names.
    entries: HashMap<String, Entry>,
    aliases: ToolAliases,
    resources: ComponentLibrary,
    /// The `instructions` of the server.
    instructions: Option<String>,
}

/// The data that a call of a tool needs.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The full name of the tool in this host.
    pub(crate) full_name: String,
    /// The name that clients see.
    shown: String,
    pub(crate) form: AnswerForm,
    /// True if it waits for an approval, so that it is not listed.
    is_waiting: bool,
}

/// The form of the answers of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AnswerForm {
    /// True if clients were given an output schema, so that they expect structured content.
    pub(crate) structured: bool,
    pub(crate) result: ResultForm,
}

/// A cursor that this server never returned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidCursor;

impl Catalogue {
    /// Builds the catalogue with names according to `naming`; `own` is the operator's part of the instructions.
    pub(crate) fn new(tools: &[Arc<Tool>], naming: NamingScheme, own: Option<&str>) -> Self {
        let aliases = naming.aliases(tools);
        let mut catalogue = Self { instructions: instructions(own, tools), ..Self::default() };
        for listed in tools {
            if catalogue.entries.contains_key(listed.full_name()) {
                continue;
            }
            let shown = aliases.alias(listed.full_name()).to_owned();
            let tool = to_mcp_tool(shown.clone(), listed);
            let form = AnswerForm { structured: tool.output_schema.is_some(), result: listed.result_form() };
            let full_name = listed.full_name().to_owned();
            let is_waiting = !listed.is_approved();
            catalogue.entries.insert(full_name.clone(), Entry { full_name, shown, form, is_waiting });
            if !is_waiting {
                catalogue.tools.push(tool);
            }
        }
        catalogue.tools.sort_by(|a, b| a.name.cmp(&b.name));
        catalogue.aliases = aliases;
        catalogue
    }

    /// Adds the resources of the components of these tools, and the pages of the tools. A page of a component is no page of
    /// another one's tool, which would hand it that tool's results.
    pub(crate) fn with_resources(mut self, tools: &[Arc<Tool>], resources: ComponentLibrary) -> Self {
        let namespaces: HashMap<&str, _> = tools.iter().map(|tool| (tool.full_name(), tool)).collect();
        for entry in self.entries.values() {
            let Ok(at) = self.tools.binary_search_by(|tool| tool.name.as_ref().cmp(&entry.shown)) else { continue };
            let (Some(listed), Some(tool)) = (self.tools.get_mut(at), namespaces.get(entry.full_name.as_str())) else {
                continue;
            };
            if apps::page_uri(listed.meta.as_ref()).is_some_and(|uri| resources.get(uri).is_some()) {
                apps::remove_from_meta(&mut listed.meta);
            }
            if let Some(uri) = resources.page_of(tool) {
                apps::set_page_uri(&mut listed.meta, uri);
            }
        }
        self.resources = resources;
        self
    }

    pub(crate) fn resources(&self) -> &ComponentLibrary {
        &self.resources
    }

    /// Returns the `instructions` of the server.
    pub(crate) fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// Finds a tool by its full name or an alias of it: see [`ToolAliases::resolve`].
    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name).or_else(|| self.entries.get(self.aliases.resolve(name)?))
    }

    /// Returns the form of the answers of the tool of this full name.
    pub(crate) fn answer_form(&self, full_name: &str) -> AnswerForm {
        self.entries.get(full_name).map(|entry| entry.form).unwrap_or_default()
    }

    /// Returns the description of a tool, by any of its names.
    pub(crate) fn tool(&self, name: &str) -> Option<&McpTool> {
        let shown = self.find(name)?.shown.as_str();
        let at = self.tools.binary_search_by(|tool| tool.name.as_ref().cmp(shown)).ok()?;
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
        let waiting = self.entries.iter().filter(|(name, entry)| {
            let waited = before.entries.get(*name).is_some_and(|entry| entry.is_waiting);
            entry.is_waiting && !waited
        });
        let mut names: Vec<&str> = waiting.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let shown = names.iter().take(MAX_SUGGESTIONS).copied().collect::<Vec<_>>().join(", ");
        let more = names.len().saturating_sub(MAX_SUGGESTIONS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("these tools are waiting for an operator's approval: {shown}{more}"))
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

fn to_mcp_tool(name: String, tool: &Tool) -> McpTool {
    let definition = tool.definition();
    let mut sanitizer = Sanitizer::default();
    let input_schema = definition.input_schema.to_sanitized();
    let mut tool = McpTool::new(name, sanitizer.untrusted(&definition.description), object_schema(&input_schema));
    tool.title = definition.title.as_ref().map(|title| sanitizer.untrusted(title));
    // Before 2026-07-28, structured content is an object. A tool whose result is something else answers with text.
    let output = definition.output_schema.as_ref().map(Untrusted::<Value>::to_sanitized);
    tool.output_schema = output.filter(|schema| describes_objects(schema, schema)).map(|schema| object_schema(&schema));
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

/// Returns whether all values of a schema are objects, by its type or the types of its options. A definition of `root` that it or
/// an option names counts; one that names another does not, because those could form a circle.
fn describes_objects(schema: &Value, root: &Value) -> bool {
    let schema = follow_reference(schema, root);
    if let Some(kind) = schema.get("type") {
        return kind == "object";
    }
    let options = ["anyOf", "oneOf"].into_iter().find_map(|keyword| schema.get(keyword)?.as_array());
    let mut options = options.into_iter().flatten().map(|option| follow_reference(option, root).get("type")).peekable();
    options.peek().is_some() && options.all(|kind| kind.is_some_and(|kind| kind == "object"))
}

/// Returns the definition of `root` that a schema refers to, or the schema itself.
fn follow_reference<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let path = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
    path.and_then(|path| root.pointer(path)).unwrap_or(schema)
}

/// Returns the schema with `"type": "object"` at its top, which the protocol requires of an `inputSchema` and an `outputSchema`.
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

/// The scheme of tool names that clients see. Clients may call a tool by its full name as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamingScheme {
    /// Bare names, `tool`, where no other tool has the same. By default, clients see full names, `component__tool`, which
    /// stay the same whatever else is served, unless a tool has an alias of its own.
    pub short: bool,
    /// The form of the names. A name in another form is given as an alias.
    pub form: NameForm,
}

impl NamingScheme {
    fn aliases(self, tools: &[Arc<Tool>]) -> ToolAliases {
        let names = tools.iter().map(|tool| {
            let short = self.short.then(|| tool.definition().name.as_str());
            (tool.full_name(), short.or_else(|| tool.alias()))
        });
        ToolAliases::new(names, self.form)
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::call::result::CallError;
    use fumehood_core::schema::gate::{Gate, GateLimits};
    use fumehood_core::tool::definition::RawDefinition;
    use fumehood_core::tool::name::QualifiedName;

    use super::*;

    const SHORT: NamingScheme = NamingScheme { short: true, form: NameForm::Mcp };

    fn tool(name: &str) -> Arc<Tool> {
        let QualifiedName { namespace, tool } = QualifiedName::parse(name).unwrap();
        let raw = RawDefinition { name: tool.to_string(), input_schema: "{}".to_owned(), ..RawDefinition::default() };
        let gate = Gate::for_arguments(&json!({}), GateLimits::default()).unwrap();
        Arc::new(Tool::new(raw.parse(&Default::default()).unwrap(), gate).in_namespace(&namespace))
    }

    fn withheld(tool: &Arc<Tool>) -> Arc<Tool> {
        Arc::new(Tool::clone(tool).withheld(Some(CallError::cancelled())))
    }

    fn catalogue_of(names: &[&str]) -> Catalogue {
        Catalogue::new(&names.iter().map(|name| tool(name)).collect::<Vec<_>>(), NamingScheme::default(), None)
    }

    fn join_names(page: &[McpTool]) -> String {
        page.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pagination_survives_changes() {
        let all = catalogue_of(&["c__1", "a__1", "b__1", "d__1", "e__1"]);
        let (first, next) = all.page(None, 2).unwrap();
        assert_eq!((join_names(&first).as_str(), next.as_deref()), ("a__1 b__1", Some("after:b__1")));
        let fewer = catalogue_of(&["a__1", "d__1", "e__1"]);
        let (second, end) = fewer.page(next.as_deref(), 2).unwrap();
        assert_eq!((join_names(&second).as_str(), end), ("d__1 e__1", None));
        assert_eq!(all.page(Some("2"), 2).unwrap_err(), InvalidCursor);
        assert_eq!(Catalogue::default().page(None, 2).unwrap(), (Vec::new(), None));
    }

    #[test]
    fn adds_object_type_to_input_schemas() {
        let catalogue = Catalogue::new(&[tool("a__t")], NamingScheme::default(), None);
        let listed = catalogue.tool("a__t").unwrap();
        assert_eq!(Value::Object(listed.input_schema.as_ref().clone()), json!({"type": "object"}));
        assert_eq!((&listed.output_schema, &listed.annotations), (&None, &None));
    }

    #[test]
    fn finds_the_schemas_of_objects() {
        fn check(schema: Value, expected: bool) {
            assert_eq!(describes_objects(&schema, &schema), expected, "{schema}");
        }

        let definitions = json!({"a": {"type": "object"}, "b": {"type": "array"}, "c": {"$ref": "#/$defs/c"}});
        check(json!({"type": "object"}), true);
        check(json!({"type": "array"}), false);
        check(json!({"type": ["object", "null"]}), false);
        check(json!({}), false);
        check(json!({"$ref": "#/$defs/a", "$defs": definitions}), true);
        check(json!({"$ref": "#/$defs/b", "$defs": definitions}), false);
        check(json!({"$ref": "#/$defs/c", "$defs": definitions}), false);
        check(json!({"$ref": "#"}), false);
        check(json!({"anyOf": [{"$ref": "#/$defs/a"}, {"type": "object"}], "$defs": definitions}), true);
        check(json!({"oneOf": [{"$ref": "#/$defs/a"}, {"type": "null"}], "$defs": definitions}), false);
        check(json!({"anyOf": []}), false);
    }

    #[test]
    fn withheld_tools_keep_their_name_and_are_not_listed() {
        let mut tools = ["a__add", "b__get"].map(tool);
        tools[0] = withheld(&tools[0]);
        let catalogue = Catalogue::new(&tools, SHORT, None);
        assert!(catalogue.tool("add").is_none());
        assert_eq!(catalogue.suggestions(), "the tools are: get");
        assert_eq!(catalogue.find("add").unwrap().full_name, "a__add");
    }

    #[test]
    fn uses_short_names_where_unambiguous() {
        let tools = ["a__add", "a__get", "b__get", "c__a__add"].map(tool);
        let names = |naming| {
            let (page, _) = Catalogue::new(&tools, naming, None).page(None, 10).unwrap();
            join_names(&page)
        };
        assert_eq!(names(NamingScheme::default()), "a__add a__get b__get c__a__add");
        assert_eq!(names(SHORT), "a__get add b__get c__a__add");
        let catalogue = Catalogue::new(&["a__add", "a__get", "b__get"].map(tool), SHORT, None);
        assert_eq!(catalogue.suggestions(), "the tools are: a__get, add, b__get");
        assert_eq!(catalogue.find("add").unwrap().full_name, "a__add");
        assert_eq!(catalogue.find("a__add").unwrap().full_name, "a__add", "full names can be called as well");
        assert_eq!(catalogue.tool("a__add").unwrap().name, "add");
        assert!(catalogue.find("get").is_none(), "two tools have this name");
    }

    #[test]
    fn names_longer_than_the_form_allows_have_aliases() {
        let longest = format!("{}__{}", "n".repeat(64), "t".repeat(64));
        let full = Catalogue::new(&["c__add", &longest].map(tool), NamingScheme::default(), None);
        let shown: Vec<_> = full.page(None, 10).unwrap().0.iter().map(|tool| tool.name.len()).collect();
        assert_eq!(shown, [6, 128], "MCP allows no more");
        let portable = NamingScheme { short: false, form: NameForm::Portable };
        let portable = Catalogue::new(&["c__add", &longest].map(tool), portable, None);
        let (page, _) = portable.page(None, 10).unwrap();
        assert_eq!(page.iter().map(|tool| tool.name.len()).collect::<Vec<_>>(), [6, 64]);
        for name in [&longest, page[1].name.as_ref()] {
            assert_eq!(portable.find(name).unwrap().full_name, longest);
            assert_eq!(portable.tool(name), Some(&page[1]));
        }
    }
}
