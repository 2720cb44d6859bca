//! Notices a model that asks for the same call again and again.

use fumehood_core::chat::ToolIntent;
use serde_json::Value;

/// The calls of the last reply, and in how many replies in a row each of them was.
#[derive(Debug, Default)]
pub(super) struct Streaks {
    last: Vec<(ToolIntent, u32)>,
}

impl Streaks {
    /// Takes the calls of one reply; gives for each the number of replies in a row that had it, this one included.
    ///
    /// Equal calls within one reply count once: they run at the same time, so the second is no reaction to the first.
    pub(super) fn note(&mut self, calls: &[ToolIntent]) -> Vec<u32> {
        let streak = |call: &ToolIntent| {
            let before = self.last.iter().find(|(earlier, _)| same(earlier, call));
            before.map_or(1, |(_, times)| times.saturating_add(1))
        };
        let streaks: Vec<u32> = calls.iter().map(streak).collect();
        let mut last: Vec<(ToolIntent, u32)> = Vec::new();
        // Only what may go on is kept, and only once, so that a batch of thousands is not compared with itself.
        for (call, times) in calls.iter().zip(&streaks) {
            if last.len() < MOST_KEPT && last.last().is_none_or(|(kept, _)| kept != call) {
                last.push((call.clone(), *times));
            }
        }
        self.last = last;
        streaks
    }
}

/// Of a larger reply, the first so many calls are kept for comparison: a model in a loop repeats those, too.
const MOST_KEPT: usize = 32;

/// Whether the two ask for the same: the same name, and the same arguments whatever the order of their keys.
fn same(a: &ToolIntent, b: &ToolIntent) -> bool {
    if a.name != b.name || a.arguments == b.arguments {
        return a.name == b.name;
    }
    let value = |call: &ToolIntent| serde_json::from_str::<Value>(&call.arguments).ok();
    matches!((value(a), value(b)), (Some(a), Some(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: &str) -> ToolIntent {
        ToolIntent { id: String::new(), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn c28_a_streak_is_the_same_tool_with_the_same_arguments_in_replies_in_a_row() {
        let mut streaks = Streaks::default();
        assert_eq!(streaks.note(&[call("a", r#"{"x":1,"y":2}"#)]), [1]);
        assert_eq!(streaks.note(&[call("b", "{}"), call("a", r#"{"y": 2, "x": 1}"#)]), [1, 2]);
        assert_eq!(streaks.note(&[call("a", r#"{"x":1,"y":3}"#)]), [1]);
        assert_eq!(streaks.note(&[call("a", r#"{"x":1,"y":2}"#)]), [1]);
        assert_eq!(streaks.note(&[call("a", "not json"), call("a", "not json")]), [1, 1]);
        assert_eq!(streaks.note(&[call("a", "not json")]), [2]);
        assert_eq!(streaks.note(&[]), Vec::<u32>::new());
        assert_eq!(streaks.note(&[call("a", "not json")]), [1]);
    }
}
