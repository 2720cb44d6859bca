//! A template of the command line of a program, filled in with named arguments.

use serde_json::{Map, Value, json};

use crate::call::error_kind::ErrorKind;
use crate::call::result::CallError;
use crate::tool::definition::ToolDefinition;
use crate::tool::name::ToolName;

/// Maximum number of arguments of a command line.
pub const MAX_ARGS: usize = 256;
/// The argument after which most programs accept no more options.
const END_OF_OPTIONS: &str = "--";

/// How a program is called with named arguments: the definition of its tool, and a template of its command line.
///
/// An argument of the template has `{name}` for each parameter; `{{` and `}}` are braces. It is left out if one of its parameters
/// is missing or null. A list makes one argument for each of its elements. A text that would begin an argument with `-` is
/// refused, because the program would take it for an option, unless the template has `--` before it.
///
/// ```
/// use fumehood_core::tool::command_template::CommandTemplate;
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": {"filter": {"type": "string"}, "compact": {"type": "boolean"}, "input": {"type": "string"}},
///     "required": ["filter", "input"]
/// });
/// let jq = CommandTemplate::new("Filters JSON.", schema)?.option("compact", ["-c"])?.argument("{filter}")?.stdin("{input}")?;
///
/// let input = jq.render(&json!({"filter": ".a", "compact": true, "input": "{}"}))?;
/// assert_eq!(input, json!({"args": ["-c", ".a"], "stdin": "{}"}));
/// assert!(jq.render(&json!({"filter": "--from-file=/secret", "input": ""})).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTemplate {
    name: Option<ToolName>,
    description: String,
    input_schema: Map<String, Value>,
    items: Vec<Item>,
    stdin: Option<Template>,
    output: CommandOutput,
    success: Vec<u8>,
}

/// The form of a program's standard output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CommandOutput {
    /// Text, or bytes if it is not UTF-8.
    #[default]
    Text,
    /// One JSON value, with its schema if there is one.
    Json(Option<Value>),
}

/// The reason for which a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandTemplateError {
    /// A brace has no counterpart, or nothing is between two of them.
    #[error("`{0}` has a brace without its counterpart, or without a name; write `{{{{` and `}}}}` for braces")]
    Brace(String),
    /// A template names a parameter that the schema does not have.
    #[error("`{template}` names the parameter `{parameter}`, which is not among the properties of the arguments: {}", known(.properties))]
    UnknownParameter {
        /// The template.
        template: String,
        /// The parameter.
        parameter: String,
        /// The names of the properties.
        properties: Vec<String>,
    },
    /// The schema does not describe an object with properties.
    #[error(
        "the schema of the arguments has no `properties`; it describes an object with a property for each parameter"
    )]
    Schema,
}

fn known(properties: &[String]) -> String {
    if properties.is_empty() { "there are none".to_owned() } else { properties.join(", ") }
}

/// Arguments of the template that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    /// The parameter without which they are left out, or if it is false.
    when: Option<String>,
    templates: Vec<Template>,
}

/// One argument, or the standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Template {
    source: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Parameter(String),
}

impl CommandTemplate {
    /// Creates a command line without arguments. `input_schema` has a property for each parameter; others are refused unless it
    /// says something else with `additionalProperties`.
    ///
    /// # Errors
    /// If the schema has no properties.
    pub fn new(description: impl Into<String>, input_schema: Value) -> Result<Self, CommandTemplateError> {
        let Value::Object(mut input_schema) = input_schema else { return Err(CommandTemplateError::Schema) };
        if !input_schema.get("properties").is_some_and(Value::is_object) {
            return Err(CommandTemplateError::Schema);
        }
        input_schema.entry("type").or_insert_with(|| json!("object"));
        input_schema.entry("additionalProperties").or_insert(Value::Bool(false));
        Ok(Self {
            name: None,
            description: description.into(),
            input_schema,
            items: Vec::new(),
            stdin: None,
            output: CommandOutput::Text,
            success: vec![0],
        })
    }

    /// Sets the name of the tool, which is `run` otherwise.
    #[must_use]
    pub fn name(mut self, name: ToolName) -> Self {
        self.name = Some(name);
        self
    }

    /// Adds an argument.
    ///
    /// # Errors
    /// If the template is malformed, or names an unknown parameter.
    pub fn argument(mut self, template: &str) -> Result<Self, CommandTemplateError> {
        let template = self.parse(template)?;
        self.items.push(Item { when: None, templates: vec![template] });
        Ok(self)
    }

