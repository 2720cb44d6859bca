//! Names of tools and components: validation, comparison, and mapping of foreign names.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum length of a name, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// The separator between a component's namespace and a tool's name.
pub const SEPARATOR: &str = "__";

/// Errors of parsing a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("a name is empty; give 1 to {MAX_NAME_BYTES} of `a-z`, `0-9`, `_`, `-`")]
    Empty,
    /// The name is longer than [`MAX_NAME_BYTES`].
    #[error("the name `{0}` is too long: {1} bytes, at most {MAX_NAME_BYTES}")]
    TooLong(String, usize),
    /// The name has a forbidden character.
    #[error("the name `{name}` has the character {found:?}; allowed are `a-z`, `0-9`, `_` and `-`")]
    Character {
        /// The text, shortened.
        name: String,
        /// The first forbidden character.
        found: char,
    },
    /// The namespace could not be separated from the name that follows it.
    #[error("the namespace `{0}` ends in `_` or holds `__`, which separates a namespace from a tool's name; rename it")]
    Separator(String),
    /// The qualified name has no namespace.
    #[error("`{0}` is not the full name of a tool; write it as `component{SEPARATOR}tool`")]
    NotQualified(String),
}

/// The name of one tool within its component: 1 to 64 of `a-z`, `0-9`, `_`, `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(String);

impl ToolName {
    /// Parses the name of a tool.
    ///
    /// # Errors
    /// If it is empty, too long, or has a character other than `a-z`, `0-9`, `_` and `-`.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        check_characters(name)?;
        Ok(Self(name.to_owned()))
    }

    /// Maps a foreign name (of an MCP server, of a WIT export) to a tool name, reversibly by [`ToolName::to_foreign`].
    ///
    /// Forbidden characters, and underscores that look like the start of an escape, become `_x` + hexadecimal + `_`.
    ///
    /// # Errors
    /// If it is empty, or too long after the mapping.
    pub fn from_foreign(foreign: &str) -> Result<Self, NameError> {
        let mut name = String::with_capacity(foreign.len());
        for (at, c) in foreign.char_indices() {
            let escape = c == '_' && foreign.get(at + 1..).is_some_and(|rest| rest.starts_with('x'));
            if is_name_character(c) && !escape {
                name.push(c);
            } else {
                name.push_str(&format!("_x{:x}_", u32::from(c)));
            }
        }
        Self::parse(&name)
    }

    /// Returns the foreign name that was passed to [`ToolName::from_foreign`]. A name without escapes is returned
    /// unchanged.
    #[must_use]
    pub fn to_foreign(&self) -> String {
        let mut foreign = String::with_capacity(self.0.len());
        let mut rest = self.0.as_str();
        while let Some((before, after)) = rest.split_once("_x") {
            foreign.push_str(before);
            match unescape(after) {
                Some((c, tail)) => {
                    foreign.push(c);
                    rest = tail;
                }
                None => {
                    foreign.push_str("_x");
                    rest = after;
                }
            }
        }
        foreign.push_str(rest);
        foreign
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name with `-` replaced by `_`, which must be unique within a component.
    #[must_use]
    pub fn folded(&self) -> String {
        self.0.replace('-', "_")
    }
}

/// Splits an escape off: `7a_rest` → `('z', "rest")`.
fn unescape(after: &str) -> Option<(char, &str)> {
    let (hex, tail) = after.split_once('_')?;
    let c = char::from_u32(u32::from_str_radix(hex, 16).ok()?)?;
    Some((c, tail))
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ToolName {
    type Error = NameError;
    fn try_from(name: String) -> Result<Self, NameError> {
        Self::parse(&name)
    }
}

impl From<ToolName> for String {
    fn from(name: ToolName) -> Self {
        name.0
    }
}

/// The name of a component within a host: like a [`ToolName`], but without `__` and not ending in `_`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Namespace(String);

impl Namespace {
    /// Parses a namespace.
    ///
    /// # Errors
    /// If it is not a valid [`ToolName`], contains `__`, or ends in `_`.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        check_characters(name)?;
        if name.contains(SEPARATOR) || name.ends_with('_') {
            return Err(NameError::Separator(name.to_owned()));
        }
        Ok(Self(name.to_owned()))
    }

    /// Returns the namespace as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Namespace {
    type Error = NameError;
    fn try_from(name: String) -> Result<Self, NameError> {
        Self::parse(&name)
    }
}

