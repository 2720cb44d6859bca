//! Settings of `fumehood serve mcp`: those that were typed, or else those of the configuration.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fumehood::mcp::{Access, HttpOptions, Naming, Principal, ServerOptions, Token};

use super::library::library_from_config;
use crate::args::{Http, ServeMcp};
use crate::config::Config;
use crate::exit::UsageError;
use crate::render;

/// Default number of calls that run at the same time.
const DEFAULT_CONCURRENCY: u32 = 32;
/// Default number of calls that wait.
const DEFAULT_QUEUE_LENGTH: u32 = 128;
/// Environment variable with the token, if it is not set elsewhere.
const TOKEN_VARIABLE: &str = "FUMEHOOD_MCP_TOKEN";

/// Returns the maximum number of calls that run at the same time.
pub(crate) fn concurrency(typed: &ServeMcp, config: &Config) -> u32 {
    typed.calls.or(config.serve.concurrency.map(Into::into)).unwrap_or(DEFAULT_CONCURRENCY)
}

/// Returns the maximum number of calls that wait for a slot.
pub(crate) fn queue_length(typed: &ServeMcp, config: &Config) -> u32 {
    typed.waiting.or(config.serve.queue).unwrap_or(DEFAULT_QUEUE_LENGTH)
}

/// Returns the time that running calls may take to end after a shutdown; zero by default.
pub(crate) fn shutdown_grace(config: &Config) -> Duration {
    config.serve.grace.map_or(Duration::ZERO, |time| time.0)
}

/// Returns the options of the server, with its library.
///
/// # Errors
/// If a name or a URI of the library is invalid.
pub(crate) fn server_options(typed: &ServeMcp, config: &Config) -> Result<ServerOptions> {
    let default = ServerOptions::default();
    Ok(ServerOptions {
        actor: typed.actor.as_deref().map(Arc::from),
        message_bytes: config.serve.body_limit.map_or(default.message_bytes, |bytes| bytes.0),
        naming: if typed.short_names { Naming::Short } else { Naming::Full },
        library: Arc::new(library_from_config(config)?),
        ..default
    })
}

/// Returns the address and access rules for HTTP; `None` for standard input and output.
///
/// # Errors
/// If the address is invalid, the token cannot be read, or an option for HTTP was typed without an address.
pub(crate) fn http_options(typed: &ServeMcp, config: &Config) -> Result<Option<HttpOptions>> {
    let Some(address) = listen_address(&typed.http, config)? else {
        return match first_http_only_flag(&typed.http) {
            None => Ok(None),
            Some(flag) => {
                let message = format!("`{flag}` has a use over HTTP only; add `--http ADDRESS`, or leave it out");
                Err(UsageError(message).into())
            }
        };
    };
    let access = match typed.http.no_auth || (config.serve.no_token && typed.http.token_file.is_none()) {
        true => Access::Anyone,
        false => {
            let actor = typed.actor.as_deref().map(Arc::from);
            Access::Tokens(vec![Principal { actor, token: client_token(&typed.http, config)? }])
        }
    };
    let both = |typed: &[String], configured: &[String]| typed.iter().chain(configured).cloned().collect();
    Ok(Some(HttpOptions {
        hosts: both(&typed.http.allow_host, &config.serve.allowed_hosts),
        origins: both(&typed.http.allow_origin, &config.serve.allowed_origins),
        ..HttpOptions::new(address, access)
    }))
}

/// Returns a typed flag that has no effect over standard input and output.
fn first_http_only_flag(typed: &Http) -> Option<&'static str> {
    let Http { address: _, token_file, no_auth, allow_host, allow_origin } = typed;
    [
        ("--token-file", token_file.is_some()),
        ("--no-auth", *no_auth),
        ("--allow-host", !allow_host.is_empty()),
        ("--allow-origin", !allow_origin.is_empty()),
    ]
    .into_iter()
    .find_map(|(flag, is_typed)| is_typed.then_some(flag))
}

fn listen_address(typed: &Http, config: &Config) -> Result<Option<SocketAddr>> {
    if typed.address.is_some() {
        return Ok(typed.address);
    }
    let Some(address) = &config.serve.http else { return Ok(None) };
    let invalid = |_| UsageError(format!("[serve] `http`: `{address}` is not an address such as \"127.0.0.1:8080\""));
    Ok(Some(address.parse().map_err(invalid)?))
}

/// Returns the token that clients must present. A generated one is printed once on standard error.
fn client_token(typed: &Http, config: &Config) -> Result<Token> {
    if let Some(path) = &typed.token_file {
        return Ok(Token::read(path)?);
    }
    if let Some(source) = &config.serve.token {
        let value = source.value(config.folder()).map_err(|error| UsageError(format!("[serve] `token`: {error}")))?;
        return Ok(Token::parse(&value)?);
    }
    if let Some(token) = std::env::var_os(TOKEN_VARIABLE) {
        return Ok(Token::parse(&token.to_string_lossy())?);
    }
    let token = Token::generate()?;
    render::note(&format!("clients show this token: {}", token.reveal()));
    Ok(token)
}