    /// Adds arguments that are there only if the parameter `when` is: not missing, null, false, or an empty list.
    ///
    /// # Errors
    /// See [`Self::argument`].
    pub fn option<'a>(
        mut self,
        when: &str,
        templates: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, CommandTemplateError> {
        self.check_parameter(when, when)?;
        let templates = templates.into_iter().map(|template| self.parse(template)).collect::<Result<_, _>>()?;
        self.items.push(Item { when: Some(when.to_owned()), templates });
        Ok(self)
    }

    /// Sets the standard input. It is empty if one of its parameters is missing.
    ///
    /// # Errors
    /// See [`Self::argument`].
    pub fn stdin(mut self, template: &str) -> Result<Self, CommandTemplateError> {
        self.stdin = Some(self.parse(template)?);
        Ok(self)
    }

    /// Sets the form of the standard output.
    #[must_use]
    pub fn output(mut self, output: CommandOutput) -> Self {
        self.output = output;
        self
    }

    /// Sets the exit codes that are no failure, such as 0 and 1 for a program that ends with 1 if it found nothing. By default, 0 alone is
    /// none.
    #[must_use]
    pub fn success(mut self, codes: impl IntoIterator<Item = u8>) -> Self {
        self.success = codes.into_iter().collect();
        self
    }

    /// Returns whether the standard output is a JSON value.
    #[must_use]
    pub fn is_json(&self) -> bool {
        matches!(self.output, CommandOutput::Json(_))
    }

    /// Replaces what a definition says of the program's arguments and its result.
    #[must_use]
    pub fn define(&self, definition: ToolDefinition) -> ToolDefinition {
        let output_schema = match &self.output {
            CommandOutput::Json(Some(schema)) => Some(schema.clone().into()),
            CommandOutput::Json(None) | CommandOutput::Text => None,
        };
        ToolDefinition {
            name: self.name.clone().unwrap_or(definition.name),
            description: self.description.as_str().into(),
            input_schema: Value::Object(self.input_schema.clone()).into(),
            output_schema,
            ..definition
        }
    }

    /// Returns the arguments of a program, `{"args": […], "stdin": …}`, for named ones that the schema allows. Exit codes other than 0
    /// that are no failure are in `success`.
    ///
    /// # Errors
    /// If a text would be an option or has a zero byte, or there are too many arguments.
    pub fn render(&self, arguments: &Value) -> Result<Value, CallError> {
        let mut args: Vec<String> = Vec::new();
        let mut may_be_option = true;
        for item in self.items.iter().filter(|item| item.is_wanted(arguments)) {
            for template in &item.templates {
                may_be_option &= template.source != END_OF_OPTIONS;
                args.extend(template.arguments(arguments, may_be_option)?);
            }
        }
        if args.len() > MAX_ARGS {
            let message =
                format!("the command line would have {} arguments; at most {MAX_ARGS} are possible", args.len());
            return Err(CallError::new(ErrorKind::InvalidArguments, message));
        }
        let mut input = Map::from_iter([("args".to_owned(), json!(args))]);
        if let Some(stdin) = self.stdin.as_ref().and_then(|template| template.text(arguments)) {
            input.insert("stdin".to_owned(), stdin.into());
        }
        if self.success != [0] {
            input.insert("success".to_owned(), json!(self.success));
        }
        Ok(input.into())
    }

    /// Returns the template as a line of text, for approvals.
    #[must_use]
    pub fn pin(&self) -> String {
        let items = self.items.iter().map(|item| {
            let args: Vec<&str> = item.templates.iter().map(|template| template.source.as_str()).collect();
            match (&item.when, args.as_slice()) {
                (None, [argument]) => json!(argument).to_string(),
                // Not as an object of the library, whose order depends on a feature.
                (when, args) => format!(r#"{{"when":{},"args":{}}}"#, json!(when), json!(args)),
            }
        });
        let line = items.collect::<Vec<_>>().join(",");
        let stdin = self.stdin.as_ref().map(|stdin| format!(" < {}", json!(stdin.source))).unwrap_or_default();
        let output = if self.is_json() { ", JSON" } else { "" };
        let success = if self.success == [0] { String::new() } else { format!(", success {}", json!(self.success)) };
        format!("command: [{line}]{stdin}{output}{success}")
    }

    fn properties(&self) -> impl Iterator<Item = &String> {
        self.input_schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys)
    }

    fn check_parameter(&self, template: &str, parameter: &str) -> Result<(), CommandTemplateError> {
        if self.properties().any(|property| property == parameter) {
            return Ok(());
        }
        Err(CommandTemplateError::UnknownParameter {
            template: template.to_owned(),
            parameter: parameter.to_owned(),
            properties: self.properties().cloned().collect(),
        })
    }

