//! Positions in the text of a configuration: of an offset as line and column, and of the value at the end of a path of
//! keys.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// A line and a column, both counted from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Position {
    /// Returns the position of the byte at `offset`.
    #[must_use]
    pub fn from_offset(text: &str, offset: usize) -> Self {
        let before: &str = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line, column }
    }
}

/// Returns the offset of the value at the end of this path; if there is none, of the last value on the way to it.
pub(crate) fn offset_of(table: &DeTable<'_>, path: &[String]) -> usize {
    let mut offset = 0;
    let mut here: Option<&DeValue<'_>> = None;
    for step in path {
        let next = match here {
            None => table.get(step.as_str()),
            Some(DeValue::Table(table)) => table.get(step.as_str()),
            Some(DeValue::Array(items)) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
            Some(_) => None,
        };
        let Some(next) = next else { break };
        offset = next.span().start;
        here = Some(next.get_ref());
    }
    offset
}

/// Removes the value that is, or whose key is, exactly at `span`. Returns its path.
pub(crate) fn remove(table: &mut DeTable<'_>, span: &Range<usize>) -> Option<String> {
    let here = table.iter().find(|(key, value)| key.span() == *span || value.span() == *span);
    if let Some(key) = here.map(|(key, _)| key.get_ref().to_string()) {
        table.remove(key.as_str());
        return Some(key);
    }
    table.iter_mut().find_map(|(key, value)| {
        let inner = remove_within(value, span)?;
        let dot = if inner.starts_with('[') { "" } else { "." };
        Some(format!("{}{dot}{inner}", key.get_ref()))
    })
}

fn remove_within(value: &mut Spanned<DeValue<'_>>, span: &Range<usize>) -> Option<String> {
    match value.get_mut() {
        DeValue::Table(table) => remove(table, span),
        DeValue::Array(items) => {
            if let Some(index) = items.iter().position(|item| item.span() == *span) {
                let rest = std::mem::replace(items, DeArray::new()).into_iter().filter(|item| item.span() != *span);
                rest.for_each(|item| items.push(item));
                return Some(format!("[{index}]"));
            }
            items.iter_mut().enumerate().find_map(|(index, item)| {
                let inner = remove_within(item, span)?;
                let dot = if inner.starts_with('[') { "" } else { "." };
                Some(format!("[{index}]{dot}{inner}"))
            })
        }
        _ => None,
    }
}
