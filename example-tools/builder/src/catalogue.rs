//! Which example tools there are.

use anyhow::{Context as _, Result};

/// What a tool is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing but the contract: the component imports what its WIT says and no more.
    Pure,
    /// WASI 0.2: the component also imports what the language's runtime asks for.
    Wasi,
}

impl Target {
    /// The compiler's name for it.
    #[must_use]
    pub fn triple(self) -> &'static str {
        match self {
            Self::Pure => "wasm32-unknown-unknown",
            Self::Wasi => "wasm32-wasip2",
        }
    }
}

/// One example tool: a folder of `example-tools/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExampleTool {
    /// The folder's name, and the component's.
    pub name: &'static str,
    /// What it is compiled for.
    pub target: Target,
}

/// Every example tool.
pub const TOOLS: &[ExampleTool] = &[
    ExampleTool { name: "calculator", target: Target::Pure },
    ExampleTool { name: "countdown", target: Target::Wasi },
    ExampleTool { name: "fetch", target: Target::Wasi },
    ExampleTool { name: "files", target: Target::Wasi },
    ExampleTool { name: "github-issues", target: Target::Wasi },
    ExampleTool { name: "json", target: Target::Pure },
    ExampleTool { name: "mcp-conformance", target: Target::Pure },
    ExampleTool { name: "notes", target: Target::Pure },
    ExampleTool { name: "text", target: Target::Pure },
    ExampleTool { name: "typed-greeter", target: Target::Pure },
];

impl ExampleTool {
    /// The name of the tool's crate.
    #[must_use]
    pub fn package(&self) -> String {
        format!("fumehood-tool-{}", self.name)
    }

    /// The name of the tool's component in `example-tools/dist/`.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.wasm", self.name)
    }
}

/// The tools of these names, or every tool if there are none.
///
/// # Errors
///
/// If there is no tool of one of the names.
pub fn named(names: &[String]) -> Result<Vec<ExampleTool>> {
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
    fn tools_are_found_by_name() {
        assert_eq!(named(&[]).unwrap(), TOOLS);
        assert_eq!(named(&["json".to_owned()]).unwrap().len(), 1);
        let error = named(&["jason".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`jason`") && error.contains("calculator, countdown"), "{error}");
    }
}
