//! The filter for a reply while it is written: text outside tags and thoughts pass, and calls do not.

use fumehood_core::chat::{Delta, DeltaSink};
use std::fmt;

use super::event::Event;
use super::parser::{Parser, ParserLimits};

/// A sink that forwards the text outside tags and the thoughts of a reply to another sink.
///
/// Text that may become a tag is held back. The last of it is forwarded on drop.
pub(crate) struct DeltaFilter<'a> {
    inner: &'a mut dyn DeltaSink,
    parser: Parser,
}

impl fmt::Debug for DeltaFilter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFilter").finish_non_exhaustive()
    }
}

impl<'a> DeltaFilter<'a> {
    /// Creates a filter for one reply.
    pub(crate) fn new(inner: &'a mut dyn DeltaSink, limits: ParserLimits) -> Self {
        Self { inner, parser: Parser::new(limits) }
    }

    fn forward(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Respond(text) => self.inner.delta(Delta::Text(text)),
                Event::Think(text) => self.inner.delta(Delta::Thought(text)),
                _ => {}
            }
        }
    }
}

impl DeltaSink for DeltaFilter<'_> {
    fn delta(&mut self, delta: Delta) {
        match delta {
            Delta::Text(text) => {
                let events = self.parser.push(&text);
                self.forward(events);
            }
            thought @ Delta::Thought(_) => self.inner.delta(thought),
        }
    }
}

impl Drop for DeltaFilter<'_> {
    fn drop(&mut self) {
        let events = self.parser.finish();
        self.forward(events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], expected: &[Delta]) {
        let mut seen = Vec::new();
        let mut inner = |delta| seen.push(delta);
        let mut filter = DeltaFilter::new(&mut inner, ParserLimits::default());
        filter.delta(Delta::Thought("aloud".to_owned()));
        pieces.iter().for_each(|piece| filter.delta(Delta::Text((*piece).to_owned())));
        drop(filter);
        assert_eq!(seen.first(), Some(&Delta::Thought("aloud".to_owned())));
        assert_eq!(seen.get(1..).unwrap(), expected, "{pieces:?}");
    }

    #[test]
    fn thoughts_and_calls_are_not_shown_while_they_are_written() {
        fn thought(t: &str) -> Delta {
            Delta::Thought(t.to_owned())
        }

        fn text(t: &str) -> Delta {
            Delta::Text(t.to_owned())
        }

        check(&["<thi", "nk>pl", "an</think>", "Hel", "lo"], &[thought("pl"), thought("an"), text("Hel"), text("lo")]);
        check(&["I look. <exe", "cute>[{\"name\"", ": \"a\", \"args\": {}}]</execute> made up"], &[text("I look. ")]);
        check(&["1 <"], &[text("1 "), text("<")]);
    }
}
