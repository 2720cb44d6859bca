//! Tools of servers: their names and schemas in this host, and their digests.

use std::collections::BTreeSet;
use std::sync::Arc;

use fumehood_core::digest::Digest;
use fumehood_core::schema::gate::{ForeignGate, ForeignSchema, Gate, GateLimits, SchemaError};
use fumehood_core::schema::json::to_canonical;
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::definition::{Annotations, DefinitionLimits, ToolDefinition};
use fumehood_core::tool::name::{Namespace, QualifiedName, ToolName};
use fumehood_core::tool::{ResultForm, Tool};
use rmcp::model::Tool as McpTool;
use serde_json::{Map, Value, json};

use super::metadata::{MAX_TOOL_MEMBERS_BYTES, is_safe_icon, passed_metadata};
use super::remote_options::RemoteOptions;
use super::tool_notice::ToolNotice;
use crate::apps;

/// Reason of the notice about a tool whose results are not checked.
const UNREADABLE_OUTPUT_SCHEMA: &str = "its output schema is malformed, so its results are not checked";

/// A tool of a server, as it was when its description was first seen.
#[derive(Debug, Clone)]
pub struct RemoteTool {
    /// The name that its server uses.
    pub foreign: Arc<str>,
    /// The definition that an approval covers: the texts as the server wrote them, at most 16 KiB of the description, and
    /// of a schema over 64 KiB the top level only.
    pub definition: ToolDefinition,
    /// The tool in this host. Its schema is the one that models are given: in their draft, complete, and without
    /// `$schema`. Its digest pins it: that of its definition as the server wrote it.
    pub tool: Arc<Tool>,
}

/// Limits of the arguments and results of a server's tools, and the form of results and names.
#[derive(Debug, Clone)]
pub(crate) struct SchemaLimits {
    /// Those of arguments.
    pub(crate) arguments: GateLimits,
    /// Those of results.
    pub(crate) results: GateLimits,
    pub(crate) result_form: ResultForm,
    /// The beginning of their names for models and clients; `None` for the name of the server.
    pub(crate) prefix: Option<NamePrefix>,
    /// The origins that the pages of tools may reach; `None` if no pages are passed on.
    pub(crate) app_origins: Option<Vec<String>>,
    /// Maximum size of the descriptions of all tools together, in bytes.
    pub(crate) descriptions: usize,
}

/// The beginning of the names that models and clients are given, in place of the server's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamePrefix {
    /// None: they are given the tool's own name.
    None,
    /// Another name, before `__`.
    Other(Namespace),
}

impl NamePrefix {
    /// Returns the name that models and clients are given for a tool.
    #[must_use]
    pub fn alias(&self, tool: &ToolName) -> String {
        match self {
            Self::None => tool.to_string(),
            Self::Other(namespace) => QualifiedName { namespace: namespace.clone(), tool: tool.clone() }.to_string(),
        }
    }
}

impl From<&RemoteOptions> for SchemaLimits {
    /// Returns the limits of a server's options. Results are bounded as a whole, so that a long string in one is accepted.
    fn from(options: &RemoteOptions) -> Self {
        let arguments = options.gate.clone().with_string_bytes(options.string);
        let output = options.output;
        Self {
            results: GateLimits { document_bytes: output, string_bytes: output, ..arguments.clone() },
            arguments,
            result_form: options.result_form,
            prefix: options.prefix.clone(),
            app_origins: options.app_origins().map(<[String]>::to_vec),
            descriptions: options.descriptions,
        }
    }
}

/// The reason why a tool is left out whose server shows no pages here.
const NEEDS_PAGES: &str = "only pages of its server can call it, and `apps` of the server does not allow them";

