//! The MCP servers of a configuration, ready to be connected to.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::agent::identity::ActorArguments;
use fumehood::mcp::{Endpoint, Headers, Launch, LaunchWrapper, Remote, RemoteOptions, Token, ToolNotice};
use fumehood::redact::Redactor;
use fumehood::{Lock, McpTools, Namespace};
use tokio::task::JoinSet;

use crate::args::END_WITH_PARENT;
use crate::config::Config;
use crate::config::mcp::McpServerSection;
use crate::config::secret::ValueSource;
use crate::config::tool::ApprovalRule;
use crate::exit::UsageError;
use crate::render;
use crate::source::secret;

/// Wall time for a call, and for starting or connecting to a server.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Wall time for starting a server with a program that may have to install it first.
const DEFAULT_INSTALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Programs that install what they run.
const INSTALLERS: [&str; 11] = ["npx", "npm", "pnpx", "pnpm", "yarn", "bunx", "uvx", "uv", "pipx", "docker", "podman"];

/// A server of a configuration. Nothing of it was started, connected to or read yet.
pub(crate) struct Server {
    /// What it is called.
    pub(crate) name: Namespace,
    /// How it is started or reached, one line each: an approval is about that first, and then about its tools.
    pub(crate) entry: Vec<String>,
    /// Whether it has to be approved.
    pub(crate) is_pinned: bool,
    section: McpServerSection,
}

impl Server {
    fn of(name: &str, section: &McpServerSection) -> Result<Self> {
        let name = Namespace::parse(name).map_err(|error| UsageError(error.to_string()))?;
        let is_pinned = section.approval == ApprovalRule::Required;
        Ok(Self { name, entry: entry_lines(section), is_pinned, section: section.clone() })
    }

    /// Whether it may be started or connected to.
    pub(crate) fn may_start(&self, lock: &Lock) -> bool {
        !self.is_pinned || lock.entry(&self.name).is_some_and(|entry| entry.lines() == self.entry)
    }

    /// Reads what it needs. It may be started or connected to from then on.
    ///
    /// # Errors
    /// If something that it needs, such as the value of a secret, cannot be had.
    pub(crate) fn remote(&self, config: &Config) -> Result<Remote> {
        remote(config, &self.name, &self.section)
    }
}

/// One server by its name; `None` if the configuration has none of that name.
///
/// # Errors
/// If the name cannot be one.
pub(crate) fn named(config: &Config, name: &str) -> Result<Option<Server>> {
    config.mcp.servers.get(name).map(|section| Server::of(name, section)).transpose()
}

/// All servers, in the order of their names.
///
/// # Errors
/// As [`named`].
pub(crate) fn all(config: &Config) -> Result<Vec<Server>> {
    config.mcp.servers.iter().map(|(name, section)| Server::of(name, section)).collect()
}

/// Those that may be started. Of the others a warning tells.
fn startable(config: &Config, lock: &Lock) -> Result<Vec<(Server, Remote)>> {
    let mut startable = Vec::new();
    for server in all(config)? {
        if server.may_start(lock) {
            let remote = server.remote(config)?;
            startable.push((server, remote));
            continue;
        }
        let name = &server.name;
        let why = match lock.entry(name) {
            Some(_) => "how it is started or reached changed since it was approved",
            None => "how it is started or reached was never approved",
        };
        render::warning(&format!(
            "going on without the MCP server `{name}`: {why}; look at it with `fumehood approve {name}`"
        ));
    }
    Ok(startable)
}

