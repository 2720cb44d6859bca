//! Tools of servers: their names and schemas in this host, and their digests.

use std::collections::BTreeSet;
use std::sync::Arc;

use fumehood_core::digest::Digest;
use fumehood_core::schema::gate::{ForeignGate, ForeignSchema, Gate, GateLimits, SchemaError};
use fumehood_core::schema::json;
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::definition::{Annotations, DefinitionLimits, ToolDefinition};
use fumehood_core::tool::name::{Namespace, ToolName};
use fumehood_core::tool::{ResultForm, Tool};
use rmcp::model::Tool as McpTool;
use serde_json::Value;

use super::remote::RemoteOptions;
use super::tool_notice::ToolNotice;

/// Reason of the notice about a tool whose results are not checked.
const UNREADABLE_OUTPUT_SCHEMA: &str = "its output schema cannot be read, so that its results are not checked";

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

/// Limits of the arguments and results of a server's tools.
#[derive(Debug, Clone)]
pub(crate) struct SchemaLimits {
    /// Those of arguments.
    pub(crate) arguments: GateLimits,
    /// Those of results.
    pub(crate) results: GateLimits,
    /// The form of the results.
    pub(crate) result_form: ResultForm,
    /// Maximum size of the descriptions of all tools together, in bytes.
    pub(crate) descriptions: usize,
}

impl From<&RemoteOptions> for SchemaLimits {
    /// Returns the limits of a server's options. Results are bounded as a whole, so that a long string in one is accepted.
    fn from(options: &RemoteOptions) -> Self {
        let RemoteOptions { output, string, gate, result_form, descriptions, .. } = options;
        let arguments = gate.clone().with_string_bytes(*string);
        let results = GateLimits { document_bytes: *output, string_bytes: *output, ..arguments.clone() };
        Self { arguments, results, result_form: *result_form, descriptions: *descriptions }
    }
}