    fn parse(&self, source: &str) -> Result<Template, CommandTemplateError> {
        let template = Template::parse(source)?;
        for piece in &template.pieces {
            if let Piece::Parameter(parameter) = piece {
                self.check_parameter(source, parameter)?;
            }
        }
        Ok(template)
    }
}

impl Item {
    fn is_wanted(&self, arguments: &Value) -> bool {
        self.when.as_ref().is_none_or(|when| match arguments.get(when) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Array(elements)) => !elements.is_empty(),
            Some(_) => true,
        })
    }
}

impl Template {
    fn parse(source: &str) -> Result<Self, CommandTemplateError> {
        let malformed = || CommandTemplateError::Brace(source.to_owned());
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = source;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            text.push_str(before);
            if let Some(after) = from.strip_prefix("{{") {
                text.push('{');
                rest = after;
            } else if let Some(after) = from.strip_prefix("}}") {
                text.push('}');
                rest = after;
            } else {
                let (name, after) =
                    from.strip_prefix('{').and_then(|from| from.split_once('}')).ok_or_else(malformed)?;
                if name.is_empty() || name.contains('{') {
                    return Err(malformed());
                }
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Parameter(name.to_owned()));
                rest = after;
            }
        }
        text.push_str(rest);
        if !text.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Self { source: source.to_owned(), pieces })
    }

    /// Returns the arguments that this makes: one, one for each element of a list, or none.
    fn arguments(&self, values: &Value, may_be_option: bool) -> Result<Vec<String>, CallError> {
        let mut lists = self.parameters().filter_map(|name| Some((name, values.get(name)?.as_array()?)));
        let list = lists.next();
        if let (Some((one, _)), Some((other, _))) = (list, lists.next()) {
            let message =
                format!("`{one}` and `{other}` are both lists, and stand in one argument of the command line");
            return Err(CallError::new(ErrorKind::InvalidArguments, message));
        }
        let elements: Vec<Option<(&str, &Value)>> = match list {
            Some((name, elements)) => elements.iter().map(|element| Some((name, element))).collect(),
            None => vec![None],
        };
        let filled = elements.into_iter().filter_map(|element| {
            let argument = self.fill(values, element)?;
            Some(self.check(&argument, values, element, may_be_option).map(|()| argument))
        });
        filled.collect()
    }

    /// Refuses zero bytes, and values that a program would take for an option.
    fn check(
        &self,
        argument: &str,
        values: &Value,
        element: Option<(&str, &Value)>,
        may_be_option: bool,
    ) -> Result<(), CallError> {
        let invalid = |message: String| Err(CallError::new(ErrorKind::InvalidArguments, message));
        if argument.contains('\0') {
            return invalid(format!("an argument of the command line, `{}`, would have a zero byte", self.source));
        }
        let Some(Piece::Parameter(first)) = self.pieces.first() else { return Ok(()) };
        // A number has no other meaning, and may be negative.
        let is_number = value_of(first, values, element).is_some_and(Value::is_number);
        if may_be_option && !is_number && argument.starts_with('-') {
            return invalid(format!(
                "`{first}` may not begin with `-`, because the program would take it for an option"
            ));
        }
        Ok(())
    }

    /// Returns the text; `None` if a parameter is missing.
    fn text(&self, values: &Value) -> Option<String> {
        self.fill(values, None)
    }

    /// Returns the text with `element` in place of the list of that name; `None` if a parameter is missing.
    fn fill(&self, values: &Value, element: Option<(&str, &Value)>) -> Option<String> {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Parameter(name) => match value_of(name, values, element)? {
                    Value::Null => return None,
                    Value::String(text) => filled.push_str(text),
                    other => filled.push_str(&other.to_string()),
                },
            }
        }
        Some(filled)
    }

    fn parameters(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Parameter(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }
}