impl RemoteTool {
    /// Converts a tool of the server with this name; in this host it is called `name`, and has at most `max_description`
    /// bytes of its description. Returns it with notices about the parts that are left out, and the parts of its schemas that
    /// are not checked.
    ///
    /// # Errors
    /// If its schema cannot be used.
    pub(crate) fn from_tool(
        server: &Namespace,
        name: ToolName,
        tool: &McpTool,
        limits: &SchemaLimits,
        max_description: usize,
    ) -> Result<(Self, Vec<ToolNotice>), ToolNotice> {
        let notice = |reason: String| ToolNotice::new(&tool.name, reason);
        let is_for_pages = apps::is_only_for_pages(tool.meta.as_ref());
        if is_for_pages && limits.app_origins.is_none() {
            return Err(notice(NEEDS_PAGES.to_owned()));
        }
        let input_schema = Value::Object(tool.input_schema.as_ref().clone());
        let compiled = compile_arguments(&input_schema, &limits.arguments);
        let ForeignGate { gate, schema, unchecked } = compiled.map_err(|error| notice(error.to_string()))?;
        let reasons: BTreeSet<_> = unchecked.into_iter().map(|part| part.reason).collect();
        let mut notices: Vec<_> = reasons.into_iter().map(|reason| notice(reason.to_string())).collect();
        let description = truncated_description(tool, max_description, &mut notices);
        let (output_schema, results) = compile_results(tool, limits, &mut notices);
        let caps = DefinitionLimits::default();
        let definition = ToolDefinition {
            export: (name.as_str() != tool.name).then(|| Untrusted::from(&*tool.name)),
            name: name.clone(),
            title: tool.title.as_deref().map(|title| truncate(title, caps.title_bytes).into()),
            description,
            // A schema that is too large for an approval and a model is presented as far as it is checked.
            input_schema: if size(&input_schema) > caps.schema_bytes { schema } else { input_schema }.into(),
            output_schema: output_schema.map(Untrusted::new),
            annotations: annotations(tool),
            mcp_members: mcp_members(tool, limits.app_origins.as_deref(), &mut notices).map(Untrusted::new),
        };
        let presented = ForeignSchema::translate(definition.input_schema.expose_raw(), &limits.arguments).schema;
        let presented = ToolDefinition { input_schema: presented.into(), ..definition.clone() };
        let in_host = Tool::new(presented, gate).in_namespace(server).result_gate(results);
        let alias = limits.prefix.as_ref().map(|prefix| prefix.alias(&name));
        let in_host =
            in_host.with_result_form(limits.result_form).with_alias(alias.as_deref()).only_for_pages(is_for_pages);
        let in_host = Arc::new(in_host.identified_by(compute_digest(tool, limits.app_origins.is_some())));
        Ok((Self { foreign: tool.name.as_ref().into(), definition, tool: in_host }, notices))
    }

    /// Returns whether it was converted from the same definition.
    pub(crate) fn is_same(&self, tool: &McpTool, limits: &SchemaLimits) -> bool {
        *self.foreign == *tool.name && self.tool.digest() == Some(compute_digest(tool, limits.app_origins.is_some()))
    }
}

fn size(schema: &Value) -> usize {
    schema.to_string().len()
}

fn truncated_description(tool: &McpTool, max_bytes: usize, notices: &mut Vec<ToolNotice>) -> Untrusted<String> {
    let whole = tool.description.as_deref().unwrap_or_default();
    let description = truncate(whole, max_bytes);
    if description.len() < whole.len() {
        let is_shared = max_bytes < DefinitionLimits::default().description_bytes;
        let why = if is_shared { ", because all descriptions together exceed the server's `descriptions`" } else { "" };
        let reason = format!("its description has {} bytes; the first {max_bytes} are used{why}", whole.len());
        notices.push(ToolNotice::new(&tool.name, reason));
    }
    description.into()
}

/// Returns the greatest length at which descriptions are cut so that all of them together have at most `budget` bytes.
pub(crate) fn max_description_bytes(tools: &[McpTool], budget: usize) -> usize {
    let most = DefinitionLimits::default().description_bytes;
    let mut lengths: Vec<usize> =
        tools.iter().map(|tool| tool.description.as_deref().map_or(0, str::len).min(most)).collect();
    lengths.sort_unstable();
    let mut left = budget;
    for (at, length) in lengths.iter().enumerate() {
        // What is left is shared evenly by those that are at least as long.
        let share = left / (lengths.len() - at);
        if *length > share {
            return share;
        }
        left -= length;
    }
    most
}

/// Compiles the schema of a tool's results. One that cannot be enforced here is left out, and results are accepted
/// unchecked.
fn compile_results(
    tool: &McpTool,
    limits: &SchemaLimits,
    notices: &mut Vec<ToolNotice>,
) -> (Option<Value>, Option<Gate>) {
    let Some(schema) = tool.output_schema.as_ref().map(|schema| Value::Object(schema.as_ref().clone())) else {
        return (None, None);
    };
    let max = DefinitionLimits::default().schema_bytes;
    if size(&schema) > max {
        let reason = format!("its output schema has more than {max} bytes, so its results are not checked");
        notices.push(ToolNotice::new(&tool.name, reason));
        return (None, None);
    }
    let results = Gate::for_foreign_results(&schema, limits.results.clone());
    if results.is_err() {
        notices.push(ToolNotice::new(&tool.name, UNREADABLE_OUTPUT_SCHEMA));
    }
    (Some(schema), results.ok())
}

