//! `fumehood mcp config`: what to paste into a client's configuration.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::json;
use toml::{Table, Value as Toml};

use crate::args::{Arguments, Client, Config};
use crate::config::DEFAULT_FILE_NAME;
use crate::exit::{Exit, UsageError};
use crate::render;
use crate::trust::ConfigSource;

pub(crate) fn run(arguments: &Arguments, config: &Config) -> Result<Exit> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let mut served = Vec::new();
    if let Some(file) = configuration(arguments)? {
        served.extend(["--config".to_owned(), text(&file)]);
    }
    for component in &config.components {
        served.push(text(&found("component", component)?));
    }
    if served.is_empty() {
        return Err(
            UsageError(format!("there is nothing to serve; name components, or make a {DEFAULT_FILE_NAME}")).into()
        );
    }
    let snippet = snippet(config.client, &program, served)?;
    render::note(&format!("Put this into {}:", file(config.client)));
    render::bytes(format!("{snippet}\n").as_bytes())?;
    Ok(Exit::Ok)
}

/// The configuration that was named, or the one in the working folder, if its tools can be served.
fn configuration(arguments: &Arguments) -> Result<Option<PathBuf>> {
    // What is printed names it, and whoever names a configuration trusts it.
    let source = ConfigSource::of(arguments);
    source.open()?;
    let file = source.file();
    if file.exists() { found("configuration", &file).map(Some) } else { Ok(None) }
}

/// Clients run elsewhere, so paths are whole.
fn found(what: &str, path: &Path) -> Result<PathBuf> {
    let refused = |error| UsageError(format!("cannot find the {what} {}: {error}", path.display()));
    Ok(path.canonicalize().map_err(refused)?)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The text to paste.
fn snippet(client: Client, program: &Path, served: Vec<String>) -> Result<String> {
    let mut arguments = vec!["serve".to_owned(), "mcp".to_owned()];
    arguments.extend(served);
    let command = text(program);
    if client == Client::Codex {
        return codex(command, arguments);
    }
    let key = match client {
        Client::Vscode => "servers",
        Client::Zed => "context_servers",
        _ => "mcpServers",
    };
    let entry = match client {
        Client::ClaudeCode | Client::Vscode => json!({"type": "stdio", "command": command, "args": arguments}),
        _ => json!({"command": command, "args": arguments}),
    };
    Ok(serde_json::to_string_pretty(&json!({ key: {"fumehood": entry} }))?)
}

/// The configuration of Codex is the one in TOML.
fn codex(command: String, arguments: Vec<String>) -> Result<String> {
    let entry = Table::from_iter([("command".to_owned(), command.into()), ("args".to_owned(), arguments.into())]);
    let servers = Table::from_iter([("fumehood".to_owned(), Toml::Table(entry))]);
    let whole = Table::from_iter([("mcp_servers".to_owned(), Toml::Table(servers))]);
    Ok(toml::to_string(&whole)?.trim_end().to_owned())
}

fn file(client: Client) -> &'static str {
    match client {
        Client::ClaudeCode => ".mcp.json of a project",
        Client::ClaudeDesktop => "claude_desktop_config.json (Settings, Developer, Edit Config), then restart Claude",
        Client::Codex => "~/.codex/config.toml",
        Client::Cursor => "~/.cursor/mcp.json, or .cursor/mcp.json of a folder",
        Client::GeminiCli => "~/.gemini/settings.json, or .gemini/settings.json of a folder",
        Client::Vscode => ".vscode/mcp.json of a folder, or run `MCP: Open User Configuration`",
        Client::Windsurf => "~/.codeium/windsurf/mcp_config.json",
        Client::Zed => "~/.config/zed/settings.json, or .zed/settings.json of a folder",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_its_own_shape() {
        let of = |client| snippet(client, Path::new("/bin/fumehood"), vec!["/tools/a.wasm".to_owned()]).unwrap();
        let json = |client| serde_json::from_str::<serde_json::Value>(&of(client)).unwrap();
        let command = json!({"command": "/bin/fumehood", "args": ["serve", "mcp", "/tools/a.wasm"]});
        for client in [Client::ClaudeDesktop, Client::Cursor, Client::GeminiCli, Client::Windsurf] {
            assert_eq!(json(client), json!({"mcpServers": {"fumehood": command}}), "{client:?}");
        }
        assert_eq!(json(Client::Zed), json!({"context_servers": {"fumehood": command}}));
        let typed = json!({"type": "stdio", "command": command["command"], "args": command["args"]});
        assert_eq!(json(Client::ClaudeCode), json!({"mcpServers": {"fumehood": typed}}));
        assert_eq!(json(Client::Vscode), json!({"servers": {"fumehood": typed}}));
        let codex: Table = of(Client::Codex).parse().unwrap();
        let entry = &codex["mcp_servers"]["fumehood"];
        assert_eq!(serde_json::to_value(entry).unwrap(), command);
    }
}
