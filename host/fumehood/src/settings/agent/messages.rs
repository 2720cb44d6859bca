//! Requests to a model and its replies, as JSON that any program can translate to the form of its provider.

use fumehood_config::json::{SettingError, read_json};
use fumehood_core::chat::{
    Image, Message, Reply, Request, Response, Role, StopReason, Thought, ToolChoice, ToolIntent, Usage,
};
use fumehood_core::policy::call::{Answer, CallQuestion};
use fumehood_core::tool::{NameForm, ToolAliases};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The names of tools that a model is given, which every provider accepts.
#[derive(Debug)]
pub(super) struct ModelNames(ToolAliases);

impl ModelNames {
    /// Collects the names of a request: of its tools, and of the calls in its messages.
    pub(super) fn of_request(request: &Request) -> Self {
        let tools = request.tools.iter().map(|tool| (tool.name.as_str(), tool.alias.as_deref()));
        let calls = request.messages.iter().flat_map(|message| &message.tool_calls);
        let names = tools.chain(calls.map(|call| (call.name.as_str(), None)));
        Self(ToolAliases::new(names, NameForm::Portable))
    }

    fn alias<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.alias(name)
    }

    fn resolve(&self, written: &str) -> String {
        self.0.resolve(written).unwrap_or(written).to_owned()
    }
}

/// A message, as a program sees it.
#[derive(Serialize)]
struct WrittenMessage<'a> {
    role: Role,
    content: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WrittenCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    #[serde(skip_serializing_if = "<[Image]>::is_empty")]
    images: &'a [Image],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    thoughts: Vec<Value>,
}

#[derive(Serialize)]
struct WrittenCall<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

impl<'a> WrittenMessage<'a> {
    fn new(message: &'a Message, names: &'a ModelNames) -> Self {
        let calls = message.tool_calls.iter();
        Self {
            role: message.role,
            content: &message.content,
            tool_calls: calls.map(|call| WrittenCall::new(call, names)).collect(),
            tool_call_id: message.tool_call_id.as_deref(),
            is_error: message.is_error,
            images: &message.images,
            thoughts: message.thoughts.iter().filter_map(to_value).collect(),
        }
    }
}

impl<'a> WrittenCall<'a> {
    fn new(call: &'a ToolIntent, names: &'a ModelNames) -> Self {
        Self { id: &call.id, name: names.alias(&call.name), arguments: &call.arguments }
    }
}

/// Returns a thought as the program gave it.
fn to_value(thought: &Thought) -> Option<Value> {
    match thought {
        Thought::Sealed { block } => serde_json::from_str(block).ok(),
        _ => None,
    }
}

/// Writes a request: its messages, its tools and what constrains the reply.
pub(super) fn write_request(request: &Request, names: &ModelNames) -> Value {
    let messages: Vec<_> =
        merge_replies(&request.messages).iter().map(|message| json!(WrittenMessage::new(message, names))).collect();
    let tools: Vec<_> = request
        .tools
        .iter()
        .map(|tool| {
            let name = names.alias(&tool.name);
            json!({"name": name, "description": tool.description, "parameters": tool.parameters})
        })
        .collect();
    let choice = match &request.tool_choice {
        ToolChoice::Specific(name) => json!({"name": names.alias(name)}),
        other => json!(other),
    };
    json!({"messages": messages, "tools": tools, "tool_choice": choice, "max_tokens": request.max_tokens})
}

/// Merges the calls of one reply into one message where the reply has thoughts: providers want those back before all
/// of its calls.
fn merge_replies(messages: &[Message]) -> Vec<Message> {
    let mut merged: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        let first = merged.iter_mut().rev().find(|earlier| earlier.role != Role::Tool);
        let is_same = |first: &&mut Message| {
            !message.thoughts.is_empty() && first.thoughts == message.thoughts && message.content.is_empty()
        };
        match first.filter(is_same) {
            Some(first) => first.tool_calls.extend(message.tool_calls.iter().cloned()),
            None => merged.push(message.clone()),
        }
    }
    merged
}

/// The reply of a model, as a program writes it: a message of the assistant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenReply {
    /// Accepted so that a message can be passed on, and always the assistant.
    #[serde(default, rename = "role")]
    _role: Option<Assistant>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<RequestedCall>>,
    #[serde(default)]
    usage: Option<ReplyUsage>,
    #[serde(default)]
    stop: Option<StopReason>,
    #[serde(default)]
    thoughts: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Assistant {
    Assistant,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestedCall {
    #[serde(default)]
    id: Option<String>,
    name: String,
    /// JSON text as the model wrote it, or the value.
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct ReplyUsage {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_creation: u64,
}

impl RequestedCall {
    fn into_intent(self, names: &ModelNames) -> ToolIntent {
        let arguments = match self.arguments {
            Value::Null => "{}".to_owned(),
            Value::String(text) => text,
            value => value.to_string(),
        };
        ToolIntent { id: self.id.unwrap_or_default(), name: names.resolve(&self.name), arguments }
    }
}

/// Reads the reply of a model: a text, or a message of the assistant.
///
/// # Errors
/// If it is neither.
pub(super) fn read_reply(json: &str, names: &ModelNames) -> Result<Response, SettingError> {
    if let Ok(text) = serde_json::from_str::<String>(json) {
        return Ok(Response::text(text));
    }
    if !json.starts_with('{') {
        let message = "expected the reply of the model: a text, or an object with `content` and `tool_calls`";
        return Err(SettingError::new("reply", message));
    }
    let reply: WrittenReply = read_json("reply", json)?;
    let text = reply.content.unwrap_or_default();
    let calls: Vec<_> = reply.tool_calls.unwrap_or_default().into_iter().map(|call| call.into_intent(names)).collect();
    let content = if calls.is_empty() { Reply::Text(text) } else { Reply::ToolCalls { text, calls } };
    let mut response = Response::new(content);
    let ReplyUsage { input, output, cache_read, cache_creation } = reply.usage.unwrap_or_default();
    response.usage = Usage { input, output, cache_read, cache_creation };
    response.stop = reply.stop.unwrap_or_default();
    let thoughts = reply.thoughts.unwrap_or_default();
    response.thoughts = thoughts.iter().map(|block| Thought::Sealed { block: block.to_string() }).collect();
    Ok(response)
}

/// Writes a question about a call.
pub(super) fn write_question(question: &CallQuestion) -> Value {
    let CallQuestion { question, proposed, .. } = question;
    json!({
        "tool": proposed.tool,
        "arguments": proposed.arguments,
        "annotations": proposed.annotations,
        "actor": proposed.actor,
        "question": question,
    })
}

/// Reads the answer about a call: yes, no, or the reason for a denial, which the model reads.
///
/// # Errors
/// If it is neither.
pub(super) fn read_answer(json: &str) -> Result<Answer, SettingError> {
    match serde_json::from_str(json) {
        Ok(Value::Bool(true)) => Ok(Answer::Allow),
        Ok(Value::Bool(false)) => Ok(Answer::no()),
        Ok(Value::String(reason)) => Ok(Answer::Deny { reason }),
        _ => Err(SettingError::new("approve", "expected true, false, or a text: the reason why the call is refused")),
    }
}
