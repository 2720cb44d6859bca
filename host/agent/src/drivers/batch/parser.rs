//! A streaming parser of replies: it takes text in pieces of any size, and returns events as early as they are certain.
//!
//! Inside `<execute>` and `<results>` it tracks JSON strings and their escapes, so that a tag in a string is content.

use super::block;
use super::event::{Event, merge_pieces};

/// Limits on one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParserLimits {
    /// Maximum size of an `<execute>` or `<results>` block, in bytes without its tags. A longer block is malformed. The
    /// default is 1 MiB.
    pub block_bytes: usize,
}

impl Default for ParserLimits {
    /// Returns the limits with blocks of at most 1 MiB.
    fn default() -> Self {
        Self { block_bytes: 1 << 20 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    Think,
    Execute,
    Results,
    End,
    Close,
}

/// The kind of a block of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Execute,
    Results,
}

impl BlockKind {
    fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Results => "results",
        }
    }
}

/// The position in a JSON text, as far as tags are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonState {
    Outside,
    InString,
    Escaped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Outside all tags.
    Text,
    Think,
    Block(BlockKind, JsonState),
    /// After an `<end>` that may yet turn out to be part of the text.
    Ended,
    Done,
}

impl State {
    /// Returns the tags that have a meaning in this state. The only `<` of each is its first character, which the
    /// matching relies on.
    fn tags(self) -> &'static [(&'static str, Tag)] {
        match self {
            Self::Text | Self::Ended => &[
                ("<think>", Tag::Think),
                ("<execute>", Tag::Execute),
                ("<results>", Tag::Results),
                ("<end>", Tag::End),
            ],
            Self::Think => &[("</think>", Tag::Close)],
            Self::Block(BlockKind::Execute, JsonState::Outside) => &[("</execute>", Tag::Close)],
            Self::Block(BlockKind::Results, JsonState::Outside) => &[("</results>", Tag::Close)],
            Self::Block(..) | Self::Done => &[],
        }
    }
}

/// A streaming parser of one reply.
///
/// It ignores everything after `</execute>`: the model has to wait for its results, so any text before them is made up.
/// `<end>` at the very end of a reply is a mark and not text. Only whitespace of a text can be lost, and only if a
/// block or a stretch of text has nothing else, after `<end>`, or beyond the limit on a block.
#[derive(Debug)]
pub struct Parser {
    limits: ParserLimits,
    state: State,
    /// The start of a possible tag.
    held: String,
    /// Whitespace at the start of a stretch, dropped unless other text follows.
    blank: String,
    /// Whitespace after `<end>`, dropped unless other text follows.
    tail: String,
    /// The text of the current stretch that is not in an event yet, or the block so far.
    text: String,
    /// True if the current stretch has anything but whitespace.
    has_content: bool,
    consumed_bytes: usize,
    is_closed: bool,
    events: Vec<Event>,
}

impl Parser {
    /// Creates a parser for one reply.
    #[must_use]
    pub fn new(limits: ParserLimits) -> Self {
        Self {
            limits,
            state: State::Text,
            held: String::new(),
            blank: String::new(),
            tail: String::new(),
            text: String::new(),
            has_content: false,
            consumed_bytes: 0,
            is_closed: false,
            events: Vec::new(),
        }
    }

    /// Parses the next piece of the reply, and returns the events that are certain by now.
    pub fn push(&mut self, chunk: &str) -> Vec<Event> {
        for c in chunk.chars() {
            if self.state == State::Done {
                break;
            }
            self.consumed_bytes = self.consumed_bytes.saturating_add(c.len_utf8());
            self.push_char(c);
        }
        self.flush();
        std::mem::take(&mut self.events)
    }

