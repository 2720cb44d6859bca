//! The system prompt that teaches the protocol and lists the tools.

use fumehood_core::chat::ToolSpec;

const PROTOCOL: &str = r#"You can call tools. You call them by writing text in the format below; there is no other way to call them.

A reply may have these parts:
- <think>…</think>: your own notes. The user never sees them. You may leave them out.
- Text outside all tags: your answer. The user sees it.
- <execute>…</execute>: calls of tools, as one JSON array of objects with "name" and "args". Write it last and stop after </execute>: the results come to you in the next message, in <results>. Never write <results> yourself.

Rules for <execute>:
- Always a JSON array, even for one call. Nothing but JSON between the tags, no code fence.
- "name" is the name of a tool from the list. "args" is an object that fits the schema of that tool; write {} for no arguments.
- Strings are JSON strings: escape double quotes, backslashes and line breaks. Any text is safe inside them, tags too.
- The calls of one block run at the same time, and their effects have no order. A call that needs what another one does or returns belongs in a later <execute> block.
- If you need no tool, answer without <execute>.

Results are a JSON array in the order of your calls, one element for each call. "status" is "success", and "content" is what the tool returned; or it is "failure", and "content" says what was wrong. One failure does not stop the other calls. After a failure, repair the call or go on without it; do not repeat the same call unchanged.

The examples use tools that you may not have.

Example, one call:
<think>I have to read the configuration first.</think>
<execute>
[
{"name": "read", "args": {"file": "config.json"}}
]
</execute>

Its result, success:
<results>
[
{"tool": "read", "status": "success", "content": {"api": "old.example"}}
]
</results>

Example, a batch:
<execute>
[
{"name": "read", "args": {"file": "a.txt"}},
{"name": "write", "args": {"file": "index.html", "content": "<p class=\"x\">Hello</p>\n"}},
{"name": "read", "args": {"file": "b.txt"}}
]
</execute>

Its results, success and failure:
<results>
[
{"tool": "read", "status": "success", "content": "text of a"},
{"tool": "write", "status": "failure", "content": "Permission denied: index.html"},
{"tool": "read", "status": "success", "content": "text of b"}
]
</results>

Example, the answer after that:
<think>I know enough.</think>
I read both files, but I may not write index.html."#;

/// The protocol with examples, and the tools with their schemas. Without tools, there is nothing to teach, and the model is
/// told to answer.
#[must_use]
pub fn system_prompt(tools: &[ToolSpec]) -> String {
    if tools.is_empty() {
        return "You have no tools. Answer with plain text.".to_owned();
    }
    let mut prompt = format!("{PROTOCOL}\n\nYour tools:");
    for ToolSpec { name, description, parameters } in tools {
        prompt.push_str(&format!("\n\n{name}: {description}\nSchema of \"args\": {parameters}"));
    }
    prompt
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::event::Event;
    use super::super::parser::{ParserLimits, parse};
    use super::*;

    fn tool() -> ToolSpec {
        let parameters = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]});
        ToolSpec { name: "calculator__add".to_owned(), description: "Adds.".to_owned(), parameters }
    }

    /// The blocks of a tag in the examples.
    fn blocks(tag: &str) -> Vec<String> {
        let (open, close) = (format!("<{tag}>\n"), format!("\n</{tag}>"));
        let inside = PROTOCOL.split(&open).skip(1).map(|rest| rest.split(&close).next().unwrap());
        inside.map(|text| format!("{open}{text}{close}")).collect()
    }

    #[test]
    fn g25_the_prompt_teaches_single_batch_success_and_failure() {
        let sizes = |tag| -> Vec<usize> {
            blocks(tag)
                .iter()
                .map(|block| match &parse(block, ParserLimits::default())[..] {
                    [Event::Results(reports), Event::End] => reports.len(),
                    [calls @ .., Event::Execute] => calls.len(),
                    other => panic!("{block}: {other:?}"),
                })
                .collect()
        };
        assert_eq!(sizes("execute"), [1, 3], "one call and a batch, and both parse");
        assert_eq!(sizes("results"), [1, 3], "their results, and both parse");
        assert!(PROTOCOL.contains(r#""status": "success""#) && PROTOCOL.contains(r#""status": "failure""#));
    }

    #[test]
    fn g25_the_prompt_lists_every_tool_with_its_schema() {
        let prompt = system_prompt(&[tool()]);
        assert!(prompt.contains("calculator__add: Adds.\nSchema of \"args\": {"), "{prompt}");
        assert!(prompt.contains(r#""required":["x"]"#), "{prompt}");
        assert!(!system_prompt(&[]).contains("<execute>"));
    }

    #[test]
    fn g17_the_prompt_says_that_one_batch_has_no_order() {
        let prompt = system_prompt(&[tool()]);
        assert!(prompt.contains("their effects have no order"));
        assert!(prompt.contains("belongs in a later <execute> block"));
    }
}
