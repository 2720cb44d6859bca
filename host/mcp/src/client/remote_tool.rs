//! Tools of servers: their names and schemas in this host, and their digests.

use std::collections::BTreeSet;
use std::sync::Arc;

use fumehood_core::definition::{Annotations, DefinitionLimits, ToolDefinition};
use fumehood_core::digest::Digest;
use fumehood_core::gate::{ForeignGate, ForeignSchema, Gate, GateLimits, SchemaError};
use fumehood_core::name::{NameError, Namespace, QualifiedName, ToolName};
use fumehood_core::untrusted::Untrusted;
use rmcp::model::Tool;
use serde_json::{Value, json};

use super::tool_notice::ToolNotice;

/// A tool of a server, as it was when its description was first seen.
#[derive(Debug, Clone)]
pub struct RemoteTool {
    /// The name in this host: `server__tool`.
    pub name: String,
    /// The name that its server uses.
    pub foreign: Arc<str>,
    /// A short name for people.
    pub title: Option<Untrusted<String>>,
    /// A description, at most 4 KiB.
    pub description: Untrusted<String>,
    /// JSON Schema of its arguments: as the server wrote it, or, if that is larger than 64 KiB, the top level only.
    pub input_schema: Untrusted<Value>,
    /// The validator of its arguments: the schema, as far as it can be checked here.
    pub arguments: Arc<Gate>,
    /// JSON Schema of its structured results, if it has one.
    pub output_schema: Option<Untrusted<Value>>,
    /// The server's claims about its effects.
    pub annotations: Annotations,
    /// The digest that it is pinned by: of all of the above, as the server wrote it.
    pub digest: Digest,
}

impl RemoteTool {
    /// Converts a tool of the server with this name. Returns it with notices about the parts of its schema that are not
    /// checked; `limits` are those of its arguments.
    ///
    /// # Errors
    /// If its name or schema cannot be used.
    pub(crate) fn from_tool(
        server: &Namespace,
        tool: &Tool,
        limits: &GateLimits,
    ) -> Result<(Self, Vec<ToolNotice>), ToolNotice> {
        let notice = |reason: String| ToolNotice::new(&tool.name, reason);
        let name = ToolName::from_foreign(&tool.name).map_err(|error| notice(error.to_string()))?;
        let caps = DefinitionLimits::default();
        let title = tool.title.as_deref().map(|title| truncate(title, caps.title_bytes));
        let whole_description = tool.description.as_deref().unwrap_or_default();
        let description = truncate(whole_description, caps.description_bytes);
        let input_schema = Value::Object(tool.input_schema.as_ref().clone());
        let output_schema = tool.output_schema.as_ref().map(|schema| Value::Object(schema.as_ref().clone()));
        let size = |schema: &Value| schema.to_string().len();
        let compiled = compile_arguments(&input_schema, limits);
        let ForeignGate { gate, schema, unchecked } = compiled.map_err(|error| notice(error.to_string()))?;
        // A schema that is too large for an approval and a model is presented as far as it is checked.
        let input_schema = if size(&input_schema) > caps.schema_bytes { schema } else { input_schema };
        let reasons: BTreeSet<_> = unchecked.into_iter().map(|part| part.reason).collect();
        let mut notices: Vec<_> = reasons.into_iter().map(|reason| notice(reason.to_string())).collect();
        if description.len() < whole_description.len() {
            let (found, max) = (whole_description.len(), caps.description_bytes);
            notices.push(notice(format!("its description has {found} bytes; the first {max} are used")));
        }
        let found = output_schema.as_ref().map_or(0, size);
        let output_schema = output_schema.filter(|_| found <= caps.schema_bytes);
        if found > caps.schema_bytes {
            let max = caps.schema_bytes;
            notices.push(notice(format!(
                "its output schema has more than {max} bytes, so that its results are not checked"
            )));
        }
        let tool = Self {
            name: QualifiedName { namespace: server.clone(), tool: name }.to_string(),
            foreign: tool.name.as_ref().into(),
            title: title.map(Untrusted::from),
            description: description.into(),
            input_schema: input_schema.into(),
            output_schema: output_schema.map(Untrusted::new),
            arguments: Arc::new(gate),
            annotations: annotations(tool),
            digest: compute_digest(tool),
        };
        Ok((tool, notices))
    }
}

