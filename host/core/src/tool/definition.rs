//! Definitions of tools, as components provide them, and their validation.

use serde::Serialize;
use serde_json::Value;

use crate::text::untrusted::{Untrusted, expose_raw};
use crate::tool::name::{NameError, ToolName};

/// Limits on the definitions of one component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct DefinitionLimits {
    /// Maximum number of tools in one component.
    pub tools: usize,
    /// Maximum length of a title, in bytes.
    pub title_bytes: usize,
    /// Maximum length of a description, in bytes.
    pub description_bytes: usize,
    /// Maximum length of all descriptions together, in bytes.
    pub descriptions_bytes: usize,
    /// Maximum length of the text of a schema, in bytes.
    pub schema_bytes: usize,
}

impl Default for DefinitionLimits {
    fn default() -> Self {
        Self {
            tools: 64,
            title_bytes: 256,
            description_bytes: 16 << 10,
            descriptions_bytes: 256 << 10,
            schema_bytes: 64 << 10,
        }
    }
}

/// Declared effects of a tool. `None` is undeclared: assume the worst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Annotations {
    /// True if the tool changes nothing outside itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// True if the tool may remove or overwrite data irrecoverably.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// True if calling the tool again with the same arguments has no further effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// True if the tool interacts with entities beyond those that its arguments name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

/// A validated definition of one tool, as models and people see it.
///
/// ```
/// use fumehood_core::tool::definition::{Annotations, DefinitionError, DefinitionLimits, RawDefinition};
///
/// let definition = RawDefinition {
///     name: "count".to_owned(),
///     description: "Counts the words of a text.".to_owned(),
///     input_schema: r#"{"type": "object", "properties": {"text": {"type": "string"}}}"#.to_owned(),
///     annotations: Annotations { read_only: Some(true), ..Annotations::default() },
///     ..RawDefinition::default()
/// };
/// let definition = definition.parse(&DefinitionLimits::default())?;
/// assert_eq!(definition.name.as_str(), "count");
/// // Texts come from the author of the tool.
/// assert_eq!(definition.description.to_sanitized(), "Counts the words of a text.");
/// # Ok::<(), DefinitionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolDefinition {
    /// The name within the component.
    pub name: ToolName,
    /// The name of the export in the component, if it differs from `name`: that of a typed export, such as
    /// `example:greeter/greet@0.1.0#hello`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub export: Option<Untrusted<String>>,
    /// A short display name.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub title: Option<Untrusted<String>>,
    /// A description of what the tool does and when to use it.
    #[serde(serialize_with = "expose_raw")]
    pub description: Untrusted<String>,
    /// JSON Schema (2020-12) of the arguments, as the tool wrote it.
    #[serde(serialize_with = "expose_raw")]
    pub input_schema: Untrusted<Value>,
    /// JSON Schema (2020-12) of the `json` part of a successful result, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub output_schema: Option<Untrusted<Value>>,
    /// The declared effects.
    pub annotations: Annotations,
    /// Members of an MCP server's definition that its clients use, and models do not: `title` (that of the annotations),
    /// `icons` and `_meta`. An object.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub mcp_members: Option<Untrusted<Value>>,
}

/// An unvalidated definition of one tool.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct RawDefinition {
    /// See [`ToolDefinition::name`].
    pub name: String,
    /// See [`ToolDefinition::title`].
    pub title: Option<String>,
    /// See [`ToolDefinition::description`].
    pub description: String,
    /// The text of the schema of the arguments.
    pub input_schema: String,
    /// The text of the schema of the result.
    pub output_schema: Option<String>,
    /// See [`ToolDefinition::annotations`].
    #[cfg_attr(feature = "wire", serde(with = "annotations_wire"))]
    pub annotations: Annotations,
}

/// Annotations in messages: all four. Their JSON leaves out what is undeclared, and a format without names cannot.
#[cfg(feature = "wire")]
mod annotations_wire {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Annotations;

