//! Settings of `fumehood serve`: those that were typed, or else those of the configuration.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::NameForm;
use fumehood::http_api::{ApiOptions, CallStore, SessionAgents};
use fumehood::listener::{HttpOptions, Jobs, TenantTools, Token, TokenVerifier};
use fumehood::mcp::{NamingScheme, ServerOptions};
use fumehood::oauth::ResourceServer;

use super::library::library_from_config;
use super::tenants;
use crate::args::{Http, ServeMcp, ServeOptions};
use crate::config::{Config, oauth};
use crate::exit::UsageError;
use crate::recording::Recording;
use crate::render;

/// Default number of calls that run at the same time.
const DEFAULT_CONCURRENCY: u32 = 32;
/// Default number of calls that wait.
const DEFAULT_QUEUE_LENGTH: u32 = 128;
/// Default address of the HTTP API.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// Default time that running requests of the HTTP API have to end.
const DEFAULT_DRAIN: Duration = Duration::from_secs(10);

/// Returns the maximum number of calls that run at the same time.
pub(crate) fn concurrency(typed: &ServeOptions, config: &Config) -> u32 {
    typed.calls.or(config.serve.concurrency.map(Into::into)).unwrap_or(DEFAULT_CONCURRENCY)
}

/// Returns the maximum number of calls that wait for a slot.
pub(crate) fn queue_length(typed: &ServeOptions, config: &Config) -> u32 {
    typed.waiting.or(config.serve.queue).unwrap_or(DEFAULT_QUEUE_LENGTH)
}

/// Returns the number of places for running calls, and the maximum number of calls that wait for one.
pub(crate) fn places(typed: &ServeOptions, config: &Config) -> (usize, usize) {
    (to_usize(concurrency(typed, config)), to_usize(queue_length(typed, config)))
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns the time that running calls may take to end after a shutdown; zero by default.
pub(crate) fn shutdown_grace(config: &Config) -> Duration {
    config.serve.grace.map_or(Duration::ZERO, |time| time.0)
}

/// Returns the options of the server, with its library.
///
/// # Errors
/// If a name or a URI of the library is invalid.
pub(crate) fn server_options(typed: &ServeOptions, config: &Config) -> Result<ServerOptions> {
    let default = ServerOptions::default();
    let actor = typed.actor.as_deref().map(Arc::from);
    Ok(ServerOptions {
        job_owner: actor.clone().unwrap_or_else(|| Arc::clone(&default.job_owner)),
        actor,
        message_bytes: config.serve.body_limit.map_or(default.message_bytes, |bytes| bytes.0),
        repairs: config.arguments.repairs().map(Arc::new),
        naming: NamingScheme {
            short: typed.short_names,
            form: if typed.portable_names { NameForm::Portable } else { NameForm::Mcp },
        },
        library: Arc::new(library_from_config(config)?),
        ..default
    })
}

/// Returns the options of the HTTP API, with its jobs, and the agents of sessions and their tools.
pub(crate) fn api_options(
    typed: &ServeOptions,
    recording: Option<&Recording>,
    jobs: Option<Jobs>,
    sessions: Option<(Arc<dyn SessionAgents>, TenantTools)>,
) -> ApiOptions {
    let (sessions, session_tools) = sessions.unzip();
    ApiOptions {
        jobs,
        sessions,
        session_tools,
        actor: typed.actor.as_deref().map(Arc::from),
        calls: recording.map(|recording| Arc::new(recording.served_calls()) as Arc<dyn CallStore>),
        ..ApiOptions::default()
    }
}

/// Returns the rules of a listener at this address, and the token if a new one was generated.
///
/// # Errors
/// If the token cannot be read.
pub(crate) fn listener_options(
    typed: &ServeOptions,
    config: &Config,
    address: SocketAddr,
    drain: Duration,
) -> Result<(HttpOptions, Option<Token>)> {
    let (access, new_token) = tenants::access(typed, config)?;
    let default = HttpOptions::new(address, access);
    let verifier = config.serve.oauth.as_ref().map(|oauth| ResourceServer::new(oauth::options(oauth)));
    let verifier = verifier.transpose().context("[serve.oauth]")?;
    let options = HttpOptions {
        verifier: verifier.map(|server| Arc::new(server) as Arc<dyn TokenVerifier>),
        hosts: [typed.http.allow_host.as_slice(), &config.serve.allowed_hosts].concat(),
        origins: [typed.http.allow_origin.as_slice(), &config.serve.allowed_origins].concat(),
        body_bytes: config.serve.body_limit.map_or(default.body_bytes, |bytes| bytes.0),
        drain,
        ..default
    };
    Ok((options, new_token))
}

/// Returns the time that running requests of the HTTP API have to end.
pub(crate) fn drain(config: &Config) -> Duration {
    config.serve.grace.map_or(DEFAULT_DRAIN, |time| time.0)
}

/// Returns the address of `serve mcp`; `None` for standard input and output.
///
/// # Errors
/// If the address is invalid, or an option for HTTP was typed without an address.
pub(crate) fn mcp_address(typed: &ServeMcp, config: &Config) -> Result<Option<SocketAddr>> {
    if typed.http.is_some() {
        render::hint("`--http ADDRESS` is now called `--listen ADDRESS`, as in `serve http`");
    }
    let address = listen_address(typed.listen.or(typed.http), config)?;
    match first_http_only_flag(&typed.options.http) {
        Some(flag) if address.is_none() => {
            let message = format!("`{flag}` works only over HTTP; add `--listen ADDRESS`, or leave it out");
            Err(UsageError(message).into())
        }
        _ => Ok(address),
    }
}

/// Returns the address of the HTTP API.
///
/// # Errors
/// If the address of the configuration is invalid.
pub(crate) fn api_address(typed: Option<SocketAddr>, config: &Config) -> Result<SocketAddr> {
    Ok(listen_address(typed, config)?.unwrap_or(DEFAULT_ADDRESS))
}

/// Returns a typed flag that has no effect over standard input and output.
fn first_http_only_flag(typed: &Http) -> Option<&'static str> {
    let Http { token_file, no_auth, allow_host, allow_origin } = typed;
    [
        ("--token-file", token_file.is_some()),
        ("--no-auth", *no_auth),
        ("--allow-host", !allow_host.is_empty()),
        ("--allow-origin", !allow_origin.is_empty()),
    ]
    .into_iter()
    .find_map(|(flag, is_typed)| is_typed.then_some(flag))
}

fn listen_address(typed: Option<SocketAddr>, config: &Config) -> Result<Option<SocketAddr>> {
    if typed.is_some() {
        return Ok(typed);
    }
    let Some(address) = &config.serve.http else { return Ok(None) };
    let invalid =
        |_| UsageError(format!("[serve] `http`: invalid address `{address}`; expected one such as \"127.0.0.1:8080\""));
    Ok(Some(address.parse().map_err(invalid)?))
}
