//! Recall of tool search over the tools of well-known MCP servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::tool::Tool;
use fumehood_core::tool::definition::{DefinitionLimits, RawDefinition};
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::search::ToolIndex;
use serde_json::{Map, Value, json};

const TOOLS: &str = include_str!("tools.txt");
const QUERIES: &str = include_str!("queries.txt");

/// Minimum share of queries for which one of the first five tools would do. Measured: see the table in
/// `docs/tool-search.md`.
const MIN_RECALL_AT_5: f64 = 0.83;

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn tool(server: &str, name: &str, description: &str, parameters: &str) -> Arc<Tool> {
    let names = parameters.split(',').map(str::trim).filter(|name| !name.is_empty());
    let properties: Map<String, Value> = names.map(|name| (name.to_owned(), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": properties});
    let raw = RawDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: schema.to_string(),
        ..RawDefinition::default()
    };
    let gate = Gate::for_arguments(&schema, GateLimits::default()).unwrap();
    let tool = Tool::new(raw.parse(&DefinitionLimits::default()).unwrap(), gate);
    Arc::new(tool.in_namespace(&Namespace::parse(server).unwrap()))
}

fn tools() -> Vec<Arc<Tool>> {
    let mut server = "";
    let mut tools = Vec::new();
    for line in lines(TOOLS) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            server = name;
            continue;
        }
        let parts: Vec<&str> = line.split(" |").collect();
        tools.push(tool(server, parts[0].trim(), parts[1].trim(), parts[2]));
    }
    tools
}

/// Returns the position of the first of these tools among those found, if it is one of the first 10.
fn rank(index: &ToolIndex, query: &str, expected: &[&str]) -> Option<usize> {
    let found = index.search(query, 10);
    found.iter().position(|(tool, _)| expected.contains(&tool.full_name()))
}

#[test]
fn most_queries_find_a_tool_that_would_do_among_the_first_five() {
    let tools = tools();
    assert!(tools.len() >= 300, "{} tools", tools.len());
    let names: BTreeSet<String> = tools.iter().map(|tool| tool.full_name().to_owned()).collect();
    let index = ToolIndex::new(tools);
    let queries: Vec<(&str, Vec<&str>)> = lines(QUERIES)
        .map(|line| line.split_once(" | ").unwrap())
        .map(|(query, expected)| (query, expected.split(',').map(str::trim).collect()))
        .collect();
    assert!(queries.len() >= 100, "{} queries", queries.len());
    let mut ranks = Vec::new();
    for (query, expected) in &queries {
        let unknown = expected.iter().find(|name| !names.contains(**name));
        assert_eq!(unknown, None, "{query}");
        let rank = rank(&index, query, expected);
        if rank.is_none_or(|rank| rank >= 5) {
            let found: Vec<_> =
                index.search(query, 5).into_iter().map(|(tool, _)| tool.full_name().to_owned()).collect();
            println!("missed: {query}: {rank:?} {found:?}");
        }
        ranks.push(rank);
    }
    let recall =
        |at: usize| ranks.iter().filter(|rank| rank.is_some_and(|rank| rank < at)).count() as f64 / ranks.len() as f64;
    let figures = [1, 3, 5, 10].map(|at| format!("recall@{at} {:.3}", recall(at)));
    println!("{} tools, {} queries: {}", index.len(), queries.len(), figures.join(", "));
    assert!(recall(5) >= MIN_RECALL_AT_5, "{figures:?}");
}