    pub(super) fn serialize<S: Serializer>(annotations: &Annotations, serializer: S) -> Result<S::Ok, S::Error> {
        let Annotations { read_only, destructive, idempotent, open_world } = *annotations;
        [read_only, destructive, idempotent, open_world].serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Annotations, D::Error> {
        let [read_only, destructive, idempotent, open_world] = Deserialize::deserialize(deserializer)?;
        Ok(Annotations { read_only, destructive, idempotent, open_world })
    }
}

/// Errors in the definitions of a component.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The component describes no tools.
    #[error("the component describes no tools; `describe` must return at least one")]
    NoTools,
    /// The component describes too many tools.
    #[error("the component describes {found} tools; at most {limit} are accepted")]
    TooManyTools {
        /// The number of tools.
        found: usize,
        /// The maximum number.
        limit: usize,
    },
    /// The name of a tool is invalid.
    #[error("a tool of the component has an invalid name")]
    Name(#[from] NameError),
    /// Two names are equal once folded, see [`ToolName::folded`].
    #[error("the tools `{0}` and `{1}` have the same name, because `-` and `_` count as equal; rename one of them")]
    SameName(ToolName, ToolName),
    /// A text exceeds its limit.
    #[error("the {what} of the tool `{tool}` has {found} bytes; the maximum is {limit}: shorten it")]
    TooLong {
        /// The tool.
        tool: ToolName,
        /// The text: `title`, `description`, `input schema` or `output schema`.
        what: &'static str,
        /// The length, in bytes.
        found: usize,
        /// The maximum length, in bytes.
        limit: usize,
    },
    /// All descriptions together exceed their limit.
    #[error("the descriptions of all tools have {found} bytes together; the maximum is {limit}")]
    TooMuchText {
        /// The length, in bytes.
        found: usize,
        /// The maximum length, in bytes.
        limit: usize,
    },
    /// A schema is not valid JSON.
    #[error("the {what} of the tool `{tool}` is not JSON")]
    NotJson {
        /// The tool.
        tool: ToolName,
        /// The schema: `input schema` or `output schema`.
        what: &'static str,
        /// The syntax error.
        source: serde_json::Error,
    },
}

impl ToolDefinition {
    /// Returns the number of characters in all texts of the definition, schemas included, that a reader would not see
    /// or that a terminal would act on. They are escaped wherever the definition is shown to a person or a model. See
    /// [`crate::text::sanitize`].
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        let texts = [self.export.as_ref(), self.title.as_ref(), Some(&self.description)];
        let schemas = [Some(&self.input_schema), self.output_schema.as_ref(), self.mcp_members.as_ref()];
        let of_texts = texts.into_iter().flatten().map(Untrusted::<String>::hidden_chars).sum::<u64>();
        of_texts + schemas.into_iter().flatten().map(Untrusted::<Value>::hidden_chars).sum::<u64>()
    }
}

impl RawDefinition {
    /// Checks the texts against their limits and parses the schemas.
    ///
    /// [`crate::schema::gate`] decides whether a schema is acceptable.
    ///
    /// # Errors
    /// If the name is invalid, a text exceeds its limit, or a schema is not valid JSON.
    pub fn parse(self, limits: &DefinitionLimits) -> Result<ToolDefinition, DefinitionError> {
        let tool = ToolName::for_component(&self.name)?;
        let texts = [
            ("title", self.title.as_deref(), limits.title_bytes),
            ("description", Some(self.description.as_str()), limits.description_bytes),
            ("input schema", Some(self.input_schema.as_str()), limits.schema_bytes),
            ("output schema", self.output_schema.as_deref(), limits.schema_bytes),
        ];
        for (what, text, limit) in texts {
            let found = text.map_or(0, str::len);
            if found > limit {
                return Err(DefinitionError::TooLong { tool, what, found, limit });
            }
        }
        let output_schema = self.output_schema.as_deref();
        Ok(ToolDefinition {
            input_schema: parse_schema(&tool, "input schema", &self.input_schema)?,
            output_schema: output_schema.map(|text| parse_schema(&tool, "output schema", text)).transpose()?,
            name: tool,
            export: None,
            title: self.title.map(Untrusted::new),
            description: self.description.into(),
            annotations: self.annotations,
            mcp_members: None,
        })
    }
}

fn parse_schema(tool: &ToolName, what: &'static str, text: &str) -> Result<Untrusted<Value>, DefinitionError> {
    let schema = serde_json::from_str::<Value>(text).map(Untrusted::new);
    schema.map_err(|source| DefinitionError::NotJson { tool: tool.clone(), what, source })
}

