//! Decisions of a model: extracted from a reply, then validated.

use fumehood_core::call::content::JsonText;
use fumehood_core::chat::{Response, ToolSpec};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::drivers::recover::{Closing, recover, strip_thoughts};
use crate::drivers::render::format_json;
use crate::names::{did_you_mean, resolve, suggestions};

/// The fields of a decision, not validated. An object with a duplicate field is no decision.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RawDecision {
    #[serde(default)]
    thought: Option<Box<RawValue>>,
    #[serde(default, rename = "type")]
    kind: Value,
    #[serde(default)]
    tool: Value,
    #[serde(default)]
    args: Option<Box<RawValue>>,
    #[serde(default)]
    answer: Option<Box<RawValue>>,
}

/// A validated decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReactDecision {
    /// The model's reason. May be empty.
    pub(super) thought: String,
    pub(super) next: NextAction,
}

/// The action of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextAction {
    /// A call of a tool.
    Call {
        /// The full name of the tool.
        tool: String,
        /// The arguments: the text of a JSON object, as the model wrote it.
        args: String,
    },
    /// The final answer.
    Answer(String),
}

impl RawDecision {
    /// Extracts the fields from a reply.
    ///
    /// # Errors
    /// If the reply has no such object, with a message for the model.
    pub(super) fn extract(response: &Response) -> Result<Self, String> {
        let text = strip_thoughts(response.reply.text());
        let found =
            recover(text, Closing::from(response.stop)).map_err(|error| format!("No decision found: {error}."))?;
        // Serde would read an array of five as the five fields.
        if !found.json.expose_raw().starts_with('{') {
            return Err("No decision found: a decision is one JSON object.".to_owned());
        }
        found.json.read().map_err(|error| format!("No decision found: the object is not as it must be: {error}."))
    }

    /// Returns the model's reason. May be empty.
    pub(super) fn thought(&self) -> String {
        field_text(self.thought.as_deref())
    }

    /// Validates the decision.
    ///
    /// # Errors
    /// If it breaks a rule, with the rule as a message for the model.
    pub(super) fn validate(&self, tools: &[ToolSpec]) -> Result<ReactDecision, String> {
        let next = match self.kind.as_str() {
            Some("call_tool") => self.validate_call(&self.tool, tools)?,
            Some("final_answer") => self.validate_answer()?,
            _ => match self.find_misplaced_name(tools) {
                Some(name) => self.validate_call(name, tools)?,
                None => return Err("Decision type must be call_tool or final_answer.".to_owned()),
            },
        };
        Ok(ReactDecision { thought: self.thought(), next })
    }

    /// Finds the name of a tool in a decision with an unknown type: in its own field, or in that of the type. Weak
    /// models write such decisions, and they can only mean a call.
    fn find_misplaced_name(&self, tools: &[ToolSpec]) -> Option<&Value> {
        let names_tool = |value: &&Value| value.as_str().is_some_and(|name| resolve(name, tools).is_some());
        let without_answer = self.answer.as_ref().is_none_or(|answer| answer.get() == "null");
        [&self.tool, &self.kind].into_iter().find(names_tool).filter(|_| without_answer)
    }

    fn validate_answer(&self) -> Result<NextAction, String> {
        let answer = field_text(self.answer.as_deref());
        if answer.trim().is_empty() {
            return Err("Answer is required when type=final_answer.".to_owned());
        }
        Ok(NextAction::Answer(answer))
    }

    fn validate_call(&self, name: &Value, tools: &[ToolSpec]) -> Result<NextAction, String> {
        let name = name.as_str().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| "Tool name is required when type=call_tool.".to_owned())?;
        let tool = resolve(name, tools).ok_or_else(|| unavailable_message(name, tools))?;
        let args = self.args.as_ref().map_or("{}", |args| args.get());
        // A model that has no arguments may write them as an empty list.
        let is_empty = matches!(args.split_whitespace().collect::<String>().as_str(), "{}" | "[]");
        if is_empty && needs_arguments(&tool.parameters) {
            return Err("Arguments are required when type=call_tool.".to_owned());
        }
        let args = if is_empty { "{}" } else { args };
        match args.as_bytes().first() {
            Some(b'{') => Ok(NextAction::Call { tool: tool.name.clone(), args: args.to_owned() }),
            Some(b'[') => {
                Err("Arguments must be a JSON object with parameter names as keys, not a sequential array.".to_owned())
            }
            _ => Err("Arguments must be a JSON object with parameter names as keys.".to_owned()),
        }
    }
}

