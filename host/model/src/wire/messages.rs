//! Translation of a request's messages to the client library's types.

use std::borrow::Cow;
use std::sync::Arc;

use fumehood_core::chat::{Message, Request, Role, Thought, ToolIntent};
use genai::chat::{
    Binary, CacheControl, ChatMessage, ChatRole, ContentPart, CustomPart, MessageContent, ToolCall, ToolResponse,
};
use serde_json::{Value, json};

use super::names::ToolNames;
use super::parameter::Adjustments;
use super::tools::SentTool;
use crate::config::ProviderConfig;
use crate::spec::Service;

/// Translates the messages of a request, with the tool names and the forms of arguments that were sent to the provider.
pub(super) fn translate_messages(
    service: Service,
    config: &ProviderConfig,
    request: &Request,
    names: &ToolNames,
    tools: &[SentTool],
    adjustments: &Adjustments,
) -> Vec<ChatMessage> {
    // The others cache by themselves.
    let wanted = if service == Service::Anthropic { request.cache_breakpoints.as_slice() } else { &[] };
    let sends_thoughts = adjustments.sends_thoughts;
    let sends_images = config.supports_images;
    let translator = Translator { service, names, tools, sends_thoughts, sends_images };
    let mut translated = Vec::with_capacity(request.messages.len());
    // Images of results, which only the user may show, after all results of the reply.
    let mut images: Vec<ContentPart> = Vec::new();
    let (messages, breakpoints) = if requires_whole_replies(service) {
        let (merged, breakpoints) = merge_replies(&request.messages, wanted);
        (Cow::Owned(merged), Cow::Owned(breakpoints))
    } else {
        (Cow::Borrowed(request.messages.as_slice()), Cow::Borrowed(wanted))
    };
    for (index, message) in messages.iter().enumerate() {
        if message.role != Role::Tool && !images.is_empty() {
            translated.push(show_images(&mut images));
        }
        if message.role == Role::Tool {
            images.extend(translator.images(message));
        }
        let Some(message) = translator.message(message) else { continue };
        let is_breakpoint = breakpoints.contains(&index.saturating_add(1));
        let message = if is_breakpoint { message.with_options(CacheControl::Ephemeral) } else { message };
        match translated.last_mut().filter(|last| service == Service::Anthropic && are_results(last, &message)) {
            Some(last) => merge_results(last, message),
            None => translated.push(message),
        }
    }
    if !images.is_empty() {
        translated.push(show_images(&mut images));
    }
    translated
}

/// Takes the images into a message of the user.
fn show_images(images: &mut Vec<ContentPart>) -> ChatMessage {
    let text = ContentPart::from_text("The images of the results above:");
    ChatMessage::user(MessageContent::from_parts(std::iter::once(text).chain(images.drain(..)).collect::<Vec<_>>()))
}

/// Returns whether a provider requires all calls of one reply in one message, with their thoughts.
fn requires_whole_replies(service: Service) -> bool {
    matches!(service, Service::Anthropic | Service::Gemini)
}

fn are_results(last: &ChatMessage, next: &ChatMessage) -> bool {
    [last, next].iter().all(|message| message.role == ChatRole::Tool)
}

/// Appends results to a message: Anthropic requires the results of all calls of a reply in one message.
fn merge_results(last: &mut ChatMessage, next: ChatMessage) {
    for part in next.content {
        last.content.push(part);
    }
    last.options = next.options.or(last.options.take());
}

/// Merges the calls of one reply into one message, where the reply has thoughts: providers require those before all of
/// its calls, and the results after them. Also returns the breakpoints of the merged messages.
fn merge_replies(messages: &[Message], breakpoints: &[usize]) -> (Vec<Message>, Vec<usize>) {
    let mut merged: Vec<Message> = Vec::with_capacity(messages.len());
    let mut merged_breakpoints = Vec::with_capacity(breakpoints.len());
    for (index, message) in messages.iter().enumerate() {
        let first = merged.iter().rposition(|earlier| earlier.role != Role::Tool);
        let first = first.and_then(|at| merged.get_mut(at)).filter(|first| is_of_same_reply(first, message));
        match first {
            Some(first) => first.tool_calls.extend(message.tool_calls.iter().cloned()),
            None => merged.push(message.clone()),
        }
        if breakpoints.contains(&index.saturating_add(1)) {
            merged_breakpoints.push(merged.len());
        }
    }
    (merged, merged_breakpoints)
}

