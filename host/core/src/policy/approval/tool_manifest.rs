//! The definition of a tool, as an approval pins it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Change, push_change};
use crate::schema::json;
use crate::text::untrusted::{Untrusted, expose_raw};
use crate::tool::definition::{Annotations, ToolDefinition};

/// The definition of one tool, as it is pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolManifest {
    /// The name within the component.
    pub name: String,
    /// The name of the export in the component, if it differs from `name`.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub export: Option<Untrusted<String>>,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub title: Option<Untrusted<String>>,
    /// A description of what the tool does and when to use it.
    #[serde(serialize_with = "expose_raw")]
    pub description: Untrusted<String>,
    /// The schema of the arguments, as canonical JSON.
    #[serde(serialize_with = "expose_raw")]
    pub input_schema: Untrusted<String>,
    /// The schema of the result, as canonical JSON.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub output_schema: Option<Untrusted<String>>,
    /// The annotations that the tool declares; undeclared ones are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, bool>,
    /// Icons and metadata of an MCP server's tool, as canonical JSON.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub mcp_members: Option<Untrusted<String>>,
}

impl ToolManifest {
    pub(super) fn from_definition(definition: &ToolDefinition) -> Self {
        Self {
            name: definition.name.to_string(),
            export: definition.export.clone(),
            title: definition.title.clone(),
            description: definition.description.clone(),
            input_schema: canonical_text(&definition.input_schema),
            output_schema: definition.output_schema.as_ref().map(canonical_text),
            annotations: declared_annotations(&definition.annotations),
            mcp_members: definition.mcp_members.as_ref().map(canonical_text),
        }
    }

    /// Creates an empty definition.
    pub(super) fn empty(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            export: None,
            title: None,
            description: Untrusted::default(),
            input_schema: Untrusted::default(),
            output_schema: None,
            annotations: BTreeMap::new(),
            mcp_members: None,
        }
    }

    /// Adds the differences between this definition and `new`.
    pub(super) fn changes(&self, new: &Self, changes: &mut Vec<Change>) {
        let mut compare = |what: &str, old, new| push_change(changes, format!("{what} of `{}`", self.name), old, new);
        compare("title", self.title.clone(), new.title.clone());
        compare("description", non_empty(&self.description), non_empty(&new.description));
        compare("export", self.export.clone(), new.export.clone());
        compare("input schema", non_empty(&self.input_schema), non_empty(&new.input_schema));
        compare("output schema", self.output_schema.clone(), new.output_schema.clone());
        compare("annotations", self.annotations_text(), new.annotations_text());
        compare("icons and metadata", self.mcp_members.clone(), new.mcp_members.clone());
    }

    fn annotations_text(&self) -> Option<Untrusted<String>> {
        let lines: Vec<_> = self.annotations.iter().map(|(name, is)| format!("{name} = {is}")).collect();
        non_empty(&lines.join(", ").into())
    }
}

fn non_empty(text: &Untrusted<String>) -> Option<Untrusted<String>> {
    (!text.is_empty()).then(|| text.clone())
}

fn declared_annotations(annotations: &Annotations) -> BTreeMap<String, bool> {
    let Annotations { read_only, destructive, idempotent, open_world } = *annotations;
    let named = [
        ("read_only", read_only),
        ("destructive", destructive),
        ("idempotent", idempotent),
        ("open_world", open_world),
    ];
    named.into_iter().filter_map(|(name, is)| Some((name.to_owned(), is?))).collect()
}

/// Returns the pinned text of a schema.
fn canonical_text(schema: &Untrusted<Value>) -> Untrusted<String> {
    json::to_canonical_text(schema.expose_raw()).into()
}
