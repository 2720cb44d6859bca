//! What a tool says about itself, checked.

use serde::Serialize;
use serde_json::Value;

use crate::name::{NameError, ToolName};
use crate::untrusted::{Untrusted, expose_raw};

/// Caps on what a component may say about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefinitionLimits {
    /// Most tools in one component.
    pub tools: usize,
    /// Longest title, in bytes.
    pub title_bytes: usize,
    /// Longest description, in bytes.
    pub description_bytes: usize,
    /// Longest schema text, in bytes.
    pub schema_bytes: usize,
}

impl Default for DefinitionLimits {
    fn default() -> Self {
        Self { tools: 64, title_bytes: 256, description_bytes: 4 << 10, schema_bytes: 64 << 10 }
    }
}

/// What a tool promises about its effects. `None` means that it does not say; then assume the worst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Annotations {
    /// It changes nothing outside itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It may remove or overwrite what cannot be brought back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Calling it again with the same arguments has no further effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// It reaches things beyond what its arguments name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

/// One tool, as it is shown to a model and to people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolDefinition {
    /// Its name within the component.
    pub name: ToolName,
    /// What it is called in the component itself, if that is not the name: for a typed export, such as
    /// `example:greeter/greet@0.1.0#hello`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub export: Option<Untrusted<String>>,
    /// A short name for people.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub title: Option<Untrusted<String>>,
    /// What it does and when to use it.
    #[serde(serialize_with = "expose_raw")]
    pub description: Untrusted<String>,
    /// JSON Schema (2020-12) of the arguments, as the tool wrote it.
    #[serde(serialize_with = "expose_raw")]
    pub input_schema: Untrusted<Value>,
    /// JSON Schema of the `json` part of a successful result, if it has one.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub output_schema: Option<Untrusted<Value>>,
    /// What it promises about its effects.
    pub annotations: Annotations,
}

/// A tool before any of its texts was looked at.
#[derive(Debug, Clone, Default)]
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
    pub annotations: Annotations,
}

/// Why a component's description of its tools is refused.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// It describes nothing.
    #[error("the component describes no tools; `describe` must return at least one")]
    NoTools,
    /// It describes too many.
    #[error("the component describes {found} tools; at most {limit} are accepted")]
    TooManyTools {
        /// How many.
        found: usize,
        /// How many are accepted.
        limit: usize,
    },
    /// A name is no name.
    #[error("a tool of the component has a bad name")]
    Name(#[from] NameError),
    /// Two names are the same once folded.
    #[error("the tools `{0}` and `{1}` have the same name when `-` and `_` are taken for one; rename one of them")]
    SameName(ToolName, ToolName),
    /// A text is over its cap.
    #[error("the {what} of the tool `{tool}` is {found} bytes long; at most {limit} are accepted")]
    TooLong {
        /// Which tool.
        tool: ToolName,
        /// Which of its texts.
        what: &'static str,
        /// How long it is.
        found: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A schema is not JSON.
    #[error("the {what} of the tool `{tool}` is not JSON")]
    NotJson {
        /// Which tool.
        tool: ToolName,
        /// Which of its schemas.
        what: &'static str,
        /// Where the text breaks.
        source: serde_json::Error,
    },
}

impl ToolDefinition {
    /// Characters in all that the tool says about itself, schemas included, that a reader would not see or that a terminal
    /// would act on. Wherever it is shown to a person or a model, they are written out. See [`crate::sanitize`].
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        let texts = [self.export.as_ref(), self.title.as_ref(), Some(&self.description)];
        let schemas = [Some(&self.input_schema), self.output_schema.as_ref()];
        let of_texts = texts.into_iter().flatten().map(Untrusted::<String>::hidden_chars).sum::<u64>();
        of_texts + schemas.into_iter().flatten().map(Untrusted::<Value>::hidden_chars).sum::<u64>()
    }
}