/// Truncates a text to at most this many bytes, at a character boundary.
fn truncate(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or_default()
}

/// Compiles a schema of arguments of any draft.
fn compile_arguments(schema: &Value, limits: &GateLimits) -> Result<ForeignGate, SchemaError> {
    Gate::for_foreign_arguments(&ForeignSchema::translate(schema, limits), limits.clone())
}

impl RemoteTool {
    /// Returns the schema of its arguments in the draft that models are given: complete, and without `$schema`.
    #[must_use]
    pub fn parameters(&self) -> Value {
        ForeignSchema::translate(self.input_schema.expose_raw(), &GateLimits::default()).schema
    }

    /// Returns the definition that an approval covers.
    ///
    /// # Errors
    /// If its name is invalid, which does not occur for a tool that was listed.
    pub fn definition(&self) -> Result<ToolDefinition, NameError> {
        let name = ToolName::from_foreign(&self.foreign)?;
        let export = (name.as_str() != &*self.foreign).then(|| Untrusted::from(&*self.foreign));
        Ok(ToolDefinition {
            name,
            export,
            title: self.title.clone(),
            description: self.description.clone(),
            input_schema: self.input_schema.clone(),
            output_schema: self.output_schema.clone(),
            annotations: self.annotations,
        })
    }
}

fn annotations(tool: &Tool) -> Annotations {
    let Some(hints) = &tool.annotations else { return Annotations::default() };
    Annotations {
        read_only: hints.read_only_hint,
        destructive: hints.destructive_hint,
        idempotent: hints.idempotent_hint,
        open_world: hints.open_world_hint,
    }
}

/// Computes the digest of everything that a model or a person sees, with names sorted.
fn compute_digest(tool: &Tool) -> Digest {
    let mut whole = json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "annotations": tool.annotations,
    });
    whole.sort_all_objects();
    Digest::of(whole.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(value: Value) -> Result<RemoteTool, String> {
        let (server, tool) = (Namespace::parse("server").unwrap(), serde_json::from_value(value).unwrap());
        let found = RemoteTool::from_tool(&server, &tool, &GateLimits::default());
        found.map(|(tool, _)| tool).map_err(|notice| notice.to_string())
    }

    #[test]
    fn escapes_names_and_truncates_oversized_parts() {
        let parse = |name: &str| tool(json!({"name": name, "inputSchema": {}})).map(|tool| tool.name);
        assert_eq!(parse("repo.search").unwrap(), "server__repo_x2e_search");
        assert!(parse("").unwrap_err().contains("empty"));
        assert!(parse(&"x".repeat(65)).unwrap_err().contains("too long"));
        let long = json!({"name": "a", "title": "ü".repeat(200), "description": "ü".repeat(2049), "inputSchema": {}});
        let (server, parsed) = (Namespace::parse("server").unwrap(), serde_json::from_value(long).unwrap());
        let (cut, notices) = RemoteTool::from_tool(&server, &parsed, &GateLimits::default()).unwrap();
        assert_eq!(cut.description.expose_raw(), &"ü".repeat(2048));
        assert_eq!(cut.title.unwrap().expose_raw().len(), 256);
        let notices: Vec<_> = notices.iter().map(ToString::to_string).collect();
        assert_eq!(notices, ["a: its description has 4098 bytes; the first 4096 are used"]);
        let large = |name: &str| {
            let properties = json!({ name: {"type": "string"} });
            json!({"description": "x".repeat(70_000), "type": "object", "properties": properties})
        };
        let kept = tool(json!({"name": "a", "inputSchema": large("q"), "outputSchema": large("r")})).unwrap();
        let names: Vec<_> = kept.parameters()["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!((names, kept.output_schema.is_none()), (vec!["q".to_owned()], true));
        let hidden = json!({"name": "a", "description": "a\u{200b}b", "inputSchema": {}});
        assert_eq!(tool(hidden).unwrap().description.to_sanitized(), "a\\u{200b}b");
    }

    #[test]
    fn digest_covers_content_but_not_order() {
        let parse = |value| tool(value).unwrap().digest;
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
