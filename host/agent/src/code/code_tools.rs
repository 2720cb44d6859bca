//! The two tools of code mode, as a model sees them.

use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::call::content::Content;
use fumehood_core::chat::ToolSpec;
use fumehood_core::schema::gate::{Gate, GateLimits, SchemaError};
use fumehood_core::tool::Tool;
use fumehood_core::tool::definition::{Annotations, ToolDefinition};
use fumehood_core::tool::name::{NameError, ToolName};
use fumehood_core::tool::search::ToolIndex;
use serde_json::{Value, json};

use super::limits::ProgramLimits;
use super::program_tools::ProgramTools;
use crate::tool_search::SEARCH_TOOLS;

/// The name of the tool that runs programs.
pub const RUN_CODE: &str = "run_code";

/// Maximum size of the declarations in the description of `run_code`, in bytes. More tools are found by searching.
const MAX_DECLARED_BYTES: usize = 8 << 10;
/// Maximum size of the declarations that a search returns, in bytes.
const MAX_FOUND_BYTES: usize = 12 << 10;
/// Maximum number of tools that a search returns.
const MAX_FOUND: usize = 10;
/// Maximum number of components that the description of `run_code` names.
const MAX_COMPONENTS: usize = 100;
/// Maximum size of the code and of a query that the schemas of the tools accept, in characters.
const MAX_TEXT_CHARS: usize = 1 << 20;

/// Errors of setting up the tools of code mode.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodeToolsError {
    /// The name of a tool is invalid.
    #[error("a tool of code mode has an invalid name")]
    Name(#[from] NameError),
    /// The schema of a tool does not compile.
    #[error("the schema of a tool of code mode is invalid")]
    Schema(#[from] SchemaError),
}

/// The two tools of code mode.
#[derive(Debug)]
pub(crate) struct CodeTools {
    pub(crate) run: Arc<Tool>,
    pub(crate) search: Arc<Tool>,
    /// An index of the tools that were searched last.
    index: Arc<Mutex<ToolIndex>>,
}

impl CodeTools {
    /// Creates the tools, without declarations of others.
    pub(crate) fn new() -> Result<Self, CodeToolsError> {
        let run = json!({
            "type": "object",
            "properties": {"code": text_schema("The body of an asynchronous function in JavaScript.")},
            "required": ["code"],
            "additionalProperties": false,
        });
        let search = json!({
            "type": "object",
            "properties": {"query": text_schema("Words for what the tool should do.")},
            "required": ["query"],
            "additionalProperties": false,
        });
        let unknown = Annotations::default();
        let harmless = Annotations { read_only: Some(true), idempotent: Some(true), ..unknown };
        Ok(Self {
            run: Arc::new(tool(RUN_CODE, "Runs a program that calls tools.", run, unknown)?),
            search: Arc::new(tool(SEARCH_TOOLS, SEARCH_DESCRIPTION, search, harmless)?),
            index: Arc::default(),
        })
    }

    /// Returns the tool of this name, if it is one of the two.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Tool>> {
        [&self.run, &self.search].into_iter().find(|tool| tool.full_name() == name)
    }

    /// Returns both, with the tools that a program can call in the description of the first.
    pub(crate) fn describe(&self, tools: &ProgramTools) -> [Arc<Tool>; 2] {
        let run = Tool::clone(&self.run).with_definition(|definition| definition.description = describe(tools).into());
        [Arc::new(run), Arc::clone(&self.search)]
    }

    /// Answers a call of `search_tools` among these tools. The search runs on a thread for blocking work: the first index of
    /// thousands of tools takes a second.
    pub(crate) async fn search(&self, tools: ProgramTools, arguments: &Value) -> Vec<Content> {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default().to_owned();
        let index = Arc::clone(&self.index);
        let all = tools.len();
        let searching = tokio::task::spawn_blocking(move || {
            let mut index = index.lock().unwrap_or_else(PoisonError::into_inner);
            tools.search(&mut index, &query, MAX_FOUND, MAX_FOUND_BYTES)
        });
        // It fails only when the runtime shuts down.
        let found = searching.await.unwrap_or_default();
        if found.tools == 0 {
            return vec![Content::text(format!("No tool fits; there are {all}. Search for other words."))];
        }
        let rest = all.saturating_sub(found.tools);
        let more = if rest > 0 { format!("\n// {rest} other tools: search for other words") } else { String::new() };
        vec![Content::text(format!("{}{more}", found.text))]
    }

    /// Returns both as a model sees them.
    pub(crate) fn specs(&self, tools: &ProgramTools) -> [ToolSpec; 2] {
        self.describe(tools).map(|tool| tool.to_spec())
    }
}

fn text_schema(description: &str) -> Value {
    json!({"type": "string", "maxLength": MAX_TEXT_CHARS, "description": description})
}

fn tool(name: &str, description: &str, schema: Value, annotations: Annotations) -> Result<Tool, CodeToolsError> {
    let gate = Gate::for_arguments(&schema, GateLimits::default())?;
    let definition = ToolDefinition {
        name: ToolName::parse(name)?,
        export: None,
        title: None,
        description: description.into(),
        input_schema: schema.into(),
        output_schema: None,
        annotations,
        mcp_members: None,
    };
    Ok(Tool::new(definition, gate))
}

const SEARCH_DESCRIPTION: &str = "\
Finds tools that programs of `run_code` can call, and returns their TypeScript declarations. An empty query lists the \
first tools.";

const RUN_DESCRIPTION: &str = "\
Runs a program in JavaScript that calls tools, and returns its value. Use it for several calls that depend on each other, \
for loops, and to filter large results. The program is the body of an asynchronous function: call tools with \
`await tools.component.tool({...})`, calls that do not depend on each other with `await Promise.all([...])`, and end with \
`return VALUE`, which has to be JSON. A call that fails throws a ToolError with `kind` and `message`. `console.log` is \
returned as well. There is nothing else: no network, no files, no modules. Nothing is kept for the next program.";

/// Describes `run_code` with the tools that a program can call.
fn describe(tools: &ProgramTools) -> String {
    match tools.declare_all(MAX_DECLARED_BYTES) {
        _ if tools.len() == 0 => format!("{RUN_DESCRIPTION} No tools can be called now."),
        Some(declared) => format!("{RUN_DESCRIPTION}\n\n{declared}"),
        None => {
            let components = tools.components();
            let named = components.iter().take(MAX_COMPONENTS).map(|(name, tools)| format!("{name} ({tools})"));
            let named = named.collect::<Vec<_>>().join(", ");
            format!(
                "{RUN_DESCRIPTION}\n\nThere are {} tools, too many to declare here; find them with `{SEARCH_TOOLS}`. \
                 Components, with their numbers of tools: {named}",
                tools.len(),
            )
        }
    }
}

/// Returns the program of a call of `run_code`.
pub(crate) fn code(arguments: &Value) -> &str {
    arguments.get("code").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the maximum size of a result of one of the two tools, in bytes.
pub(crate) fn max_result_bytes(limits: &ProgramLimits) -> usize {
    limits.report_bytes().max(MAX_FOUND_BYTES + 1024)
}
