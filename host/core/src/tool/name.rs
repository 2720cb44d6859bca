//! Names of tools and components: validation, comparison, and names for tools of servers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::text::sanitize::truncate_str;

/// Number of hexadecimal digits of a digest in a name.
const DIGEST_DIGITS: usize = 8;

/// Maximum length of the name of a component or server, and of a component's tool, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Maximum length of the name of a tool, in bytes: that of the Model Context Protocol (2025-11-25, "Tool Names").
pub const MAX_TOOL_NAME_BYTES: usize = 128;

/// Maximum length of a full name, in bytes.
pub const MAX_FULL_NAME_BYTES: usize = MAX_NAME_BYTES + SEPARATOR.len() + MAX_TOOL_NAME_BYTES;

/// The separator between a component's namespace and a tool's name.
pub const SEPARATOR: &str = "__";

/// Name of a tool whose own name has no character that MCP allows.
const NAMELESS_TOOL: &str = "tool";

/// The characters and the length that a name may have.
#[derive(Debug, Clone, Copy)]
struct NameRule {
    allows: fn(char) -> bool,
    characters: &'static str,
    max_bytes: usize,
}

/// The rule of components, and of their tools.
const COMPONENT_RULE: NameRule = NameRule {
    allows: |c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-'),
    characters: "`a-z`, `0-9`, `_` and `-`",
    max_bytes: MAX_NAME_BYTES,
};

/// The rule of the Model Context Protocol.
const TOOL_RULE: NameRule = NameRule {
    allows: is_tool_name_character,
    characters: "`A-Z`, `a-z`, `0-9`, `_`, `-`, `.` and `/`",
    max_bytes: MAX_TOOL_NAME_BYTES,
};

/// Errors of parsing a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("a name is empty; expected at least one letter or digit")]
    Empty,
    /// The name is too long.
    #[error("the name `{name}` is too long: {found} bytes, at most {max}")]
    TooLong {
        /// The name, shortened.
        name: String,
        /// Its length, in bytes.
        found: usize,
        /// The maximum length, in bytes.
        max: usize,
    },
    /// The name has a forbidden character.
    #[error("the name `{name}` contains {found:?}; expected only {allowed}")]
    Character {
        /// The text, shortened.
        name: String,
        /// The first forbidden character.
        found: char,
        /// The allowed characters.
        allowed: &'static str,
    },
    /// The namespace could not be separated from the name that follows it.
    #[error(
        "the namespace `{0}` ends with `_` or contains `__`, which separates a namespace from a tool's name; rename it"
    )]
    Separator(String),
    /// The qualified name has no namespace.
    #[error("invalid full name `{0}`; expected `component{SEPARATOR}tool`")]
    NotQualified(String),
}

/// The name of one tool within its component or server, as the Model Context Protocol allows it: 1 to 128 of `A-Z`, `a-z`,
/// `0-9`, `_`, `-`, `.`, `/`. Names that differ in case are different names.
///
/// Those of components and of functions of the host are checked by [`ToolName::for_component`], which allows less.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(String);