    /// Ends the reply, and returns the remaining events. An open `<think>` counts as closed, an open `<execute>` as
    /// closed if its array is complete (providers cut a reply at `</execute>` if that is a stop sequence), and
    /// otherwise as malformed.
    pub fn finish(&mut self) -> Vec<Event> {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Block(kind, _) => self.close_block(kind),
            State::Text | State::Think => held.chars().for_each(|c| self.push_content(c)),
            State::Ended if !held.is_empty() => {
                self.resume_text();
                held.chars().for_each(|c| self.push_content(c));
            }
            State::Ended | State::Done => {}
        }
        if self.state != State::Done {
            self.close_stretch();
            self.events.push(Event::End);
            self.state = State::Done;
        }
        std::mem::take(&mut self.events)
    }

    /// Returns whether the parser ignores further text, so that the rest of the reply need not be awaited.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Returns the number of parsed bytes: all of the reply, or those up to the end of `</execute>`.
    #[must_use]
    pub fn consumed_bytes(&self) -> usize {
        self.consumed_bytes
    }

    /// Returns whether the reply has an `</execute>`.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn push_char(&mut self, c: char) {
        if !self.held.is_empty() {
            self.held.push(c);
            let tags = self.state.tags();
            if let Some((_, tag)) = tags.iter().find(|(tag, _)| *tag == self.held) {
                self.held.clear();
                return self.handle_tag(*tag);
            }
            if tags.iter().any(|(tag, _)| tag.starts_with(&self.held)) {
                return;
            }
            self.held.pop();
            let held = std::mem::take(&mut self.held);
            if self.state == State::Ended {
                self.resume_text();
            }
            held.chars().for_each(|c| self.push_content(c));
        }
        if c == '<' && !self.state.tags().is_empty() {
            self.held.push(c);
        } else {
            self.push_content(c);
        }
    }

    fn handle_tag(&mut self, tag: Tag) {
        if self.state == State::Ended {
            self.resume_text();
        }
        match (tag, self.state) {
            (Tag::End, _) => self.state = State::Ended,
            (Tag::Close, State::Block(kind, _)) => {
                self.is_closed = kind == BlockKind::Execute;
                self.close_block(kind);
            }
            (Tag::Close, _) => self.start(State::Text),
            (Tag::Think, _) => self.start(State::Think),
            (Tag::Execute, _) => self.start(State::Block(BlockKind::Execute, JsonState::Outside)),
            (Tag::Results, _) => self.start(State::Block(BlockKind::Results, JsonState::Outside)),
        }
    }

    /// Ends the current stretch and starts the next.
    fn start(&mut self, state: State) {
        self.close_stretch();
        self.state = state;
    }

    /// Turns `<end>` into text, because more text followed it.
    fn resume_text(&mut self) {
        self.state = State::Text;
        let tail = std::mem::take(&mut self.tail);
        "<end>".chars().chain(tail.chars()).for_each(|c| self.push_content(c));
    }

    fn push_content(&mut self, c: char) {
        match self.state {
            State::Text | State::Think if self.has_content || !c.is_whitespace() => {
                if !self.has_content {
                    self.has_content = true;
                    self.text = std::mem::take(&mut self.blank);
                }
                self.text.push(c);
            }
            State::Text | State::Think if self.blank.len() < self.limits.block_bytes => self.blank.push(c),
            State::Ended if c.is_whitespace() && self.tail.len() < self.limits.block_bytes => self.tail.push(c),
            State::Ended if c.is_whitespace() => {}
            State::Ended => {
                self.resume_text();
                self.push_content(c);
            }
            State::Block(kind, json) => self.push_block_content(kind, json, c),
            State::Text | State::Think | State::Done => {}
        }
    }

    fn push_block_content(&mut self, kind: BlockKind, json: JsonState, c: char) {
        let next = match (json, c) {
            (JsonState::Outside, '"') | (JsonState::Escaped, _) => JsonState::InString,
            (JsonState::InString, '"') => JsonState::Outside,
            (JsonState::InString, '\\') => JsonState::Escaped,
            (json, _) => json,
        };
        self.state = State::Block(kind, next);
        self.text.push(c);
        let limit = self.limits.block_bytes;
        if self.text.len() > limit {
            // The end of such a block is not searched for, so nothing after it can be parsed.
            self.text.clear();
            self.events.push(Event::Malformed(block::BlockError::TooLong { tag: kind.name(), limit }.to_string()));
            self.state = State::Done;
        }
    }

    fn close_block(&mut self, kind: BlockKind) {
        let text = std::mem::take(&mut self.text);
        self.state = State::Text;
        match kind {
            BlockKind::Execute => {
                match block::parse_calls(&text) {
                    Ok(calls) => {
                        self.events.extend(calls.into_iter().map(Event::Call));
                        self.events.push(Event::Execute);
                    }
                    Err(error) => self.events.push(Event::Malformed(error.to_string())),
                }
                self.state = State::Done;
            }
            BlockKind::Results if text.trim().is_empty() => {}
            BlockKind::Results => match block::parse_results(&text) {
                Ok(reports) => self.events.push(Event::Results(reports)),
                Err(error) => self.events.push(Event::Malformed(error.to_string())),
            },
        }
    }

    /// Moves the text of the current stretch to an event.
    fn flush(&mut self) {
        if self.text.is_empty() {
            return;
        }
        match self.state {
            State::Text | State::Ended => self.events.push(Event::Respond(std::mem::take(&mut self.text))),
            State::Think => self.events.push(Event::Think(std::mem::take(&mut self.text))),
            State::Block(..) | State::Done => {}
        }
    }

    fn close_stretch(&mut self) {
        self.flush();
        self.blank.clear();
        self.tail.clear();
        if std::mem::take(&mut self.has_content) {
            self.events.push(Event::Close);
        }
    }
}

/// Parses a complete reply, with one event for each block and each stretch of text.
///
/// The events are those of the same reply in pieces, merged by [`merge_pieces`].
#[must_use]
pub fn parse(reply: &str, limits: ParserLimits) -> Vec<Event> {
    let mut parser = Parser::new(limits);
    let mut events = parser.push(reply);
    events.extend(parser.finish());
    merge_pieces(events)
}

#[cfg(test)]
mod tests;
