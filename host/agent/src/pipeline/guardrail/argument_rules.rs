//! Rules about arguments: their size, and paths in them, which are inside the workspace and not on the ignore list.
//!
//! Paths are compared as text: nothing here reads a disk.

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::result::CallError;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::policy::call::{Decision, Policy, Ruling};
use fumehood_core::text::sanitize::truncate_str;
use fumehood_core::tool::ValidatedCall;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde_json::Value;

/// Default names of arguments that hold paths.
const DEFAULT_FIELDS: [&str; 6] = ["path", "paths", "file", "directory", "source", "destination"];

/// A rule that denies calls with a path outside the workspace.
///
/// Paths are compared as text: a link inside the workspace can still lead out of it. The files that a tool can reach
/// are limited by its sandbox.
#[derive(Debug, Clone)]
pub struct Workspace {
    roots: Vec<String>,
    fields: Vec<String>,
}

impl Workspace {
    /// Creates a rule for a workspace of these directories.
    #[must_use]
    pub fn new(roots: Vec<String>) -> Self {
        Self { roots, fields: DEFAULT_FIELDS.map(str::to_owned).to_vec() }
    }

    /// Sets the names of the arguments that hold paths, at any depth. Default: `path`, `paths`, `file`, `directory`,
    /// `source` and `destination`.
    #[must_use]
    pub fn fields(mut self, fields: Vec<String>) -> Self {
        self.fields = fields;
        self
    }

    fn decide(&self, arguments: &Value) -> Decision<Arguments> {
        let outside = find_path(arguments, &self.fields, &mut |path| path_components(path, &self.roots).err());
        outside.map_or(Decision::Allow, Decision::deny)
    }
}

impl Policy for Workspace {
    fn name(&self) -> &str {
        "workspace"
    }

    fn before<'a>(&'a self, call: &'a ValidatedCall, _: &'a CallContext) -> BoxFuture<'a, Result<Ruling, CallError>> {
        Box::pin(std::future::ready(Ok(self.decide(call.arguments()).into())))
    }
}

/// An error for a line of an ignore list that is not a pattern.
#[derive(Debug, thiserror::Error)]
#[error("the line {line:?} of the ignore list is not a pattern")]
pub struct IgnoreError {
    /// The line.
    pub line: String,
    /// The reason.
    pub source: ignore::Error,
}

/// A rule that denies calls with a path on the ignore list.
#[derive(Debug, Clone)]
pub struct IgnoreList {
    workspace: Workspace,
    list: Gitignore,
}

impl IgnoreList {
    /// Creates a rule from the lines of a `.gitignore` at the root of the workspace.
    ///
    /// # Errors
    /// If a line is not a pattern.
    pub fn new(workspace: Workspace, lines: &str) -> Result<Self, IgnoreError> {
        let mut builder = GitignoreBuilder::new("");
        for line in lines.lines() {
            builder.add_line(None, line).map_err(|source| IgnoreError { line: line.to_owned(), source })?;
        }
        let list =
            builder.build().map_err(|source| IgnoreError { line: truncate_str(lines, 80).to_owned(), source })?;
        Ok(Self { workspace, list })
    }

    /// Returns whether a path is ignored. As in git, everything below an ignored directory is ignored, even if a later
    /// pattern includes it again.
    fn is_ignored(&self, components: &[&str]) -> bool {
        (1..=components.len()).any(|end| {
            let path = components.get(..end).unwrap_or_default().join("/");
            // The last component may be a file or a directory.
            let is_whole = end == components.len();
            self.list.matched(&path, true).is_ignore() || (is_whole && self.list.matched(&path, false).is_ignore())
        })
    }

    fn decide(&self, arguments: &Value) -> Decision<Arguments> {
        let Workspace { roots, fields } = &self.workspace;
        let ignored = find_path(arguments, fields, &mut |path| match path_components(path, roots) {
            Ok(components) if self.is_ignored(&components) => Some(format!("the path {path:?} is on the ignore list")),
            Ok(_) => None,
            Err(reason) => Some(reason),
        });
        ignored.map_or(Decision::Allow, Decision::deny)
    }
}

impl Policy for IgnoreList {
    fn name(&self) -> &str {
        "ignore_list"
    }

    fn before<'a>(&'a self, call: &'a ValidatedCall, _: &'a CallContext) -> BoxFuture<'a, Result<Ruling, CallError>> {
        Box::pin(std::future::ready(Ok(self.decide(call.arguments()).into())))
    }
}

/// A rule that denies calls with more than this many bytes of arguments, as JSON.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentBytes(
    /// The maximum, in bytes.
    pub usize,
);

impl ArgumentBytes {
    fn decide(self, arguments: &Value) -> Decision<Arguments> {
        let bytes = arguments.to_string().len();
        if bytes <= self.0 {
            return Decision::Allow;
        }
        let max = self.0;
        Decision::deny(format!("the arguments are {bytes} bytes; at most {max} are allowed: send less at a time"))
    }
}

