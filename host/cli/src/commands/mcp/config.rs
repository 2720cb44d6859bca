//! `fumehood mcp config`: what to paste into a client's configuration.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::args::{Client, Config};
use crate::exit::{Exit, UsageError};
use crate::render;

pub(crate) fn run(config: &Config) -> Result<Exit> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let components = config.components.iter().map(|path| found(path)).collect::<Result<Vec<_>>>()?;
    let snippet = snippet(config.client, &program, &components);
    render::note(&format!("Put this into {}:", file(config.client)));
    render::bytes(format!("{}\n", serde_json::to_string_pretty(&snippet)?).as_bytes())?;
    Ok(Exit::Ok)
}

/// Clients run elsewhere, so paths are whole.
fn found(path: &Path) -> Result<PathBuf> {
    let refused = |error| UsageError(format!("cannot find the component {}: {error}", path.display()));
    Ok(path.canonicalize().map_err(refused)?)
}

fn snippet(client: Client, program: &Path, components: &[PathBuf]) -> Value {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut arguments = vec!["serve".to_owned(), "mcp".to_owned()];
    arguments.extend(components.iter().map(|path| text(path)));
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
        let of = |client| snippet(client, Path::new("/bin/fumehood"), &[PathBuf::from("/tools/a.wasm")]).to_string();
        let command = r#""command":"/bin/fumehood","args":["serve","mcp","/tools/a.wasm"]}}}"#;
        assert_eq!(of(Client::ClaudeDesktop), format!(r#"{{"mcpServers":{{"fumehood":{{{command}"#));
        assert_eq!(of(Client::Cursor), of(Client::ClaudeDesktop));
        assert_eq!(of(Client::Vscode), format!(r#"{{"servers":{{"fumehood":{{"type":"stdio",{command}"#));
    }
}
