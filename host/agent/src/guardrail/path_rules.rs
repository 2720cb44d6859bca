//! Rules about paths in arguments: inside the workspace, and not on the ignore list.

use fumehood_core::sanitize::truncate_str;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::paths;
use super::rule::{Proposed, Rule, Verdict};

/// Names of arguments that hold paths, unless a host says otherwise.
const FIELDS: [&str; 6] = ["path", "paths", "file", "directory", "source", "destination"];

/// Denies calls with a path that leads outside the workspace.
///
/// Paths are compared as text; a link inside the workspace can still lead out of it. What a tool can really reach is
/// for its sandbox to say.
#[derive(Debug, Clone)]
pub struct Workspace {
    roots: Vec<String>,
    fields: Vec<String>,
}

impl Workspace {
    /// These directories are the workspace.
    #[must_use]
    pub fn new(roots: Vec<String>) -> Self {
        Self { roots, fields: FIELDS.map(str::to_owned).to_vec() }
    }

    /// Looks at the arguments of these names instead, at any depth.
    #[must_use]
    pub fn with_fields(mut self, fields: Vec<String>) -> Self {
        self.fields = fields;
        self
    }
}

impl Rule for Workspace {
    fn name(&self) -> &str {
        "workspace"
    }

    fn evaluate(&self, proposed: &Proposed) -> Verdict {
        let outside =
            paths::find_map(&proposed.arguments, &self.fields, &mut |path| paths::within(path, &self.roots).err());
        outside.map_or(Verdict::Allow, |reason| Verdict::Deny { reason })
    }
}

/// A line of an ignore list is not a pattern.
#[derive(Debug, thiserror::Error)]
#[error("the line {line:?} of the ignore list is not a pattern")]
pub struct IgnoreError {
    /// The line.
    pub line: String,
    /// What is wrong with it.
    pub source: ignore::Error,
}

/// Denies calls with a path that is on the ignore list.
#[derive(Debug, Clone)]
pub struct IgnoreList {
    workspace: Workspace,
    list: Gitignore,
}

impl IgnoreList {
    /// The lines are those of a `.gitignore` at the root of the workspace.
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

    /// What is below an ignored directory is ignored, whatever the list says about it: as git has it.
    fn ignores(&self, components: &[&str]) -> bool {
        (1..=components.len()).any(|end| {
            let path = components.get(..end).unwrap_or_default().join("/");
            // Whether the last one is a directory cannot be seen from here.
            let whole = end == components.len();
            self.list.matched(&path, true).is_ignore() || (whole && self.list.matched(&path, false).is_ignore())
        })
    }
}

impl Rule for IgnoreList {
    fn name(&self) -> &str {
        "ignore_list"
    }

    fn evaluate(&self, proposed: &Proposed) -> Verdict {
        let Workspace { roots, fields } = &self.workspace;
        let ignored = paths::find_map(&proposed.arguments, fields, &mut |path| match paths::within(path, roots) {
            Ok(components) if self.ignores(&components) => Some(format!("the path {path:?} is on the ignore list")),
            Ok(_) => None,
            Err(reason) => Some(reason),
        });
        ignored.map_or(Verdict::Allow, |reason| Verdict::Deny { reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn denied(rule: &dyn Rule, arguments: Value) -> bool {
        let proposed = Proposed {
            tool: "fs__read".to_owned(),
            annotations: fumehood_core::definition::Annotations::default(),
            arguments,
            actor: None,
            skill: None,
            session: String::new(),
        };
        matches!(rule.evaluate(&proposed), Verdict::Deny { .. })
    }

    #[test]
    fn c7_paths_outside_the_workspace_are_denied() {
        let rule = Workspace::new(vec!["/home/me/project".to_owned()]);
        for path in ["src/a.rs", "./src", "/home/me/project", "/home/me/project/a/b", "a..b", "...a", ""] {
            assert!(!denied(&rule, json!({"path": path})), "{path}");
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
            assert!(denied(&rule, json!({"path": path})), "{path}");
        }
        assert!(denied(&rule, json!({"edits": [{"path": "../a"}]})));
        assert!(denied(&rule, json!({"paths": ["a", "../b"]})));
        assert!(!denied(&rule, json!({"text": "../a"})));
    }

    #[test]
    fn c7_paths_on_the_ignore_list_are_denied() {
        let workspace = Workspace::new(vec!["/w".to_owned()]);
        let rule = IgnoreList::new(workspace, "node_modules\n*.key\n/build/\n# a comment\n!ok.key\n").unwrap();
        let check = |path: &str, expected: bool| assert_eq!(denied(&rule, json!({"path": path})), expected, "{path}");
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
    fn c7_arguments_over_the_size_cap_are_denied() {
        let rule = crate::guardrail::rule::ArgumentBytes(10);
        assert!(!denied(&rule, json!({"a": "bc"})));
        assert!(denied(&rule, json!({"a": "bcd"})));
    }
}
