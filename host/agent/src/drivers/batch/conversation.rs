//! A conversation as a list of entries, and the messages for a model that they make.

use fumehood_core::chat::{Message, ToolIntent};
use serde_json::Value;

use super::event::Event;
use super::report::{ToolReport, format_array, quote, render_results};

/// An entry of a stored conversation: one for each call and each result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A message of the user.
    User(String),
    /// A thought of the model.
    Think(String),
    /// A text of the model for the user.
    Respond(String),
    /// A call that the model requested.
    Call(ToolIntent),
    /// The result of a call.
    Result(ToolReport),
}

/// Converts the events of a reply, as returned by [`super::merge_pieces`], to entries. Results are left out, because in
/// a reply the model made them up; those of the system are stored when the calls end.
#[cfg(test)]
pub(crate) fn to_entries(events: impl IntoIterator<Item = Event>) -> Vec<Entry> {
    let entry = |event| match event {
        Event::Think(text) => Some(Entry::Think(text)),
        Event::Respond(text) => Some(Entry::Respond(text)),
        Event::Call(call) => Some(Entry::Call(call)),
        Event::Results(_) | Event::Close | Event::Execute | Event::Malformed(_) | Event::End => None,
    };
    events.into_iter().filter_map(entry).collect()
}

/// Converts entries to messages, in their order. Consecutive calls are one batch, which any other entry ends.
/// Consecutive results are one message of the user.
#[must_use]
pub fn to_messages(entries: &[Entry]) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut events: Vec<Event> = Vec::new();
    let mut reports: Vec<ToolReport> = Vec::new();
    for entry in entries {
        if !matches!(entry, Entry::Result(_)) {
            close_reports(&mut reports, &mut messages);
        }
        match entry {
            Entry::User(text) => {
                close_reply(&mut events, &mut messages);
                messages.push(Message::user(text));
            }
            Entry::Think(text) => events.push(Event::Think(text.clone())),
            Entry::Respond(text) => events.push(Event::Respond(text.clone())),
            Entry::Call(call) => events.push(Event::Call(call.clone())),
            Entry::Result(report) => {
                close_reply(&mut events, &mut messages);
                reports.push(report.clone());
            }
        }
    }
    close_reports(&mut reports, &mut messages);
    close_reply(&mut events, &mut messages);
    messages
}

fn close_reply(events: &mut Vec<Event>, messages: &mut Vec<Message>) {
    if !events.is_empty() {
        messages.push(Message::assistant(rebuild(events)));
        events.clear();
    }
}

fn close_reports(reports: &mut Vec<ToolReport>, messages: &mut Vec<Message>) {
    if !reports.is_empty() {
        messages.push(Message::user(render_results(reports)));
        reports.clear();
    }
}

/// An empty block. It separates texts that would otherwise run together.
const EMPTY_BLOCK: &str = "<think></think>";

/// Rebuilds the reply that these events come from, up to whitespace around its blocks. Parsing it gives the same
/// events, except for malformed ones. Consecutive calls make one `<execute>` block.
#[must_use]
pub(crate) fn rebuild(events: &[Event]) -> String {
    let mut out = String::new();
    let mut calls: Vec<String> = Vec::new();
    let mut state = OutputState::default();
    for event in events {
        if !matches!(event, Event::Call(_) | Event::Execute) {
            flush_calls(&mut calls, &mut state, &mut out);
        }
        match event {
            Event::Think(text) => state.block(&mut out, &format!("<think>{text}</think>")),
            Event::Respond(text) => state.text(&mut out, text),
            Event::Call(call) => calls.push(format_call(call)),
            Event::Execute if calls.is_empty() => state.block(&mut out, "<execute>\n[]\n</execute>"),
            Event::Execute => flush_calls(&mut calls, &mut state, &mut out),
            Event::Results(reports) => state.block(&mut out, &render_results(reports)),
            Event::Close | Event::Malformed(_) | Event::End => {}
        }
    }
    flush_calls(&mut calls, &mut state, &mut out);
    if state.is_open && out.trim_end().ends_with("<end>") {
        out.push_str(EMPTY_BLOCK);
    }
    out
}

/// The state of the output. It is open after a text, to which not even whitespace may be added.
#[derive(Debug, Default)]
struct OutputState {
    is_open: bool,
}

impl OutputState {
    fn text(&mut self, out: &mut String, text: &str) {
        if self.is_open {
            out.push_str(EMPTY_BLOCK);
        }
        out.push_str(text);
        self.is_open = true;
    }

    fn block(&mut self, out: &mut String, block: &str) {
        if !self.is_open && !out.is_empty() {
            out.push('\n');
        }
        out.push_str(block);
        self.is_open = false;
    }
}

fn flush_calls(calls: &mut Vec<String>, state: &mut OutputState, out: &mut String) {
    if !calls.is_empty() {
        state.block(out, &format!("<execute>\n{}\n</execute>", format_array(calls)));
        calls.clear();
    }
}

/// Renders one element of the array of calls. Arguments that are an object keep their bytes. Those of a call from
/// another protocol may be anything: empty ones become an empty object and others a string, so that the array stays
/// well-formed.
fn format_call(call: &ToolIntent) -> String {
    let args = call.arguments.trim();
    let args = match serde_json::from_str::<&serde_json::value::RawValue>(args) {
        Ok(raw) if raw.get().starts_with('{') => args.to_owned(),
        _ if args.is_empty() => "{}".to_owned(),
        _ => Value::from(args).to_string(),
    };
    format!(r#"{{"name": {}, "args": {args}}}"#, quote(&call.name))
}

#[cfg(test)]
mod tests;
