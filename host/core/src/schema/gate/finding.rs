//! Violations found while explaining an invalid document, with their locations.

use super::assertions::FailureKind;
use super::keywords::escape;
use super::violation::Violation;

/// A location in the document.
#[derive(Clone, Copy)]
pub(super) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
    pub(super) depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Document,
    Name(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    pub(super) const ROOT: Self = Self { parent: None, step: Step::Document, depth: 0 };

    pub(super) fn name(&'p self, name: &'p str) -> Self {
        Self { parent: Some(self), step: Step::Name(name), depth: self.depth + 1 }
    }

    pub(super) fn index(&'p self, index: usize) -> Self {
        Self { parent: Some(self), step: Step::Index(index), depth: self.depth + 1 }
    }

    pub(super) fn pointer(&self) -> String {
        let mut pointer = self.parent.map(Path::pointer).unwrap_or_default();
        match self.step {
            Step::Document => {}
            Step::Name(name) => pointer = pointer + "/" + &escape(name),
            Step::Index(index) => pointer = pointer + "/" + &index.to_string(),
        }
        pointer
    }
}

/// A violation, with the data needed to choose between alternatives.
pub(super) struct Finding {
    pub(super) violation: Violation,
    pub(super) depth: usize,
    pub(super) kind: FailureKind,
}

impl Finding {
    /// Returns whether another finding is of the same kind, about the same value.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.violation.pointer == other.violation.pointer
            && self.kind == other.kind
            && self.violation.is_undeclared() == other.violation.is_undeclared()
    }
}

/// A list of findings, up to a cap.
pub(super) struct Findings {
    pub(super) list: Vec<Finding>,
    pub(super) more: usize,
    cap: usize,
}

impl Findings {
    pub(super) fn with_cap(cap: usize) -> Self {
        Self { list: Vec::new(), more: 0, cap }
    }

    pub(super) fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// Adds a violation. Its message is only formatted if there is room for it.
    pub(super) fn add(&mut self, path: &Path<'_>, kind: FailureKind, violation: impl FnOnce(String) -> Violation) {
        if self.list.len() < self.cap {
            self.list.push(Finding { violation: violation(path.pointer()), depth: path.depth, kind });
        } else {
            self.more += 1;
        }
    }

    /// Appends all findings of `other`, up to the cap.
    pub(super) fn append(&mut self, other: Self) {
        self.more += other.more;
        for finding in other.list {
            if self.list.len() < self.cap {
                self.list.push(finding);
            } else {
                self.more += 1;
            }
        }
    }
}