/// Returns the error message for an unknown tool, with similar names.
fn unavailable_message(name: &str, tools: &[ToolSpec]) -> String {
    let near = suggestions(name, tools.iter().map(|tool| tool.name.as_str()));
    let near = did_you_mean(&near).map_or_else(String::new, |question| format!(" ({question})"));
    format!("Requested tool is not available.{near}")
}

fn needs_arguments(schema: &Value) -> bool {
    schema.get("required").and_then(Value::as_array).is_some_and(|required| !required.is_empty())
}

/// Returns the text of a field that should be a string. Any other value is returned as JSON text, because its meaning
/// is clear.
fn field_text(field: Option<&RawValue>) -> String {
    field
        .and_then(|field| JsonText::parse(field.get().to_owned()).ok())
        .map_or_else(String::new, |json| format_json(&json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fumehood_core::chat::StopReason;
    use proptest::prelude::*;
    use serde_json::json;

    fn tools() -> Vec<ToolSpec> {
        fn spec(name: &str, parameters: Value) -> ToolSpec {
            ToolSpec { name: name.to_owned(), alias: None, description: String::new(), parameters }
        }

        vec![
            spec("add", json!({"type": "object", "required": ["a", "b"]})),
            spec("now", json!({"type": "object", "properties": {"zone": {"type": "string"}}})),
            spec("list", json!({"type": "object", "required": []})),
        ]
    }

    fn decide(reply: &str) -> Result<ReactDecision, String> {
        RawDecision::extract(&Response::text(reply))?.validate(&tools())
    }

    fn call(tool: &str, args: &str) -> Result<NextAction, String> {
        Ok(NextAction::Call { tool: tool.to_owned(), args: args.to_owned() })
    }

    fn check(reply: &str, expected: Result<NextAction, String>) {
        assert_eq!(decide(reply).map(|decision| decision.next), expected, "{reply}");
    }

    #[test]
    fn a_decision_has_five_fields() {
        let call =
            decide(r#"{"thought": "sum", "type": "call_tool", "tool": "add", "args": {"a": 1, "b": 2.50}}"#).unwrap();
        assert_eq!(call.thought, "sum");
        assert_eq!(call.next, NextAction::Call { tool: "add".to_owned(), args: r#"{"a": 1, "b": 2.50}"#.to_owned() });
        let answer = decide(r#"{"thought": "done", "type": "final_answer", "tool": null, "args": {}, "answer": "16"}"#);
        assert_eq!(answer.unwrap().next, NextAction::Answer("16".to_owned()));
    }

    #[test]
    fn a_decision_is_found_in_fences_and_prose_and_completed_where_that_is_safe() {
        fn expected() -> Result<NextAction, String> {
            call("add", r#"{"a":1,"b":"{"}"#)
        }

        let json = r#"{"type":"call_tool","tool":"add","args":{"a":1,"b":"{"}}"#;
        check(json, expected());
        check(&format!("```json\n{json}\n```"), expected());
        check(&format!("I {{think}} so:\n{json}\nThat's it."), expected());
        check(&format!("<think>{{\"type\": 1}}</think>\n{json}"), expected());
        check(json.trim_end_matches('}'), expected());
        check(
            r#"{"type":"final_answer","answer":"un"#,
            Err("No decision found: the JSON object in it is not complete.".to_owned()),
        );
        let cut = Response { stop: StopReason::Length, ..Response::text(json.trim_end_matches('}')) };
        assert!(RawDecision::extract(&cut).is_err());
    }

    #[test]
    fn what_is_no_decision_is_said() {
        for reply in ["", " \n", "The answer is 16.", "{", "null", "[]", r#"["a", "final_answer", null, null, "x"]"#] {
            assert!(decide(reply).unwrap_err().starts_with("No decision found: "), "{reply}");
        }
        let twice = decide(r#"{"type": "final_answer", "type": "call_tool", "answer": "x"}"#).unwrap_err();
        assert!(twice.contains("duplicate field `type`"), "{twice}");
    }

    #[test]
    fn each_rule_has_its_text() {
        fn fail(text: &str) -> Result<NextAction, String> {
            Err(text.to_owned())
        }

        for tool in ["", r#", "tool": """#, r#", "tool": null"#, r#", "tool": 42"#] {
            let reply = format!(r#"{{"type": "call_tool"{tool}, "args": {{"a": 1}}}}"#);
            check(&reply, fail("Tool name is required when type=call_tool."));
        }
        check(r#"{"type": "call_tool", "tool": "rm", "args": {}}"#, fail("Requested tool is not available."));
        for kind in [r#""type": "done""#, r#""type": 1"#, r#""answer": "x""#, r#""type": "Final_Answer""#] {
            check(&format!("{{{kind}}}"), fail("Decision type must be call_tool or final_answer."));
        }
        for answer in ["", r#", "answer": """#, r#", "answer": " ""#, r#", "answer": null"#] {
            let reply = format!(r#"{{"type": "final_answer"{answer}}}"#);
            check(&reply, fail("Answer is required when type=final_answer."));
        }
        for args in ["", r#", "args": null"#, r#", "args": {}"#, r#", "args": [ ]"#] {
            let reply = format!(r#"{{"type": "call_tool", "tool": "add"{args}}}"#);
            check(&reply, fail("Arguments are required when type=call_tool."));
        }
        let list = "Arguments must be a JSON object with parameter names as keys, not a sequential array.";
        check(r#"{"type": "call_tool", "tool": "add", "args": [1, 2]}"#, fail(list));
        check(r#"{"type": "call_tool", "tool": "now", "args": [1]}"#, fail(list));
        let text = "Arguments must be a JSON object with parameter names as keys.";
        check(r#"{"type": "call_tool", "tool": "add", "args": "{\"a\": 1}"}"#, fail(text));
    }

    #[test]
    fn finds_a_partial_or_misplaced_tool_name() {
        fn words(near: &str) -> Result<NextAction, String> {
            Err(format!("Requested tool is not available.{near}"))
        }

        fn evaluate() -> Result<NextAction, String> {
            call("calculator__evaluate", r#"{"x": 1}"#)
        }

        fn check(tools: &[ToolSpec], reply: &str, expected: Result<NextAction, String>) {
            let decision = RawDecision::extract(&Response::text(reply)).unwrap().validate(tools);
            assert_eq!(decision.map(|decision| decision.next), expected, "{reply}");
        }

        fn spec(name: &str) -> ToolSpec {
            ToolSpec { name: name.to_owned(), alias: None, description: String::new(), parameters: json!({}) }
        }

        let tools = [spec("calculator__add"), spec("calculator__evaluate"), spec("a__list"), spec("b__list")];
        check(&tools, r#"{"type": "call_tool", "tool": "evaluate", "args": {"x": 1}}"#, evaluate());
        check(&tools, r#"{"type": "evaluate", "args": {"x": 1}}"#, evaluate());
        check(&tools, r#"{"type": "calculator__evaluate", "tool": null, "args": {"x": 1}}"#, evaluate());
        check(
            &tools,
            r#"{"type": "tool", "tool": "calculator__evaluate", "args": {"x": 1}, "answer": null}"#,
            evaluate(),
        );
        check(&tools, r#"{"tool": "evaluate", "args": {"x": 1}}"#, evaluate());
        let type_is_missing = Err("Decision type must be call_tool or final_answer.".to_owned());
        check(&tools, r#"{"tool": "evaluate", "args": {"x": 1}, "answer": "16"}"#, type_is_missing.clone());
        check(&tools, r#"{"tool": "rm", "args": {}}"#, type_is_missing);
        check(&tools, r#"{"type": "call_tool", "tool": "list"}"#, words(" (did you mean `a__list` or `b__list`?)"));
        check(&tools, r#"{"type": "call_tool", "tool": "evalute"}"#, words(" (did you mean `calculator__evaluate`?)"));
        check(&tools, r#"{"type": "call_tool", "tool": "search"}"#, words(""));
    }

    #[test]
    fn a_tool_without_required_parameters_may_be_called_with_nothing() {
        for args in [r#", "args": {}"#, r#", "args": { }"#, "", r#", "args": null"#, r#", "args": []"#] {
            check(&format!(r#"{{"type": "call_tool", "tool": "now"{args}}}"#), call("now", "{}"));
            check(&format!(r#"{{"type": "call_tool", "tool": "list"{args}}}"#), call("list", "{}"));
        }
    }

    #[test]
    fn accepts_any_json_as_an_answer() {
        check(r#"{"type": "final_answer", "answer": 16}"#, Ok(NextAction::Answer("16".to_owned())));
        check(r#"{"type": "final_answer", "answer": {"a": 1}}"#, Ok(NextAction::Answer(r#"{"a": 1}"#.to_owned())));
    }

    const NEAR: &str = r#"\{"type": ?"(call_tool|final_answer)", ?"(tool|answer|args)": ?["\[\]{}a0,: ]{0,12}"#;

    proptest! {
        #[test]
        fn survives_any_reply(text in any::<String>(), near in NEAR) {
            let _ = decide(&text);
            let _ = decide(&near);
        }
    }
}
