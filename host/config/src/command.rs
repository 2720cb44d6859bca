//! `[tools.NAME.command]`: the named arguments of a program, as they are written.

use fumehood_core::tool::command_template::{CommandOutput, CommandTemplate};
use fumehood_core::tool::name::ToolName;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::json::SettingError;

/// The named arguments of a program, and the command line that they make.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSection {
    /// The name of its tool. Default: "run".
    pub name: Option<String>,
    /// The description of its tool, for the model.
    pub description: String,
    /// The JSON Schema of the arguments: an object with `properties`.
    pub arguments: Map<String, Value>,
    /// The command line without the program's name. `{name}` is a parameter; an argument without one of its parameters is left out,
    /// and a list makes an argument for each element. `{ when = "name", args = […] }` is left out unless the parameter is there and
    /// not false. A value never becomes an option: it may not begin an argument with `-`, unless `--` stands before it.
    #[serde(default)]
    pub line: Vec<CommandItem>,
    /// The standard input, such as "{input}". Default: empty.
    pub stdin: Option<String>,
    /// The form of the standard output: "text" (default), or "json" for one JSON value.
    #[serde(default)]
    pub output: CommandOutputForm,
    /// The JSON Schema of the output, if it is "json".
    pub output_schema: Option<Map<String, Value>>,
    /// The exit codes that are no failure, such as [0, 1] for a program that ends with 1 if it found nothing. Default: [0].
    pub success: Option<Vec<u8>>,
}

/// The form of a program's standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandOutputForm {
    /// Text, or bytes if it is not UTF-8.
    #[default]
    Text,
    /// One JSON value.
    Json,
}

/// Arguments that are there only if a parameter is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandOption {
    /// The parameter that decides: without it, or if it is null, false or an empty list, the arguments are left out.
    pub when: String,
    /// The arguments, with `{name}` for parameters.
    pub args: Vec<String>,
}

/// An argument of a command line, or a table of those that are there only if a parameter is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CommandItem {
    /// One argument.
    Argument(String),
    /// Arguments that are there only if a parameter is.
    Option(CommandOption),
}

/// A visitor for either form. Unlike the one that serde derives, it reports the error of a table.
struct EitherForm;

impl<'de> serde::de::Visitor<'de> for EitherForm {
    type Value = CommandItem;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string, or a table with `when` and `args`")
    }

    fn visit_str<E>(self, text: &str) -> Result<CommandItem, E> {
        Ok(CommandItem::Argument(text.to_owned()))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<CommandItem, A::Error> {
        CommandOption::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(CommandItem::Option)
    }
}

impl<'de> Deserialize<'de> for CommandItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EitherForm)
    }
}

impl CommandSection {
    /// Returns the command line.
    ///
    /// # Errors
    /// If a template or the name cannot be used: the key, and the reason.
    pub fn template(&self) -> Result<CommandTemplate, SettingError> {
        let schema = Value::Object(self.arguments.clone());
        let command = CommandTemplate::new(&self.description, schema);
        let mut command = command.map_err(|error| SettingError::new("arguments", error))?.output(self.output()?);
        if let Some(name) = &self.name {
            command = command.name(ToolName::for_component(name).map_err(|error| SettingError::new("name", error))?);
        }
        if let Some(codes) = &self.success {
            command = command.success(codes.iter().copied());
        }
        for item in &self.line {
            let with_item = match item {
                CommandItem::Argument(template) => command.argument(template),
                CommandItem::Option(CommandOption { when, args }) => {
                    command.option(when, args.iter().map(String::as_str))
                }
            };
            command = with_item.map_err(|error| SettingError::new("line", error))?;
        }
        match &self.stdin {
            Some(template) => command.stdin(template).map_err(|error| SettingError::new("stdin", error)),
            None => Ok(command),
        }
    }

    fn output(&self) -> Result<CommandOutput, SettingError> {
        match (self.output, &self.output_schema) {
            (CommandOutputForm::Json, schema) => Ok(CommandOutput::Json(schema.clone().map(Value::Object))),
            (CommandOutputForm::Text, None) => Ok(CommandOutput::Text),
            (CommandOutputForm::Text, Some(_)) => Err(SettingError::new(
                "output_schema",
                "only JSON has a schema; add `output = \"json\"`, or leave it out",
            )),
        }
    }
}
