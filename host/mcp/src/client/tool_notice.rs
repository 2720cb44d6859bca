//! Notices for the operator about the tools that a server lists.

use std::collections::BTreeMap;
use std::fmt;

use fumehood_core::text::sanitize::printable;

/// Maximum number of tools that are named for one reason; the rest are counted.
const MAX_NAMES: usize = 8;

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
        Self { tool: printable(tool).chars().take(80).collect(), reason: reason.into() }
    }

    /// Formats one line for each reason, with the tools that it is about.
    #[must_use]
    pub fn lines(notices: &[Self]) -> Vec<String> {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for Self { tool, reason } in notices {
            by_reason.entry(reason).or_default().push(tool);
        }
        let line = |(reason, tools): (&str, Vec<&str>)| {
            let names = tools.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
            match tools.len() {
                count if count > MAX_NAMES => format!("{names} and {} more tools: {reason}", count - MAX_NAMES),
                _ => format!("{names}: {reason}"),
            }
        };
        by_reason.into_iter().map(line).collect()
    }
}

impl fmt::Display for ToolNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.tool, self.reason)
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
}
