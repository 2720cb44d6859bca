//! Templates of prompts: validation and substitution of their arguments.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Maximum size of an argument, in bytes.
const MAX_ARGUMENT_BYTES: usize = 64 << 10;
/// Maximum size of a text with its arguments, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// An argument of a prompt. Arguments are texts.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// The name.
    pub name: String,
    /// A description for people.
    pub description: String,
    /// True if it has to be given. An optional one that is absent counts as empty.
    pub required: bool,
}

/// Errors in the arguments of a prompt.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("the argument `{0}` is missing; {1}")]
    Missing(String, String),
    #[error("unknown argument `{0}`; {1}")]
    Unknown(String, String),
    #[error("the argument `{0}` is not a string; arguments of prompts are strings")]
    NotText(String),
    #[error("the argument `{0}` has {1} bytes; the maximum is {MAX_ARGUMENT_BYTES}")]
    TooLong(String, usize),
    #[error("with its arguments, the text has more than {MAX_TEXT_BYTES} bytes; use shorter arguments")]
    TooMuch,
}

/// Returns the arguments by their names. Optional ones that are absent are empty.
pub(crate) fn bind_arguments<'a>(
    parameters: &'a [Parameter],
    given: &'a Map<String, Value>,
) -> Result<BTreeMap<&'a str, &'a str>, TemplateError> {
    if let Some(name) = given.keys().find(|name| !parameters.iter().any(|it| it.name == **name)) {
        let name = fumehood_core::text::sanitize::printable(name).chars().take(80).collect();
        return Err(TemplateError::Unknown(name, describe_parameters(parameters)));
    }
    let mut arguments = BTreeMap::new();
    for Parameter { name, required, .. } in parameters {
        let text = match given.get(name) {
            Some(Value::String(text)) if text.len() > MAX_ARGUMENT_BYTES => {
                return Err(TemplateError::TooLong(name.clone(), text.len()));
            }
            Some(Value::String(text)) => text.as_str(),
            Some(_) => return Err(TemplateError::NotText(name.clone())),
            None if *required => return Err(TemplateError::Missing(name.clone(), describe_parameters(parameters))),
            None => "",
        };
        arguments.insert(name.as_str(), text);
    }
    Ok(arguments)
}

fn describe_parameters(parameters: &[Parameter]) -> String {
    if parameters.is_empty() {
        return "the prompt has no arguments".to_owned();
    }
    let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    format!("the prompt has: {}", names.join(", "))
}

/// Returns the text with `{NAME}` replaced by the argument of that name. Braces around anything else are left alone,
/// and so are those in an argument.
pub(crate) fn fill(text: &str, arguments: &BTreeMap<&str, &str>) -> Result<String, TemplateError> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let argument = after.split_once('}').and_then(|(name, after)| Some((arguments.get(name)?, after)));
        rest = match argument {
            Some((argument, after)) => {
                filled.push_str(argument);
                after
            }
            None => {
                filled.push('{');
                after
            }
        };
        if filled.len() > MAX_TEXT_BYTES {
            return Err(TemplateError::TooMuch);
        }
    }
    filled.push_str(rest);
    if filled.len() > MAX_TEXT_BYTES { Err(TemplateError::TooMuch) } else { Ok(filled) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parameter(name: &str, required: bool) -> Parameter {
        Parameter { name: name.to_owned(), description: String::new(), required }
    }

    fn parameters() -> Vec<Parameter> {
        vec![parameter("a", true), parameter("b", false)]
    }

    fn check(text: &str, given: Value, expected: &str) {
        let parameters = parameters();
        let given = given.as_object().unwrap().clone();
        let found = bind_arguments(&parameters, &given).and_then(|arguments| fill(text, &arguments));
        assert_eq!(found.unwrap_or_else(|error| error.to_string()), expected, "{text:?} {given:?}");
    }

    #[test]
    fn substitutes_arguments_once() {
        check("{a}, {b}!", json!({"a": "x", "b": "y"}), "x, y!");
        check("{a}, {b}!", json!({"a": "{b}", "b": "{a}"}), "{b}, {a}!");
        check("{a}{b}{a}", json!({"a": "x"}), "xx");
        check("no arguments", json!({"a": "x"}), "no arguments");
        check("{\"c\": {a}} {c} { {b", json!({"a": "x"}), "{\"c\": x} {c} { {b");
        check("{{a}}", json!({"a": "x"}), "{x}");
    }

    #[test]
    fn rejects_invalid_arguments() {
        check("", json!({}), "the argument `a` is missing; the prompt has: a, b");
        check("", json!({"a": "", "c": ""}), "unknown argument `c`; the prompt has: a, b");
        check("", json!({"a": 1}), "the argument `a` is not a string; arguments of prompts are strings");
        let long = "x".repeat(64 << 10);
        check("{b}", json!({"a": long}), "");
        let longer = format!("{long}x");
        check("", json!({"a": longer}), "the argument `a` has 65537 bytes; the maximum is 65536");
        let too_much = "with its arguments, the text has more than 1048576 bytes; use shorter arguments";
        check(&"{a}".repeat(17), json!({"a": long}), too_much);
        check(&format!("{{b}}{}", "x".repeat((1 << 20) + 1)), json!({"a": ""}), too_much);
    }
}
