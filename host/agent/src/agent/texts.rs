//! What is kept of the texts of requests, where a host wants them kept.

use std::sync::Arc;

use fumehood_core::chat::{Message, Request, Role};
use serde_json::{Value, json};

use super::ledger::bytes_of;

/// The last request of a session, so that each message is recorded once.
#[derive(Debug, Default)]
pub(super) struct Texts {
    last: Option<Arc<Request>>,
}

impl Texts {
    /// Returns the messages of a request after the prefix that it shares with the last one.
    ///
    /// System and user messages are recorded word for word. Of the others only the size and the id of their execution is
    /// recorded: arguments and results of calls are recorded by the executor, and replies as they were shown. `is_traced` returns
    /// whether a message reports calls of the current run.
    pub(super) fn fresh(&mut self, request: &Arc<Request>, is_traced: impl Fn(&Message) -> bool) -> Value {
        let before = self.last.replace(Arc::clone(request));
        let before = before.iter().flat_map(|request| &request.messages);
        let repeated = request.messages.iter().zip(before).take_while(|(now, then)| now == then).count();
        let fresh = request.messages.iter().skip(repeated).map(|message| kept(message, is_traced(message)));
        json!({ "repeated": repeated, "messages": fresh.collect::<Vec<_>>() })
    }
}

fn kept(message: &Message, is_traced: bool) -> Value {
    let is_plain = message.tool_execution_id.is_none() && message.tool_calls.is_empty() && !is_traced;
    match message.role {
        Role::System | Role::User if is_plain => json!({ "role": message.role, "text": message.content }),
        _ => json!({ "role": message.role, "bytes": bytes_of(message), "execution": message.tool_execution_id }),
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::chat::ToolIntent;

    use super::*;

    #[test]
    fn each_message_is_kept_once_and_nothing_of_calls() {
        let mut texts = Texts::default();
        let request = |messages: Vec<Message>| Arc::new(Request { messages, ..Request::default() });
        let mut said = vec![Message::system("Be brief."), Message::user("Pay.")];
        let first = texts.fresh(&request(said.clone()), |_| false);
        let expected = json!([{"role": "system", "text": "Be brief."}, {"role": "user", "text": "Pay."}]);
        assert_eq!(first, json!({"repeated": 0, "messages": expected}));
        let call = ToolIntent { id: "c".to_owned(), name: "pay".to_owned(), arguments: r#"{"pin":1234}"#.to_owned() };
        let id = Some("x1".to_owned());
        said.push(Message { tool_calls: vec![call], ..Message::assistant("") });
        said.push(Message { tool_execution_id: id, ..Message::tool("c", "secret") });
        said.push(Message::user("<results>secret</results>"));
        said.push(Message::assistant("raw {\"pin\":1234}"));
        said.push(Message::user("Reply with JSON."));
        let second = texts.fresh(&request(said), |message| message.content.starts_with("<results>"));
        let expected = json!([
            {"role": "assistant", "bytes": 15, "execution": null},
            {"role": "tool", "bytes": 6, "execution": "x1"},
            {"role": "user", "bytes": 25, "execution": null},
            {"role": "assistant", "bytes": 16, "execution": null},
            {"role": "user", "text": "Reply with JSON."},
        ]);
        assert_eq!(second, json!({"repeated": 2, "messages": expected}));
    }
}