impl RemoteTool {
    /// Converts a tool of the server with this name, with at most `max_description` bytes of its description. Returns it with
    /// notices about the parts that are left out, and the parts of its schemas that are not checked.
    ///
    /// # Errors
    /// If its name or schema cannot be used.
    pub(crate) fn from_tool(
        server: &Namespace,
        tool: &McpTool,
        limits: &SchemaLimits,
        max_description: usize,
    ) -> Result<(Self, Vec<ToolNotice>), ToolNotice> {
        let notice = |reason: String| ToolNotice::new(&tool.name, reason);
        let name = ToolName::from_foreign(&tool.name).map_err(|error| notice(error.to_string()))?;
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
            name,
            title: tool.title.as_deref().map(|title| truncate(title, caps.title_bytes).into()),
            description,
            // A schema that is too large for an approval and a model is presented as far as it is checked.
            input_schema: if size(&input_schema) > caps.schema_bytes { schema } else { input_schema }.into(),
            output_schema: output_schema.map(Untrusted::new),
            annotations: annotations(tool),
        };
        let presented = ForeignSchema::translate(definition.input_schema.expose_raw(), &limits.arguments).schema;
        let presented = ToolDefinition { input_schema: presented.into(), ..definition.clone() };
        let in_host = Tool::new(presented, gate).in_namespace(server).result_gate(results);
        let in_host = in_host.with_result_form(limits.result_form);
        let in_host = Arc::new(in_host.identified_by(compute_digest(tool)));
        Ok((Self { foreign: tool.name.as_ref().into(), definition, tool: in_host }, notices))
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
        let why =
            if is_shared { ", because those of all its tools are longer than the server's `descriptions`" } else { "" };
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
        let reason = format!("its output schema has more than {max} bytes, so that its results are not checked");
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

/// Computes the digest of everything that a model or a person sees, with names sorted.
fn compute_digest(tool: &McpTool) -> Digest {
    let mut whole = serde_json::json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "annotations": tool.annotations,
    });
    whole.sort_all_objects();
    // Numbers in one spelling, so that a digest does not depend on how a library of the server writes them.
    Digest::of(json::to_canonical(&whole).to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(value: Value) -> Result<RemoteTool, String> {
        let (server, tool) = (Namespace::parse("server").unwrap(), serde_json::from_value(value).unwrap());
        let found = RemoteTool::from_tool(&server, &tool, &SchemaLimits::from(&RemoteOptions::default()), 16 << 10);
        found.map(|(tool, _)| tool).map_err(|notice| notice.to_string())
    }

    #[test]
    fn escapes_names_and_truncates_oversized_parts() {
        let parse =
            |name: &str| tool(json!({"name": name, "inputSchema": {}})).map(|tool| tool.tool.full_name().to_owned());
        assert_eq!(parse("repo.search").unwrap(), "server__repo_x2e_search");
        assert!(parse("").unwrap_err().contains("empty"));
        assert!(parse(&"x".repeat(65)).unwrap_err().contains("too long"));
        let long = json!({"name": "a", "title": "ü".repeat(200), "description": "ü".repeat(8193), "inputSchema": {}});
        let (server, parsed) = (Namespace::parse("server").unwrap(), serde_json::from_value(long).unwrap());
        let (cut, notices) =
            RemoteTool::from_tool(&server, &parsed, &SchemaLimits::from(&RemoteOptions::default()), 16 << 10).unwrap();
        assert_eq!(cut.definition.description.expose_raw(), &"ü".repeat(8192));
        assert_eq!(cut.definition.title.unwrap().expose_raw().len(), 256);
        let notices: Vec<_> = notices.iter().map(ToString::to_string).collect();
        assert_eq!(notices, ["a: its description has 16386 bytes; the first 16384 are used"]);
        let large = |name: &str| {
            let properties = json!({ name: {"type": "string"} });
            json!({"description": "x".repeat(70_000), "type": "object", "properties": properties})
        };
        let kept = tool(json!({"name": "a", "inputSchema": large("q"), "outputSchema": large("r")})).unwrap();
        let names: Vec<_> = kept.tool.input_schema()["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!((names, kept.definition.output_schema.is_none()), (vec!["q".to_owned()], true));
        let hidden = json!({"name": "a", "description": "a\u{200b}b", "inputSchema": {}});
        assert_eq!(tool(hidden).unwrap().definition.description.to_sanitized(), "a\\u{200b}b");
    }

    #[test]
    fn long_descriptions_share_a_budget() {
        let tools = |lengths: &[usize]| -> Vec<McpTool> {
            let tool = |length: &usize| json!({"name": "a", "description": "d".repeat(*length), "inputSchema": {}});
            lengths.iter().map(|length| serde_json::from_value(tool(length)).unwrap()).collect()
        };
        for (lengths, budget, expected) in [
            (&[10, 20, 30][..], 60, 16_384),
            (&[10, 20, 30], 59, 29),
            (&[10, 40, 40], 59, 24),
            (&[100, 100], 10, 5),
            (&[20_000], 1 << 20, 16_384),
            (&[], 0, 16_384),
        ] {
            assert_eq!(max_description_bytes(&tools(lengths), budget), expected, "{lengths:?} {budget}");
        }
        let long = tools(&[100]);
        let mut notices = Vec::new();
        truncated_description(&long[0], 50, &mut notices);
        assert!(notices[0].to_string().ends_with(
            "the first 50 are used, because those of all its tools are longer than the server's `descriptions`"
        ));
    }

    #[test]
    fn digest_covers_content_but_not_order() {
        let parse = |value| tool(value).unwrap().tool.digest().unwrap();
        let one = parse(json!({"name": "a", "description": "b", "inputSchema": {"type": "object", "title": "x"}}));
        assert_eq!(
            one,
            parse(json!({"inputSchema": {"title": "x", "type": "object"}, "description": "b", "name": "a"}))
        );
        assert_ne!(
            one,
            parse(json!({"name": "a", "description": "B", "inputSchema": {"type": "object", "title": "x"}}))
        );
        assert_ne!(
            one,
            parse(json!({"name": "a", "description": "b", "inputSchema": {"type": "object", "title": "y"}}))
        );
    }
}
