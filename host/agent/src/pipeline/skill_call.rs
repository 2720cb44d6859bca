//! Calls of skills that no model runs: made of a message, and their results as answers.

use fumehood_core::call::content::Content;
use fumehood_core::call::limits::display_bytes;
use fumehood_core::call::result::CallResult;
use fumehood_core::chat::ToolIntent;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::allowlist::Implementation;
use super::batch::Batch;
use super::config::PipelineConfig;
use crate::code::RUN_CODE;
use crate::executor::Scope;
use crate::run_settings::{RunSettings, SkillCall};
use crate::truncate::describe_blob;

impl PipelineConfig {
    /// Returns the settings of a run of this message within this scope.
    pub(super) fn run_settings(&self, message: &str, scope: &Scope) -> RunSettings {
        let skill = scope.skill.as_ref();
        let actor = scope.actor.as_deref();
        let envelope = scope.envelope.as_deref();
        let found = self.allowlists.find_skill(skill);
        RunSettings {
            call: found.and_then(|skill| skill.implementation()).map(|by| self.skill_call(by, message)),
            output: found.and_then(|skill| skill.output()).cloned(),
            replay_freshness: self.allowlists.replay_freshness(skill, actor, envelope, self.clock.now()),
        }
    }

    /// Returns the call of an implementation with this message as its input.
    fn skill_call(&self, implementation: &Implementation, message: &str) -> SkillCall {
        let (name, arguments) = match implementation {
            Implementation::Tool(name) => (name.as_str(), self.tool_arguments(name, message)),
            Implementation::Program { code, .. } => (RUN_CODE, self.program_arguments(code, message)),
        };
        let (arguments, refused) = match arguments {
            Ok(arguments) => (arguments, None),
            Err(problem) => (message.to_owned(), Some(problem)),
        };
        SkillCall { intent: ToolIntent { id: String::new(), name: name.to_owned(), arguments }, refused }
    }

    fn tool_arguments(&self, name: &str, message: &str) -> Result<String, String> {
        if is_object(message) {
            // The gate says what is wrong with it.
            return Ok(message.trim().to_owned());
        }
        // A tool that is gone is refused as one that does not exist.
        let Some(found) = self.registry.find(name) else { return Ok("{}".to_owned()) };
        match text_property(found.tool.input_schema()) {
            Some(property) => Ok(json!({ property: message }).to_string()),
            None => Err(format!(
                "the tool '{name}' takes more than one text; give its arguments as a JSON object, such as {}",
                example(found.tool.input_schema())
            )),
        }
    }

    fn program_arguments(&self, code: &str, message: &str) -> Result<String, String> {
        let input = if is_object(message) {
            serde_json::from_str(message)
                .map_err(|error| format!("the input starts with `{{`, but is not a JSON object: {error}"))?
        } else {
            Value::from(message)
        };
        // As a string that is parsed: in an object literal, `__proto__` would not be a name like any other.
        let text = Value::from(input.to_string());
        let code = format!("const input = JSON.parse({text}); {code}");
        let limit = self.code.as_ref().map_or(usize::MAX, |config| config.mode.limits.code);
        if code.len() > limit {
            let found = display_bytes(code.len() as u64);
            let limit = display_bytes(limit as u64);
            return Err(format!("the program and its input have {found}; the maximum is {limit}"));
        }
        Ok(json!({ "code": code }).to_string())
    }
}

impl Batch<'_> {
    /// Returns whether no model runs the skill, so that nothing has to be shown before it is called.
    pub(super) fn is_of_implementation(&self) -> bool {
        self.allowed.implementation.is_some()
    }

    /// Returns the name of the only call that may be made directly, if no model runs the skill.
    pub(super) fn skill_call(&self) -> Option<&str> {
        match self.allowed.implementation.as_ref().filter(|_| !self.is_program())? {
            Implementation::Tool(name) => Some(name),
            Implementation::Program { .. } => Some(RUN_CODE),
        }
    }
}

/// Returns the result of the call of a skill as its answer: all parts as text, and of a program the value that it
/// returned.
pub(super) fn answer(result: &CallResult, is_program: bool) -> String {
    let returned = if is_program { returned_value(result.content()) } else { None };
    let parts = returned.as_ref().map_or(result.content(), std::slice::from_ref);
    let texts = parts.iter().map(|part| match part {
        Content::Text { text } => text.to_sanitized().into_owned(),
        Content::Json { value } => value.to_sanitized().into_owned(),
        part => describe_blob(part).unwrap_or_default(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the value in what a model would get from a program.
fn returned_value(parts: &[Content]) -> Option<Content> {
    #[derive(Deserialize)]
    struct ProgramReturn {
        result: Box<RawValue>,
    }
    let [Content::Json { value }] = parts else { return None };
    let returned: ProgramReturn = value.read().ok()?;
    match serde_json::from_str::<String>(returned.result.get()) {
        Ok(text) => Some(Content::text(text)),
        Err(_) => Content::json(returned.result.get().to_owned()).ok(),
    }
}

fn is_object(message: &str) -> bool {
    message.trim_start().starts_with('{')
}

/// Returns the property that takes a text: the only required one, or the only one, if it is a string.
fn text_property(schema: &Value) -> Option<&str> {
    let properties = schema.get("properties")?.as_object()?;
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let name = match required {
        [only] => only.as_str()?,
        [] if properties.len() == 1 => properties.keys().next()?,
        _ => return None,
    };
    let is_string = properties.get(name)?.get("type").is_some_and(|kind| kind == "string");
    is_string.then_some(name)
}

/// Returns the names of the properties in the form of an object.
fn example(schema: &Value) -> String {
    let properties = schema.get("properties").and_then(Value::as_object);
    let names = properties.into_iter().flat_map(|properties| properties.keys());
    let members: Vec<String> = names.take(5).map(|name| format!("{}: …", Value::from(name.as_str()))).collect();
    format!("{{{}}}", members.join(", "))
}
