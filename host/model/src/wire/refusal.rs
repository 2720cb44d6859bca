//! Tools that an error response of a provider is about.

use std::collections::BTreeSet;

use super::tools::SentTool;

/// Names of a request's tools in error messages about them as a whole, in lower case.
const SUBJECTS: &[&str] = &["tools", "tool use", "tool calling", "tool calls", "function calling", "functions"];

/// Error messages of models without tools, with `{}` in place of a subject: of OpenAI, Anthropic, Gemini, Ollama,
/// Mistral and of servers with OpenAI's protocol.
const UNSUPPORTED: &[&str] = &[
    "not support {}",
    "{} is not supported",
    "{} are not supported",
    "{} not supported",
    "{} is not enabled",
    "{} is not available",
    "{} are not available",
    "unsupported parameter: {}",
    "argument supplied: {}",
    "unknown name {}:",
    "unknown parameter: {}",
    "unknown field {}",
    "endpoints found that support {}",
];

/// Parts of a message about other things that have to do with tools: calls of the conversation, and the choice.
const OTHER_MATTERS: &[&str] = &[
    "tool_call_id",
    "tool_call_ids",
    "tool_calls",
    "tool_choice",
    "tool_result",
    "tool_use",
    "toolconfig",
    "tool_config",
    "messages.",
    "messages[",
    "function call",
    "function response",
    "functioncall",
    "role",
    "thought_signature",
    "maximum length",
    "too long",
    "too many",
];

/// Words of a message about the definition of a tool.
const DEFINITION_WORDS: &[&str] = &["tool", "function", "schema"];

/// Returns whether an error message says that the model supports no tools at all. A message about one tool does not
/// count: without tools the model would answer, and nothing would show that it had none.
pub(super) fn is_tools_unsupported(body: &str) -> bool {
    let body: String = body.to_lowercase().chars().filter(|c| !matches!(c, '"' | '\'' | '`' | '\\')).collect();
    let is_unsupported = SUBJECTS
        .iter()
        .any(|subject| UNSUPPORTED.iter().any(|text| contains_phrase(&body, &text.replace("{}", subject))));
    is_unsupported || body.contains("--enable-auto-tool-choice")
}

fn contains_phrase(body: &str, phrase: &str) -> bool {
    let mut found = body.match_indices(phrase);
    // `tools.3` and `tools[3]` are one tool.
    found.any(|(at, _)| body.get(at + phrase.len()..).is_some_and(|rest| !continues(rest)))
}

/// Returns whether a name goes on, with an index or as a longer word.
fn continues(rest: &str) -> bool {
    let mut chars = rest.chars();
    match chars.next() {
        Some('[') => true,
        Some('.' | ':' | '/') => chars.next().is_some_and(|c| c.is_ascii_digit()),
        Some(c) => c.is_alphanumeric() || c == '_',
        None => false,
    }
}

/// The tools of a request that an error response is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RefusedTools {
    /// Those at these positions.
    Named(BTreeSet<usize>),
    /// One that the response does not name.
    Unnamed,
}

impl RefusedTools {
    /// Finds the tools that an error response of status 400 or 422 is about.
    pub(super) fn find(body: &str, tools: &[SentTool]) -> Option<Self> {
        let lower = body.to_lowercase();
        if tools.is_empty() || !DEFINITION_WORDS.iter().any(|word| lower.contains(word)) {
            return None;
        }
        let by_name: BTreeSet<usize> = find_names(body, tools);
        let named = if by_name.is_empty() { find_indices(&lower, tools.len()) } else { by_name };
        if !named.is_empty() {
            return Some(Self::Named(named));
        }
        let is_other = OTHER_MATTERS.iter().any(|words| lower.contains(words));
        (!is_other).then_some(Self::Unnamed)
    }
}

/// Finds the first tool whose name a message quotes, as in `Invalid schema for function 'x'`.
fn find_names(body: &str, tools: &[SentTool]) -> BTreeSet<usize> {
    let positions = tools.iter().enumerate().filter_map(|(index, tool)| {
        Some((position_of_name(body, &tool.wire_name).or_else(|| position_of_name(body, &tool.spec.name))?, index))
    });
    positions.min().map(|(_, index)| index).into_iter().collect()
}

/// Returns the position of a name behind `function` or `tool`, with or without quotes.
fn position_of_name(body: &str, name: &str) -> Option<usize> {
    if name.is_empty() {
        return None;
    }
    body.match_indices(name).map(|(at, _)| at).find(|at| {
        let before = body.get(..*at).unwrap_or_default();
        let after = body.get(at + name.len()..).unwrap_or_default();
        let is_quote = |c: char| matches!(c, '\'' | '"' | '`' | '\\' | '‘' | '“' | '’' | '”');
        let word = before.trim_end_matches(is_quote);
        let ends = after.chars().next().is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')))
            || after.starts_with(". ");
        let subject = word.trim_end_matches([' ', ':', '=']).to_lowercase();
        ends && subject.len() < word.len()
            && ["function", "tool", "function name", "tool name"].iter().any(|s| subject.ends_with(s))
    })
}

/// Finds the positions in `tools.3`, `tools[3]`, `function_declarations[3]` and the paths of validators, `"tools", 3`
/// and `tools -> 3`. The message is in lower case.
fn find_indices(body: &str, count: usize) -> BTreeSet<usize> {
    let declarations = ["function_declarations", "functiondeclarations"].map(|list| indices_after(body, list));
    let [snake, camel] = declarations;
    let found: BTreeSet<usize> = snake.into_iter().chain(camel).collect();
    // With Gemini, `tools[0]` is the list of all functions.
    let found = if found.is_empty() { indices_after(body, "tools") } else { found };
    found.into_iter().filter(|index| *index < count).collect()
}

