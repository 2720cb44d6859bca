//! Notices for the operator about the tools that a server lists.

use std::collections::BTreeMap;
use std::fmt;

use fumehood_core::text::line::PrintableLine;

/// Maximum number of tools that are named for one reason; the rest are counted.
const MAX_NAMES: usize = 8;

/// Maximum number of notices about one list; the rest are counted.
const MAX_NOTICES: usize = 100;
/// Maximum length of a reason, in characters. It may quote the server.
const MAX_REASON_CHARS: usize = 1000;

/// A notice about a tool of a server: the reason that it is left out, or the part of its schemas that is not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolNotice {
    /// The name that its server uses, in printable characters.
    pub tool: String,
    /// The reason, as a clause without a full stop.
    pub reason: String,
}

impl ToolNotice {
    /// Creates a notice about the tool with this name.
    pub fn new(tool: &str, reason: impl Into<String>) -> Self {
        Self { tool: truncate_line(tool, 80), reason: truncate_line(&reason.into(), MAX_REASON_CHARS) }
    }

    /// Formats one line for each reason, with the tools that it is about.
    #[must_use]
    pub fn lines(notices: &[Self]) -> Vec<String> {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for Self { tool, reason } in notices {
            by_reason.entry(reason).or_default().push(tool);
        }
        let lines = by_reason.into_iter().map(|(reason, tools)| {
            let names = tools.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
            match tools.len() {
                count if count > MAX_NAMES => format!("{names} and {} more tools: {reason}", count - MAX_NAMES),
                _ => format!("{names}: {reason}"),
            }
        });
        lines.collect()
    }
}

fn truncate_line(text: &str, max_chars: usize) -> String {
    PrintableLine::from(text).chars().take(max_chars).collect()
}

impl fmt::Display for ToolNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.tool, self.reason)
    }
}

/// The notices about one list, of which the first are kept.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    kept: Vec<ToolNotice>,
    count: usize,
}

impl Notices {
    pub(crate) fn push(&mut self, notice: ToolNotice) {
        self.count += 1;
        if self.kept.len() < MAX_NOTICES {
            self.kept.push(notice);
        }
    }

    /// Adds a notice that is kept in any case.
    pub(crate) fn push_about_list(&mut self, notice: ToolNotice) {
        self.count += 1;
        self.kept.push(notice);
    }

    pub(crate) fn append(&mut self, others: Self) {
        let dropped = others.count - others.kept.len();
        others.kept.into_iter().for_each(|notice| self.push(notice));
        self.count += dropped;
    }

    /// Returns the number of notices, with those that were not kept.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns those that were kept, and one about the others.
    pub(crate) fn into_vec(mut self) -> Vec<ToolNotice> {
        if let Some(more @ 1..) = self.count.checked_sub(self.kept.len()) {
            self.kept.push(ToolNotice::new(&format!("{more} more"), "more notices of this kind follow"));
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_by_reason_and_counts_the_rest() {
        let mut notices: Vec<_> = (1..=10).map(|n| ToolNotice::new(&format!("t{n}"), "too long")).collect();
        notices.push(ToolNotice::new("a\u{200b}", "odd"));
        let expected = ["a\\u{200b}: odd", "t1, t2, t3, t4, t5, t6, t7, t8 and 2 more tools: too long"];
        assert_eq!(ToolNotice::lines(&notices), expected);
    }

    #[test]
    fn a_list_has_so_many_notices_and_a_count() {
        let mut notices = Notices::default();
        for page in 0..2 {
            let mut more = Notices::default();
            (0..1000).for_each(|n| more.push(ToolNotice::new(&format!("t{page}.{n}"), "x".repeat(2000))));
            notices.append(more);
        }
        assert_eq!(notices.count(), 2000);
        let kept = notices.into_vec();
        assert_eq!((kept.len(), kept[99].tool.as_str(), kept[99].reason.len()), (101, "t0.99", MAX_REASON_CHARS));
        assert_eq!(kept[100].tool, "1900 more");
    }
}