/// Returns the value of a parameter, or the element that stands for its list.
fn value_of<'v>(name: &str, values: &'v Value, element: Option<(&str, &'v Value)>) -> Option<&'v Value> {
    element.filter(|(list, _)| *list == name).map(|(_, element)| element).or_else(|| values.get(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> CommandTemplate {
        let parameters = ["pattern", "files", "limit", "quiet", "input"].map(|name| (name.to_owned(), json!({})));
        CommandTemplate::new("Finds lines.", json!({"properties": Map::from_iter(parameters)})).unwrap()
    }

    fn args(command: &CommandTemplate, arguments: Value) -> Value {
        command.render(&arguments).unwrap()["args"].clone()
    }

    #[test]
    fn arguments_are_filled_in() {
        let grep = command().argument("-n").unwrap().option("quiet", ["-q"]).unwrap();
        let grep = grep.option("limit", ["-m", "{limit}"]).unwrap().argument("--regexp={pattern}").unwrap();
        let grep = grep.argument("{files}").unwrap();
        assert_eq!(args(&grep, json!({"pattern": "-a b\"; {x}"})), json!(["-n", "--regexp=-a b\"; {x}"]));
        assert_eq!(
            args(&grep, json!({"pattern": "a", "files": ["b", "c d"], "limit": 3, "quiet": true})),
            json!(["-n", "-q", "-m", "3", "--regexp=a", "b", "c d"])
        );
        assert_eq!(args(&grep, json!({"quiet": false, "limit": null, "files": []})), json!(["-n"]));
        assert_eq!(args(&grep, json!({"pattern": ["a", "b"]})), json!(["-n", "--regexp=a", "--regexp=b"]));
        assert_eq!(args(&command().argument("{{{limit}}}").unwrap(), json!({"limit": -5})), json!(["{-5}"]));
        assert_eq!(args(&command().argument("{files}").unwrap(), json!({"files": [-1, "a"]})), json!(["-1", "a"]));
        assert_eq!(args(&command().argument("").unwrap(), json!({})), json!([""]));
    }

    #[test]
    fn exit_codes_are_part_of_the_input_and_of_the_pin() {
        let grep = command().success([0, 1]);
        assert_eq!(grep.render(&json!({})).unwrap(), json!({"args": [], "success": [0, 1]}));
        assert_eq!(grep.pin(), "command: [], success [0,1]");
        assert_eq!(command().success([0]), command());
    }

    #[test]
    fn input_is_filled_in() {
        let command = command().stdin("{input}\n").unwrap();
        assert_eq!(command.render(&json!({"input": {"a": 1}})).unwrap(), json!({"args": [], "stdin": "{\"a\":1}\n"}));
        assert_eq!(command.render(&json!({})).unwrap(), json!({"args": []}));
    }

    #[test]
    fn no_value_becomes_an_option() {
        let refused = |command: &CommandTemplate, arguments: Value| {
            let error = command.render(&arguments).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidArguments);
            error.message.as_str().to_owned()
        };
        let plain = command().argument("{pattern}{limit}").unwrap().argument("{files}").unwrap();
        let message = refused(&plain, json!({"pattern": "--file=/x", "limit": 1}));
        assert_eq!(message, "`pattern` may not begin with `-`, because the program would take it for an option");
        // An empty text does not hide the next one.
        refused(&plain, json!({"pattern": "", "limit": "-x"}));
        refused(&plain, json!({"files": ["a", "-x"]}));
        refused(&plain, json!({"files": ["a\u{0}b"]}));
        refused(&plain, json!({"files": vec!["a"; MAX_ARGS + 1]}));
        let ended = command().argument("--").unwrap().argument("{files}").unwrap();
        assert_eq!(args(&ended, json!({"files": ["-x"]})), json!(["--", "-x"]));
        // An omitted `--` does not end the options.
        let optional = command().option("quiet", ["--"]).unwrap().argument("{pattern}").unwrap();
        refused(&optional, json!({"pattern": "-x"}));
        let both = command().argument("{files}={pattern}").unwrap();
        assert!(refused(&both, json!({"files": [], "pattern": []})).contains("are both lists"));
    }

    #[test]
    fn a_malformed_template_is_refused() {
        for template in ["{", "}", "{}", "a{pattern", "{pattern}}", "{a{b}}"] {
            let refused = command().argument(template).unwrap_err();
            assert_eq!(refused, CommandTemplateError::Brace(template.to_owned()), "{template}");
        }
        let unknown = command().stdin("{patern}").unwrap_err().to_string();
        assert!(unknown.starts_with("`{patern}` names the parameter `patern`, which is not among"), "{unknown}");
        assert!(command().option("verbose", ["-v"]).is_err());
        for schema in [json!(true), json!({"type": "object"}), json!({"properties": []})] {
            assert_eq!(CommandTemplate::new("", schema).unwrap_err(), CommandTemplateError::Schema);
        }
    }

    #[test]
    fn the_template_is_pinned() {
        let command = command().argument("{files}").unwrap().option("quiet", ["-q"]).unwrap().stdin("{input}").unwrap();
        assert_eq!(
            command.output(CommandOutput::Json(None)).pin(),
            r#"command: ["{files}",{"when":"quiet","args":["-q"]}] < "{input}", JSON"#
        );
    }
}