fn indices_after(body: &str, list: &str) -> BTreeSet<usize> {
    let indices = body.match_indices(list).filter_map(|(at, _)| {
        let rest = body.get(at + list.len()..)?;
        let digits = rest.trim_start_matches(['.', '[', '(', '/', '"', '\'', '\\', ',', ' ', '-', '>']);
        let separator = rest.get(..rest.len() - digits.len())?;
        let is_path = [".", "[", "/", "->", "\",", "',"].iter().any(|mark| separator.contains(mark));
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits.get(..end).filter(|_| is_path && separator.len() <= 6)?.parse().ok()
    });
    indices.collect()
}

#[cfg(test)]
mod tests {
    use fumehood_core::chat::ToolSpec;
    use serde_json::json;

    use super::*;
    use crate::tool_schema::ArgumentShape;

    fn tools(names: &[&str]) -> Vec<SentTool> {
        let tool = |name: &&str| SentTool {
            spec: ToolSpec { name: (*name).to_owned(), alias: None, description: String::new(), parameters: json!({}) },
            wire_name: name.replace('.', "_"),
            shape: ArgumentShape::default(),
        };
        names.iter().map(tool).collect()
    }

    #[test]
    fn a_refusal_of_tools_is_told_from_a_refusal_of_one_tool() {
        fn check(body: &str, expected: bool) {
            assert_eq!(is_tools_unsupported(body), expected, "{body}");
        }

        check("registry/library/gemma:2b does not support tools", true);
        check("Unrecognized request argument supplied: tools", true);
        check("Function calling is not enabled for this model", true);
        check("Unknown name \"tools\": Cannot find field.", true);
        check("'tools' is not supported with this model", true);
        check("tools: this model does not support tool use", true);
        check("No endpoints found that support tool use. Try another model", true);
        check("\\\"auto\\\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set", true);
        check("unknown field `tools`", true);
        check("Invalid schema for function 'add': not supported", false);
        check("messages with role 'tool' must follow; unexpected tool_call_id", false);
        check("messages.4: unexpected `tool_use_id` found in `tool_result` blocks", false);
        check("tools.27.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf", false);
        check("Unknown name \"const\" at 'tools[0].function_declarations[5].parameters': Cannot find field.", false);
        check("tools.3.custom.strict: Extra inputs are not permitted", false);
        check("does not support tools[3]", false);
        check("temperature is not supported", false);
        check("", false);
    }

    #[test]
    fn finds_the_refused_tools_by_name_or_position() {
        fn check(tools: &[SentTool], body: &str, expected: &[usize]) {
            let expected = RefusedTools::Named(expected.iter().copied().collect());
            assert_eq!(RefusedTools::find(body, tools), Some(expected), "{body}");
        }

        let tools = tools(&["add", "m__no_props", "files.read", "x"]);
        check(&tools, "tools.3.custom.input_schema: input_schema does not support oneOf", &[3]);
        check(&tools, r#"{"error": {"message": "bad", "param": "tools[2].function.parameters"}}"#, &[2]);
        check(&tools, "Invalid schema for function 'm__no_props': In context=()", &[1]);
        // The name counts more than the position, which may be of another list.
        check(&tools, r#"{"message": "Invalid schema for function 'x': …", "param": "tools[0].function"}"#, &[3]);
        check(&tools, "Invalid schema for function 'files_read': missing", &[2]);
        check(&tools, r#"{"error":"tool \"files.read\" has no parameters"}"#, &[2]);
        check(
            &tools,
            "* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties: x\n* GenerateContentRequest.tools[0].function_declarations[3].parameters",
            &[1, 3],
        );
        check(&tools, r#"{"detail": [{"loc": ["body", "tools", 2, "function"], "msg": "Field required"}]}"#, &[2]);
        check(&tools, "body -> tools -> 1 -> function: invalid", &[1]);
    }

    #[test]
    fn tells_an_unnamed_tool_from_other_matters() {
        fn check(tools: &[SentTool], body: &str, expected: Option<RefusedTools>) {
            assert_eq!(RefusedTools::find(body, tools), expected, "{body}");
        }

        let tools = tools(&["add", "x"]);
        check(&tools, "Failed to compile the JSON schema of a tool", Some(RefusedTools::Unnamed));
        check(&tools, "tools.9.custom.name: too short", Some(RefusedTools::Unnamed));
        check(
            &tools,
            "json: cannot unmarshal array into Go struct field .tools.function.parameters.properties.type",
            Some(RefusedTools::Unnamed),
        );
        check(&tools, "Invalid 'tools': array too long. Expected an array with maximum length 128", None);
        check(&tools, "messages.2: `tool_use` ids were found without `tool_result` blocks", None);
        check(&tools, "Invalid value for 'tool_choice'", None);
        check(&tools, "Function call is missing a thought_signature in functionCall parts", None);
        check(&tools, "Expected last role User or Tool but got assistant", None);
        check(&tools, "No tool output found for function call call_1", None);
        check(&tools, "prompt is too large", None);
        assert_eq!(RefusedTools::find("tools.0: bad", &[]), None);
    }
}
