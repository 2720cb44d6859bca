//! Servers that others publish, each with calls that work without a key and without the internet.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// A server, and calls of its tools.
pub(crate) struct RealServer {
    pub(crate) name: &'static str,
    command: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// The lines of its section that grant something.
    grants: String,
    pub(crate) calls: Vec<(&'static str, Value)>,
}

impl RealServer {
    fn new(name: &'static str, command: Vec<String>) -> Self {
        Self { name, command, environment: Vec::new(), grants: String::new(), calls: Vec::new() }
    }

    /// Returns the server with this value in its environment.
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Returns the server with a folder that it may `read` or `write`.
    fn granted(mut self, power: &str, folder: &str) -> Self {
        self.grants.push_str(&format!("{power} = [{folder:?}]\n"));
        self
    }

    fn calling(mut self, tool: &'static str, arguments: Value) -> Self {
        self.calls.push((tool, arguments));
        self
    }

    /// Returns the command that starts it without a gateway.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Writes a configuration that has it as the only server.
    pub(crate) fn written_to(&self, folder: &Path) -> PathBuf {
        let environment = self.environment.iter().map(|(name, value)| format!("{name} = {value:?}"));
        let environment = environment.collect::<Vec<_>>().join(", ");
        let name = self.name;
        let Self { command, grants, .. } = self;
        let file = folder.join("fumehood.toml");
        let text = format!(
            "[mcp.servers.{name}]\ncommand = {command:?}\nenv = {{ {environment} }}\napproval = \"off\"\n\
             start_timeout = \"60s\"\n{grants}"
        );
        std::fs::write(&file, text).unwrap();
        file
    }
}

/// Returns the command that runs the program of a package for Node.
fn node_program(tools: &Path, modules: &str, package: &str, script: &str, arguments: &[&str]) -> Vec<String> {
    let script = tools.join(modules).join("node_modules").join(package).join(script);
    let words = [tools.join("bin/node"), script].map(|path| path.to_str().unwrap().to_owned());
    words.into_iter().chain(arguments.iter().map(|&argument| argument.to_owned())).collect()
}

fn official(tools: &Path, name: &str, arguments: &[&str]) -> Vec<String> {
    node_program(tools, "node", &format!("@modelcontextprotocol/server-{name}"), "dist/index.js", arguments)
}

fn python_program(tools: &Path, name: &str) -> Vec<String> {
    vec![tools.join("python/bin").join(name).to_str().unwrap().to_owned()]
}

/// Returns the official server-everything.
pub(crate) fn everything(tools: &Path) -> RealServer {
    RealServer::new("everything", official(tools, "everything", &[]))
        .calling("echo", json!({"message": "hé😀"}))
        .calling("get-sum", json!({"a": 1, "b": 2}))
        .calling("get-tiny-image", json!({}))
        .calling("get-structured-content", json!({"location": "New York"}))
        .calling("get-annotated-message", json!({"messageType": "error", "includeImage": true}))
        .calling("get-resource-links", json!({"count": 2}))
        .calling("gzip-file-as-resource", json!({"name": "a", "data": "data:,hello", "outputType": "resource"}))
}

/// Returns the servers that are small enough to be tested always. `work` has a text `a.txt` and a repository `repo`.
pub(crate) fn small(tools: &Path, work: &Path) -> Vec<RealServer> {
    let folder = work.to_str().unwrap();
    let [file, memory, repository] =
        ["a.txt", "memory.json", "repo"].map(|name| work.join(name).to_str().unwrap().to_owned());
    let module = |package, script| node_program(tools, "node", package, script, &[]);
    let entity = json!({"name": "A", "entityType": "t", "observations": ["o"]});
    let thought = json!({"thought": "t", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1});
    let noon = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    vec![
        everything(tools),
        RealServer::new("filesystem", official(tools, "filesystem", &[folder]))
            .granted("write", folder)
            .calling("read_text_file", json!({"path": file}))
            .calling("list_directory", json!({"path": folder}))
            .calling("read_text_file", json!({"path": "/etc/passwd"})),
        RealServer::new("memory", official(tools, "memory", &[]))
            .with("MEMORY_FILE_PATH", memory)
            .granted("write", folder)
            .calling("read_graph", json!({}))
            .calling("delete_entities", json!({"entityNames": [entity["name"]]}))
            .calling("open_nodes", json!({"names": ["B"]})),
        RealServer::new("sequential-thinking", official(tools, "sequential-thinking", &[]))
            .calling("sequentialthinking", thought),
        RealServer::new("time", python_program(tools, "mcp-server-time"))
            .calling("convert_time", noon)
            .calling("get_current_time", json!({"timezone": "Nowhere/AtAll"})),
        RealServer::new("git", python_program(tools, "mcp-server-git"))
            .granted("read", folder)
            .calling("git_status", json!({"repo_path": repository}))
            .calling("git_log", json!({"repo_path": repository}))
            .calling("git_status", json!({"repo_path": folder})),
        RealServer::new("fetch", python_program(tools, "mcp-server-fetch"))
            .calling("fetch", json!({"url": "http://127.0.0.1:1/"})),
        RealServer::new("notion", module("@notionhq/notion-mcp-server", "bin/cli.mjs")).with("NOTION_TOKEN", "none"),
        RealServer::new("context7", module("@upstash/context7-mcp", "dist/index.js")),
        RealServer::new("tavily", module("tavily-mcp", "build/index.js")).with("TAVILY_API_KEY", "none"),
    ]
}

/// Returns the servers that `tests/mcp/setup OUT large` installs. They want a browser, an account or a database, so that they
/// are listed only.
pub(crate) fn large(tools: &Path) -> Vec<RealServer> {
    let module = |package, script, arguments: &[&str]| node_program(tools, "node-large", package, script, arguments);
    vec![
        RealServer::new("playwright", module("@playwright/mcp", "cli.js", &["--headless"])),
        RealServer::new("firecrawl", module("firecrawl-mcp", "dist/index.js", &[])).with("FIRECRAWL_API_KEY", "none"),
        RealServer::new("sentry", module("@sentry/mcp-server", "dist/index.js", &["--access-token=none"])),
        RealServer::new("mongodb", module("mongodb-mcp-server", "dist/esm/index.js", &[])),
        RealServer::new(
            "chrome-devtools",
            module("chrome-devtools-mcp", "build/src/bin/chrome-devtools-mcp.js", &["--headless"]),
        ),
        RealServer::new("azure", module("@azure/mcp", "index.js", &["server", "start"])),
    ]
}
