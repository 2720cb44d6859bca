//! Tool search: a model sees a few tools and [`SEARCH_TOOLS`], and finds the others when it needs them.
//!
//! A tool that is not shown yet is refused. Which tools were shown follows from the executions of a session alone, see
//! [`shown_tools`], so that a replayed session refuses and allows the same calls.

mod catalogue;
mod summary;

use std::collections::BTreeSet;

use fumehood_core::call::content::Content;
use serde::Deserialize;

use crate::execution::{Status, ToolExecution};
pub(crate) use catalogue::{SearchTool, ToolCatalogue, clean_spec};

/// The name of the tool that finds others.
pub const SEARCH_TOOLS: &str = "search_tools";

/// Settings of tool search.
///
/// Built-in functions are always listed. Tools of components and servers are listed once a search found them, unless
/// they are pinned. Nothing is pinned by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSearch {
    pub(crate) pinned: BTreeSet<String>,
}

impl ToolSearch {
    /// Creates the settings without pinned tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Pins these tools, by their full names: the model sees them from the start.
    #[must_use]
    pub fn pin<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.pinned.extend(tools.into_iter().map(Into::into));
        self
    }
}

/// A result of [`SEARCH_TOOLS`], as far as it decides what may be called.
#[derive(Deserialize)]
struct SearchResult {
    tools: Vec<ShownTool>,
}

#[derive(Deserialize)]
struct ShownTool {
    name: String,
}

/// Returns the full names of the tools that this execution showed to the model; none unless it is a search.
#[must_use]
pub fn shown_tools(execution: &ToolExecution) -> Vec<String> {
    if execution.status != Status::Ok || execution.name() != SEARCH_TOOLS {
        return Vec::new();
    }
    let parts = execution.value().unwrap_or_default();
    // The text as the model saw it: a result that was cut or replaced by a hook shows what is left of it.
    let results = parts.iter().filter_map(|part| match part {
        Content::Json { value } => value.read::<SearchResult>().ok(),
        Content::Text { .. } | Content::Blob { .. } | Content::Link { .. } => None,
    });
    results.flat_map(|result| result.tools).map(|tool| tool.name).collect()
}

/// Returns the full names of all tools that these executions showed, in order, each once.
pub(crate) fn all_shown<'e>(executions: impl Iterator<Item = &'e ToolExecution>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    executions.flat_map(shown_tools).filter(|name| seen.insert(name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use fumehood_core::call::result::{CallResult, Metadata};
    use fumehood_core::chat::ToolIntent;
    use fumehood_core::time::Timestamp;

    use super::*;

    fn execution(name: &str, status: Status, content: Content) -> ToolExecution {
        let call = ToolIntent { id: "c".to_owned(), name: name.to_owned(), arguments: "{}".to_owned() };
        let outcome = Ok(vec![content]);
        let result = CallResult { id: "c".to_owned(), tool: name.to_owned(), outcome, metadata: Metadata::default() };
        let started_at = Timestamp::default();
        let completed_at = Timestamp::default();
        ToolExecution { id: "e".to_owned(), call, status, result, started_at, completed_at, modified: None }
    }

    #[test]
    fn only_successful_searches_show_tools() {
        fn search_result() -> Content {
            Content::json(r#"{"tools":[{"name":"a__b","summary":"x"},{"name":"a__c"}]}"#.to_owned()).unwrap()
        }

        assert_eq!(shown_tools(&execution(SEARCH_TOOLS, Status::Ok, search_result())), ["a__b", "a__c"]);
        let none: [&str; 0] = [];
        assert_eq!(shown_tools(&execution(SEARCH_TOOLS, Status::HandlerError, search_result())), none);
        assert_eq!(shown_tools(&execution("a__search_tools", Status::Ok, search_result())), none);
        assert_eq!(
            shown_tools(&execution(SEARCH_TOOLS, Status::Ok, Content::text("{\"tools\":[{\"na[truncated]"))),
            none
        );
    }

    #[test]
    fn a_tool_that_was_shown_twice_counts_once() {
        fn search_result(text: &str) -> ToolExecution {
            execution(SEARCH_TOOLS, Status::Ok, Content::json(text.to_owned()).unwrap())
        }

        let executions =
            [search_result(r#"{"tools":[{"name":"b"}]}"#), search_result(r#"{"tools":[{"name":"a"},{"name":"b"}]}"#)];
        assert_eq!(all_shown(executions.iter()), ["b", "a"]);
    }
}
