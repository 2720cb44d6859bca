//! Detection of a model that repeats the same call.

use fumehood_core::chat::ToolIntent;
use serde_json::Value;

/// The calls of the last reply, and the number of consecutive replies with each of them.
#[derive(Debug, Default)]
pub(super) struct RepetitionCounter {
    last: Vec<(ToolIntent, u32)>,
}

impl RepetitionCounter {
    /// Records the calls of a reply, and returns for each the number of consecutive replies with it, up to this one.
    ///
    /// Equal calls within one reply count once: they run at the same time, so the second is no reaction to the first.
    pub(super) fn record(&mut self, calls: &[ToolIntent]) -> Vec<u32> {
        let streak = |call: &ToolIntent| {
            let before = self.last.iter().find(|(earlier, _)| is_same_call(earlier, call));
            before.map_or(1, |(_, times)| times.saturating_add(1))
        };
        let streaks: Vec<u32> = calls.iter().map(streak).collect();
        let mut last: Vec<(ToolIntent, u32)> = Vec::new();
        // Only the first distinct calls are stored, so that a batch of thousands is not compared with itself.
        for (call, times) in calls.iter().zip(&streaks) {
            if last.len() < MAX_STORED_CALLS && last.last().is_none_or(|(kept, _)| kept != call) {
                last.push((call.clone(), *times));
            }
        }
        self.last = last;
        streaks
    }
}

/// Maximum number of calls of a reply that are stored for comparison. A model in a loop repeats the first ones, too.
const MAX_STORED_CALLS: usize = 32;

/// Returns whether two calls have the same name and the same arguments, in any order of their keys.
fn is_same_call(a: &ToolIntent, b: &ToolIntent) -> bool {
    if a.name != b.name || a.arguments == b.arguments {
        return a.name == b.name;
    }
    parse_arguments(a).is_some_and(|arguments| parse_arguments(b) == Some(arguments))
}

fn parse_arguments(call: &ToolIntent) -> Option<Value> {
    serde_json::from_str(&call.arguments).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: &str) -> ToolIntent {
        ToolIntent { id: String::new(), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn a_streak_is_the_same_tool_with_the_same_arguments_in_replies_in_a_row() {
        let mut streaks = RepetitionCounter::default();
        assert_eq!(streaks.record(&[call("a", r#"{"x":1,"y":2}"#)]), [1]);
        assert_eq!(streaks.record(&[call("b", "{}"), call("a", r#"{"y": 2, "x": 1}"#)]), [1, 2]);
        assert_eq!(streaks.record(&[call("a", r#"{"x":1,"y":3}"#)]), [1]);
        assert_eq!(streaks.record(&[call("a", r#"{"x":1,"y":2}"#)]), [1]);
        assert_eq!(streaks.record(&[call("a", "not json"), call("a", "not json")]), [1, 1]);
        assert_eq!(streaks.record(&[call("a", "not json")]), [2]);
        assert_eq!(streaks.record(&[]), Vec::<u32>::new());
        assert_eq!(streaks.record(&[call("a", "not json")]), [1]);
    }
}
