//! Where in a text something is.

/// A line and a column, both from 1 on; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    /// Where the byte at `offset` is.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before: &str = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line, column }
    }
}
