//! The recorded tool lists of popular servers: all of their tools are accepted, and their arguments checked.

use std::path::PathBuf;

use fumehood::agent::identity::ActorArguments;
use fumehood::mcp::{RemoteOptions, ToolNotice};
use fumehood::{McpTools, ToolProvider as _};
use serde_json::{Value, json};

use super::remote::fake;

/// Returns the lists by the names of their servers: names and schemas of tools, without descriptions.
fn lists() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/mcp/tool-lists");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &PathBuf| {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        // The fake server answers in one line.
        (name, std::fs::read_to_string(file).unwrap().replace('\n', ""))
    };
    files.iter().map(read).collect()
}

async fn remotes(list: &str, remotes: McpTools) -> McpTools {
    let remote = fake(&[("TOOLS", list)], RemoteOptions::default());
    remotes.add(&remote).await.unwrap();
    remote.close().await;
    remotes
}

async fn of_server(name: &str) -> McpTools {
    let (_, list) = lists().into_iter().find(|(found, _)| found == name).unwrap();
    remotes(&list, McpTools::default()).await
}

#[tokio::test]
async fn every_tool_is_kept_and_checked_completely() {
    let mut all = 0;
    for (name, list) in lists() {
        let listed = serde_json::from_str::<Vec<Value>>(&list).unwrap().len();
        let remotes = remotes(&list, McpTools::default()).await;
        assert_eq!(remotes.tools().len(), listed, "{name}: {:?}", remotes.refused());
        assert_eq!((remotes.refused(), remotes.unchecked()), (Vec::new(), Vec::new()), "{name}");
        all += listed;
    }
    assert_eq!(all, 168);
}

#[tokio::test]
async fn approvals_are_of_the_tools_that_are_kept() {
    for (name, list) in lists() {
        let remote = fake(&[("TOOLS", &list)], RemoteOptions::default());
        let remotes = McpTools::without_arguments(ActorArguments::new(["user_id"]));
        let pinned = remotes.add_pinned(&remote, Vec::new(), None).await.unwrap();
        let kept = remotes.refused().len() + pinned.parts().tools.len();
        assert_eq!(kept, serde_json::from_str::<Vec<Value>>(&list).unwrap().len(), "{name}");
        remote.close().await;
    }
}

#[tokio::test]
async fn a_file_of_eleven_thousand_characters_can_be_written() {
    let servers = of_server("filesystem").await;
    let write = servers.find("other__write_file").unwrap();
    let check = |content: String| write.validate(json!({"path": "/tmp/a", "content": content}).into()).map(drop);
    assert!(check("x".repeat(11_000)).is_ok());
    assert!(check("x".repeat(1 << 20)).is_ok());
    assert!(check("x".repeat((1 << 20) + 1)).is_err());
    let misspelt = write.validate(r#"{"paht": "/tmp/a", "content": ""}"#.into()).unwrap_err().to_string();
    assert!(misspelt.contains(r#"expected the property "path" (string) in place of "paht""#), "{misspelt}");
}

#[tokio::test]
async fn arguments_of_an_operators_choice_are_refused() {
    let tool = |name: &str, argument: &str| json!({"name": name, "inputSchema": {"type": "object", "properties": {argument: {"type": "string"}}}});
    let list = json!([tool("a", "user"), tool("b", "user_id"), tool("c", "q")]).to_string();
    let names = |remotes: &McpTools| -> Vec<String> {
        remotes.tools().iter().map(|tool| tool.full_name().to_owned()).collect()
    };
    assert_eq!(names(&remotes(&list, McpTools::default()).await), ["other__a", "other__b", "other__c"]);
    let strict = remotes(&list, McpTools::without_arguments(ActorArguments::new(["userId"]))).await;
    assert_eq!(names(&strict), ["other__a", "other__c"]);
    let lines = ToolNotice::lines(&strict.refused());
    assert!(lines.len() == 1 && lines[0].starts_with("b: ") && lines[0].contains("'user_id'"), "{lines:?}");
}

#[tokio::test]
async fn what_cannot_be_read_loses_no_tool() {
    let pattern = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!-)"}}});
    let list = json!([
        {"name": "a", "inputSchema": pattern},
        {"name": "b", "inputSchema": pattern},
        {"name": "c", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "$ref": "https://example.com/x"}},
    ]);
    let servers = remotes(&list.to_string(), McpTools::default()).await;
    assert_eq!((servers.tools().len(), servers.refused()), (3, Vec::new()));
    let expected = [
        "a, b: a pattern is too long, malformed, or uses look-around or back-references",
        "c: its output schema is malformed, so its results are not checked",
    ];
    assert_eq!(ToolNotice::lines(&servers.unchecked()), expected);
    // The schema for the model still has the pattern.
    let shown = servers.find("other__a").unwrap().to_spec().parameters;
    assert_eq!(shown, pattern);
}
