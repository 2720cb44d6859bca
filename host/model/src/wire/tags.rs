//! Thoughts that a model writes as tags in its text.

use fumehood_core::chat::Delta;

/// The tags around thoughts, in lower case; they are read in any.
const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];
/// Maximum size of the white space before a tag, with the beginning of the tag, in bytes.
const MAX_HELD_BYTES: usize = 256;

/// A splitter of a streamed text into thoughts and the answer.
///
/// Only tags before the answer count, because an answer may mention one. Thoughts that never end leave no answer.
#[derive(Debug, Default)]
pub(super) struct TagSplitter {
    state: State,
    /// The text that may be a part of a tag.
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the answer.
    #[default]
    Start,
    /// Before the answer, after thoughts.
    AfterThoughts,
    /// Within thoughts that end with this tag.
    Thoughts(&'static str),
    /// Within the answer.
    Answer,
}

impl TagSplitter {
    /// Adds a piece of the text. Returns the pieces that are certain.
    pub(super) fn push(&mut self, piece: String) -> Vec<Delta> {
        if self.state == State::Answer {
            return vec![Delta::Text(piece)];
        }
        let mut held = std::mem::take(&mut self.held);
        held.push_str(&piece);
        let mut found = Vec::new();
        let mut rest = held.as_str();
        while let Some(next) = self.split(rest, &mut found) {
            rest = next;
        }
        found
    }

    /// Returns the rest at the end of the text.
    pub(super) fn finish(&mut self) -> Option<Delta> {
        let held = std::mem::take(&mut self.held);
        match self.state {
            _ if held.is_empty() => None,
            State::Thoughts(_) => Some(Delta::Thought(held)),
            State::Start | State::AfterThoughts | State::Answer => Some(Delta::Text(held)),
        }
    }

    /// Takes one piece from a text, or holds it. Returns what is left to split.
    fn split<'a>(&mut self, text: &'a str, found: &mut Vec<Delta>) -> Option<&'a str> {
        if let State::Thoughts(tag) = self.state {
            let ended = find_tag(text, tag);
            let open = || text.split_at(text.len().saturating_sub(partial_tag(text, tag))).0;
            let thoughts = ended.map_or_else(open, |(thoughts, _)| thoughts);
            if !thoughts.is_empty() {
                found.push(Delta::Thought(thoughts.to_owned()));
            }
            let Some((_, rest)) = ended else {
                self.held = text.get(thoughts.len()..).unwrap_or_default().to_owned();
                return None;
            };
            self.state = State::AfterThoughts;
            return Some(rest);
        }
        let trimmed = text.trim_start();
        if let Some((tag, rest)) = TAGS.iter().find_map(|(open, close)| Some((*close, strip_tag(trimmed, open)?))) {
            self.state = State::Thoughts(tag);
            return Some(rest);
        }
        let kept = if self.state == State::AfterThoughts { trimmed } else { text };
        if kept.len() <= MAX_HELD_BYTES && TAGS.iter().any(|(open, _)| is_start(trimmed, open)) {
            self.held = kept.to_owned();
            return None;
        }
        self.state = State::Answer;
        found.push(Delta::Text(kept.to_owned()));
        None
    }
}

/// Returns what is before and after the first place of a tag.
fn find_tag<'a>(text: &'a str, tag: &str) -> Option<(&'a str, &'a str)> {
    text.match_indices('<').find_map(|(at, _)| {
        let (before, from) = text.split_at(at);
        Some((before, strip_tag(from, tag)?))
    })
}

/// Returns the text after the tag that it begins with.
fn strip_tag<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(tag.len())?;
    start.eq_ignore_ascii_case(tag).then_some(rest)
}

fn is_start(text: &str, tag: &str) -> bool {
    tag.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text))
}

/// Returns the length of the longest end of a text that begins a tag.
fn partial_tag(text: &str, tag: &str) -> usize {
    let ends = text.match_indices('<').map(|(at, _)| text.split_at(at).1);
    ends.into_iter().find(|end| end.len() < tag.len() && is_start(end, tag)).map_or(0, str::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns thoughts and answer of a text in pieces of this size.
    fn split(text: &str, size: usize) -> (String, String) {
        let mut splitter = TagSplitter::default();
        let chars: Vec<char> = text.chars().collect();
        let mut found: Vec<Delta> =
            chars.chunks(size).flat_map(|piece| splitter.push(piece.iter().collect())).collect();
        found.extend(splitter.finish());
        let mut thoughts = String::new();
        let mut answer = String::new();
        for delta in found {
            match delta {
                Delta::Thought(text) => thoughts.push_str(&text),
                Delta::Text(text) => answer.push_str(&text),
            }
        }
        (thoughts, answer)
    }

    #[test]
    fn tags_before_the_answer_are_thoughts() {
        for (text, thoughts, answer) in [
            ("<think>a < b</think>\n\nIt is 8.\n", "a < b", "It is 8.\n"),
            (" \n<thinking>a</think></thinking>b", "a</think>", "b"),
            ("<think></think><think>a</think>b", "a", "b"),
            ("<THINK>ä <</Think>b", "ä <", "b"),
            ("<think>never ends</thin", "never ends</thin", ""),
            ("<think>a</think> \n", "a", ""),
            ("Use <think>a</think>.", "", "Use <think>a</think>."),
            ("  <thorn> ä", "", "  <thorn> ä"),
            ("<thi", "", "<thi"),
            ("", "", ""),
        ] {
            for size in [1, 2, 5, 100] {
                assert_eq!(split(text, size), (thoughts.to_owned(), answer.to_owned()), "{text:?} in pieces of {size}");
            }
        }
    }
}
