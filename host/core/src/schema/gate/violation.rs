//! Violations of a schema or of strict JSON, as data and as messages.

use std::fmt;

use serde::Serialize;

use crate::text::sanitize::is_hidden;

use super::format::{format_value, truncate};

/// Maximum size of a pointer in a message, in bytes. [`Violation::pointer`] is never truncated.
const MAX_POINTER_BYTES: usize = 200;

/// One violation in a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The location as a JSON pointer (RFC 6901). The empty pointer is the document as a whole.
    pub pointer: String,
    /// The requirement of the schema or of strict JSON.
    pub expected: String,
    /// The given value in at most 80 bytes, with a hint where one helps; `nothing` if a value is missing.
    pub given: String,
    #[serde(skip)]
    form: Form,
}

/// The form of a violation's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Mismatch,
    Missing,
    Undeclared,
    Plain,
}

impl Violation {
    /// Creates a violation for a value that is not as expected.
    pub(super) fn mismatch(pointer: String, expected: impl Into<String>, given: impl Into<String>) -> Self {
        Self { pointer, expected: expected.into(), given: given.into(), form: Form::Mismatch }
    }

    /// Creates a violation for a missing value.
    pub(super) fn missing(pointer: String, expected: impl Into<String>) -> Self {
        Self { pointer, expected: expected.into(), given: "nothing".to_owned(), form: Form::Missing }
    }

    /// Creates a violation for an undeclared property. `expected` lists the declared ones.
    pub(super) fn undeclared(pointer: String, expected: impl Into<String>, given: impl Into<String>) -> Self {
        Self { pointer, expected: expected.into(), given: given.into(), form: Form::Undeclared }
    }

    /// Creates a violation with a message of its own, which becomes `given`; `expected` is for programs.
    pub(super) fn plain(pointer: String, expected: impl Into<String>, sentence: impl Into<String>) -> Self {
        Self { pointer, expected: expected.into(), given: sentence.into(), form: Form::Plain }
    }

    /// Returns whether it is about an undeclared property.
    pub(super) fn is_undeclared(&self) -> bool {
        self.form == Form::Undeclared
    }

    /// Appends a hint to the violation for an undeclared property; leaves other violations as they are.
    pub(super) fn add_hint_if_undeclared(&mut self, hint: &str) {
        if self.form == Form::Undeclared {
            self.expected.push_str(hint);
        }
    }

    /// Returns the message without the location.
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
    /// Formats as `/pointer: message`, with `at the top` for the document as a whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A text that is not JSON has no locations.
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

/// All violations in a document, up to a cap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
pub struct Violations {
    /// The violations, in document order. Never empty.
    pub violations: Vec<Violation>,
    /// Number of violations found besides those listed. A lower bound, because the effort to find more is limited.
    pub more: usize,
}

impl Violations {
    /// Creates a list of one violation.
    pub(super) fn one(violation: Violation) -> Self {
        Self { violations: vec![violation], more: 0 }
    }
}

impl fmt::Display for Violations {
    /// Formats one line for each violation, and one more if some were left out.
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
