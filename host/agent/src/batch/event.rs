//! What a reply is made of, in the order in which it was said.

use fumehood_core::chat::ToolIntent;

use super::report::ToolReport;

/// One event of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A piece of a `<think>` block. Never shown to the user.
    Think(String),
    /// A piece of the text outside all tags: what the user sees.
    Respond(String),
    /// The `<think>` block, or the stretch of text, that the pieces before belong to is over.
    Close,
    /// One call of an `<execute>` block. Comes only if the whole block is well-formed. It has no id, and its arguments
    /// are the bytes that the model wrote.
    Call(ToolIntent),
    /// The `<execute>` block is complete: its calls are to run now. Nothing comes after it.
    Execute,
    /// A `<results>` block: only the system writes these, so in a model's own reply it is made up.
    Results(Vec<ToolReport>),
    /// A block that cannot be read, in words for the model. If it was an `<execute>` block, none of its calls runs.
    Malformed(String),
    /// The reply ended without calls.
    End,
}

impl Event {
    /// Whether the event is part of the conversation, and so is kept. The others only steer: they say when to run calls,
    /// and when a piece or a reply is over.
    #[must_use]
    pub fn persists(&self) -> bool {
        matches!(self, Self::Think(_) | Self::Respond(_) | Self::Call(_) | Self::Results(_))
    }
}

/// The same events with the pieces of each block put together, so that each block and each stretch of text is one event.
///
/// Whoever shows a reply while it is written takes the pieces; whoever keeps it takes these, and so keeps it once.
#[must_use]
pub fn whole(events: impl IntoIterator<Item = Event>) -> Vec<Event> {
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
    fn g24_only_what_is_said_persists() {
        let call = ToolIntent { id: String::new(), name: "a".to_owned(), arguments: "{}".to_owned() };
        let text = || "x".to_owned();
        for event in [Event::Think(text()), Event::Respond(text()), Event::Call(call), Event::Results(Vec::new())] {
            assert!(event.persists(), "{event:?}");
        }
        for event in [Event::Close, Event::Execute, Event::End, Event::Malformed(text())] {
            assert!(!event.persists(), "{event:?}");
        }
    }

    #[test]
    fn g24_pieces_become_one_event_and_blocks_stay_apart() {
        let think = |text: &str| Event::Think(text.to_owned());
        let pieces = [think("a"), think("b"), Event::Close, think("c"), Event::Close, Event::End];
        assert_eq!(whole(pieces), [think("ab"), think("c"), Event::End]);
    }
}
