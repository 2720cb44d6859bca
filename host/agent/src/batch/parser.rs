//! A streaming parser of replies: it takes text in pieces of any size, and returns events as early as they are certain.
//!
//! Inside `<execute>` and `<results>` it follows JSON strings and their escapes, so that a tag inside a string is content.

use super::block;
use super::event::{Event, whole};

/// Limits on one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParserLimits {
    /// Maximum size of an `<execute>` or `<results>` block, in bytes without its tags. A longer block is malformed. The default is
    /// 1 MiB.
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
enum Kind {
    Execute,
    Results,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Results => "results",
        }
    }
}

/// The position in a JSON text, as far as tags are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Json {
    Outside,
    InString,
    Escaped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Outside all tags.
    Text,
    Think,
    Block(Kind, Json),
    /// After an `<end>` that may yet turn out to be part of the text.
    Ended,
    Done,
}

impl State {
    /// Returns the tags that have a meaning in this state. The only `<` of each is its first character, which the matching relies on.
    fn tags(self) -> &'static [(&'static str, Tag)] {
        match self {
            Self::Text | Self::Ended => &[
                ("<think>", Tag::Think),
                ("<execute>", Tag::Execute),
                ("<results>", Tag::Results),
                ("<end>", Tag::End),
            ],
            Self::Think => &[("</think>", Tag::Close)],
            Self::Block(Kind::Execute, Json::Outside) => &[("</execute>", Tag::Close)],
            Self::Block(Kind::Results, Json::Outside) => &[("</results>", Tag::Close)],
            Self::Block(..) | Self::Done => &[],
        }
    }
}

/// A streaming parser of one reply.
///
/// It ignores everything after `</execute>`: the model has to wait for its results, so any text before them is made up. `<end>` at
/// the very end of a reply is a mark and not text. Only whitespace of a text can be lost, and only if a block or a stretch of text
/// has nothing else, after `<end>`, or beyond the limit on a block.
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
    spoke: bool,
    taken: usize,
    closed: bool,
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
            spoke: false,
            taken: 0,
            closed: false,
            events: Vec::new(),
        }
    }

    /// Parses the next piece of the reply, and returns the events that are certain by now.
    pub fn push(&mut self, chunk: &str) -> Vec<Event> {
        for c in chunk.chars() {
            if self.state == State::Done {
                break;
            }
            self.taken = self.taken.saturating_add(c.len_utf8());
            self.character(c);
        }
        self.flush();
        std::mem::take(&mut self.events)
    }

    /// Ends the reply, and returns the remaining events. An open `<think>` counts as closed, an open `<execute>` as closed if its
    /// array is complete (providers cut a reply at `</execute>` if that is a stop sequence), and otherwise as malformed.
    pub fn finish(&mut self) -> Vec<Event> {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Block(kind, _) => self.close_block(kind),
            State::Text | State::Think => held.chars().for_each(|c| self.content(c)),
            State::Ended if !held.is_empty() => {
                self.not_the_end();
                held.chars().for_each(|c| self.content(c));
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
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Returns whether the reply has an `</execute>`.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn character(&mut self, c: char) {
        if !self.held.is_empty() {
            self.held.push(c);
            let tags = self.state.tags();
            if let Some((_, tag)) = tags.iter().find(|(tag, _)| *tag == self.held) {
                self.held.clear();
                return self.tag(*tag);
            }
            if tags.iter().any(|(tag, _)| tag.starts_with(&self.held)) {
                return;
            }
            self.held.pop();
            let held = std::mem::take(&mut self.held);
            if self.state == State::Ended {
                self.not_the_end();
            }
            held.chars().for_each(|c| self.content(c));
        }
        if c == '<' && !self.state.tags().is_empty() {
            self.held.push(c);
        } else {
            self.content(c);
        }
    }

    fn tag(&mut self, tag: Tag) {
        if self.state == State::Ended {
            self.not_the_end();
        }
        match (tag, self.state) {
            (Tag::End, _) => self.state = State::Ended,
            (Tag::Close, State::Block(kind, _)) => {
                self.closed = kind == Kind::Execute;
                self.close_block(kind);
            }
            (Tag::Close, _) => self.open(State::Text),
            (Tag::Think, _) => self.open(State::Think),
            (Tag::Execute, _) => self.open(State::Block(Kind::Execute, Json::Outside)),
            (Tag::Results, _) => self.open(State::Block(Kind::Results, Json::Outside)),
        }
    }

    /// Ends the current stretch and starts the next.
    fn open(&mut self, state: State) {
        self.close_stretch();
        self.state = state;
    }

    /// Turns `<end>` into text, because more text followed it.
    fn not_the_end(&mut self) {
        self.state = State::Text;
        let tail = std::mem::take(&mut self.tail);
        "<end>".chars().chain(tail.chars()).for_each(|c| self.content(c));
    }

    fn content(&mut self, c: char) {
        match self.state {
            State::Text | State::Think if self.spoke || !c.is_whitespace() => {
                if !self.spoke {
                    self.spoke = true;
                    self.text = std::mem::take(&mut self.blank);
                }
                self.text.push(c);
            }
            State::Text | State::Think if self.blank.len() < self.limits.block_bytes => self.blank.push(c),
            State::Ended if c.is_whitespace() && self.tail.len() < self.limits.block_bytes => self.tail.push(c),
            State::Ended if c.is_whitespace() => {}
            State::Ended => {
                self.not_the_end();
                self.content(c);
            }
            State::Block(kind, json) => self.block_content(kind, json, c),
            State::Text | State::Think | State::Done => {}
        }
    }

    fn block_content(&mut self, kind: Kind, json: Json, c: char) {
        let next = match (json, c) {
            (Json::Outside, '"') | (Json::Escaped, _) => Json::InString,
            (Json::InString, '"') => Json::Outside,
            (Json::InString, '\\') => Json::Escaped,
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

    fn close_block(&mut self, kind: Kind) {
        let text = std::mem::take(&mut self.text);
        self.state = State::Text;
        match kind {
            Kind::Execute => {
                match block::calls(&text) {
                    Ok(calls) => {
                        self.events.extend(calls.into_iter().map(Event::Call));
                        self.events.push(Event::Execute);
                    }
                    Err(error) => self.events.push(Event::Malformed(error.to_string())),
                }
                self.state = State::Done;
            }
            Kind::Results if text.trim().is_empty() => {}
            Kind::Results => match block::results(&text) {
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
        if std::mem::take(&mut self.spoke) {
            self.events.push(Event::Close);
        }
    }
}

/// Parses a complete reply. Each block and each stretch of text is one event; the events are the same as for a reply in pieces.
#[must_use]
pub fn parse(reply: &str, limits: ParserLimits) -> Vec<Event> {
    let mut parser = Parser::new(limits);
    let mut events = parser.push(reply);
    events.extend(parser.finish());
    whole(events)
}

#[cfg(test)]
mod tests;
