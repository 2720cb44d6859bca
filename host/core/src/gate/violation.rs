//! What is wrong with a document: every violation at once, as data and as a text to repair it from.

use std::fmt;

use serde::Serialize;

use crate::sanitize::is_hidden;

use super::format::{format_value, truncate};

/// How many bytes of a pointer a message repeats. The pointer itself is never shortened.
const MAX_POINTER_BYTES: usize = 200;

/// One thing that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Where: a JSON pointer (RFC 6901) into the document. The document as a whole is the empty pointer.
    pub pointer: String,
    /// What the schema, or the rules of strict JSON, ask for there.
    pub expected: String,
    /// What stands there instead, in at most 80 bytes and a hint where one helps; `nothing` if something is missing.
    pub given: String,
    #[serde(skip)]
    form: Form,
}

/// How a violation is put into a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Mismatch,
    Missing,
    Undeclared,
    Plain,
}

impl Violation {
    /// Something else stands there.
    pub(super) fn mismatch(pointer: String, expected: impl Into<String>, given: impl Into<String>) -> Self {
        Self { pointer, expected: expected.into(), given: given.into(), form: Form::Mismatch }
    }

    /// Something is missing there.
    pub(super) fn missing(pointer: String, expected: impl Into<String>) -> Self {
        Self { pointer, expected: expected.into(), given: "nothing".to_owned(), form: Form::Missing }
    }

    /// No such thing is declared. `expected` says what is.
    pub(super) fn undeclared(pointer: String, expected: impl Into<String>, given: impl Into<String>) -> Self {
        Self { pointer, expected: expected.into(), given: given.into(), form: Form::Undeclared }
    }

    /// The whole sentence is in `given`; `expected` is for programs.
    pub(super) fn plain(pointer: String, expected: impl Into<String>, sentence: impl Into<String>) -> Self {
        Self { pointer, expected: expected.into(), given: sentence.into(), form: Form::Plain }
    }

    /// Appends a hint to an undeclared property; other violations stay as they are.
    pub(super) fn hint_undeclared(&mut self, hint: &str) {
        if self.form == Form::Undeclared {
            self.expected.push_str(hint);
        }
    }

    /// The sentence without the place.
    pub(super) fn sentence(&self) -> String {
        let Self { expected, given, .. } = self;
        match self.form {
            Form::Mismatch => format!("expected {expected}, given {given}"),
            Form::Missing => format!("expected {expected}, which is missing"),
            Form::Undeclared => format!("no such property; {expected}"),
            Form::Plain => given.clone(),
        }
    }
}

impl fmt::Display for Violation {
    /// `/place: sentence`, the document as a whole being `at the top`; a whole sentence alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A text that is not JSON has no places.
        if self.pointer.is_empty() && self.form == Form::Plain {
            return f.write_str(&self.sentence());
        }
        let pointer = if self.pointer.is_empty() { "at the top" } else { &self.pointer };
        // Control characters in the names of properties would let a document write lines of its own, and invisible ones
        // would make two names look the same.
        let pointer = truncate(pointer, MAX_POINTER_BYTES);
        if pointer.chars().any(|c| c.is_control() || is_hidden(c)) {
            write!(f, "{}: {}", format_value(&pointer.into()), self.sentence())
        } else {
            write!(f, "{pointer}: {}", self.sentence())
        }
    }
}

/// Everything that is wrong with a document, up to a cap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
pub struct Violations {
    /// The violations, in the order of the document. Never empty.
    pub violations: Vec<Violation>,
    /// How many were found besides those listed. A lower bound: looking for more stops when it has cost too much.
    pub more: usize,
}

impl Violations {
    /// A single violation.
    pub(super) fn one(violation: Violation) -> Self {
        Self { violations: vec![violation], more: 0 }
    }
}

impl fmt::Display for Violations {
    /// One line for each violation, and one more if some were left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.violations.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{violation}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}