/// Connects to all servers that may be started, at once, and takes their tools, as far as they were approved. A server
/// that cannot be used is told of and left out.
///
/// # Errors
/// If something that one of them needs, such as the value of a secret, cannot be had.
pub(crate) async fn connect(config: &Config, lock: &Lock) -> Result<McpTools> {
    let servers = startable(config, lock)?;
    let mut connecting = JoinSet::new();
    for (_, remote) in &servers {
        let remote = remote.clone();
        // What comes of it is asked again below, and then it is there already, or failed a moment ago.
        connecting.spawn(async move { (remote.name().clone(), remote.tools().await.err()) });
    }
    let failed = connecting.join_all().await;
    let mut remotes = McpTools::without_arguments(actor_arguments(config));
    for (Server { entry, is_pinned, .. }, remote) in servers {
        let name = remote.name();
        if let Some((_, Some(error))) = failed.iter().find(|(other, _)| other == name) {
            render::warning(&format!("going on without the MCP server `{name}`: {}", causes(error)));
            continue;
        }
        let (refused, unchecked) = (remotes.refused().len(), remotes.unchecked().len());
        let taken = match is_pinned {
            true => remotes.add_pinned(&remote, entry, lock.get(name)).await.map(drop),
            false => remotes.add(&remote).await,
        };
        if let Err(error) = taken {
            render::warning(&format!("going on without the MCP server `{name}`: {}", causes(&error)));
        }
        warn_of_tools(name, remotes.refused().get(refused..), remotes.unchecked().get(unchecked..));
    }
    Ok(remotes)
}

/// Warns of the tools of a server that are left out or checked in part: one line for each reason.
pub(crate) fn warn_of_tools(name: &Namespace, refused: Option<&[ToolNotice]>, unchecked: Option<&[ToolNotice]>) {
    for line in ToolNotice::lines(refused.unwrap_or_default()) {
        render::warning(&format!("the MCP server `{name}`: left out {line}"));
    }
    for line in ToolNotice::lines(unchecked.unwrap_or_default()) {
        render::warning(&format!("the MCP server `{name}`: not all is checked of {line}"));
    }
}

/// The names of arguments that no tool may have.
pub(crate) fn actor_arguments(config: &Config) -> ActorArguments {
    ActorArguments::new(&config.agent.actor_arguments)
}

/// How long a server may take to start, unless something else is said.
pub(crate) fn start_timeout(command: Option<&[String]>) -> Duration {
    let program = command.and_then(<[String]>::first).and_then(|program| Path::new(program).file_name());
    match program.and_then(OsStr::to_str).is_some_and(|program| INSTALLERS.contains(&program)) {
        true => DEFAULT_INSTALL_TIMEOUT,
        false => DEFAULT_TIMEOUT,
    }
}

/// An error with its causes, in one line.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", causes(cause)),
        None => error.to_string(),
    }
}

fn remote(config: &Config, name: &Namespace, section: &McpServerSection) -> Result<Remote> {
    let usual = RemoteOptions::default();
    let secrets = secrets(config, name, section)?;
    let options = RemoteOptions {
        deadline: section.timeout.map_or(DEFAULT_TIMEOUT, |time| time.0),
        patience: section.start_timeout.map_or_else(|| start_timeout(section.command.as_deref()), |time| time.0),
        output: section.output.map_or(usual.output, |bytes| bytes.0),
        string: section.string.map_or(usual.string, |bytes| bytes.0),
        unasked: section.unasked.map_or(usual.unasked, |count| count.0.try_into().unwrap_or(u32::MAX)),
        only: section.tools.as_ref().map(|names| names.iter().cloned().collect()),
        headers: headers(name, section, &secrets)?,
        redactor: Redactor::of_values(secrets.iter().map(|secret| (secret.name.as_str(), secret.value.as_str())))?,
        ..usual
    };
    Ok(Remote::new(name.clone(), endpoint(config, name, section, &secrets)?, options))
}

/// A value that the server is given, and that nobody is told.
struct ServerSecret {
    kind: Kind,
    name: String,
    value: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Variable,
    Header,
    Bearer,
}

fn secrets(config: &Config, server: &Namespace, section: &McpServerSection) -> Result<Vec<ServerSecret>> {
    let variables =
        section.secret_env.iter().map(|(name, source)| (Kind::Variable, "secret_env", name.as_str(), source));
    let headers = section.secret_headers.iter();
    let headers = headers.map(|(name, source)| (Kind::Header, "secret_headers", name.as_str(), source));
    let bearer = section.bearer.iter().map(|source| (Kind::Bearer, "bearer", "bearer", source));
    let given = |(kind, key, name, source): (Kind, &str, &str, &ValueSource)| {
        let value = secret(config, source, &format!("[mcp.servers.{server}] `{key}` {name}"))?;
        Ok(ServerSecret { kind, name: name.to_owned(), value })
    };
    variables.chain(headers).chain(bearer).map(given).collect()
}

