//! The MCP servers of a configuration, ready to be connected to.

mod remote;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::agent::identity::ActorArguments;
use fumehood::mcp::{ConnectError, LaunchWrapper, LogLevel, OAuthOptions, Remote, ToolNotice};
use fumehood::settings::ValueSource;
use fumehood::{Lock, McpTools, NameForm, Namespace, ToolAliases, ToolProvider as _};
use tokio::task::JoinSet;

use self::remote::{has_authorization, oauth_options, remote};
use crate::args::END_WITH_PARENT;
use crate::config::Config;
use crate::config::mcp::McpServerSection;
use crate::config::tool::ApprovalRule;
use crate::exit::UsageError;
use crate::source::error_chain;
use crate::{render, user_folders};

/// Wall time for starting or connecting to a server.
const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(10);
/// Wall time for starting a server with a program that may have to install it first.
const DEFAULT_INSTALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Programs that install what they run.
const INSTALLERS: [&str; 11] = ["npx", "npm", "pnpx", "pnpm", "yarn", "bunx", "uvx", "uv", "pipx", "docker", "podman"];

/// A server of a configuration that was not started, connected to or read yet.
pub(crate) struct Server {
    /// Name of the server, which is the prefix of its tools' full names.
    pub(crate) name: Namespace,
    /// The lines that describe its start or its address: they are approved first, and then its tools.
    pub(crate) entry: Vec<String>,
    /// True if it has to be approved.
    pub(crate) is_pinned: bool,
    section: McpServerSection,
}

impl Server {
    fn from_section(name: &str, section: &McpServerSection) -> Result<Self> {
        let name = Namespace::parse(name).map_err(|error| UsageError(error.to_string()))?;
        let is_pinned = section.approval == ApprovalRule::Required;
        Ok(Self { name, entry: entry_lines(section), is_pinned, section: section.clone() })
    }

    /// Returns the reason for which it may not be started or connected to; `None` if it may.
    pub(crate) fn reason_not_to_start(&self, lock: &Lock) -> Option<&'static str> {
        if !self.is_pinned {
            return None;
        }
        match lock.entry(&self.name) {
            Some(entry) if entry.lines() == self.entry => None,
            Some(_) => Some("its command or URL changed since it was approved"),
            None if lock.proposed_names().contains(&self.name) => Some("its approval in the lock is not yours"),
            None => Some("its command or URL was never approved"),
        }
    }

    /// Returns its URL and the settings of logins at it.
    ///
    /// # Errors
    /// If it is not a server that people log in at.
    pub(crate) fn login(&self, config: &Config) -> Result<(String, OAuthOptions)> {
        let name = &self.name;
        let section = &self.section;
        let url = self.login_url()?;
        if section.bearer.is_some() || has_authorization(section) {
            let message =
                format!("[mcp.servers.{name}] already has a token, which replaces a login; leave the token out");
            return Err(UsageError(message).into());
        }
        let options = oauth_options(config, name, section, url)?.ok_or_else(no_home)?;
        Ok((url.to_owned(), options))
    }

    /// Returns the settings of logins at it that name its tokens, without any secret.
    ///
    /// # Errors
    /// If it is not a server that people log in at.
    pub(crate) fn logout(&self, config: &Config) -> Result<OAuthOptions> {
        let file = user_folders::login_of(config, self.name.as_str(), self.login_url()?).ok_or_else(no_home)?;
        Ok(OAuthOptions { file, ..OAuthOptions::default() })
    }

    fn login_url(&self) -> Result<&str> {
        let program = || UsageError(format!("the MCP server `{}` is a local program and has no login", self.name));
        Ok(self.section.url.as_deref().ok_or_else(program)?)
    }

    /// Reads the secrets that it needs, and returns its client. It may be started or connected to from then on.
    ///
    /// # Errors
    /// If something that it needs, such as the value of a secret, is not available.
    pub(crate) fn remote(&self, config: &Config) -> Result<Remote> {
        remote(config, self, LogLevel::default())
    }
}

/// Returns the server of this name, if the configuration has one.
///
/// # Errors
/// If the name is invalid.
pub(crate) fn find(config: &Config, name: &str) -> Result<Option<Server>> {
    config.mcp.servers.get(name).map(|section| Server::from_section(name, section)).transpose()
}