/// Truncates a text to at most this many bytes, at a character boundary.
fn truncate(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or_default()
}

/// Compiles a schema of arguments of any draft.
fn compile_arguments(schema: &Value, limits: &GateLimits) -> Result<ForeignGate, SchemaError> {
    Gate::for_foreign_arguments(&ForeignSchema::translate(schema, limits), limits.clone())
}

fn annotations(tool: &McpTool) -> Annotations {
    let Some(hints) = &tool.annotations else { return Annotations::default() };
    Annotations {
        read_only: hints.read_only_hint,
        destructive: hints.destructive_hint,
        idempotent: hints.idempotent_hint,
        open_world: hints.open_world_hint,
    }
}

/// Returns the members that only clients use: the title among the annotations, the icons and the metadata.
fn mcp_members(tool: &McpTool, app_origins: Option<&[String]>, notices: &mut Vec<ToolNotice>) -> Option<Value> {
    let mut members = shown_members(tool, app_origins.is_some());
    apps::restrict(&mut members, app_origins.unwrap_or_default());
    if let Some(title) = tool.annotations.as_ref().and_then(|annotations| annotations.title.clone()) {
        members.insert("title".to_owned(), title.into());
    }
    let members = Value::Object(members);
    if size(&members) > MAX_TOOL_MEMBERS_BYTES {
        let reason = format!("its icons and metadata have more than {MAX_TOOL_MEMBERS_BYTES} bytes, and are ignored");
        notices.push(ToolNotice::new(&tool.name, reason));
        return None;
    }
    members.as_object().is_some_and(|members| !members.is_empty()).then_some(members)
}

/// Returns the icons that clients may load, and the metadata that are passed on.
fn shown_members(tool: &McpTool, has_apps: bool) -> Map<String, Value> {
    let icons: Vec<_> =
        tool.icons.iter().flatten().filter(|icon| is_safe_icon(&icon.src)).map(|icon| json!(icon)).collect();
    let mut members = Map::new();
    if !icons.is_empty() {
        members.insert("icons".to_owned(), icons.into());
    }
    let meta = tool.meta.as_ref().and_then(|meta| passed_metadata(meta.0.clone()));
    members.extend(meta.map(|meta| ("_meta".to_owned(), meta)));
    let page =
        tool.meta.as_ref().and_then(|meta| meta.0.get(apps::META_KEY)).filter(|page| has_apps && page.is_object());
    if let Some(page) = page
        && let Value::Object(meta) = members.entry("_meta").or_insert_with(|| json!({}))
    {
        meta.insert(apps::META_KEY.to_owned(), page.clone());
    }
    members
}