impl ToolName {
    /// Parses the name of a tool.
    ///
    /// # Errors
    /// If it is empty, too long, or has a character that MCP does not allow.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        TOOL_RULE.check(name)?;
        Ok(Self(name.to_owned()))
    }

    /// Parses the name of a component's tool or of a function of the host: 1 to 64 of `a-z`, `0-9`, `_`, `-`.
    ///
    /// # Errors
    /// If it is empty, too long, or has another character.
    pub fn for_component(name: &str) -> Result<Self, NameError> {
        COMPONENT_RULE.check(name)?;
        Ok(Self(name.to_owned()))
    }

    /// Returns the name that a server's tool has in this host: its own if MCP allows it. For any other name, a similar one
    /// is made: `_` replaces the characters that are not allowed, and eight digits of the name's digest follow.
    ///
    /// # Errors
    /// If the name is empty.
    pub fn from_foreign(foreign: &str) -> Result<Self, NameError> {
        match Self::parse(foreign) {
            Err(NameError::Empty) => Err(NameError::Empty),
            Err(_) => Ok(Self::similar_to(foreign, 0)),
            Ok(name) => Ok(name),
        }
    }

    /// Makes a name from one that MCP does not allow. Another `salt` gives another name.
    #[must_use]
    pub fn similar_to(foreign: &str, salt: u32) -> Self {
        let mut similar = String::new();
        for c in foreign.chars().take(MAX_TOOL_NAME_BYTES) {
            match c {
                c if is_tool_name_character(c) => similar.push(c),
                // One for all of a row.
                _ if similar.ends_with('_') => {}
                _ => similar.push('_'),
            }
        }
        let similar = similar.trim_matches('_');
        let similar = if similar.is_empty() { NAMELESS_TOOL } else { similar };
        Self(with_digest(similar, foreign, salt, MAX_TOOL_NAME_BYTES))
    }

    /// Returns the name that earlier releases gave a server's tool, if they could: `_x` + hexadecimal + `_` stood for each
    /// character other than `a-z`, `0-9`, `_` and `-`. Approvals of that time have it.
    #[must_use]
    pub fn escaped(foreign: &str) -> Option<Self> {
        let mut name = String::with_capacity(foreign.len());
        for (at, c) in foreign.char_indices() {
            let escape = c == '_' && foreign.get(at + 1..).is_some_and(|rest| rest.starts_with('x'));
            if (COMPONENT_RULE.allows)(c) && !escape {
                name.push(c);
            } else {
                name.push_str(&format!("_x{:x}_", u32::from(c)));
            }
        }
        Self::for_component(&name).ok()
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

/// Returns the beginning of a text, `_` and eight digits of the digest of `whole`: at most `max_bytes` in all. `text` is
/// ASCII.
pub(super) fn with_digest(text: &str, whole: &str, salt: u32, max_bytes: usize) -> String {
    let digest = match salt {
        0 => Digest::of(whole.as_bytes()),
        salt => Digest::of(format!("{whole} {salt}").as_bytes()),
    };
    let start = truncate_str(text, max_bytes.saturating_sub(DIGEST_DIGITS + 1));
    let digits: String = digest.hex().chars().take(DIGEST_DIGITS).collect();
    format!("{start}_{digits}")
}

/// Returns whether MCP allows a character in the name of a tool.
pub(super) fn is_tool_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ToolName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::parse(name)
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

/// The name of a component or server within a host: 1 to 64 of `a-z`, `0-9`, `_`, `-`, without `__` and not ending in `_`.
///
/// ```
/// use fumehood_core::tool::name::{NameError, Namespace};
///
/// let name: Namespace = "issue-tracker".parse()?;
/// assert_eq!(name.as_str(), "issue-tracker");
/// // `__` separates the name of a component from that of a tool.
/// assert!(Namespace::parse("issue__tracker").is_err());
/// assert!(Namespace::parse("Issue Tracker").is_err());
/// # Ok::<(), NameError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Namespace(String);

impl Namespace {
    /// Parses a namespace.
    ///
    /// # Errors
    /// If it is empty, too long, has another character, contains `__`, or ends in `_`.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        COMPONENT_RULE.check(name)?;
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

impl FromStr for Namespace {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::parse(name)
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
///
/// ```
/// use fumehood_core::tool::name::{NameError, QualifiedName};
///
/// let name: QualifiedName = "calculator__add".parse()?;
/// assert_eq!(name.namespace.as_str(), "calculator");
/// assert_eq!(name.tool.as_str(), "add");
/// assert!(matches!(QualifiedName::parse("add"), Err(NameError::NotQualified(_))));
/// # Ok::<(), NameError>(())
/// ```
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

impl FromStr for QualifiedName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::parse(name)
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{SEPARATOR}{}", self.namespace, self.tool)
    }
}

impl NameRule {
    fn check(&self, name: &str) -> Result<(), NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if let Some(found) = name.chars().find(|c| !(self.allows)(*c)) {
            return Err(NameError::Character { name: shorten(name), found, allowed: self.characters });
        }
        if name.len() > self.max_bytes {
            return Err(NameError::TooLong { name: shorten(name), found: name.len(), max: self.max_bytes });
        }
        Ok(())
    }
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

    fn check(parse: fn(&str) -> Result<ToolName, NameError>, name: &str, expected: &str) {
        let found = parse(name).map_or_else(|error| error.to_string(), |_| "ok".to_owned());
        assert!(found.contains(expected), "{name:?}: {found}");
    }

    #[test]
    fn only_the_documented_characters_and_lengths_pass() {
        let strict: fn(&str) -> _ = ToolName::for_component;
        let wide: fn(&str) -> _ = ToolName::parse;
        for (name, component, tool) in [
            ("add", "ok", "ok"),
            ("a-b_c9", "ok", "ok"),
            (&"a".repeat(64), "ok", "ok"),
            ("", "empty", "empty"),
            (&"a".repeat(65), "too long: 65 bytes, at most 64", "ok"),
            (&"a".repeat(128), "too long: 128 bytes", "ok"),
            (&"a".repeat(129), "too long: 129 bytes, at most 64", "too long: 129 bytes, at most 128"),
            ("Add", "'A'", "ok"),
            ("API.get/self", "'A'", "ok"),
            ("add ", "' '", "' '"),
            ("ns:add", "':'", "expected only `A-Z`"),
            ("аdd", "'а'", "'а'"), // Cyrillic
            ("add\u{1b}[31m", "'\\u{1b}'", "'\\u{1b}'"),
        ] {
            check(strict, name, component);
            check(wide, name, tool);
        }
    }

    #[test]
    fn names_that_differ_only_in_dashes_have_one_folded_form() {
        fn fold(name: &str) -> String {
            ToolName::parse(name).unwrap().folded()
        }

        assert_eq!(fold("read-file"), fold("read_file"));
        assert_ne!(fold("readfile"), fold("read_file"));
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
    fn foreign_names_keep_their_letters_or_get_similar_ones() {
        fn long(last: char) -> String {
            format!("{}{last}", "x".repeat(200))
        }

        fn map_name(name: &str) -> String {
            ToolName::from_foreign(name).unwrap().to_string()
        }

        for kept in ["repo.search", "API-get-self", "a/b", "read_file", "max_x", &"x".repeat(128)] {
            assert_eq!(map_name(kept), kept);
        }
        assert_eq!(map_name("ns:tool"), "ns_tool_f26061ae");
        for (name, start) in [("my  tool!", "my_tool_"), ("🔥", "tool_"), ("検索 all", "all_"), (" ", "tool_")] {
            assert!(map_name(name).starts_with(start), "{name}: {}", map_name(name));
        }
        assert_eq!((map_name(&long('a')).len(), map_name(&long('b')).len()), (128, 128));
        assert_ne!(map_name(&long('a')), map_name(&long('b')));
        assert_eq!(ToolName::from_foreign(""), Err(NameError::Empty));
        assert_ne!(ToolName::similar_to("ns:tool", 1), ToolName::similar_to("ns:tool", 0));
    }

    #[test]
    fn names_of_earlier_releases_are_known() {
        fn escape(name: &str) -> Option<String> {
            ToolName::escaped(name).map(String::from)
        }

        assert_eq!(escape("API-self").as_deref(), Some("_x41__x50__x49_-self"));
        assert_eq!(escape("max_x").as_deref(), Some("max_x5f_x"));
        assert_eq!(escape(&"A".repeat(13)), None, "it was too long");
    }

    proptest! {
        #[test]
        fn names_of_servers_tools_are_valid_and_distinct(a in "\\PC{1,150}", b in "[a-z_x0-9.: ]{1,8}") {
            let mapped = |name: &str| ToolName::from_foreign(name).unwrap();
            prop_assert!(ToolName::parse(mapped(&a).as_str()).is_ok());
            prop_assume!(a != b);
            prop_assert_ne!(mapped(&a), mapped(&b));
        }
    }
}
