//! The MCP servers of a configuration, ready to be connected to.

mod remote;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use fumehood::agent::identity::ActorArguments;
use fumehood::mcp::{ConnectError, LaunchWrapper, LogLevel, OAuthOptions, Remote, ToolNotice};
pub(crate) use fumehood::settings::{entry_lines, start_timeout};
use fumehood::{Lock, McpTools, NameForm, Namespace, ToolAliases, ToolProvider as _};
use fumehood_config::package::PackageReference;
use tokio::task::JoinSet;

use self::remote::{has_authorization, oauth_options, remote};
use crate::args::END_WITH_PARENT;
use crate::config::Config;
use crate::config::mcp::{McpServerSection, ProgramIsolation};
use crate::config::tool::ApprovalRule;
use crate::exit::UsageError;
use crate::jail::{self, THIS_PROGRAM};
use crate::source::error_chain;
use crate::{render, user_folders};

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

    /// Returns how its package is installed once, if its command downloads one at its start.
    pub(crate) fn package_hint(&self) -> Option<String> {
        let package = PackageReference::of_command(self.section.command.as_deref()?)?;
        Some(format!(
            "this command may download and run another version at each start; `fumehood add {package}` installs the \
             package once, and pins its files"
        ))
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
    warn_of_jails(servers.iter().map(|(server, _)| server));
    let mut connecting = JoinSet::new();
    for (_, remote) in &servers {
        let remote = remote.clone();
        // Its tools are requested again below, and then are there already, or failed a moment ago.
        connecting.spawn(async move { (remote.name().clone(), remote.tools().await.err()) });
    }
    let failed = connecting.join_all().await;
    let remotes = McpTools::without_arguments(actor_arguments(config));
    for (server, remote) in servers {
        let name = remote.name();
        if let Some((_, Some(error))) = failed.iter().find(|(other, _)| other == name) {
            render::warning(&format!("continuing without the MCP server `{name}`: {}", error_chain(error)));
            continue;
        }
        let refused = remotes.refused().len();
        let unchecked = remotes.unchecked().len();
        if let Err(error) = add(&remotes, &server, &remote, lock).await {
            render::warning(&format!("continuing without the MCP server `{name}`: {}", error_chain(&error)));
        }
        warn_of_tools(name, remotes.refused().get(refused..), remotes.unchecked().get(unchecked..));
    }
    let tools = remotes.tools();
    warn_of_aliases(&ToolAliases::of_tools(tools.iter().map(Arc::as_ref), NameForm::Mcp));
    Ok(remotes)
}

/// Warns of programs without a jail, and once of parts of the jail that the kernel lacks.
pub(crate) fn warn_of_jails<'a>(servers: impl IntoIterator<Item = &'a Server>) {
    let programs = servers.into_iter().filter(|server| server.section.command.is_some());
    let (open, jailed): (Vec<_>, Vec<_>) =
        programs.partition(|server| server.section.isolation == Some(ProgramIsolation::None));
    for server in open {
        render::warning(&format!(
            "the MCP server `{}` runs without a jail (isolation = \"none\"): it may do whatever you may do",
            server.name
        ));
    }
    if jailed.is_empty() {
        return;
    }
    let has_requests = jailed.iter().any(|server| !server.section.http.is_empty());
    match jail::probe() {
        Ok(report) => {
            for part in jail::incomplete_parts(report, has_requests) {
                render::warning(&format!("MCP servers: {part}"));
            }
        }
        Err(error) => render::warning(&format!("MCP servers: {error:#}")),
    }
}

/// Connects to one server that may be started, and adds its tools, as far as they were approved.
///
/// # Errors
/// If it does not answer, or something that it needs is not available.
pub(crate) async fn connect_one(config: &Config, lock: &Lock, server: &Server) -> Result<McpTools> {
    let name = &server.name;
    warn_of_jails([server]);
    let remote = server.remote(config)?;
    let remotes = McpTools::without_arguments(actor_arguments(config));
    add(&remotes, server, &remote, lock).await.with_context(|| format!("the MCP server `{name}` cannot be used"))?;
    Ok(remotes)
}

async fn add(remotes: &McpTools, server: &Server, remote: &Remote, lock: &Lock) -> Result<(), ConnectError> {
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

fn no_home() -> UsageError {
    UsageError("there is no home folder for tokens; set HOME or XDG_STATE_HOME".to_owned())
}

/// Returns the wrapper by which servers are started through this very program, so that they end even if it is killed.
pub(crate) fn through_this_program() -> LaunchWrapper {
    LaunchWrapper {
        program: PathBuf::from(THIS_PROGRAM),
        arguments: vec![END_WITH_PARENT.to_owned(), std::process::id().to_string()],
    }
}
