//! The names of servers' tools: in this host, for clients of the gateway, and in approvals.

use std::sync::Arc;

use fumehood::approval::{Approval, Manifest};
use fumehood::mcp::{NamePrefix, NamingScheme, RemoteOptions, Server, ServerOptions};
use fumehood::{McpTools, NameForm, Namespace, ToolDefinition, ToolName, ToolProvider as _};
use serde_json::{Value, json};

use super::raw::Raw;
use super::remote::fake;

/// Answers a call with the name that was called.
const SAY_NAME: &str = r#"name=${line#*'"name":"'}; text "${name%%'"'*}""#;

/// Connects to a server with tools of these names.
async fn tools_named(names: &[&str], options: RemoteOptions) -> McpTools {
    let tools: Vec<_> = names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    let remote = fake(&[("TOOLS", &Value::from(tools).to_string()), ("ON_CALL", SAY_NAME)], options);
    let tools = McpTools::default();
    tools.add(&remote).await.unwrap();
    tools
}

fn notices(tools: &McpTools) -> Vec<String> {
    tools.refused().iter().chain(&tools.unchecked()).map(ToString::to_string).collect()
}

/// Serves tools to a client. Returns the names that it is listed, and then the answers to calls of `called`.
async fn serve(tools: McpTools, naming: NamingScheme, called: &[&str]) -> (Vec<String>, Vec<String>) {
    let tools = Arc::new(tools);
    let mut raw = Raw::connect_to(&Server::new(tools.clone(), ServerOptions { naming, ..ServerOptions::default() }));
    raw.initialize("2025-11-25").await;
    let listed = raw.request("tools/list", json!({})).await;
    let listed = listed["result"]["tools"].as_array().unwrap();
    let names = listed.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    let mut answers = Vec::new();
    for name in called {
        let answer = raw.call(name, json!({})).await;
        answers.push(answer["content"][0]["text"].as_str().unwrap().to_owned());
    }
    raw.leave().await;
    tools.close().await;
    (names, answers)
}

#[tokio::test]
async fn clients_see_the_servers_own_names_and_may_call_aliases() {
    let own = [
        "BigQuery.ExecuteSQLStatement",
        "DATA_EXPORT_V2_FULL_REPORT_BY_CUSTOMER",
        "Get",
        "get",
        "repo/files.read",
        &"a".repeat(64),
        &"b".repeat(65),
        &"c".repeat(120),
    ];
    let tools = tools_named(&own, RemoteOptions::default()).await;
    assert_eq!(notices(&tools), [""; 0]);
    let full = own.map(|name| format!("other__{name}"));
    let aliases = full.each_ref().map(|name| NameForm::Portable.alias(name).into_owned());
    let called: Vec<&str> = full.iter().chain(&aliases).map(String::as_str).collect();
    let (mut listed, answers) = serve(tools, NamingScheme::default(), &called).await;
    let mut expected = full.to_vec();
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    assert_eq!(answers, [own, own].concat());

    let tools = tools_named(&own, RemoteOptions::default()).await;
    let portable = NamingScheme { form: NameForm::Portable, ..NamingScheme::default() };
    let (mut listed, answers) = serve(tools, portable, &called).await;
    assert_eq!(answers, [own, own].concat());
    let mut expected = aliases.to_vec();
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    assert!(listed.iter().all(|name| name.len() <= 64 && !name.contains(['.', '/'])), "{listed:?}");
}

