//! The events of a reply, in its order.

use fumehood_core::chat::ToolIntent;

use super::report::ToolReport;

/// An event of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A piece of a `<think>` block. Never shown to the user.
    Think(String),
    /// A piece of the text outside all tags, for the user.
    Respond(String),
    /// The end of the `<think>` block, or the stretch of text, that the previous pieces belong to.
    Close,
    /// One call of an `<execute>` block, if the whole block is well-formed. It has no id, and its arguments are the
    /// bytes that the model wrote.
    Call(ToolIntent),
    /// The end of an `<execute>` block: its calls are to run now. It is the last event.
    Execute,
    /// A `<results>` block. Only the system writes these, so in a reply of a model it is made up.
    Results(Vec<ToolReport>),
    /// A block that cannot be read, with the error for the model. No call of such an `<execute>` block runs.
    Malformed(String),
    /// The end of a reply without calls.
    End,
}

impl Event {
    /// Returns whether the event is part of the conversation, and so is stored. The other events only mark when to run
    /// calls, and the end of a piece or of a reply.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        matches!(self, Self::Think(_) | Self::Respond(_) | Self::Call(_) | Self::Results(_))
    }
}

/// Merges the pieces of each block and of each stretch of text into one event.
///
/// Pieces serve to show a reply while it is written; merged events serve to store it.
#[must_use]
pub fn merge_pieces(events: impl IntoIterator<Item = Event>) -> Vec<Event> {
    let mut out: Vec<Event> = Vec::new();
    let mut open = false;
    for event in events {
        match (event, out.last_mut()) {
            (Event::Close, _) => open = false,
            (Event::Think(more), Some(Event::Think(text))) if open => text.push_str(&more),
            (Event::Respond(more), Some(Event::Respond(text))) if open => text.push_str(&more),
            (event, _) => {
                open = matches!(event, Event::Think(_) | Event::Respond(_));
                out.push(event);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_persists() {
        fn text() -> String {
            "x".to_owned()
        }

        let call = ToolIntent { id: String::new(), name: "a".to_owned(), arguments: "{}".to_owned() };
        for event in [Event::Think(text()), Event::Respond(text()), Event::Call(call), Event::Results(Vec::new())] {
            assert!(event.is_persistent(), "{event:?}");
        }
        for event in [Event::Close, Event::Execute, Event::End, Event::Malformed(text())] {
            assert!(!event.is_persistent(), "{event:?}");
        }
    }

    #[test]
    fn pieces_become_one_event_and_blocks_stay_apart() {
        fn think(text: &str) -> Event {
            Event::Think(text.to_owned())
        }

        let pieces = [think("a"), think("b"), Event::Close, think("c"), Event::Close, Event::End];
        assert_eq!(merge_pieces(pieces), [think("ab"), think("c"), Event::End]);
    }
}