impl Policy for ArgumentBytes {
    fn name(&self) -> &str {
        "size_cap"
    }

    fn before<'a>(&'a self, call: &'a ValidatedCall, _: &'a CallContext) -> BoxFuture<'a, Result<Ruling, CallError>> {
        Box::pin(std::future::ready(Ok(self.decide(call.arguments()).into())))
    }
}

/// Calls `visit` with every string below a property with one of these names, at any depth, until it returns a value.
fn find_path<T>(value: &Value, fields: &[String], visit: &mut impl FnMut(&str) -> Option<T>) -> Option<T> {
    match value {
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            if fields.iter().any(|field| field == name) {
                find_string(value, visit)
            } else {
                find_path(value, fields, visit)
            }
        }),
        Value::Array(items) => items.iter().find_map(|item| find_path(item, fields, visit)),
        _ => None,
    }
}

/// Calls `visit` with every string in a value until it returns a value.
fn find_string<T>(value: &Value, visit: &mut impl FnMut(&str) -> Option<T>) -> Option<T> {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().find_map(|item| find_string(item, visit)),
        Value::Object(members) => members.values().find_map(|value| find_string(value, visit)),
        _ => None,
    }
}

/// Returns the components of a path below one of the roots. A relative path is taken to be below a root.
///
/// # Errors
/// A message for the model, if the path leads or could lead elsewhere.
fn path_components<'p>(path: &'p str, roots: &[String]) -> Result<Vec<&'p str>, String> {
    let refuse = |reason: &str| Err(format!("the path {path:?} {reason}; give a path inside the workspace"));
    if path.contains('\0') {
        return refuse("holds a NUL");
    }
    let is_separator = |c: char| matches!(c, '/' | '\\');
    let components: Vec<&str> = path.split(is_separator).filter(|part| !part.is_empty() && *part != ".").collect();
    if components.iter().any(|part| is_parent(part)) {
        return refuse("has `..` in it");
    }
    let first = components.first().copied().unwrap_or_default();
    if first.starts_with('~') || first.contains(':') {
        return refuse("starts at a home directory, a drive or a scheme");
    }
    if !path.starts_with(is_separator) {
        return Ok(components);
    }
    for root in roots {
        let root: Vec<&str> = root.split(is_separator).filter(|part| !part.is_empty() && *part != ".").collect();
        if components.starts_with(&root) {
            return Ok(components.into_iter().skip(root.len()).collect());
        }
    }
    refuse("is outside the workspace")
}

/// Returns whether a component is `..`, also with the trailing dots and spaces that Windows drops.
fn is_parent(part: &str) -> bool {
    part.starts_with("..") && part.chars().all(|c| matches!(c, '.' | ' '))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn is_denied(decision: &Decision<Arguments>) -> bool {
        matches!(decision, Decision::Deny { .. })
    }

    #[test]
    fn paths_outside_the_workspace_are_denied() {
        let rule = Workspace::new(vec!["/home/me/project".to_owned()]);
        for path in ["src/a.rs", "./src", "/home/me/project", "/home/me/project/a/b", "a..b", "...a", ""] {
            assert!(!is_denied(&rule.decide(&json!({"path": path}))), "{path}");
        }
        let outside = [
            "/etc/passwd",
            "../a",
            "a/../../b",
            "a\\..\\b",
            "/home/me/project2/a",
            "/home/me",
            "~/.ssh",
            "C:\\x",
            "file:///etc",
            "a\0b",
            "a/.. /b",
            "/home/me/project/../x",
            "\\\\server\\x",
        ];
        for path in outside {
            assert!(is_denied(&rule.decide(&json!({"path": path}))), "{path}");
        }
        assert!(is_denied(&rule.decide(&json!({"edits": [{"path": "../a"}]}))));
        assert!(is_denied(&rule.decide(&json!({"paths": ["a", "../b"]}))));
        assert!(!is_denied(&rule.decide(&json!({"text": "../a"}))));
    }

    #[test]
    fn paths_on_the_ignore_list_are_denied() {
        let workspace = Workspace::new(vec!["/w".to_owned()]);
        let rule = IgnoreList::new(workspace, "node_modules\n*.key\n/build/\n# a comment\n!ok.key\n").unwrap();
        let check = |path: &str, expected: bool| {
            assert_eq!(is_denied(&rule.decide(&json!({"path": path}))), expected, "{path}")
        };
        check("node_modules", true);
        check("a/node_modules/b/c.js", true);
        check("/w/node_modules/x", true);
        check("a/b.key", true);
        check("ok.key", false);
        check("node_modules/ok.key", true);
        check("build/x", true);
        check("a/build/x", false);
        check("src/main.rs", false);
        check("/elsewhere", true);
    }

    #[test]
    fn arguments_over_the_size_cap_are_denied() {
        let rule = ArgumentBytes(10);
        assert!(!is_denied(&rule.decide(&json!({"a": "bc"}))));
        assert!(is_denied(&rule.decide(&json!({"a": "bcd"}))));
    }
}
