//! The requests to a library, as tools that clients do not see: they pass everything that calls of tools pass.

use fumehood_core::digest::Digest;
use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::tool::Tool;
use fumehood_core::tool::definition::{Annotations, ToolDefinition};
use fumehood_core::tool::name::{Namespace, QualifiedName, ToolName};
use serde_json::{Value, json};

/// A request to the library of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LibraryMethod {
    /// The contents of a resource.
    Read,
    /// The messages of a prompt.
    Get,
    /// Completions of an argument of a prompt or a template.
    Complete,
}

impl LibraryMethod {
    pub(super) const ALL: [Self; 3] = [Self::Read, Self::Get, Self::Complete];

    /// Returns the method of MCP.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "resources/read",
            Self::Get => "prompts/get",
            Self::Complete => "completion/complete",
        }
    }

    /// Returns whether a tool of this name would be taken for a method.
    pub(in crate::client) fn has_name(name: &ToolName) -> bool {
        Self::ALL.iter().any(|method| method.name() == name.as_str())
    }

    fn digest(self) -> Digest {
        Digest::of(format!("fumehood library {}", self.name()).as_bytes())
    }

    /// Returns the method that a tool stands for, if it is one of [`Self::tool`].
    pub(crate) fn of(tool: &Tool) -> Option<Self> {
        Self::ALL.into_iter().find(|method| tool.digest() == Some(method.digest()))
    }

    /// Returns the full name of the tool in place of this method of a server.
    pub(crate) fn full_name(self, server: &Namespace) -> String {
        let tool = ToolName::parse(self.name()).map(|tool| QualifiedName { namespace: server.clone(), tool });
        tool.map(|name| name.to_string()).unwrap_or_default()
    }

    /// Returns the tool in place of this method of a server.
    pub(super) fn tool(self, server: &Namespace, limits: &GateLimits) -> Option<Tool> {
        let schema = self.schema();
        let gate = Gate::for_arguments(&schema, limits.clone()).ok()?;
        let definition = ToolDefinition {
            name: ToolName::parse(self.name()).ok()?,
            export: Some(self.name().into()),
            title: None,
            description: self.description().into(),
            input_schema: schema.into(),
            output_schema: None,
            annotations: Annotations::default(),
            mcp_members: None,
        };
        Some(Tool::new(definition, gate).in_namespace(server).identified_by(self.digest()))
    }

    fn description(self) -> &'static str {
        match self {
            Self::Read => "Reads a resource of the server.",
            Self::Get => "Gets a prompt of the server.",
            Self::Complete => "Completes an argument of a prompt or a resource template of the server.",
        }
    }

    fn schema(self) -> Value {
        let text = json!({"type": "string"});
        let texts = json!({"type": "object", "additionalProperties": text});
        let (properties, required) = match self {
            Self::Read => (json!({"uri": text}), json!(["uri"])),
            Self::Get => (json!({"name": text, "arguments": texts}), json!(["name"])),
            Self::Complete => {
                let argument = json!({"type": "object", "properties": {"name": text, "value": text}});
                let context = json!({"type": "object", "properties": {"arguments": texts}});
                (json!({"ref": texts, "argument": argument, "context": context}), json!(["ref", "argument"]))
            }
        };
        json!({"type": "object", "properties": properties, "required": required})
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_method_is_a_tool_behind_a_gate() {
        let server = Namespace::parse("files").unwrap();
        for (method, good, bad) in [
            (LibraryMethod::Read, json!({"uri": "file:///a"}), json!({"uri": 5})),
            (
                LibraryMethod::Get,
                json!({"name": "p", "arguments": {"a": "b"}}),
                json!({"name": "p", "arguments": {"a": 1}}),
            ),
            (
                LibraryMethod::Complete,
                json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}, "context": {"arguments": {"b": "c"}}}),
                json!({"ref": {}}),
            ),
        ] {
            let tool = Arc::new(method.tool(&server, &GateLimits::default()).unwrap());
            assert_eq!(
                (tool.full_name(), LibraryMethod::of(&tool)),
                (method.full_name(&server).as_str(), Some(method))
            );
            assert!(tool.validate(good.into()).is_ok() && tool.validate(bad.into()).is_err(), "{method:?}");
        }
    }
}