/// Computes the digest of everything that a model or a person sees, with names sorted.
fn compute_digest(tool: &McpTool, has_apps: bool) -> Digest {
    let mut whole = json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "annotations": tool.annotations,
    });
    // Only where there are any, so that the digests of other tools stay what they were.
    whole.as_object_mut().into_iter().for_each(|whole| whole.extend(shown_members(tool, has_apps)));
    whole.sort_all_objects();
    // Numbers in one spelling, so that a digest does not depend on how a library of the server writes them.
    Digest::of(to_canonical(&whole).to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(value: Value) -> Result<(RemoteTool, Vec<ToolNotice>), ToolNotice> {
        let server = Namespace::parse("server").unwrap();
        let tool: McpTool = serde_json::from_value(value).unwrap();
        let limits = SchemaLimits::from(&RemoteOptions::default());
        RemoteTool::from_tool(&server, ToolName::from_foreign(&tool.name).unwrap(), &tool, &limits, 16 << 10)
    }

    fn tool(value: Value) -> Result<RemoteTool, String> {
        convert(value).map(|(tool, _)| tool).map_err(|notice| notice.to_string())
    }

    fn large_schema(name: &str) -> Value {
        let properties = json!({ name: {"type": "string"} });
        json!({"description": "x".repeat(70_000), "type": "object", "properties": properties})
    }

    #[test]
    fn keeps_names_and_truncates_oversized_parts() {
        let dotted = tool(json!({"name": "Repo.search", "inputSchema": {}})).unwrap();
        assert_eq!((dotted.tool.full_name(), dotted.definition.export), ("server__Repo.search", None));
        let long = json!({"name": "a", "title": "ü".repeat(200), "description": "ü".repeat(8193), "inputSchema": {}});
        let (cut, notices) = convert(long).unwrap();
        assert_eq!(cut.definition.description.expose_raw(), &"ü".repeat(8192));
        assert_eq!(cut.definition.title.unwrap().expose_raw().len(), 256);
        let notices: Vec<_> = notices.iter().map(ToString::to_string).collect();
        assert_eq!(notices, ["a: its description has 16386 bytes; the first 16384 are used"]);
        let kept =
            tool(json!({"name": "a", "inputSchema": large_schema("q"), "outputSchema": large_schema("r")})).unwrap();
        let names: Vec<_> = kept.tool.input_schema()["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!((names, kept.definition.output_schema.is_none()), (vec!["q".to_owned()], true));
        let hidden = json!({"name": "a", "description": "a\u{200b}b", "inputSchema": {}});
        assert_eq!(tool(hidden).unwrap().definition.description.to_sanitized(), "a\\u{200b}b");
    }

    fn described_tools(lengths: &[usize]) -> Vec<McpTool> {
        let tools =
            lengths.iter().map(|length| json!({"name": "a", "description": "d".repeat(*length), "inputSchema": {}}));
        tools.map(|tool| serde_json::from_value(tool).unwrap()).collect()
    }

    #[test]
    fn long_descriptions_share_a_budget() {
        for (lengths, budget, expected) in [
            (&[10, 20, 30][..], 60, 16_384),
            (&[10, 20, 30], 59, 29),
            (&[10, 40, 40], 59, 24),
            (&[100, 100], 10, 5),
            (&[20_000], 1 << 20, 16_384),
            (&[], 0, 16_384),
        ] {
            assert_eq!(max_description_bytes(&described_tools(lengths), budget), expected, "{lengths:?} {budget}");
        }
        let long = described_tools(&[100]);
        let mut notices = Vec::new();
        truncated_description(&long[0], 50, &mut notices);
        assert!(
            notices[0].to_string().ends_with(
                "the first 50 are used, because all descriptions together exceed the server's `descriptions`"
            )
        );
    }

    fn digest_with(name: &str, value: Value) -> Digest {
        let mut definition = json!({"name": "a", "description": "b", "inputSchema": {"type": "object", "title": "x"}});
        definition[name] = value;
        digest_of(definition)
    }

    fn digest_of(value: Value) -> Digest {
        tool(value).unwrap().tool.digest().unwrap()
    }

    #[test]
    fn digest_covers_content_but_not_order() {
        let one = digest_of(json!({"name": "a", "description": "b", "inputSchema": {"type": "object", "title": "x"}}));
        assert_eq!(
            one,
            digest_of(json!({"inputSchema": {"title": "x", "type": "object"}, "description": "b", "name": "a"}))
        );
        assert_ne!(
            one,
            digest_of(json!({"name": "a", "description": "B", "inputSchema": {"type": "object", "title": "x"}}))
        );
        assert_ne!(
            one,
            digest_of(json!({"name": "a", "description": "b", "inputSchema": {"type": "object", "title": "y"}}))
        );
        assert_eq!(one, digest_with("_meta", json!({"ui": {"resourceUri": "ui://x"}})), "what is not passed on");
        assert_ne!(one, digest_with("_meta", json!({"a": 1})));
        assert_ne!(one, digest_with("icons", json!([{"src": "https://example.com/i.png"}])));
        assert_eq!(one, digest_with("icons", json!([{"src": "javascript:x"}])), "icons that no client may load");
    }

    #[test]
    fn the_page_of_a_tool_gets_neither_origins_nor_devices() {
        let ui = json!({"resourceUri": "ui://x", "csp": {"connectDomains": ["https://a.example"]}, "permissions": {}});
        let tool = serde_json::from_value(json!({"name": "a", "inputSchema": {}, "_meta": {"ui": ui}})).unwrap();
        let members = mcp_members(&tool, Some(&[]), &mut Vec::new()).unwrap();
        assert_eq!(members["_meta"]["ui"], json!({"resourceUri": "ui://x", "csp": {"connectDomains": []}}));
    }

    #[test]
    fn members_for_clients_are_bounded() {
        let large = json!({"name": "a", "inputSchema": {}, "_meta": {"x": "y".repeat(MAX_TOOL_MEMBERS_BYTES)}});
        assert_eq!(tool(large).unwrap().definition.mcp_members, None);
    }
}
