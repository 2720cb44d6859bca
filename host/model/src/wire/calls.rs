//! Tool calls, assembled from the pieces that providers send.

use fumehood_core::chat::ToolIntent;
use genai::chat::ToolCall;
use serde_json::Value;

use crate::spec::Service;

/// The tool calls of an answer that is being streamed, assembled from their pieces.
///
/// The library's own collection is not used: it allocates as many calls as a provider's index says, and it replaces the
/// text of the arguments by a JSON value, in which duplicate keys are gone before the gate could reject them.
#[derive(Debug, Default)]
pub(crate) struct CallAssembler {
    calls: Vec<ToolIntent>,
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
            Service::OpenAi | Service::Compatible => self.append(call_id, fn_name, &text),
            Service::Anthropic => self.replace(call_id, fn_name, text),
            Service::Gemini | Service::Ollama => self.push(call_id, fn_name, text),
        }
    }

    /// Returns the calls, in the order in which they began.
    pub(crate) fn finish(self, service: Service) -> Vec<ToolIntent> {
        let mut calls = self.calls;
        // Anthropic sends no arguments at all for a call without any.
        for call in calls.iter_mut().filter(|call| service == Service::Anthropic && call.arguments.is_empty()) {
            call.arguments.push_str("{}");
        }
        calls
    }

    fn push(&mut self, id: String, name: String, arguments: String) -> usize {
        let grown = id.len() + name.len() + arguments.len();
        self.calls.push(ToolIntent { id, name, arguments });
        grown
    }

    /// Adds a piece that holds the text since the previous one. Mostly only the first piece has the id and the name;
    /// where a piece has no id, the library invents `call_INDEX`.
    fn append(&mut self, id: String, name: String, text: &str) -> usize {
        let known = self.calls.iter().rposition(|call| !id.is_empty() && call.id == id);
        if known.is_none() && !name.is_empty() {
            return self.push(id, name, text.to_owned());
        }
        let numbered = id.strip_prefix("call_").and_then(|index| index.parse::<usize>().ok());
        let numbered = numbered.filter(|index| *index < self.calls.len());
        let index = known.or(numbered).unwrap_or(self.calls.len().saturating_sub(1));
        match self.calls.get_mut(index) {
            Some(call) => {
                call.arguments.push_str(text);
                text.len()
            }
            // Arguments without a call become a call, so that the agent can reject it.
            None => self.push(id, name, text.to_owned()),
        }
    }

    /// Adds a piece that holds the whole text so far.
    fn replace(&mut self, id: String, name: String, text: String) -> usize {
        match self.calls.iter_mut().rev().find(|call| call.id == id) {
            Some(call) => {
                let grown = text.len().saturating_sub(call.arguments.len());
                call.arguments = text;
                grown
            }
            None => self.push(id, name, text),
        }
    }
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
        let found = calls.finish(service);
        let found: Vec<_> =
            found.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn assembles_pieces_of_parallel_calls() {
        let openai = Service::OpenAi;
        check(openai, &[("a", "f", ""), ("call_0", "", "{"), ("call_0", "", "}")], &[("a", "f", "{}")]);
        let two = [("a", "f", ""), ("b", "g", ""), ("call_1", "", "2"), ("call_0", "", "1")];
        check(openai, &two, &[("a", "f", "1"), ("b", "g", "2")]);
        let repeated = [("a", "f", "{"), ("a", "f", "}"), ("b", "f", "{}")];
        check(openai, &repeated, &[("a", "f", "{}"), ("b", "f", "{}")]);
        check(openai, &[("", "f", "{}"), ("", "g", "{}")], &[("", "f", "{}"), ("", "g", "{}")]);
        check(openai, &[("call_4294967295", "", "{}")], &[("call_4294967295", "", "{}")]);
        check(openai, &[("a", "f", "{"), ("call_4294967295", "", "}")], &[("a", "f", "{}")]);
        let grows = [("a", "f", ""), ("a", "f", "{"), ("a", "f", "{}"), ("b", "g", "")];
        check(Service::Anthropic, &grows, &[("a", "f", "{}"), ("b", "g", "{}")]);
        check(Service::Gemini, &[("a", "f", "{}"), ("a", "f", "{}")], &[("a", "f", "{}"), ("a", "f", "{}")]);
    }
}
