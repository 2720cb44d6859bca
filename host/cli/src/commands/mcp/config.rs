//! `fumehood mcp config`: prints a snippet for the configuration of an MCP client.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use fumehood_platform::files::is_executable;
use serde_json::json;
use toml::{Table, Value as Toml};

use crate::app::App;
use crate::args::{Arguments, Client, Config};
use crate::config::{Config as Configuration, DEFAULT_FILE_NAME};
use crate::configured;
use crate::exit::{Exit, UsageError};
use crate::{render, user_folders};

/// The name of the entry that serves tools.
const OWN_NAME: &str = "fumehood";
/// The folders with programs that every client finds.
const SYSTEM_FOLDERS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

pub(crate) fn run(arguments: &Arguments, config: &Config) -> Result<Exit> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    if let Some(name) = &config.jail {
        let words = jail_words(arguments, config, name)?;
        return print_entry(config.client, &snippet(config.client, name, &program, words)?);
    }
    let mut served = vec!["serve".to_owned(), "mcp".to_owned()];
    let mut components = config.components.clone();
    let mut has_configured = false;
    let found = configuration(arguments)?;
    let is_missing = found.is_none();
    if let Some((file, configuration)) = found {
        warn_of_programs(&configuration);
        served.extend(["--config".to_owned(), path_text(&file)]);
        components = configured::without_configured(&configuration, &components)?;
        let has_servers = !configuration.mcp.servers.is_empty();
        served.extend(has_servers.then(|| "--servers".to_owned()));
        let has_tools =
            !configuration.tools.is_empty() || !configured::components_in_folders(&configuration)?.is_empty();
        has_configured = has_servers || has_tools || configuration.has_texts();
    }
    if components.is_empty() && !has_configured {
        let message = if is_missing {
            format!(
                "there is no {DEFAULT_FILE_NAME} here; run this command in the folder that has it, name it with \
                 `--config FILE`, or name components"
            )
        } else {
            format!("nothing to serve; name components, or add tools or MCP servers to {DEFAULT_FILE_NAME}")
        };
        return Err(UsageError(message).into());
    }
    for component in &components {
        served.push(path_text(&canonicalize("component", component)?));
    }
    print_entry(config.client, &snippet(config.client, OWN_NAME, &program, served)?)
}

fn print_entry(client: Client, entry: &str) -> Result<Exit> {
    render::note(&format!("Add this to {}:", config_location(client)));
    render::bytes(format!("{entry}\n").as_bytes())?;
    Ok(Exit::Ok)
}

/// Returns the arguments of this program with which a client starts a server of its own in a jail. The server keeps its
/// home.
fn jail_words(arguments: &Arguments, config: &Config, name: &str) -> Result<Vec<String>> {
    let mut options = config.options.clone();
    if options.home.is_none() {
        options.home = Some(user_folders::home_of_client_server(name).ok_or_else(|| {
            UsageError("there is no home folder for the server; name one with `--home FOLDER`".to_owned())
        })?);
    }
    let mut words = vec!["jail".to_owned()];
    words.extend(arguments.isolation.into_iter().flat_map(|mode| ["--isolation".to_owned(), mode.as_str().to_owned()]));
    words.extend(options.words()?);
    words.push("--".to_owned());
    words.extend(config.command.iter().cloned());
    Ok(words)
}

/// Warns of servers whose programs a client may not find, because it starts Fumehood with another PATH.
fn warn_of_programs(configuration: &Configuration) {
    let folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    // A server with a PATH of its own is found in the same way whoever starts it.
    for (name, server) in configuration.mcp.servers.iter().filter(|(_, server)| !server.env.contains_key("PATH")) {
        let Some(program) = server.command.iter().flatten().next().filter(|program| !program.contains('/')) else {
            continue;
        };
        let found = folders.iter().find(|folder| is_executable(&folder.join(program)));
        if found.is_some_and(|folder| SYSTEM_FOLDERS.iter().any(|system| folder == Path::new(system))) {
            continue;
        }
        let place = found.map_or_else(
            || "is not on your PATH".to_owned(),
            |folder| format!("is {}, which may not be on the PATH of a client", folder.join(program).display()),
        );
        render::warning(&format!(
            "`{program}` of the MCP server `{name}` {place}; write its absolute path in `command`, then run \
             `fumehood trust --approve`"
        ));
    }
}

/// Returns the configuration that was named, or the one in the working folder, with its path; `None` if it does not exist.
///
/// # Errors
/// If it cannot be read, is invalid, or is not trusted.
fn configuration(arguments: &Arguments) -> Result<Option<(PathBuf, Configuration)>> {
    // The snippet names it with `--config`, which counts as trust, so it must be trusted now.
    let app = App::open(arguments)?;
    let file = app.source.file();
    if !file.exists() {
        return Ok(None);
    }
    Ok(Some((canonicalize("configuration", &file)?, app.config)))
}

/// Returns the absolute path, because clients run in other folders.
fn canonicalize(what: &str, path: &Path) -> Result<PathBuf> {
    let not_found = |error| UsageError(format!("cannot find the {what} {}: {error}", path.display()));
    Ok(path.canonicalize().map_err(not_found)?)
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn snippet(client: Client, name: &str, program: &Path, arguments: Vec<String>) -> Result<String> {
    let command = path_text(program);
    if client == Client::Codex {
        return codex(name, command, arguments);
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
    Ok(serde_json::to_string_pretty(&json!({ key: {name: entry} }))?)
}

/// Returns the snippet for Codex, whose configuration is TOML.
fn codex(name: &str, command: String, arguments: Vec<String>) -> Result<String> {
    let entry = Table::from_iter([("command".to_owned(), command.into()), ("args".to_owned(), arguments.into())]);
    let servers = Table::from_iter([(name.to_owned(), Toml::Table(entry))]);
    let whole = Table::from_iter([("mcp_servers".to_owned(), Toml::Table(servers))]);
    Ok(toml::to_string(&whole)?.trim_end().to_owned())
}

/// Returns where a client keeps its configuration.
fn config_location(client: Client) -> &'static str {
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
    fn matches_the_format_of_each_client() {
        let words = ["serve", "mcp", "/tools/a.wasm"].map(str::to_owned);
        let snippet_for = |client| snippet(client, OWN_NAME, Path::new("/bin/fumehood"), words.to_vec()).unwrap();
        let json = |client| serde_json::from_str::<serde_json::Value>(&snippet_for(client)).unwrap();
        let command = json!({"command": "/bin/fumehood", "args": ["serve", "mcp", "/tools/a.wasm"]});
        for client in [Client::ClaudeDesktop, Client::Cursor, Client::GeminiCli, Client::Windsurf] {
            assert_eq!(json(client), json!({"mcpServers": {"fumehood": command}}), "{client:?}");
        }
        assert_eq!(json(Client::Zed), json!({"context_servers": {"fumehood": command}}));
        let typed = json!({"type": "stdio", "command": command["command"], "args": command["args"]});
        assert_eq!(json(Client::ClaudeCode), json!({"mcpServers": {"fumehood": typed}}));
        assert_eq!(json(Client::Vscode), json!({"servers": {"fumehood": typed}}));
        let codex: Table = snippet_for(Client::Codex).parse().unwrap();
        let entry = &codex["mcp_servers"]["fumehood"];
        assert_eq!(serde_json::to_value(entry).unwrap(), command);
    }
}