impl RawDefinition {
    /// Checks the texts against their caps and reads the schemas. Whether a schema is acceptable is for
    /// [`crate::gate`] to say.
    ///
    /// # Errors
    /// If the name is no name, a text is over its cap, or a schema is not JSON.
    pub fn parse(self, limits: &DefinitionLimits) -> Result<ToolDefinition, DefinitionError> {
        let tool = ToolName::parse(&self.name)?;
        let fits = |what, text: Option<&str>, limit| match text.map_or(0, str::len) {
            found if found > limit => Err(DefinitionError::TooLong { tool: tool.clone(), what, found, limit }),
            _ => Ok(()),
        };
        fits("title", self.title.as_deref(), limits.title_bytes)?;
        fits("description", Some(&self.description), limits.description_bytes)?;
        fits("input schema", Some(&self.input_schema), limits.schema_bytes)?;
        fits("output schema", self.output_schema.as_deref(), limits.schema_bytes)?;
        let read = |what, text: &str| {
            let schema = serde_json::from_str::<Value>(text).map(Untrusted::new);
            schema.map_err(|source| DefinitionError::NotJson { tool: tool.clone(), what, source })
        };
        Ok(ToolDefinition {
            input_schema: read("input schema", &self.input_schema)?,
            output_schema: self.output_schema.as_deref().map(|text| read("output schema", text)).transpose()?,
            name: tool,
            export: None,
            title: self.title.map(Untrusted::new),
            description: self.description.into(),
            annotations: self.annotations,
        })
    }
}

/// Checks what only shows when all the tools of a component are seen together.
///
/// # Errors
/// If there are none, too many, or two of the same folded name.
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
    fn texts_are_held_to_their_caps() {
        check(raw("a"), "ok");
        check(raw("A"), "bad name");
        check(RawDefinition { description: "d".repeat(4096), ..raw("a") }, "ok");
        check(RawDefinition { description: "d".repeat(4097), ..raw("a") }, "description of the tool `a` is 4097 bytes");
        check(RawDefinition { title: Some("t".repeat(257)), ..raw("a") }, "title of the tool `a` is 257");
        check(RawDefinition { input_schema: " ".repeat(65_537), ..raw("a") }, "input schema of the tool `a` is 65537");
        check(RawDefinition { input_schema: "{".to_owned(), ..raw("a") }, "input schema of the tool `a` is not JSON");
        check(RawDefinition { output_schema: Some(String::new()), ..raw("a") }, "output schema of the tool `a` is not");
    }

    #[test]
    fn what_is_hidden_in_a_definition_is_counted_wherever_it_is() {
        let check = |raw: RawDefinition, expected: u64| {
            assert_eq!(raw.parse(&DefinitionLimits::default()).unwrap().hidden_chars(), expected);
        };
        let schema = r#"{"properties":{"a\u200b":{"enum":["\u202e",1]}}}"#.to_owned();
        check(raw("a"), 0);
        check(RawDefinition { description: "plain\ttext\n".to_owned(), ..raw("a") }, 0);
        check(RawDefinition { description: "\u{1b}[1m \u{e0041}".to_owned(), ..raw("a") }, 2);
        check(RawDefinition { title: Some("\u{feff}".to_owned()), ..raw("a") }, 1);
        check(RawDefinition { input_schema: schema.clone(), ..raw("a") }, 2);
        check(RawDefinition { output_schema: Some(schema), ..raw("a") }, 2);
    }

    #[test]
    fn a_set_of_tools_has_distinct_folded_names() {
        let check = |names: &[&str], expected: &str| {
            let names: Vec<_> = names.iter().map(|name| ToolName::parse(name).unwrap()).collect();
            let found = match check_set(names.iter(), &DefinitionLimits::default()) {
                Ok(()) => "ok".to_owned(),
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{found}");
        };
        check(&["a", "b"], "ok");
        check(&[], "no tools");
        check(&["read-file", "read_file"], "same name");
        check(&["a"; 65], "describes 65 tools");
    }
}
