//! The source text of a program with replacements: blanks in the place of what is erased, so that all positions stay.

use oxc_span::Span;

/// The replacements in a source text, by byte.
pub(crate) struct Erasure<'s> {
    source: &'s str,
    replacements: Vec<Replacement>,
    is_empty: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Replacement {
    Keep,
    Blank,
    By(u8),
}

impl<'s> Erasure<'s> {
    pub(crate) fn new(source: &'s str) -> Self {
        Self { source, replacements: vec![Replacement::Keep; source.len()], is_empty: true }
    }

    /// Returns the text between two positions; empty if they are none.
    pub(crate) fn text(&self, start: u32, end: u32) -> &'s str {
        self.source.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Returns the text from a position on.
    pub(crate) fn rest(&self, start: u32) -> &'s str {
        self.source.get(start as usize..).unwrap_or_default()
    }

    pub(crate) fn has_line_break(&self, start: u32, end: u32) -> bool {
        self.text(start, end).contains(is_line_break)
    }

    /// Replaces this part by blanks. Line breaks stay.
    pub(crate) fn blank(&mut self, start: u32, end: u32) {
        if let Some(part) = self.replacements.get_mut(start as usize..end as usize) {
            part.fill(Replacement::Blank);
            self.is_empty &= part.is_empty();
        }
    }

    /// Replaces this part by blanks, and by a semicolon at its start: what follows begins a statement or a member.
    pub(crate) fn blank_statement(&mut self, span: Span) {
        self.blank(span.start, span.end);
        self.put(span.start, b';');
    }

    /// Puts an ASCII character in the place of the one that begins here.
    pub(crate) fn put(&mut self, at: u32, character: u8) {
        if let Some(replacement) = self.replacements.get_mut(at as usize) {
            *replacement = Replacement::By(character);
            self.is_empty = false;
        }
    }

    /// Replaces the first occurrence of a character in this part by a blank.
    pub(crate) fn blank_character(&mut self, start: u32, end: u32, character: char) {
        if let Some(at) = self.text(start, end).find(character) {
            let at = start + at as u32;
            self.blank(at, at + character.len_utf8() as u32);
        }
    }

    /// Returns the text without what is erased; `None` if it is all of it.
    pub(crate) fn finish(self) -> Option<String> {
        if self.is_empty {
            return None;
        }
        let mut text = String::with_capacity(self.source.len());
        for ((_, character), replacement) in self.source.char_indices().zip(self.by_character()) {
            text.push(match replacement {
                Replacement::By(character) => char::from(character),
                Replacement::Blank if !is_line_break(character) => ' ',
                Replacement::Keep | Replacement::Blank => character,
            });
        }
        Some(text)
    }

    /// Returns the replacement of each character: that of its first byte.
    fn by_character(&self) -> impl Iterator<Item = Replacement> {
        self.replacements
            .iter()
            .zip(self.source.bytes())
            .filter(|(_, byte)| byte & 0b1100_0000 != 0b1000_0000)
            .map(|(replacement, _)| *replacement)
    }
}

/// Returns whether a character ends a line (ECMA-262, section 12.3).
fn is_line_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}
