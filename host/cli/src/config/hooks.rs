//! The hooks of `[hooks]`, and checks of them.

use anyhow::Result;
use fumehood::hooks::{Redaction, ToolPatternError, ToolPatterns};
use fumehood_config::fault::{KeyFault, key_fault};
use fumehood_config::file::Config;
pub(crate) use fumehood_config::hooks::{ComponentHookSection, HookFunctionName, RedactSection};

/// The default replacement for matches of a pattern.
const DEFAULT_REPLACEMENT: &str = "[redacted]";

/// Returns the hook of the pattern.
///
/// # Errors
/// If the pattern, or that of a tool, is not valid.
pub(crate) fn redaction(section: &RedactSection) -> Result<Redaction> {
    let replacement = section.replacement.as_deref().unwrap_or(DEFAULT_REPLACEMENT);
    Ok(Redaction::new("redact", tools_of(section.tools.as_deref())?, &section.pattern, replacement)?)
}

/// Returns the patterns of tools; those that are left out match every tool.
///
/// # Errors
/// If one is not valid.
pub(crate) fn tools_of(tools: Option<&[String]>) -> Result<ToolPatterns, ToolPatternError> {
    tools.map_or_else(|| Ok(ToolPatterns::default()), ToolPatterns::new)
}

/// Adds everything that is wrong with the hooks.
pub(super) fn check(faults: &mut Vec<KeyFault>, config: &Config) {
    let hooks = &config.hooks;
    let mut add = |key: &str, message: String| faults.push(key_fault(&["hooks"], &[key], message));
    for (index, hook) in hooks.component.iter().enumerate() {
        let name = &hook.name;
        if !config.tools.contains_key(name) {
            let names: Vec<&str> = config.tools.keys().map(String::as_str).collect();
            let known =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has: {}", names.join(", ")) };
            add("component", format!("the hook `{name}` is not in [tools], which must have its component; {known}"));
        }
        if hooks.component.iter().take(index).any(|other| other.name == *name) {
            add("component", format!("the hook `{name}` is listed twice; list all of its tools in one place"));
        }
        if hook.on.as_ref().is_some_and(Vec::is_empty) {
            add("component", format!("`on` of the hook `{name}` is empty; name a function, or leave `on` out"));
        }
    }
    let tools = hooks.component.iter().map(|hook| ("component", hook.tools.as_deref()));
    let tools = tools.chain(hooks.rate_limit.iter().map(|limit| ("rate_limit", limit.tools.as_deref())));
    for (key, tools) in tools {
        if let Err(error) = tools_of(tools) {
            add(key, error.to_string());
        }
    }
    for redact in &hooks.redact {
        if let Err(error) = redaction(redact) {
            add("redact", format!("`{}`: {error:#}", excerpt(&redact.pattern)));
        }
    }
}

/// Returns the beginning of a pattern, for a message.
fn excerpt(pattern: &str) -> String {
    const MAX_CHARS: usize = 60;
    let beginning: String = pattern.chars().take(MAX_CHARS).collect();
    if beginning.len() < pattern.len() { format!("{beginning}…") } else { beginning }
}
