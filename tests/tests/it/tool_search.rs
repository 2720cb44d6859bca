//! The size of an agent's first request with 500 tools: with all of their definitions, and with tool search.

use std::sync::Arc;

use fumehood::agent::allowlist::{Allowlists, DefaultAllowlist};
use fumehood::agent::batch::BatchDriver;
use fumehood::agent::driver::{Driver, ToolRuntime};
use fumehood::agent::executor::{Scope, ToolExecutor as _};
use fumehood::agent::native::NativeDriver;
use fumehood::agent::pipeline::PipelineBuilder;
use fumehood::agent::react::ReactDriver;
use fumehood::agent::tool_search::ToolSearch;
use fumehood::boxed::BoxFuture;
use fumehood::chat::Message;
use fumehood::{
    CallContext, CallError, CallResult, Changes, Gate, GateLimits, Metadata, Namespace, ProviderKind, Revision, Stop,
    Tool, ToolDefinition, ToolName, ToolProvider, ValidatedCall,
};
use serde_json::{Value, json};

/// Number of tools of the agent.
const TOOLS: usize = 500;
/// Bytes of a request that are taken for one token.
const BYTES_PER_TOKEN: usize = 4;

/// Tools that are described, and never called.
struct DescribedTools(Vec<Arc<Tool>>, Revision);

impl ToolProvider for DescribedTools {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Mcp
    }
    fn tools(&self) -> Vec<Arc<Tool>> {
        self.0.clone()
    }
    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.0.iter().find(|tool| tool.full_name() == name).cloned()
    }
    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let tool = call.tool().full_name().to_owned();
        let outcome = Err(CallError::replaced());
        let result = CallResult { id: context.id, tool, outcome, metadata: Metadata::default() };
        Box::pin(std::future::ready(Ok(result)))
    }
    fn changes(&self) -> Changes {
        self.1.subscribe()
    }
}

/// Returns the recorded tools of popular servers, as often as it takes: names and schemas, without descriptions.
fn tools() -> Vec<Arc<Tool>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/mcp/tool-lists");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut tools = Vec::new();
    for copy in 0.. {
        for file in &files {
            let server = format!("{}-{copy}", file.file_stem().unwrap().to_str().unwrap());
            let list: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            tools.extend(list.iter().map(|listed| tool(&server, listed)));
        }
        if tools.len() >= TOOLS {
            break;
        }
    }
    tools.truncate(TOOLS);
    tools
}

fn tool(server: &str, listed: &Value) -> Arc<Tool> {
    let definition = ToolDefinition {
        name: ToolName::from_foreign(listed["name"].as_str().unwrap()).unwrap(),
        export: None,
        title: None,
        description: listed["description"].as_str().unwrap_or_default().into(),
        input_schema: listed["inputSchema"].clone().into(),
        output_schema: None,
        annotations: Default::default(),
        mcp_members: None,
    };
    let gate = Gate::for_arguments(&json!({}), GateLimits::default()).unwrap();
    Arc::new(Tool::new(definition, gate).in_namespace(&Namespace::parse(server).unwrap()))
}

fn tokens(driver: &mut dyn Driver, search: bool) -> usize {
    let lists = Allowlists { default: DefaultAllowlist::Everything, ..Allowlists::default() };
    let tools = Arc::new(DescribedTools(tools(), Revision::default()));
    let builder = PipelineBuilder::default().provider(tools).allowlists(lists);
    let builder = if search { builder.tool_search(ToolSearch::new()) } else { builder };
    let tools = builder.build().unwrap().specs(&Scope::default());
    assert_eq!(tools.len(), if search { 1 } else { TOOLS });
    driver.bind(ToolRuntime { tools });
    let request = driver.request(&[Message::user("Which issues are open?")], &[]);
    let schema = request.json_schema.as_ref().map_or(0, |schema| schema.to_string().len());
    let messages: usize = request.messages.iter().map(|message| message.content.len()).sum();
    (serde_json::to_string(&request.tools).unwrap().len() + messages + schema) / BYTES_PER_TOKEN
}

#[test]
fn first_request_with_500_tools_is_small_with_tool_search() {
    let drivers: [(&str, Box<dyn Driver>); 3] = [
        ("native", Box::new(NativeDriver::default())),
        ("react", Box::new(ReactDriver::default())),
        ("batch", Box::new(BatchDriver::new())),
    ];
    for (name, mut driver) in drivers {
        let all = tokens(driver.as_mut(), false);
        let search = tokens(driver.as_mut(), true);
        println!("{name}: {all} tokens with all tools, {search} with tool search");
        assert!(all > 20 * search, "{name}: {all} and {search}");
    }
}
