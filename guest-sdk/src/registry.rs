//! The tools and resources of one component, as `export!` lists them.

use crate::{AsyncTool, Content, Contents, Definition, Resource, ResourceDefinition, Tool, ToolError, ToolFuture};

/// One exported tool.
#[derive(Clone, Copy, Debug)]
pub struct Entry<F = fn(&str) -> Result<Vec<Content>, ToolError>> {
    name: &'static str,
    definition: fn() -> Definition,
    call: F,
}

/// One exported tool of a component with asynchronous tools.
pub type AsyncEntry = Entry<fn(&str) -> ToolFuture>;

impl Entry {
    /// Returns the entry of the tool `T`.
    #[must_use]
    pub const fn of<T: Tool>() -> Self {
        Self { name: <T as Tool>::NAME, definition: <T as Tool>::definition, call: <T as Tool>::call }
    }
}

impl AsyncEntry {
    /// Returns the entry of the tool `T`.
    #[must_use]
    pub const fn of_async<T: AsyncTool>() -> Self {
        Self { name: T::NAME, definition: T::definition, call: T::call }
    }
}

/// Returns the definitions of all tools, in the order of `export!`.
pub(crate) fn describe<F>(tools: &[Entry<F>]) -> impl Iterator<Item = Definition> {
    tools.iter().map(|tool| (tool.definition)())
}

/// Runs the tool called `name`.
///
/// # Errors
///
/// Those of the tool, and `failed` if there is no such tool. A host never calls one that does not exist.
pub(crate) fn call(tools: &[Entry], name: &str, arguments: &str) -> Result<Vec<Content>, ToolError> {
    match tools.iter().find(|tool| tool.name == name) {
        Some(tool) => (tool.call)(arguments),
        None => Err(unknown_tool(name)),
    }
}

/// Starts the tool called `name`. Its future has the errors of [`call`].
#[cfg(feature = "async")]
pub(crate) fn start(tools: &[AsyncEntry], name: &str, arguments: &str) -> ToolFuture {
    match tools.iter().find(|tool| tool.name == name) {
        Some(tool) => (tool.call)(arguments),
        None => Box::pin(std::future::ready(Err(unknown_tool(name)))),
    }
}

fn unknown_tool(name: &str) -> ToolError {
    ToolError::failed(format!("this component has no tool `{name}`"))
}

/// One exported resource.
#[derive(Clone, Copy, Debug)]
pub struct ResourceEntry {
    uri: &'static str,
    definition: fn() -> ResourceDefinition,
    read: fn() -> Result<Contents, ToolError>,
}

impl ResourceEntry {
    /// Returns the entry of the resource `R`.
    #[must_use]
    pub const fn of<R: Resource>() -> Self {
        Self { uri: R::URI, definition: R::definition, read: R::read }
    }
}

/// Returns the definitions of all resources, in the order of `export!`.
pub(crate) fn list(resources: &[ResourceEntry]) -> impl Iterator<Item = ResourceDefinition> {
    resources.iter().map(|resource| (resource.definition)())
}

/// Reads the resource with this URI.
///
/// # Errors
///
/// Those of the resource, and `failed` if there is no such resource. A host never reads one that does not exist.
pub(crate) fn read(resources: &[ResourceEntry], uri: &str) -> Result<Contents, ToolError> {
    match resources.iter().find(|resource| resource.uri == uri) {
        Some(resource) => (resource.read)(),
        None => Err(ToolError::failed(format!("this component has no resource `{uri}`"))),
    }
}

/// Returns whether a host would accept the number of these resources, and their URIs together.
#[must_use]
pub const fn are_acceptable(resources: &[ResourceEntry]) -> bool {
    if resources.len() > 64 {
        return false;
    }
    let mut remaining = resources;
    while let [first, rest @ ..] = remaining {
        let mut others = rest;
        while let [other, after @ ..] = others {
            if are_equal(first.uri.as_bytes(), other.uri.as_bytes()) {
                return false;
            }
            others = after;
        }
        remaining = rest;
    }
    true
}

const fn are_equal(mut one: &[u8], mut other: &[u8]) -> bool {
    while let ([first, one_rest @ ..], [second, other_rest @ ..]) = (one, other) {
        if *first != *second {
            return false;
        }
        (one, other) = (one_rest, other_rest);
    }
    one.is_empty() && other.is_empty()
}

/// Returns whether a host would accept these tools: 1 to 64, whose names differ even if `-` and `_` are treated as the
/// same character.
#[must_use]
pub const fn is_acceptable<F>(tools: &[Entry<F>]) -> bool {
    if tools.is_empty() || tools.len() > 64 {
        return false;
    }
    let mut remaining = tools;
    while let [first, rest @ ..] = remaining {
        let mut others = rest;
        while let [other, after @ ..] = others {
            if are_alike(first.name.as_bytes(), other.name.as_bytes()) {
                return false;
            }
            others = after;
        }
        remaining = rest;
    }
    true
}

const fn are_alike(mut one: &[u8], mut other: &[u8]) -> bool {
    while let ([first, one_rest @ ..], [second, other_rest @ ..]) = (one, other) {
        if plain(*first) != plain(*second) {
            return false;
        }
        (one, other) = (one_rest, other_rest);
    }
    one.is_empty() && other.is_empty()
}

const fn plain(byte: u8) -> u8 {
    if byte == b'-' { b'_' } else { byte }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Definition {
        Definition {
            name: "a".to_owned(),
            title: None,
            description: "A tool.".to_owned(),
            input_schema: serde_json::json!({"type": "object"}),
            output_schema: None,
            annotations: crate::Annotations::default(),
        }
    }

    fn entry(name: &'static str) -> Entry {
        Entry { name, definition, call: |arguments| Ok(vec![Content::text(arguments)]) }
    }

    #[test]
    fn describes_tools_in_order() {
        assert_eq!(Vec::from_iter(describe(&[entry("a"), entry("b")])), [definition(), definition()]);
    }

    #[test]
    fn names_must_differ() {
        let check = |names: &[&'static str]| is_acceptable(&names.iter().map(|name| entry(name)).collect::<Vec<_>>());
        assert!(check(&["a"]) && check(&["a", "b", "ab"]));
        assert!(!check(&[]) && !check(&["a"; 65]));
        assert!(!check(&["x", "a-b", "a_b"]) && !check(&["a", "a"]));
    }

    #[test]
    fn uris_must_differ() {
        let entry = |uri: &'static str| ResourceEntry {
            uri,
            definition: || panic!("nobody asks for it"),
            read: || Ok(Contents::Text("x".to_owned())),
        };
        let check = |uris: &[&'static str]| are_acceptable(&uris.iter().map(|uri| entry(uri)).collect::<Vec<_>>());
        assert!(check(&[]) && check(&["a:b", "a:c", "a:bc"]));
        assert!(!check(&["a:b", "a:c", "a:b"]) && !check(&["a:b"; 65]));
        assert_eq!(read(&[entry("a:b")], "a:b"), Ok(Contents::Text("x".to_owned())));
        assert!(read(&[entry("a:b")], "a:c").is_err());
    }

    #[test]
    fn rejects_an_unknown_name() {
        assert_eq!(call(&[entry("a")], "a", "{}"), Ok(vec![Content::text("{}")]));
        assert!(call(&[entry("a")], "b", "{}").is_err());
    }
}
