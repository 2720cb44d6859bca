//! Patterns of full names of tools.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns of full names of tools, such as `web__*`. `*` is any number of characters, `?` is one.
///
/// ```
/// use fumehood::hooks::{ToolPatternError, ToolPatterns};
///
/// let patterns = ToolPatterns::new(["web__*", "mail__send"])?;
/// assert!(patterns.matches("web__search") && patterns.matches("mail__send"));
/// assert!(!patterns.matches("mail__read"));
/// // The default matches every tool, and an empty list none.
/// assert!(ToolPatterns::default().matches("mail__read"));
/// assert!(!ToolPatterns::new([""; 0])?.matches("mail__read"));
/// # Ok::<(), ToolPatternError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ToolPatterns(Option<GlobSet>);

/// The error of a pattern that is not valid.
#[derive(Debug, thiserror::Error)]
#[error("invalid pattern `{pattern}` of tools: {reason}; expected one such as \"web__*\"")]
pub struct ToolPatternError {
    /// The pattern.
    pub pattern: String,
    /// The reason.
    pub reason: String,
}

impl Default for ToolPatterns {
    /// Returns patterns that match every tool.
    fn default() -> Self {
        Self(None)
    }
}

impl ToolPatterns {
    /// Creates patterns. Those of an empty list match no tool.
    ///
    /// # Errors
    /// If a pattern is empty, malformed, or has characters that no name of a tool has.
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, ToolPatternError> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let wrong = |reason: String| ToolPatternError { pattern: pattern.to_owned(), reason };
            let is_of_names = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '*' | '?');
            if pattern.is_empty() || !pattern.chars().all(is_of_names) || pattern.contains("**") {
                return Err(wrong("only A-Z, a-z, 0-9, `_`, `-`, `.`, `/`, single `*` and `?` are allowed".to_owned()));
            }
            let glob = GlobBuilder::new(pattern).build().map_err(|error| wrong(error.kind().to_string()))?;
            set.add(glob);
        }
        let set = set.build().map_err(|error| ToolPatternError {
            pattern: error.glob().unwrap_or_default().to_owned(),
            reason: error.kind().to_string(),
        });
        Ok(Self(Some(set?)))
    }

    /// Returns whether a pattern matches the full name of a tool.
    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        self.0.as_ref().is_none_or(|set| set.is_match(tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_full_names() {
        check_pattern(&["web__*"], "web__fetch", true);
        check_pattern(&["web__*"], "webs__fetch", false);
        check_pattern(&["*"], "web__fetch", true);
        check_pattern(&["web__*"], "web__Files/read.all", true);
        check_pattern(&["web__Files/*"], "web__Files/read.all", true);
        check_pattern(&["web__files/*"], "web__Files/read.all", false);
        check_pattern(&["web__a.c"], "web__abc", false);
        check_pattern(&["web__fetch", "notes__*"], "notes__read", true);
        check_pattern(&["web__fetc?"], "web__fetch", true);
        check_pattern(&["web__fetch"], "web__fetch_all", false);
        check_pattern(&[], "web__fetch", false);
        assert!(ToolPatterns::default().matches("run_code"));
    }

    fn check_pattern(patterns: &[&str], tool: &str, expected: bool) {
        assert_eq!(ToolPatterns::new(patterns).unwrap().matches(tool), expected, "{patterns:?} {tool}");
    }

    #[test]
    fn rejects_what_no_name_can_match() {
        for pattern in ["", "web:*", "web__**", "[a-z]", "a b"] {
            let error = ToolPatterns::new([pattern]).unwrap_err().to_string();
            assert!(error.contains("invalid pattern"), "{error}");
        }
    }
}