impl From<Namespace> for String {
    fn from(name: Namespace) -> Self {
        name.0
    }
}

/// The full name of a tool within a host: `component__tool`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QualifiedName {
    /// The name of the component.
    pub namespace: Namespace,
    /// The name of the tool within the component.
    pub tool: ToolName,
}

impl QualifiedName {
    /// Splits a name at the first `__` without checking either side; `None` if there is no `__`.
    #[must_use]
    pub fn split(name: &str) -> Option<(&str, &str)> {
        name.split_once(SEPARATOR)
    }

    /// Parses `component__tool`, split at the first `__`.
    ///
    /// # Errors
    /// If there is no `__`, or either side is invalid.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let (namespace, tool) = Self::split(name).ok_or_else(|| NameError::NotQualified(shorten(name)))?;
        Ok(Self { namespace: Namespace::parse(namespace)?, tool: ToolName::parse(tool)? })
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{SEPARATOR}{}", self.namespace, self.tool)
    }
}

fn check_characters(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if let Some(found) = name.chars().find(|c| !is_name_character(*c)) {
        return Err(NameError::Character { name: shorten(name), found });
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(NameError::TooLong(shorten(name), name.len()));
    }
    Ok(())
}

fn is_name_character(c: char) -> bool {
    matches!(c, 'a'..='z' | '0'..='9' | '_' | '-')
}

/// Shortens an invalid name for an error message, and escapes characters that a terminal would act on.
fn shorten(name: &str) -> String {
    let printable = crate::text::sanitize::printable(name);
    let short: String = printable.chars().take(MAX_NAME_BYTES).collect();
    if short.len() < printable.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(name: &str, expected: &str) {
        let found = ToolName::parse(name).map_or_else(|error| error.to_string(), |_| "ok".to_owned());
        assert!(found.contains(expected), "{name:?}: {found}");
    }

    #[test]
    fn only_the_documented_characters_and_lengths_pass() {
        check("add", "ok");
        check("a-b_c9", "ok");
        check(&"a".repeat(64), "ok");
        check("", "empty");
        check(&"a".repeat(65), "too long: 65 bytes");
        check("Add", "'A'");
        check("add ", "' '");
        check("аdd", "'а'"); // Cyrillic
        check("add\u{1b}[31m", "'\\u{1b}'");
        check("add/x", "'/'");
    }

    #[test]
    fn names_that_differ_only_in_dashes_have_one_folded_form() {
        let folded = |name: &str| ToolName::parse(name).unwrap().folded();
        assert_eq!(folded("read-file"), folded("read_file"));
        assert_ne!(folded("readfile"), folded("read_file"));
    }

    #[test]
    fn splits_qualified_name_at_first_separator() {
        let name = QualifiedName::parse("files__read__all").unwrap();
        assert_eq!((name.namespace.as_str(), name.tool.as_str()), ("files", "read__all"));
        assert_eq!(name.to_string(), "files__read__all");
        assert!(QualifiedName::parse("read").unwrap_err().to_string().contains("component__tool"));
    }

    #[test]
    fn rejects_namespace_that_touches_the_separator() {
        assert!(Namespace::parse("my_tools").is_ok());
        assert!(Namespace::parse("my__tools").is_err());
        assert!(Namespace::parse("tools_").is_err());
    }

    #[test]
    fn foreign_names_are_mapped_readably() {
        let mapped = |name: &str| ToolName::from_foreign(name).unwrap().to_string();
        assert_eq!(mapped("repo.search"), "repo_x2e_search");
        assert_eq!(mapped("read_file"), "read_file");
        assert_eq!(mapped("max_x"), "max_x5f_x");
    }

    proptest! {
        #[test]
        fn foreign_names_round_trip(name in "[ -~äß]{1,10}") {
            prop_assert_eq!(ToolName::from_foreign(&name).unwrap().to_foreign(), name);
        }

        #[test]
        fn distinct_foreign_names_stay_distinct(a in "[a-z_x0-9.]{1,8}", b in "[a-z_x0-9.]{1,8}") {
            prop_assume!(a != b);
            prop_assert_ne!(ToolName::from_foreign(&a).unwrap(), ToolName::from_foreign(&b).unwrap());
        }
    }
}
