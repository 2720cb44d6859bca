//! Tool calls, assembled from the pieces that providers send.

use std::collections::HashMap;

use fumehood_core::chat::ToolIntent;
use genai::chat::ToolCall;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::spec::Service;

/// The tool calls of an answer that is being streamed, assembled from their pieces.
///
/// The library's own collection is not used: it allocates as many calls as a provider's index says, and it replaces the
/// text of the arguments by a JSON value, in which duplicate keys are gone before the gate could reject them. The translation
/// of the reply has given each call an id of its own.
#[derive(Debug, Default)]
pub(crate) struct CallAssembler {
    calls: Vec<ToolIntent>,
    by_id: HashMap<String, usize>,
}

impl CallAssembler {
    /// Adds one piece. Returns by how many bytes the calls grew.
    pub(crate) fn add(&mut self, service: Service, piece: ToolCall) -> usize {
        let ToolCall { call_id, fn_name, fn_arguments, .. } = piece;
        let text = match fn_arguments {
            Value::String(text) => text,
            value => value.to_string(),
        };
        match service {
            Service::OpenAi | Service::Compatible => self.append(call_id, fn_name, text),
            Service::Anthropic => self.replace(call_id, fn_name, text),
            Service::Gemini | Service::Ollama => self.push(call_id, fn_name, text),
        }
    }

    /// Returns the calls, in the order in which they began.
    pub(crate) fn finish(self) -> Vec<ToolIntent> {
        let mut calls = self.calls;
        for call in &mut calls {
            if let Some(arguments) = mend_arguments(&call.arguments) {
                call.arguments = arguments;
            }
        }
        calls
    }

    fn push(&mut self, id: String, name: String, arguments: String) -> usize {
        let grown = id.len() + name.len() + arguments.len();
        self.by_id.insert(id.clone(), self.calls.len());
        self.calls.push(ToolIntent { id, name, arguments });
        grown
    }

    /// Returns the call with this id.
    fn find(&mut self, id: &str) -> Option<&mut ToolIntent> {
        let at = self.by_id.get(id)?;
        self.calls.get_mut(*at)
    }

    /// Adds a piece that holds the name and the text since the previous one.
    fn append(&mut self, id: String, name: String, text: String) -> usize {
        let Some(call) = self.find(&id) else { return self.push(id, name, text) };
        call.name.push_str(&name);
        call.arguments.push_str(&text);
        name.len() + text.len()
    }

    /// Adds a piece that holds the whole text so far.
    fn replace(&mut self, id: String, name: String, text: String) -> usize {
        let Some(call) = self.find(&id) else { return self.push(id, name, text) };
        let grown = text.len().saturating_sub(call.arguments.len());
        call.arguments = text;
        grown
    }
}

/// Returns the arguments that a text certainly means, if it is not these arguments itself: none at all, an object that was
/// encoded twice, or one in a Markdown fence.
fn mend_arguments(text: &str) -> Option<String> {
    let text = text.trim();
    if matches!(text, "" | "null" | "\"\"" | "\"null\"") {
        return Some("{}".to_owned());
    }
    let inner = if text.starts_with('"') {
        serde_json::from_str::<String>(text).ok()?
    } else {
        let inside = text.strip_prefix("```")?.strip_suffix("```")?;
        inside.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).to_owned()
    };
    let inner = inner.trim();
    let is_object = inner.starts_with('{') && serde_json::from_str::<IgnoredAny>(inner).is_ok();
    is_object.then(|| inner.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(service: Service, pieces: &[(&str, &str, &str)], expected: &[(&str, &str, &str)]) {
        let mut calls = CallAssembler::default();
        for (id, name, text) in pieces {
            calls.add(
                service,
                ToolCall {
                    call_id: (*id).to_owned(),
                    fn_name: (*name).to_owned(),
                    fn_arguments: Value::String((*text).to_owned()),
                    thought_signatures: None,
                },
            );
        }
        let found = calls.finish();
        let found: Vec<_> =
            found.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn assembles_pieces_of_parallel_calls() {
        let openai = Service::OpenAi;
        let two = [("a", "f", ""), ("b", "g", ""), ("b", "", "{\"b\":"), ("a", "", "{}"), ("b", "", "2}")];
        check(openai, &two, &[("a", "f", "{}"), ("b", "g", "{\"b\":2}")]);
        check(openai, &[("a", "f", ""), ("a", "oo", "{"), ("a", "", "}")], &[("a", "foo", "{}")]);
        let grows = [("a", "f", ""), ("a", "f", "{"), ("a", "f", "{}"), ("b", "g", "")];
        check(Service::Anthropic, &grows, &[("a", "f", "{}"), ("b", "g", "{}")]);
        check(Service::Gemini, &[("a", "f", "{}"), ("b", "f", "{}")], &[("a", "f", "{}"), ("b", "f", "{}")]);
    }

    #[test]
    fn mends_arguments_only_without_a_guess() {
        for text in ["", " ", "null", "\"\"", "\"null\"", "{}"] {
            assert_eq!(mend_arguments(text).unwrap_or_else(|| text.to_owned()), "{}", "{text:?}");
        }
        let object = r#"{"a":1,"a":"```"}"#;
        let twice = serde_json::to_string(object).unwrap();
        for text in
            [&twice, &format!("```json\n{object}\n```"), &format!("```\n{object}```\n"), &format!("``` {object} ```")]
        {
            assert_eq!(mend_arguments(text).as_deref(), Some(object), "{text}");
        }
        let thrice = serde_json::to_string(&twice).unwrap();
        for text in [object, &thrice, "{'a': 1,}", "{\"a\":1}{}", "```\n[1]\n```", "\"add\"", "1", "``````", "```"] {
            assert_eq!(mend_arguments(text), None, "{text}");
        }
    }
}