/// Returns all servers, in the order of their names.
///
/// # Errors
/// Like [`find`].
pub(crate) fn all(config: &Config) -> Result<Vec<Server>> {
    config.mcp.servers.iter().map(|(name, section)| Server::from_section(name, section)).collect()
}

/// Returns the servers that may be started, and warns of the others.
fn startable(config: &Config, lock: &Lock, log_level: &LogLevel) -> Result<Vec<(Server, Remote)>> {
    let mut startable = Vec::new();
    for server in all(config)? {
        let name = &server.name;
        if let Some(why) = server.reason_not_to_start(lock) {
            render::warning(&format!(
                "continuing without the MCP server `{name}`: {why}; review it with `fumehood approve {name}`"
            ));
            continue;
        }
        match remote(config, &server, log_level.clone()) {
            Ok(remote) => startable.push((server, remote)),
            Err(error) => render::warning(&format!("continuing without the MCP server `{name}`: {error:#}")),
        }
    }
    Ok(startable)
}

/// Connects to all servers that may be started, concurrently, and adds their tools, as far as they were approved. A
/// server that cannot be used, for example because the value of a secret is not available, is left out with a warning.
/// `log_level` is the one that clients ask for.
///
/// # Errors
/// If the name of one is invalid.
pub(crate) async fn connect(config: &Config, lock: &Lock, log_level: &LogLevel) -> Result<McpTools> {
    let servers = startable(config, lock, log_level)?;
    let mut connecting = JoinSet::new();
    for (_, remote) in &servers {
        let remote = remote.clone();
        // Its tools are requested again below, and then are there already, or failed a moment ago.
        connecting.spawn(async move { (remote.name().clone(), remote.tools().await.err()) });
    }
    let failed = connecting.join_all().await;
    let mut remotes = McpTools::without_arguments(actor_arguments(config));
    for (server, remote) in servers {
        let name = remote.name();
        if let Some((_, Some(error))) = failed.iter().find(|(other, _)| other == name) {
            render::warning(&format!("continuing without the MCP server `{name}`: {}", error_chain(error)));
            continue;
        }
        let refused = remotes.refused().len();
        let unchecked = remotes.unchecked().len();
        if let Err(error) = add(&mut remotes, &server, &remote, lock).await {
            render::warning(&format!("continuing without the MCP server `{name}`: {}", error_chain(&error)));
        }
        warn_of_tools(name, remotes.refused().get(refused..), remotes.unchecked().get(unchecked..));
    }
    let tools = remotes.tools();
    warn_of_aliases(&ToolAliases::of_tools(tools.iter().map(Arc::as_ref), NameForm::Mcp));
    Ok(remotes)
}

/// Connects to one server that may be started, and adds its tools, as far as they were approved.
///
/// # Errors
/// If it does not answer, or something that it needs is not available.
pub(crate) async fn connect_one(config: &Config, lock: &Lock, server: &Server) -> Result<McpTools> {
    let name = &server.name;
    let remote = server.remote(config)?;
    let mut remotes = McpTools::without_arguments(actor_arguments(config));
    add(&mut remotes, server, &remote, lock)
        .await
        .with_context(|| format!("the MCP server `{name}` cannot be used"))?;
    Ok(remotes)
}

async fn add(remotes: &mut McpTools, server: &Server, remote: &Remote, lock: &Lock) -> Result<(), ConnectError> {
    if server.is_pinned {
        remotes.add_pinned(remote, server.entry.clone(), lock.locked(&server.name)).await.map(drop)
    } else {
        remotes.add(remote).await
    }
}

/// Warns of the tools of a server that are left out or checked in part: one line for each reason.
pub(crate) fn warn_of_tools(name: &Namespace, refused: Option<&[ToolNotice]>, unchecked: Option<&[ToolNotice]>) {
    for line in ToolNotice::lines(refused.unwrap_or_default()) {
        render::warning(&format!("the MCP server `{name}`: ignored {line}"));
    }
    for line in ToolNotice::lines(unchecked.unwrap_or_default()) {
        render::warning(&format!("the MCP server `{name}`: only partly checked: {line}"));
    }
}

