//! `fumehood mcp config`: what to paste into a client's configuration.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::args::{Arguments, Client, Config};
use crate::config::USUAL;
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
        return Err(UsageError(format!("there is nothing to serve; name components, or make a {USUAL}")).into());
    }
    let snippet = snippet(config.client, &program, served);
    render::note(&format!("Put this into {}:", file(config.client)));
    render::bytes(format!("{}\n", serde_json::to_string_pretty(&snippet)?).as_bytes())?;
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

fn snippet(client: Client, program: &Path, served: Vec<String>) -> Value {
    let mut arguments = vec!["serve".to_owned(), "mcp".to_owned()];
    arguments.extend(served);
    let command = json!({"command": text(program), "args": arguments});
    match client {
        Client::ClaudeDesktop | Client::Cursor => json!({"mcpServers": {"fumehood": command}}),
        Client::Vscode => {
            let mut command = command;
            if let Some(members) = command.as_object_mut() {
                members.shift_insert(0, "type".to_owned(), json!("stdio"));
            }
            json!({"servers": {"fumehood": command}})
        }
    }
}

fn file(client: Client) -> &'static str {
    match client {
        Client::ClaudeDesktop => "claude_desktop_config.json (Settings, Developer, Edit Config), then restart Claude",
        Client::Vscode => ".vscode/mcp.json of a folder, or run `MCP: Open User Configuration`",
        Client::Cursor => "~/.cursor/mcp.json, or .cursor/mcp.json of a folder",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_its_own_shape() {
        let of = |client| snippet(client, Path::new("/bin/fumehood"), vec!["/tools/a.wasm".to_owned()]).to_string();
        let command = r#""command":"/bin/fumehood","args":["serve","mcp","/tools/a.wasm"]}}}"#;
        assert_eq!(of(Client::ClaudeDesktop), format!(r#"{{"mcpServers":{{"fumehood":{{{command}"#));
        assert_eq!(of(Client::Cursor), of(Client::ClaudeDesktop));
        assert_eq!(of(Client::Vscode), format!(r#"{{"servers":{{"fumehood":{{"type":"stdio",{command}"#));
    }
}