#[tokio::test]
async fn names_that_mcp_does_not_allow_are_replaced_and_said() {
    let long = "d".repeat(129);
    let own = ["ns:tool", "my tool", "🔥", "検索", &long, &"e".repeat(128)];
    let tools = tools_named(&own, RemoteOptions::default()).await;
    let here = own.map(|name| ToolName::from_foreign(name).unwrap().to_string());
    assert!(here[0].starts_with("ns_tool_") && here[1].starts_with("my_tool_") && here[2].starts_with("tool_"));
    let said = notices(&tools);
    assert_eq!(said.len(), 5, "{said:?}");
    assert!(
        said.iter()
            .any(|line| line.contains(&format!("ns:tool: its name is not valid, so it is called `{}`", here[0]))),
        "{said:?}"
    );
    let full: Vec<String> = here.iter().map(|name| format!("other__{name}")).collect();
    let called: Vec<&str> = full.iter().map(String::as_str).collect();
    let (listed, answers) = serve(tools, NamingScheme::default(), &called).await;
    assert_eq!(answers, own);
    // With the name of the server, two are longer than MCP allows.
    let mut expected: Vec<_> = full.iter().map(|name| NameForm::Mcp.alias(name).into_owned()).collect();
    expected.sort();
    assert_eq!((listed.iter().map(String::len).max(), listed), (Some(128), expected));

    let only = RemoteOptions { only: Some(["ns:tool".to_owned(), here[1].clone()].into()), ..RemoteOptions::default() };
    let tools = tools_named(&own, only).await;
    assert_eq!(tools.tools().len(), 2, "a server's tools are named as it names them, or as this host does");
    tools.close().await;
}

#[tokio::test]
async fn two_tools_of_one_name_and_nameless_tools_are_said() {
    let tools = tools_named(&["t", "t", ""], RemoteOptions::default()).await;
    let said = notices(&tools);
    assert_eq!(tools.tools().len(), 1);
    assert!(said.iter().any(|line| line.starts_with("t: the server lists it twice")), "{said:?}");
    assert!(said.iter().any(|line| line.contains("a name is empty")), "{said:?}");
    tools.close().await;
}

#[tokio::test]
async fn a_prefix_changes_the_names_for_clients_alone() {
    let gh = NamePrefix::Other(Namespace::parse("gh").unwrap());
    for (prefix, shown) in [(NamePrefix::None, ["a.b", "search"]), (gh, ["gh__a.b", "gh__search"])] {
        let options = RemoteOptions { prefix: Some(prefix), ..RemoteOptions::default() };
        let tools = tools_named(&["search", "a.b"], options).await;
        assert!(tools.find("other__search").is_some() && tools.find(shown[1]).is_none());
        let (listed, answers) = serve(tools, NamingScheme::default(), &[shown[1], "other__search", shown[0]]).await;
        assert_eq!(listed, shown);
        assert_eq!(answers, ["search", "search", "a.b"]);
    }
}

#[tokio::test]
async fn approvals_with_the_names_of_earlier_releases_still_hold() {
    let tools = r#"[{"name":"API-self","inputSchema":{"type":"object"}},{"name":"t","inputSchema":{"type":"object"}}]"#;
    let remote = fake(&[("TOOLS", tools)], RemoteOptions::default());
    let listed = remote.tools().await.unwrap();
    let approved = |change: &dyn Fn(&mut ToolDefinition)| {
        let mut definitions: Vec<_> = listed.iter().map(|tool| tool.definition.clone()).collect();
        change(&mut definitions[0]);
        Some(Approval::new(Manifest::new(None, "mcp", Vec::new(), &definitions)))
    };
    for (change, expected) in [
        (&(|_: &mut ToolDefinition| {}) as &dyn Fn(&mut ToolDefinition), true),
        (&escape_name, true),
        (
            &|definition: &mut ToolDefinition| {
                escape_name(definition);
                definition.description = "Something else.".into();
            },
            false,
        ),
    ] {
        let tools = McpTools::default();
        let check = tools.add_pinned(&remote, Vec::new(), approved(change)).await.unwrap();
        assert_eq!(check.standing().is_approved(), expected, "{}", check.standing());
        assert_eq!(tools.find("other__API-self").unwrap().is_approved(), expected);
    }
    remote.close().await;
}

fn escape_name(definition: &mut ToolDefinition) {
    definition.export = Some("API-self".into());
    definition.name = ToolName::parse("_x41__x50__x49_-self").unwrap();
}
