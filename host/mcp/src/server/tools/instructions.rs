//! The `instructions` of the server, which describe the tools as a whole to a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use fumehood_core::text::line::PrintableLine;
use fumehood_core::text::sanitize::{printable, truncate_str};
use fumehood_core::tool::Tool;
use fumehood_core::tool::name::Namespace;

/// Maximum number of components that are named; the rest are counted.
const MAX_COMPONENTS: usize = 40;
/// Maximum size of the instructions of all servers, in bytes; the rest is cut off.
const MAX_SERVER_INSTRUCTIONS_BYTES: usize = 16 << 10;
/// Maximum size of the line about one component, in bytes.
const MAX_LINE_BYTES: usize = 400;

/// Formats one line for each component: the number of listed tools, and what they may do.
pub(crate) fn instructions(own: Option<&str>, tools: &[Arc<Tool>]) -> Option<String> {
    let mut components: BTreeMap<&str, (usize, &[String])> = BTreeMap::new();
    for tool in tools.iter().filter(|tool| tool.is_approved()) {
        let component = tool.namespace().map_or(tool.full_name(), Namespace::as_str);
        let (count, may) = components.entry(component).or_default();
        *count += 1;
        *may = tool.powers();
    }
    let mut lines: Vec<String> = own.map(|own| printable(own).into_owned()).into_iter().collect();
    if !components.is_empty() {
        lines.push(
            "Every tool belongs to a WebAssembly component or an MCP server. Each call of a component runs in a \
             separate sandbox with a deadline, and can do only what is listed here:"
                .to_owned(),
        );
    }
    lines.extend(components.iter().take(MAX_COMPONENTS).map(|(name, (tools, may))| component_line(name, *tools, may)));
    if let Some(more @ 1..) = components.len().checked_sub(MAX_COMPONENTS) {
        lines.push(format!("- and {more} more components"));
    }
    lines.extend(server_instructions(tools));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Returns the instructions of the servers behind a gateway, each under its name. Their lines are indented, so that none
/// passes for a line of ours.
fn server_instructions(tools: &[Arc<Tool>]) -> Vec<String> {
    let approved = tools.iter().filter(|tool| tool.is_approved());
    let servers: BTreeMap<&str, String> = approved
        .filter_map(|tool| Some((tool.namespace()?.as_str(), tool.instructions()?.to_sanitized().into_owned())))
        .collect();
    let mut remaining = MAX_SERVER_INSTRUCTIONS_BYTES;
    let mut texts = Vec::new();
    for (name, text) in servers {
        let kept = truncate_str(&text, remaining);
        remaining -= kept.len();
        let cut = if kept.len() < text.len() { "…" } else { "" };
        let indented = format!("{}{cut}", kept.trim_end()).lines().map(|line| format!("  {line}")).collect::<Vec<_>>();
        texts.push(format!("Instructions that the MCP server `{name}` gives for its tools:\n{}", indented.join("\n")));
    }
    texts
}

fn component_line(component: &str, tools: usize, may: &[String]) -> String {
    let noun = if tools == 1 { "tool" } else { "tools" };
    let may = if may.is_empty() { "only compute".to_owned() } else { may.join("; ") };
    let line = PrintableLine::from(&format!("- {component} ({tools} {noun}): may {may}"));
    if line.len() > MAX_LINE_BYTES { format!("{}…", truncate_str(&line, MAX_LINE_BYTES)) } else { line.into() }
}

#[cfg(test)]
mod tests {
    use fumehood_core::call::result::CallError;
    use fumehood_core::schema::gate::{Gate, GateLimits};
    use fumehood_core::tool::definition::RawDefinition;
    use fumehood_core::tool::name::QualifiedName;

    use super::*;

    fn tool(name: &str, powers: &[&str]) -> Tool {
        let QualifiedName { namespace, tool } = QualifiedName::parse(name).unwrap();
        let raw = RawDefinition { name: tool.to_string(), input_schema: "{}".to_owned(), ..RawDefinition::default() };
        let gate = Gate::for_arguments(&serde_json::json!({}), GateLimits::default()).unwrap();
        let powers = powers.iter().map(|phrase| (*phrase).to_owned()).collect();
        Tool::new(raw.parse(&Default::default()).unwrap(), gate).in_namespace(&namespace).granted(powers)
    }

    #[test]
    fn lists_components_with_their_powers() {
        let tools = [
            tool("fetch__get", &["make HTTP requests (GET https://example.com/**)"]),
            tool("calc__add", &[]),
            tool("calc__sub", &[]),
            tool("new__t", &[]).withheld(Some(CallError::cancelled())),
        ]
        .map(Arc::new);
        let text = instructions(Some("Ours."), &tools).unwrap();
        let (head, list) = text.split_once(":\n").unwrap();
        assert!(head.starts_with("Ours.\nEvery tool belongs"), "{text}");
        let expected = "- calc (2 tools): may only compute\n\
                        - fetch (1 tool): may make HTTP requests (GET https://example.com/**)";
        assert_eq!(list, expected);
        assert_eq!(instructions(None, &[]), None);
        let long = tool("a__t", &[&"x".repeat(1000)]);
        assert!(instructions(None, &[Arc::new(long)]).unwrap().ends_with("x…"));
    }
}
