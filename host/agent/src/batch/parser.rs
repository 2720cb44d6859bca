//! A streaming parser of replies: text comes in pieces of any size, events go out as early as they are certain.
//!
//! Inside `<execute>` and `<results>` it follows JSON strings and their escapes, so that a tag inside a string is content.

use super::block;
use super::event::{Event, whole};

/// Caps on one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParserLimits {
    /// Longest `<execute>` or `<results>` block, in bytes without its tags. What is longer is malformed.
    pub block_bytes: usize,
}

impl Default for ParserLimits {
    /// One mebibyte.
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

/// Which of the two blocks of JSON.
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

/// Where in a JSON text we are, as far as tags go.
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
    /// The tags that mean something here. Each has its only `<` at its beginning, which the matching relies on.
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

/// Takes one reply.
///
/// After `</execute>` it takes nothing more: the model has to wait for its results, and whatever it says before it has
/// them is made up. `<end>` at the very end of a reply is a mark and not text. Of text, only whitespace can be lost, and
/// only where a block or a stretch of text has nothing else, after `<end>`, or beyond the cap on a block.
#[derive(Debug)]
pub struct Parser {
    limits: ParserLimits,
    state: State,
    /// The beginning of what may become a tag.
    held: String,
    /// Whitespace at the beginning of a stretch, lost unless something follows it.
    blank: String,
    /// Whitespace after `<end>`, lost unless something follows it.
    tail: String,
    /// Text of the current stretch that has not gone out yet, or the block so far.
    text: String,
    /// Whether the current stretch has anything but whitespace.
    spoke: bool,
    taken: usize,
    closed: bool,
    events: Vec<Event>,
}

impl Parser {
    /// A parser for one reply.
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

    /// Takes the next piece of the reply, and returns what is certain by now.
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

    /// The reply is over. Returns the rest: an open `<think>` counts as closed, an open `<execute>` as closed if its
    /// array is complete (providers cut a reply at `</execute>` when told to stop there), and otherwise as malformed.
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

    /// Whether it takes nothing more. The rest of the reply need not be awaited.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// How many bytes of the reply were taken: all, or those up to the end of `</execute>`.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Whether the reply has its `</execute>`.
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

    /// Ends the current stretch and begins the next.
    fn open(&mut self, state: State) {
        self.close_stretch();
        self.state = state;
    }

    /// More came after `<end>`, so it was text.
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
            // Where such a block ends is not worth finding out, so nothing after it can be told apart.
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

    /// Lets out the text of the current stretch.
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

/// The events of a complete reply, each block and each stretch of text as one event: the same as if it had come in pieces.
#[must_use]
pub fn parse(reply: &str, limits: ParserLimits) -> Vec<Event> {
    let mut parser = Parser::new(limits);
    let mut events = parser.push(reply);
    events.extend(parser.finish());
    whole(events)
}

#[cfg(test)]
mod tests;
