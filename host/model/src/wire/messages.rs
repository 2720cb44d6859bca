//! The messages of a request, in the client library's terms.

use std::borrow::Cow;

use fumehood_core::chat::{Message, Request, Role, Thought, ToolIntent};
use genai::chat::{
    CacheControl, ChatMessage, ChatRole, ContentPart, CustomPart, MessageContent, ToolCall, ToolResponse,
};
use serde_json::{Value, json};

use super::names::Names;
use super::parameter::Adjustments;
use crate::spec::Service;

/// Translates the messages, with the names of tools that the provider knows.
pub(super) fn messages(
    service: Service,
    request: &Request,
    names: &Names,
    adjustments: &Adjustments,
) -> Vec<ChatMessage> {
    let cached = if service == Service::Anthropic { request.cached_messages } else { 0 };
    let translator = Translator { service, names, sends_thoughts: adjustments.sends_thoughts };
    let mut translated = Vec::with_capacity(request.messages.len());
    let whole = match sends_back(service) {
        true => Cow::Owned(whole_replies(&request.messages)),
        false => Cow::Borrowed(request.messages.as_slice()),
    };
    for (index, said) in whole.iter().enumerate() {
        let Some(message) = translator.message(said) else { continue };
        let is_cached = index.saturating_add(1) == cached;
        let message = if is_cached { message.with_options(CacheControl::Ephemeral) } else { message };
        match translated.last_mut().filter(|last| service == Service::Anthropic && are_results(last, &message)) {
            Some(last) => add_results(last, message),
            None => translated.push(message),
        }
    }
    translated
}

/// Returns whether thoughts go back to this provider with the calls of one reply together.
fn sends_back(service: Service) -> bool {
    matches!(service, Service::Anthropic | Service::Gemini)
}

fn are_results(last: &ChatMessage, next: &ChatMessage) -> bool {
    [last, next].iter().all(|message| message.role == ChatRole::Tool)
}

/// Anthropic wants the results of all calls of a reply in one message.
fn add_results(last: &mut ChatMessage, next: ChatMessage) {
    for part in next.content {
        last.content.push(part);
    }
    last.options = next.options.or(last.options.take());
}

/// Puts the calls of one reply back into one message, where the reply has thoughts: providers want those before all of its
/// calls, and the results after them.
fn whole_replies(messages: &[Message]) -> Vec<Message> {
    let mut whole: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        let first = whole.iter().rposition(|earlier| earlier.role != Role::Tool);
        let first = first.and_then(|at| whole.get_mut(at)).filter(|first| is_of_same_reply(first, message));
        match first {
            Some(first) => first.tool_calls.extend(message.tool_calls.iter().cloned()),
            None => whole.push(message.clone()),
        }
    }
    whole
}

fn is_of_same_reply(first: &Message, next: &Message) -> bool {
    let asks = |message: &Message| message.role == Role::Assistant && !message.tool_calls.is_empty();
    asks(first) && asks(next) && next.content.is_empty() && !next.thoughts.is_empty() && first.thoughts == next.thoughts
}

struct Translator<'a> {
    service: Service,
    names: &'a Names,
    sends_thoughts: bool,
}

impl Translator<'_> {
    /// Translates one message; `None` if it says nothing, which some providers refuse.
    fn message(&self, said: &Message) -> Option<ChatMessage> {
        let text = || MessageContent::from_text(said.content.as_str());
        match said.role {
            Role::System => (!said.content.is_empty()).then(|| ChatMessage::system(text())),
            Role::User => Some(ChatMessage::user(text())),
            Role::Assistant => {
                let text = (!said.content.is_empty()).then(|| ContentPart::from_text(said.content.as_str()));
                let calls = said.tool_calls.iter().map(|intent| ContentPart::ToolCall(self.call(intent, said)));
                let thoughts = if said.tool_calls.is_empty() { Vec::new() } else { self.thoughts(&said.thoughts) };
                let parts: Vec<ContentPart> = thoughts.into_iter().chain(text).chain(calls).collect();
                (!parts.is_empty()).then(|| ChatMessage::assistant(MessageContent::from_parts(parts)))
            }
            Role::Tool => {
                let id = said.tool_call_id.clone().unwrap_or_default();
                Some(ChatMessage::from(ToolResponse::new(id, said.content.as_str())))
            }
        }
    }

    /// The thoughts that this provider wants back.
    fn thoughts(&self, thoughts: &[Thought]) -> Vec<ContentPart> {
        let parts = thoughts.iter().flat_map(|thought| match (self.service, thought) {
            (Service::Anthropic, Thought::Signed { text, signature }) => {
                let signature = ContentPart::ThoughtSignature(signature.clone());
                vec![signature, ContentPart::ReasoningContent(text.clone())]
            }
            (Service::Anthropic, Thought::Sealed { block }) => {
                let data = serde_json::from_str(block).unwrap_or_default();
                vec![ContentPart::Custom(CustomPart { model_iden: None, data })]
            }
            (Service::Compatible, Thought::Plain { text }) if self.sends_thoughts => {
                vec![ContentPart::ReasoningContent(text.clone())]
            }
            _ => Vec::new(),
        });
        parts.collect()
    }

    /// A call of an earlier answer. Providers refuse arguments that are no object, so those are shown to the model inside
    /// one.
    fn call(&self, intent: &ToolIntent, message: &Message) -> ToolCall {
        let arguments = match serde_json::from_str::<Value>(&intent.arguments) {
            Ok(arguments @ Value::Object(_)) => arguments,
            _ => json!({ "malformed_arguments": intent.arguments }),
        };
        let signatures = message.thoughts.iter().filter_map(|thought| match thought {
            Thought::Call { call, signature } if *call == intent.id => Some(signature.clone()),
            _ => None,
        });
        let signatures: Vec<String> = signatures.filter(|_| self.service == Service::Gemini).collect();
        ToolCall {
            call_id: intent.id.clone(),
            fn_name: self.names.theirs(&intent.name).to_owned(),
            fn_arguments: arguments,
            thought_signatures: (!signatures.is_empty()).then_some(signatures),
        }
    }
}
