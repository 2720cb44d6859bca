//! The client of a server, made of its section in the configuration: its limits, its secrets, and its start or address.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use fumehood::Namespace;
use fumehood::mcp::{
    ClientSecret, Credentials, Endpoint, Headers, Launch, LaunchSandbox, LogLevel, OAuthOptions, Remote, RemoteOptions,
    Token,
};
use fumehood::redact::Redactor;
use fumehood::settings::{JailPlace, server_jail, server_options};

use super::{Server, through_this_program};
use crate::config::Config;
use crate::config::mcp::McpServerSection;
use crate::config::server::name_prefix;
use crate::exit::UsageError;
use crate::jail::THIS_PROGRAM;
use crate::packages::PackageStore;
use crate::source::read_secret;
use crate::user_folders;

/// Reads the secrets that a server needs, and returns its client.
///
/// # Errors
/// If something that it needs, such as the value of a secret, is not available.
pub(super) fn remote(config: &Config, server: &Server, log_level: LogLevel) -> Result<Remote> {
    let Server { name, section, .. } = server;
    let secrets = secrets(config, name, section)?;
    let options = RemoteOptions {
        prefix: name_prefix(section)
            .transpose()
            .map_err(|error| usage_error(&format!("[mcp.servers.{name}] `prefix`"), &error))?,
        headers: headers(name, section, &secrets)?,
        redactor: Redactor::from_values(secrets.iter().map(|secret| (secret.name.as_str(), secret.value.as_str())))?,
        log_level,
        ..server_options(section)
    };
    Ok(Remote::new(name.clone(), endpoint(config, name, section, &secrets)?, options))
}

/// A secret value that the server is given.
struct ServerSecret {
    kind: SecretKind,
    name: String,
    value: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretKind {
    Variable,
    Header,
    Bearer,
}

fn secrets(config: &Config, server: &Namespace, section: &McpServerSection) -> Result<Vec<ServerSecret>> {
    let mut secrets = Vec::new();
    for (name, source) in &section.secret_env {
        let place = format!("[mcp.servers.{server}] `secret_env` {name}");
        let value = read_secret(config, source, &place)?;
        secrets.push(ServerSecret { kind: SecretKind::Variable, name: name.clone(), value });
    }
    for (name, source) in &section.secret_headers {
        let place = format!("[mcp.servers.{server}] `secret_headers` {name}");
        let value = read_secret(config, source, &place)?;
        secrets.push(ServerSecret { kind: SecretKind::Header, name: name.clone(), value });
    }
    if let Some(source) = &section.bearer {
        let value = read_secret(config, source, &format!("[mcp.servers.{server}] `bearer`"))?;
        secrets.push(ServerSecret { kind: SecretKind::Bearer, name: "bearer".to_owned(), value });
    }
    Ok(secrets)
}

fn secrets_of_kind(secrets: &[ServerSecret], kind: SecretKind) -> impl Iterator<Item = &ServerSecret> {
    secrets.iter().filter(move |secret| secret.kind == kind)
}

/// Returns whether a header of its own says who asks.
pub(super) fn has_authorization(section: &McpServerSection) -> bool {
    let mut names = section.headers.keys().chain(section.secret_headers.keys());
    names.any(|name| name.eq_ignore_ascii_case("authorization"))
}

/// Returns the settings of logins at a server; `None` if there is no home folder to keep tokens in.
///
/// # Errors
/// If the secret of this program is not available.
pub(super) fn oauth_options(
    config: &Config,
    name: &Namespace,
    section: &McpServerSection,
    url: &str,
) -> Result<Option<OAuthOptions>> {
    let login = section.login.clone().unwrap_or_default();
    let Some(file) = user_folders::login_of(config, name.as_str(), url) else { return Ok(None) };
    let secret = login.client_secret.as_ref();
    let secret = secret.map(|from| read_secret(config, from, &format!("[mcp.servers.{name}] `login.client_secret`")));
    Ok(Some(OAuthOptions {
        file,
        client_id: login.client_id,
        client_secret: secret.transpose()?.map(ClientSecret::new),
        scopes: login.scopes,
        authorization_server: login.authorization_server,
        hint: format!("log in with `fumehood mcp login {name}`, or set `bearer` in [mcp.servers.{name}]"),
    }))
}

fn endpoint(
    config: &Config,
    name: &Namespace,
    section: &McpServerSection,
    secrets: &[ServerSecret],
) -> Result<Endpoint> {
    if let Some(url) = &section.url {
        let token = secrets_of_kind(secrets, SecretKind::Bearer)
            .next()
            .map(|secret| Token::from_foreign(&secret.value))
            .transpose();
        let token = token.map_err(|error| usage_error(&format!("[mcp.servers.{name}] `bearer`"), &error))?;
        let credentials = match token {
            Some(token) => Credentials::Token(token),
            // Its own header says who asks.
            None if has_authorization(section) => Credentials::None,
            None => oauth_options(config, name, section, url)?.map_or(Credentials::None, Credentials::OAuth),
        };
        return Ok(Endpoint::Http { url: url.clone(), credentials });
    }
    let (program, arguments) = section
        .command
        .as_deref()
        .and_then(<[String]>::split_first)
        .with_context(|| UsageError(format!("[mcp.servers.{name}] has neither `command` nor `url`")))?;
    let mut environment: Vec<_> = section.env.clone().into_iter().collect();
    environment.extend(
        secrets_of_kind(secrets, SecretKind::Variable).map(|secret| (secret.name.clone(), secret.value.clone())),
    );
    // A name is looked up in PATH; a path is relative to the configuration, as all others in it.
    let mut path = if program.contains('/') { config.absolute_folder().join(program) } else { PathBuf::from(program) };
    if let Some(package) = &section.package {
        let installed = PackageStore::of_user()?.open(package)?;
        path = installed.program(program)?;
        let home = user_folders::home_of_server(config, name.as_str());
        environment.extend(installed.environment(home.as_deref()));
    }
    Ok(Endpoint::Process(Launch {
        program: path,
        arguments: arguments.to_vec(),
        environment,
        folder: section.folder.as_ref().map(|folder| config.absolute_folder().join(folder)),
        wrapper: Some(through_this_program()),
        sandbox: sandbox(config, name, section)?,
    }))
}

/// Returns the jail of a server's program; `None` if the configuration switches it off.
///
/// # Errors
/// If a grant is not possible.
fn sandbox(config: &Config, name: &Namespace, section: &McpServerSection) -> Result<Option<Arc<dyn LaunchSandbox>>> {
    let place = JailPlace {
        program: PathBuf::from(THIS_PROGRAM),
        base: config.absolute_folder().to_owned(),
        home: user_folders::home_of_server(config, name.as_str()),
        passes_signals: false,
    };
    server_jail(section, place).map_err(|error| usage_error(&format!("[mcp.servers.{name}]"), &error).into())
}

fn headers(server: &Namespace, section: &McpServerSection, secrets: &[ServerSecret]) -> Result<Headers> {
    let mut headers = Headers::default();
    for (name, value) in section
        .headers
        .iter()
        .chain(secrets_of_kind(secrets, SecretKind::Header).map(|secret| (&secret.name, &secret.value)))
    {
        let what = format!("[mcp.servers.{server}] the header {name}");
        headers.add(name, value).map_err(|error| usage_error(&what, &error))?;
    }
    Ok(headers)
}

fn usage_error(what: &str, error: &dyn std::error::Error) -> UsageError {
    UsageError(format!("{what}: {error}"))
}