/// Checks the length of all descriptions of a component together.
///
/// # Errors
/// If it exceeds its limit.
pub fn check_descriptions(definitions: &[ToolDefinition], limits: &DefinitionLimits) -> Result<(), DefinitionError> {
    let found = definitions.iter().map(|definition| definition.description.len()).sum();
    if found > limits.descriptions_bytes {
        return Err(DefinitionError::TooMuchText { found, limit: limits.descriptions_bytes });
    }
    Ok(())
}

/// Checks the rules that concern the names of all tools of a component together.
///
/// # Errors
/// If there are no tools, too many, or two with the same folded name.
pub fn check_set<'a>(
    tools: impl ExactSizeIterator<Item = &'a ToolName>,
    limits: &DefinitionLimits,
) -> Result<(), DefinitionError> {
    let found = tools.len();
    if found == 0 {
        return Err(DefinitionError::NoTools);
    }
    if found > limits.tools {
        return Err(DefinitionError::TooManyTools { found, limit: limits.tools });
    }
    let mut seen = std::collections::HashMap::new();
    for tool in tools {
        if let Some(first) = seen.insert(tool.folded(), tool) {
            return Err(DefinitionError::SameName(first.clone(), tool.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(name: &str) -> RawDefinition {
        RawDefinition { name: name.to_owned(), input_schema: "{}".to_owned(), ..RawDefinition::default() }
    }

    fn check(raw: RawDefinition, expected: &str) {
        let found = match raw.parse(&DefinitionLimits::default()) {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn rejects_texts_over_their_limits() {
        check(raw("a"), "ok");
        check(raw("A"), "invalid name");
        check(RawDefinition { description: "d".repeat(16_384), ..raw("a") }, "ok");
        let long = RawDefinition { description: "d".repeat(16_385), ..raw("a") };
        check(long, "description of the tool `a` has 16385 bytes");
        check(RawDefinition { title: Some("t".repeat(257)), ..raw("a") }, "title of the tool `a` has 257");
        check(RawDefinition { input_schema: " ".repeat(65_537), ..raw("a") }, "input schema of the tool `a` has 65537");
        check(RawDefinition { input_schema: "{".to_owned(), ..raw("a") }, "input schema of the tool `a` is not JSON");
        check(RawDefinition { output_schema: Some(String::new()), ..raw("a") }, "output schema of the tool `a` is not");
    }

    #[test]
    fn descriptions_share_a_limit() {
        let limits = DefinitionLimits::default();
        let definition = RawDefinition { description: "d".repeat(16_384), ..raw("a") }.parse(&limits).unwrap();
        let check = |count: usize| check_descriptions(&vec![definition.clone(); count], &limits);
        assert!(check(16).is_ok());
        assert!(check(17).unwrap_err().to_string().contains("278528 bytes together; the maximum is 262144"));
    }

    #[test]
    fn counts_hidden_characters_in_all_texts() {
        fn check(raw: RawDefinition, expected: u64) {
            assert_eq!(raw.parse(&DefinitionLimits::default()).unwrap().hidden_chars(), expected);
        }

        let schema = r#"{"properties":{"a\u200b":{"enum":["\u202e",1]}}}"#.to_owned();
        check(raw("a"), 0);
        check(RawDefinition { description: "plain\ttext\n".to_owned(), ..raw("a") }, 0);
        check(RawDefinition { description: "\u{1b}[1m \u{e0041}".to_owned(), ..raw("a") }, 2);
        check(RawDefinition { title: Some("\u{feff}".to_owned()), ..raw("a") }, 1);
        check(RawDefinition { input_schema: schema.clone(), ..raw("a") }, 2);
        check(RawDefinition { output_schema: Some(schema), ..raw("a") }, 2);
    }

    #[test]
    fn rejects_tools_with_equal_folded_names() {
        fn check(names: &[&str], expected: &str) {
            let names: Vec<_> = names.iter().map(|name| ToolName::parse(name).unwrap()).collect();
            let found = match check_set(names.iter(), &DefinitionLimits::default()) {
                Ok(()) => "ok".to_owned(),
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{found}");
        }

        check(&["a", "b"], "ok");
        check(&[], "no tools");
        check(&["read-file", "read_file"], "same name");
        check(&["a"; 65], "describes 65 tools");
    }
}