fn is_of_same_reply(first: &Message, next: &Message) -> bool {
    let has_same_thoughts = !next.thoughts.is_empty() && first.thoughts == next.thoughts;
    has_calls(first) && has_calls(next) && next.content.is_empty() && has_same_thoughts
}

fn has_calls(message: &Message) -> bool {
    message.role == Role::Assistant && !message.tool_calls.is_empty()
}

struct Translator<'a> {
    service: Service,
    names: &'a ToolNames,
    tools: &'a [SentTool],
    sends_thoughts: bool,
    sends_images: bool,
}

impl Translator<'_> {
    /// Translates one message; `None` if it is empty, which some providers reject.
    fn message(&self, message: &Message) -> Option<ChatMessage> {
        let text = || MessageContent::from_text(message.content.as_str());
        match message.role {
            Role::System => (!message.content.is_empty()).then(|| ChatMessage::system(text())),
            Role::User => {
                let parts = std::iter::once(ContentPart::from_text(message.content.as_str()));
                Some(ChatMessage::user(MessageContent::from_parts(
                    parts.chain(self.images(message)).collect::<Vec<_>>(),
                )))
            }
            Role::Assistant => {
                let text = (!message.content.is_empty()).then(|| ContentPart::from_text(message.content.as_str()));
                let calls = message.tool_calls.iter().map(|intent| ContentPart::ToolCall(self.call(intent, message)));
                // A paused turn has neither text nor calls: its content is among the thoughts.
                let has_thoughts = !message.tool_calls.is_empty() || message.content.is_empty();
                let thoughts = if has_thoughts { self.thoughts(&message.thoughts) } else { Vec::new() };
                let parts: Vec<ContentPart> = thoughts.into_iter().chain(text).chain(calls).collect();
                (!parts.is_empty()).then(|| ChatMessage::assistant(MessageContent::from_parts(parts)))
            }
            Role::Tool => {
                let id = message.tool_call_id.clone().unwrap_or_default();
                Some(ChatMessage::from(ToolResponse::new(id, message.content.as_str())))
            }
        }
    }

    /// Translates the images of a message, if the model takes any.
    fn images(&self, message: &Message) -> impl Iterator<Item = ContentPart> {
        let images = if self.sends_images { message.images.as_slice() } else { &[] };
        images.iter().map(|image| {
            ContentPart::Binary(Binary::from_base64(image.mime_type.as_str(), Arc::clone(&image.data), None))
        })
    }

    /// Translates the thoughts that this provider requires to be sent back.
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

    /// Translates a call of an earlier answer. Providers reject arguments that are not an object, so such arguments are
    /// wrapped in one.
    fn call(&self, intent: &ToolIntent, message: &Message) -> ToolCall {
        let shape = self.tools.iter().find(|tool| tool.spec.name == intent.name).map(|tool| &tool.shape);
        let arguments = serde_json::from_str::<Value>(&intent.arguments).ok();
        let arguments = arguments.map(|arguments| match shape {
            Some(shape) => shape.to_wire(arguments),
            None => arguments,
        });
        let arguments = arguments.filter(Value::is_object);
        let arguments = arguments.unwrap_or_else(|| json!({ "malformed_arguments": intent.arguments }));
        let signatures = message.thoughts.iter().filter_map(|thought| match thought {
            Thought::Call { call, signature } if *call == intent.id => Some(signature.clone()),
            _ => None,
        });
        let signatures: Vec<String> = signatures.filter(|_| self.service == Service::Gemini).collect();
        ToolCall {
            call_id: intent.id.clone(),
            fn_name: self.names.to_wire(&intent.name).to_owned(),
            fn_arguments: arguments,
            thought_signatures: (!signatures.is_empty()).then_some(signatures),
        }
    }
}
