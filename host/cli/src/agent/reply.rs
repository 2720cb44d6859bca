//! Text of a reply while it is written. Only the answer belongs on standard output, and it is not known before the end
//! of the reply whether a text is the answer or accompanies calls.

use std::io::IsTerminal as _;

/// Text of the reply that is being written.
///
/// If standard output and standard error are one terminal, text appears as it is written, because the two look the same
/// there. Otherwise it is held until the stream that it belongs to is known. Text that may be arguments of a call,
/// repeated as text, is held in both cases.
#[derive(Debug, Default)]
pub(crate) struct ReplyText {
    /// True if text appears as it is written.
    live: bool,
    /// The text on standard output since the model was asked.
    shown: String,
    /// The text that has not been shown.
    held: String,
}

impl ReplyText {
    /// Creates an empty text for the output streams of this process.
    pub(crate) fn for_output_streams() -> Self {
        Self::new(std::io::stdout().is_terminal() && std::io::stderr().is_terminal())
    }

    fn new(live: bool) -> Self {
        Self { live, ..Self::default() }
    }

    /// Appends a piece of text. Returns the part to show on standard output now.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        if !self.live {
            return String::new();
        }
        let from = object_start(&self.held).unwrap_or(self.held.len());
        let rest = self.held.split_off(from);
        let fresh = std::mem::replace(&mut self.held, rest);
        self.shown.push_str(&fresh);
        fresh
    }

    /// Takes the held text that accompanies calls, if it certainly repeats none of their arguments.
    pub(crate) fn take_prose(&mut self) -> Option<String> {
        if object_start(&self.held).is_some() { None } else { self.take() }
    }

    /// Takes the held text.
    pub(crate) fn take(&mut self) -> Option<String> {
        let held = std::mem::take(&mut self.held);
        (!held.trim().is_empty()).then_some(held)
    }

    /// Takes the held text; from now on it is shown on standard output.
    pub(crate) fn show(&mut self) -> Option<String> {
        let held = self.take()?;
        self.shown.push_str(&held);
        Some(held)
    }

    /// Ends the line on standard output; returns whether that takes a line break.
    pub(crate) fn end_line(&mut self) -> bool {
        if self.shown.is_empty() || self.shown.ends_with('\n') {
            return false;
        }
        self.shown.push('\n');
        true
    }

    /// Clears the text, for the next reply.
    pub(crate) fn clear(&mut self) {
        self.shown.clear();
        self.held.clear();
    }

    /// Ends the reply with this answer. Returns the part of it that has not been shown.
    pub(crate) fn finish<'a>(&mut self, answer: &'a str) -> &'a str {
        let answer = answer.trim_end();
        let shown = Some(self.shown.trim()).filter(|shown| !shown.is_empty());
        let rest = shown.and_then(|shown| answer.trim_start().strip_prefix(shown)).map(str::trim_start);
        self.clear();
        rest.unwrap_or(answer)
    }
}

/// Finds the first brace that may begin a JSON object: one with a key, an empty one, or one that ends the
/// text so far.
fn object_start(text: &str) -> Option<usize> {
    let mut braces = text.match_indices('{').map(|(at, _)| at);
    braces.find(|at| {
        let inside = text.get(at.saturating_add(1)..).unwrap_or_default().trim_start();
        inside.is_empty() || inside.starts_with(['"', '}'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push_all(live: bool, pieces: &[&str]) -> (ReplyText, String) {
        let mut reply = ReplyText::new(live);
        let shown = pieces.iter().map(|piece| reply.push(piece)).collect();
        (reply, shown)
    }

    #[test]
    fn off_a_terminal_text_is_held_until_it_is_the_answer() {
        let (mut reply, shown) = push_all(false, &["It ", "is 8."]);
        assert_eq!(shown, "");
        assert!(!reply.end_line());
        assert_eq!(reply.finish("It is 8."), "It is 8.");
        let (mut reply, _) = push_all(false, &["Let me see."]);
        assert_eq!(reply.take_prose().as_deref(), Some("Let me see."));
        assert_eq!(reply.take(), None);
    }

    #[test]
    fn at_a_terminal_text_appears_once_as_it_is_written() {
        let (mut reply, shown) = push_all(true, &["It ", "is {8}", "."]);
        assert_eq!(shown, "It is {8}.");
        assert_eq!(reply.take_prose(), None);
        assert!(reply.end_line() && !reply.end_line());
        assert_eq!(reply.finish("It is {8}.\n"), "");
        let (mut reply, _) = push_all(true, &["A draft."]);
        assert_eq!(reply.finish("Another answer."), "Another answer.");
    }

    #[test]
    fn text_that_may_repeat_arguments_is_always_held() {
        for live in [true, false] {
            for pieces in [["{\"a\":", " 3}"], ["{", " \"a\": 3}"], ["{\n", "}"]] {
                let (mut reply, shown) = push_all(live, &pieces);
                assert_eq!((shown.as_str(), reply.take_prose()), ("", None), "{pieces:?}");
                assert_eq!(reply.take(), Some(pieces.concat()));
            }
        }
        let (mut reply, shown) = push_all(true, &["I add: {", "\"a\": 3}"]);
        assert_eq!((shown.as_str(), reply.take().as_deref()), ("I add: ", Some("{\"a\": 3}")));
    }

    #[test]
    fn an_answer_that_is_an_object_is_completed_at_the_end() {
        let (mut reply, shown) = push_all(true, &["Here: {\"sum\":", " 8}"]);
        assert_eq!(shown, "Here: ");
        assert_eq!(reply.finish("Here: {\"sum\": 8}"), "{\"sum\": 8}");
    }

    #[test]
    fn partial_text_is_shown_if_nothing_follows() {
        let (mut reply, _) = push_all(false, &["It is"]);
        assert_eq!(reply.show().as_deref(), Some("It is"));
        assert!(reply.end_line());
        assert_eq!(reply.show(), None);
    }
}