fn of_kind(secrets: &[ServerSecret], kind: Kind) -> impl Iterator<Item = &ServerSecret> {
    secrets.iter().filter(move |secret| secret.kind == kind)
}

fn endpoint(
    config: &Config,
    name: &Namespace,
    section: &McpServerSection,
    secrets: &[ServerSecret],
) -> Result<Endpoint> {
    if let Some(url) = &section.url {
        let token = of_kind(secrets, Kind::Bearer).next().map(|secret| Token::from_foreign(&secret.value)).transpose();
        let token = token.map_err(|error| wrong(&format!("[mcp.servers.{name}] `bearer`"), &error))?;
        return Ok(Endpoint::Http { url: url.clone(), token });
    }
    let (program, arguments) = section
        .command
        .as_deref()
        .and_then(<[String]>::split_first)
        .with_context(|| UsageError(format!("[mcp.servers.{name}] has neither `command` nor `url`")))?;
    let mut environment: Vec<_> = section.env.clone().into_iter().collect();
    environment.extend(of_kind(secrets, Kind::Variable).map(|secret| (secret.name.clone(), secret.value.clone())));
    // A name is looked for in PATH; a path counts from the configuration, as all others in it.
    let is_path = program.contains('/');
    Ok(Endpoint::Process(Launch {
        program: if is_path { config.absolute_folder().join(program) } else { PathBuf::from(program) },
        arguments: arguments.to_vec(),
        environment,
        folder: section.folder.as_ref().map(|folder| config.absolute_folder().join(folder)),
        wrapper: Some(ending_with_us()),
    }))
}

/// Servers are started through this very program, so that they end even where it is killed.
pub(crate) fn ending_with_us() -> LaunchWrapper {
    LaunchWrapper {
        program: PathBuf::from("/proc/self/exe"),
        arguments: vec![END_WITH_PARENT.to_owned(), std::process::id().to_string()],
    }
}

fn headers(server: &Namespace, section: &McpServerSection, secrets: &[ServerSecret]) -> Result<Headers> {
    let mut headers = Headers::default();
    for (name, value) in
        section.headers.iter().chain(of_kind(secrets, Kind::Header).map(|secret| (&secret.name, &secret.value)))
    {
        let what = format!("[mcp.servers.{server}] the header {name}");
        headers.add(name, value).map_err(|error| wrong(&what, &error))?;
    }
    Ok(headers)
}

fn wrong(what: &str, error: &dyn std::error::Error) -> UsageError {
    UsageError(format!("{what}: {error}"))
}

/// How a server is started or reached, one line each. Secrets are told by their names, and by where they come from.
pub(crate) fn entry_lines(section: &McpServerSection) -> Vec<String> {
    let mut lines = Vec::new();
    // As JSON, so that where one word ends is never in doubt.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    if let Some(command) = &section.command {
        let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        lines.push(format!("run: [{}]", words.join(", ")));
    }
    lines.extend(section.folder.as_ref().map(|folder| format!("run in: {}", quoted(&folder.to_string_lossy()))));
    lines.extend(section.url.as_ref().map(|url| format!("be asked at: {}", quoted(url))));
    lines.extend(section.env.iter().map(|(name, value)| format!("env: {name} = {}", quoted(value))));
    let secret = |source: &ValueSource| format!("a secret, {}", source.place());
    lines.extend(section.secret_env.iter().map(|(name, source)| format!("env: {name} = {}", secret(source))));
    lines.extend(section.headers.iter().map(|(name, value)| format!("header: {name} = {}", quoted(value))));
    let headers = section.secret_headers.iter();
    lines.extend(headers.map(|(name, source)| format!("header: {name} = {}", secret(source))));
    lines.extend(section.bearer.as_ref().map(|source| format!("header: Authorization = {}", secret(source))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_install_first_have_longer_to_start() {
        let of = |command: &[&str]| {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            start_timeout(Some(&command)).as_secs()
        };
        assert_eq!(
            (of(&["npx", "-y", "x"]), of(&["/usr/bin/uvx", "x"]), of(&["node", "npx"]), of(&[])),
            (60, 60, 10, 10)
        );
        assert_eq!(start_timeout(None).as_secs(), 10);
    }
}
