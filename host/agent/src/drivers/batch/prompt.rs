//! The system prompt with the rules of the protocol and the tools.

use fumehood_core::chat::{ToolIntent, ToolSpec};

use super::conversation::rebuild;
use super::event::Event;
use super::report::{ReportStatus, ToolReport, quote, render_results};
use crate::drivers::examples::example_arguments;

const PROTOCOL: &str = r#"You can call tools. You call them by writing text in the format below; there is no other way to call them.

A reply may have these parts:
- <think>…</think>: your own notes. The user never sees them. You may leave them out.
- Text outside all tags: your answer. The user sees it.
- <execute>…</execute>: calls of tools, as one JSON array of objects with "name" and "args". Write it last and stop after </execute>: the results come to you in the next message, in <results>. Never write <results> yourself.

Rules for <execute>:
- Always a JSON array, even for one call. Nothing but JSON between the tags, no code fence.
- "name" is the whole name of a tool, exactly as in the list. "args" is an object that fits the schema of that tool; write {} for no arguments.
- Strings are JSON strings: escape double quotes, backslashes and line breaks. Any text is safe inside them, tags too.
- The calls of one block run at the same time, and their effects have no order. A call that needs what another one does or returns belongs in a later <execute> block.
- If you need no tool, answer without <execute>.

Results are a JSON array in the order of your calls, one element for each call. "status" is "success", and "content" is what the tool returned; or it is "failure", and "content" says what was wrong. One failure does not stop the other calls. After a failure, repair the call or go on without it; do not repeat the same call unchanged."#;

/// Builds the system prompt: the protocol with examples, and the tools with their schemas. The examples call these
/// tools. Without tools, the prompt only asks for an answer in plain text.
#[must_use]
pub fn system_prompt(tools: &[ToolSpec]) -> String {
    let Some(first) = tools.first() else { return "You have no tools. Answer with plain text.".to_owned() };
    let mut prompt = format!("{PROTOCOL}\n\n{}\n\nYour tools:", format_examples(first, tools));
    for ToolSpec { name, description, parameters, .. } in tools {
        prompt.push_str(&format!("\n\n{name}: {description}\nSchema of \"args\": {parameters}"));
    }
    prompt
}

/// Builds the examples: one call, a batch, a success, a failure, and the answer after them.
fn format_examples(first: &ToolSpec, tools: &[ToolSpec]) -> String {
    let batch: Vec<&ToolSpec> = tools.iter().chain(std::iter::repeat(first)).take(3).collect();
    let one = [example_call(first, 0)];
    let several: Vec<ToolIntent> = (1..).zip(&batch).map(|(variant, tool)| example_call(tool, variant)).collect();
    let second = batch.get(1).map_or(first, |tool| tool);
    let reports: Vec<ToolReport> = batch
        .iter()
        .enumerate()
        .map(|(index, tool)| match index {
            1 => report(&second.name, ReportStatus::Failure, "what was wrong"),
            _ => report_success(&tool.name),
        })
        .collect();
    format!(
        "Example, one call:\n<think>I need a tool for that.</think>\n{}\n\nIts result, success:\n{}\n\n\
         Example, a batch:\n{}\n\nIts results, success and failure:\n{}\n\n\
         Example, the answer after that:\n<think>I know enough.</think>\nTwo of the three worked. This is the answer.",
        format_block(&one),
        render_results(&[report_success(&first.name)]),
        format_block(&several),
        render_results(&reports),
    )
}

fn example_call(tool: &ToolSpec, variant: usize) -> ToolIntent {
    let arguments = example_arguments(tool, variant).to_string();
    ToolIntent { id: String::new(), name: tool.name.clone(), arguments }
}

fn report_success(tool: &str) -> ToolReport {
    report(tool, ReportStatus::Success, "what the tool returned")
}

/// Returns the `<execute>` block of these calls, as in the history.
fn format_block(calls: &[ToolIntent]) -> String {
    let events: Vec<Event> = calls.iter().cloned().map(Event::Call).chain([Event::Execute]).collect();
    rebuild(&events)
}

fn report(tool: &str, status: ReportStatus, content: &str) -> ToolReport {
    ToolReport { tool: tool.to_owned(), status, content: quote(content), modified: None }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::super::parser::{ParserLimits, parse};
    use super::*;

    fn tool() -> ToolSpec {
        let parameters = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]});
        ToolSpec { name: "calculator__add".to_owned(), alias: None, description: "Adds.".to_owned(), parameters }
    }

    /// Returns the blocks of a tag in the examples.
    fn blocks(tag: &str) -> Vec<String> {
        let open = format!("<{tag}>\n");
        let close = format!("\n</{tag}>");
        let prompt = system_prompt(&[tool()]);
        let inside = prompt.split(&open).skip(1).map(|rest| rest.split(&close).next().unwrap());
        inside.map(|text| format!("{open}{text}{close}")).collect()
    }

    #[test]
    fn the_prompt_teaches_single_batch_success_and_failure() {
        fn sizes(tag: &str) -> Vec<usize> {
            blocks(tag)
                .iter()
                .map(|block| match &parse(block, ParserLimits::default())[..] {
                    [Event::Results(reports), Event::End] => reports.len(),
                    [calls @ .., Event::Execute] => calls.len(),
                    other => panic!("{block}: {other:?}"),
                })
                .collect()
        }

        assert_eq!(sizes("execute"), [1, 3], "one call and a batch, and both parse");
        assert_eq!(sizes("results"), [1, 3], "their results, and both parse");
        let prompt = system_prompt(&[tool()]);
        assert!(prompt.contains(r#""status": "success""#) && prompt.contains(r#""status": "failure""#));
    }

    #[test]
    fn examples_call_existing_tools() {
        fn names(prompt: &str) -> BTreeSet<String> {
            let named = prompt.split(r#"{"name": ""#).skip(1).chain(prompt.split(r#"{"tool": ""#).skip(1));
            named.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
        }

        assert_eq!(names(&system_prompt(&[tool()])), ["calculator__add".to_owned()].into());
        let other = ToolSpec { name: "files__read".to_owned(), ..tool() };
        let both = names(&system_prompt(&[tool(), other]));
        assert_eq!(both, ["calculator__add".to_owned(), "files__read".to_owned()].into());
        assert!(system_prompt(&[tool()]).contains(r#"{"name": "calculator__add", "args": {"x":7}}"#));
    }

    #[test]
    fn the_prompt_lists_every_tool_with_its_schema() {
        let prompt = system_prompt(&[tool()]);
        assert!(prompt.contains("calculator__add: Adds.\nSchema of \"args\": {"), "{prompt}");
        assert!(prompt.contains(r#""required":["x"]"#), "{prompt}");
        assert!(!system_prompt(&[]).contains("<execute>"));
    }

    #[test]
    fn the_prompt_says_that_one_batch_has_no_order() {
        let prompt = system_prompt(&[tool()]);
        assert!(prompt.contains("their effects have no order"));
        assert!(prompt.contains("belongs in a later <execute> block"));
    }
}
