//! The list of the example tools.

use anyhow::{Context as _, Result};
use fumehood_author::build::RustTarget;

/// One example tool: a folder of `example-tools/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExampleTool {
    /// The folder's name, and the component's.
    pub name: &'static str,
    /// The compilation target.
    pub target: RustTarget,
}

/// All example tools.
pub const TOOLS: &[ExampleTool] = &[
    ExampleTool { name: "calculator", target: RustTarget::Pure },
    ExampleTool { name: "chart", target: RustTarget::Pure },
    ExampleTool { name: "countdown", target: RustTarget::Wasi },
    ExampleTool { name: "fetch", target: RustTarget::Wasi },
    ExampleTool { name: "files", target: RustTarget::Wasi },
    ExampleTool { name: "github-issues", target: RustTarget::Wasi },
    ExampleTool { name: "json", target: RustTarget::Pure },
    ExampleTool { name: "mcp-conformance", target: RustTarget::Pure },
    ExampleTool { name: "notes", target: RustTarget::Pure },
    ExampleTool { name: "rate-limit", target: RustTarget::Wasi },
    ExampleTool { name: "redact-email", target: RustTarget::Pure },
    ExampleTool { name: "sections", target: RustTarget::Pure },
    ExampleTool { name: "text", target: RustTarget::Pure },
    ExampleTool { name: "typed-greeter", target: RustTarget::Pure },
];

impl ExampleTool {
    /// Returns the name of the tool's crate.
    #[must_use]
    pub fn package(&self) -> String {
        format!("fumehood-tool-{}", self.name)
    }

    /// Returns the file name of the tool's component in `example-tools/dist/`.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.wasm", self.name)
    }
}

/// Finds tools by name, or returns all tools if `names` is empty.
///
/// # Errors
///
/// If one of the names is unknown.
pub fn find_tools(names: &[String]) -> Result<Vec<ExampleTool>> {
    if names.is_empty() {
        return Ok(TOOLS.to_vec());
    }
    names
        .iter()
        .map(|name| {
            TOOLS.iter().find(|tool| tool.name == name).copied().with_context(|| {
                let all: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
                format!("there is no example tool `{name}`; there are {}", all.join(", "))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_tools_by_name() {
        assert_eq!(find_tools(&[]).unwrap(), TOOLS);
        assert_eq!(find_tools(&["json".to_owned()]).unwrap().len(), 1);
        let error = find_tools(&["jason".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`jason`") && error.contains("calculator, chart, countdown"), "{error}");
    }
}