/// Warns of tools that keep their full names although the prefix of their server is another one.
fn warn_of_aliases(aliases: &ToolAliases) {
    let displaced = aliases.displaced();
    if !displaced.is_empty() {
        render::warning(&format!(
            "{} keep their full names for models and clients, because the `prefix` of their servers would make names \
             ambiguous",
            displaced.join(", ")
        ));
    }
}

/// Returns the names of arguments that no tool may have.
pub(crate) fn actor_arguments(config: &Config) -> ActorArguments {
    ActorArguments::new(&config.agent.actor_arguments)
}

/// Returns the default time that a server may take to start.
pub(crate) fn start_timeout(command: Option<&[String]>) -> Duration {
    let program = command.and_then(<[String]>::first).and_then(|program| Path::new(program).file_name());
    if program.and_then(OsStr::to_str).is_some_and(|program| INSTALLERS.contains(&program)) {
        DEFAULT_INSTALL_TIMEOUT
    } else {
        DEFAULT_START_TIMEOUT
    }
}

fn no_home() -> UsageError {
    UsageError("there is no home folder for tokens; set HOME or XDG_STATE_HOME".to_owned())
}

/// Returns the wrapper by which servers are started through this very program, so that they end even if it is killed.
pub(crate) fn through_this_program() -> LaunchWrapper {
    LaunchWrapper {
        program: PathBuf::from("/proc/self/exe"),
        arguments: vec![END_WITH_PARENT.to_owned(), std::process::id().to_string()],
    }
}

/// Quotes a text as JSON, so that the end of a word is never in doubt.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn describe_secret(source: &ValueSource) -> String {
    format!("a secret, {}", source.place())
}

/// Describes the start or the address of a server, one line for each setting. Secrets are given by name and source.
pub(crate) fn entry_lines(section: &McpServerSection) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(command) = &section.command {
        let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        lines.push(format!("run: [{}]", words.join(", ")));
    }
    lines.extend(section.folder.as_ref().map(|folder| format!("run in: {}", quoted(&folder.to_string_lossy()))));
    lines.extend(section.url.as_ref().map(|url| format!("be sent requests at: {}", quoted(url))));
    if let Some(login) = &section.login {
        lines.extend(login.client_id.as_ref().map(|id| format!("login with the client ID: {}", quoted(id))));
        lines.extend(login.client_secret.as_ref().map(|source| format!("login with {}", describe_secret(source))));
        lines.extend(login.scopes.iter().map(|scope| format!("login with the scope: {}", quoted(scope))));
        lines.extend(
            login
                .authorization_server
                .as_ref()
                .map(|url| format!("login at: {}, also at private addresses", quoted(url))),
        );
    }
    lines.extend(section.env.iter().map(|(name, value)| format!("env: {name} = {}", quoted(value))));
    lines.extend(section.secret_env.iter().map(|(name, source)| format!("env: {name} = {}", describe_secret(source))));
    lines.extend(section.headers.iter().map(|(name, value)| format!("header: {name} = {}", quoted(value))));
    let headers = section.secret_headers.iter();
    lines.extend(headers.map(|(name, source)| format!("header: {name} = {}", describe_secret(source))));
    lines.extend(section.bearer.as_ref().map(|source| format!("header: Authorization = {}", describe_secret(source))));
    if section.sampling == Some(true) {
        lines.push("use the models of clients".to_owned());
    }
    if section.apps == Some(true) {
        lines.push("show pages in clients".to_owned());
        lines.extend(section.app_origins.iter().map(|origin| format!("let its pages reach: {}", quoted(origin))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start_seconds(command: &[&str]) -> u64 {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        start_timeout(Some(&command)).as_secs()
    }

    #[test]
    fn programs_that_install_first_have_longer_to_start() {
        assert_eq!(
            (
                start_seconds(&["npx", "-y", "x"]),
                start_seconds(&["/usr/bin/uvx", "x"]),
                start_seconds(&["node", "npx"]),
                start_seconds(&[])
            ),
            (60, 60, 10, 10)
        );
        assert_eq!(start_timeout(None).as_secs(), 10);
    }
}
