//! How tools are served: what was typed, and else what the configuration says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fumehood::mcp::{Access, HttpOptions, Naming, Principal, ServerOptions, Token};

use super::library::library;
use crate::args::{Http, ServeMcp};
use crate::config::Config;
use crate::exit::UsageError;
use crate::render;

/// Calls at once.
const CALLS: u32 = 32;
/// Calls that wait.
const WAITING: u32 = 128;
/// The variable that holds the token, if nothing else does.
const TOKEN: &str = "FUMEHOOD_MCP_TOKEN";

/// How many calls run at once.
pub(crate) fn calls(typed: &ServeMcp, config: &Config) -> u32 {
    typed.calls.or(config.serve.concurrency.map(Into::into)).unwrap_or(CALLS)
}

/// How many calls wait for a place.
pub(crate) fn waiting(typed: &ServeMcp, config: &Config) -> u32 {
    typed.waiting.or(config.serve.queue).unwrap_or(WAITING)
}

/// How long calls may go on after being told to stop.
pub(crate) fn grace(config: &Config) -> Duration {
    config.serve.grace.map_or(Duration::ZERO, |time| time.0)
}

/// How the server presents itself.
///
/// # Errors
/// If what is offered besides tools cannot be.
pub(crate) fn server(typed: &ServeMcp, config: &Config) -> Result<ServerOptions> {
    let usual = ServerOptions::default();
    Ok(ServerOptions {
        actor: typed.actor.as_deref().map(Arc::from),
        message_bytes: config.serve.body_limit.map_or(usual.message_bytes, |bytes| bytes.0),
        naming: if typed.short_names { Naming::Short } else { Naming::Full },
        library: Arc::new(library(config)?),
        ..usual
    })
}

/// Where it listens, and whom it lets in; `None`: standard input and output.
///
/// # Errors
/// If the address is none, or the token cannot be had.
pub(crate) fn http(typed: &ServeMcp, config: &Config) -> Result<Option<HttpOptions>> {
    let Some(address) = address(&typed.http, config)? else {
        return match without_use(&typed.http) {
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
            Access::Tokens(vec![Principal { actor, token: token(&typed.http, config)? }])
        }
    };
    let both = |typed: &[String], configured: &[String]| typed.iter().chain(configured).cloned().collect();
    Ok(Some(HttpOptions {
        hosts: both(&typed.http.allow_host, &config.serve.allowed_hosts),
        origins: both(&typed.http.allow_origin, &config.serve.allowed_origins),
        ..HttpOptions::new(address, access)
    }))
}

/// A flag that does nothing over standard input and output.
fn without_use(typed: &Http) -> Option<&'static str> {
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

fn address(typed: &Http, config: &Config) -> Result<Option<SocketAddr>> {
    if typed.address.is_some() {
        return Ok(typed.address);
    }
    let Some(written) = &config.serve.http else { return Ok(None) };
    let refused = |_| UsageError(format!("[serve] `http`: `{written}` is not an address such as \"127.0.0.1:8080\""));
    Ok(Some(written.parse().map_err(refused)?))
}

/// What clients must show. One that is made here is told once, on standard error.
fn token(typed: &Http, config: &Config) -> Result<Token> {
    if let Some(path) = &typed.token_file {
        return Ok(Token::read(path)?);
    }
    if let Some(source) = &config.serve.token {
        let value = source.value(config.folder()).map_err(|error| UsageError(format!("[serve] `token`: {error}")))?;
        return Ok(Token::parse(&value)?);
    }
    if let Some(token) = std::env::var_os(TOKEN) {
        return Ok(Token::parse(&token.to_string_lossy())?);
    }
    let token = Token::generate()?;
    render::note(&format!("clients show this token: {}", token.reveal()));
    Ok(token)
}
