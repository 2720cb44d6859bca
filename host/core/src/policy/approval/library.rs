//! Prompts and resource templates of an MCP server, and resources of a component, as they are pinned.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Change, push_change};
use crate::digest::Digest;
use crate::schema::json;
use crate::text::untrusted::{Untrusted, expose_raw};
use crate::tool::resource::ResourceDefinition;

/// The kind of a [`LibraryItem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LibraryKind {
    /// All resources of the server. They change with its data, and are not pinned one by one.
    Resources,
    /// A resource of a component, which has always the same ones.
    Resource,
    /// A resource template.
    Template,
    /// A prompt.
    Prompt,
}

impl LibraryKind {
    /// Returns the name for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Resource => "resource",
            Self::Template => "resource template",
            Self::Prompt => "prompt",
        }
    }
}

/// A prompt, a resource template or a component's resource, as it is pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryItem {
    /// The kind of item.
    pub kind: LibraryKind,
    /// The name of a prompt, the URI template, or the URI.
    #[serde(serialize_with = "expose_raw")]
    pub name: Untrusted<String>,
    /// The definition as the server or the component wrote it, as canonical JSON.
    #[serde(serialize_with = "expose_raw")]
    pub definition: Untrusted<String>,
}

impl LibraryItem {
    /// Creates the item of a definition.
    #[must_use]
    pub fn new(kind: LibraryKind, name: &str, definition: &Value) -> Self {
        Self { kind, name: name.into(), definition: json::to_canonical_text(definition).into() }
    }

    /// Creates the item of a component's resource.
    #[must_use]
    pub fn resource(definition: &ResourceDefinition) -> Self {
        // Texts, lists and flags always have a JSON form.
        let value = serde_json::to_value(definition).unwrap_or_default();
        Self::new(LibraryKind::Resource, &definition.uri, &value)
    }

    /// Creates the item that stands for all resources of a server.
    #[must_use]
    pub fn all_resources() -> Self {
        Self { kind: LibraryKind::Resources, name: "resources".into(), definition: Untrusted::default() }
    }

    /// Returns the digest that identifies it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let [name, definition] = [&self.name, &self.definition].map(Untrusted::expose_raw);
        Digest::of(format!("{}\n{}\n{name}\n{definition}", self.kind.as_str(), name.len()).as_bytes())
    }

    fn key(&self) -> (LibraryKind, &str, &str) {
        (self.kind, self.name.expose_raw(), self.definition.expose_raw())
    }

    fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.name == other.name
    }
}

impl PartialOrd for LibraryItem {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LibraryItem {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Lists the differences between two libraries: what was removed or changed first, then what is new.
pub(super) fn push_changes(changes: &mut Vec<Change>, old: &[LibraryItem], new: &[LibraryItem]) {
    for item in old {
        let now = new.iter().find(|other| other.is_same(item));
        push_change(changes, name_item(item), Some(describe_item(item)), now.map(describe_item));
    }
    for added in new.iter().filter(|item| !old.iter().any(|other| other.is_same(item))) {
        push_change(changes, name_item(added), None, Some(describe_item(added)));
    }
}

fn name_item(item: &LibraryItem) -> String {
    format!("{} `{}`", item.kind.as_str(), item.name.to_sanitized())
}

fn describe_item(item: &LibraryItem) -> Untrusted<String> {
    match item.kind {
        LibraryKind::Resources => "all that the server has, now and later".into(),
        _ => item.definition.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::approval::Manifest;

    fn manifest(library: Vec<LibraryItem>) -> Manifest {
        Manifest::new(None, "mcp", Vec::new(), &[]).with_library(library)
    }

    #[test]
    fn a_library_is_part_of_the_pin_and_of_the_changes() {
        fn prompt(about: &str) -> LibraryItem {
            LibraryItem::new(LibraryKind::Prompt, "p", &json!({"name": "p", "description": about}))
        }

        let bare = manifest(Vec::new());
        assert!(!serde_json::to_string(&bare).unwrap().contains("library"), "older pins stay valid");
        let old = manifest(vec![prompt("a"), LibraryItem::all_resources()]);
        let new = manifest(vec![prompt("b")]);
        assert!(old.pin() != new.pin() && old.pin() != bare.pin());
        let changes: Vec<_> = old.changes(&new).into_iter().map(|change| change.what).collect();
        assert_eq!(changes, ["resources `resources`", "prompt `p`"]);
        assert_eq!(
            old.library,
            serde_json::from_str::<Manifest>(&serde_json::to_string(&old).unwrap()).unwrap().library
        );
        assert_eq!(bare.changes(&old).len(), 2);
        assert_ne!(prompt("a").digest(), prompt("b").digest());
    }
}
