//! Names of the tools of `[mcp.servers.NAME]`, and checks that involve several keys.

use fumehood::mcp::{Headers, NamePrefix, check_address};
use fumehood::permission::Environment;
use fumehood::{Grant, NameError, Namespace};
use fumehood_config::fault::{KeyFault, key_fault};
use fumehood_config::file::Config;
use fumehood_config::mcp::{McpServerSection, ProgramIsolation};
use fumehood_config::tool::fold_name;

/// Adds the faults of all servers.
pub(crate) fn check(faults: &mut Vec<KeyFault>, config: &Config) {
    for (name, server) in &config.mcp.servers {
        let section = ["mcp", "servers", name];
        let mut add = |keys: &[&str], message: String| faults.push(key_fault(&section, keys, message));
        if let Err(error) = Namespace::parse(name) {
            add(&[], format!("[mcp.servers.{name}]: {error}"));
        }
        if let Some(tool) = config.tools.keys().find(|tool| fold_name(tool) == fold_name(name)) {
            let same = if tool == name { String::new() } else { format!(" as `{name}`") };
            add(&[], format!("`{tool}` is in [tools] and{same} in [mcp.servers]; rename one of them"));
        }
        match kind(server) {
            Err(message) => add(&[], format!("the MCP server `{name}` {message}")),
            Ok(Kind::Program) => check_program(server, &mut add),
            Ok(Kind::Address(url)) => check_address_of(server, url, &mut add),
        }
        if server.timeout.is_some_and(|time| time.0.is_zero()) {
            add(&["timeout"], "expected more than 0s, or leave it out for 60s".to_owned());
        }
        if server.max_timeout.is_some_and(|time| time.0.is_zero()) {
            add(&["max_timeout"], "expected more than 0s, or leave it out for 10m".to_owned());
        }
        if server.start_timeout.is_some_and(|time| time.0.is_zero()) {
            add(&["start_timeout"], "expected more than 0s, or leave it out for the default".to_owned());
        }
        if server.string.is_some_and(|bytes| bytes.0 == 0) {
            add(&["string"], "expected more than 0 bytes, or leave it out for 1MiB".to_owned());
        }
        for (index, origin) in server.app_origins.iter().enumerate() {
            if let Err(error) = Grant::none().with_pages(vec![origin.clone()]) {
                add(&["app_origins", &index.to_string()], error.to_string());
            }
        }
        if let Some(Err(error)) = name_prefix(server) {
            add(&["prefix"], format!("{error}; use \"\" for no prefix"));
        }
        if server.tools.as_ref().is_some_and(Vec::is_empty) {
            add(&["tools"], "no tool would be used; leave `tools` out for all tools, or remove the server".to_owned());
        }
    }
}

enum Kind<'a> {
    Program,
    Address(&'a str),
}

fn kind(server: &McpServerSection) -> Result<Kind<'_>, &'static str> {
    match (&server.command, &server.url) {
        (None, None) => Err("has neither `command` nor `url`; add command = [\"PROGRAM\", …] or url = \"https://…\""),
        (Some(_), Some(_)) => Err("has both `command` and `url`; leave one of them out"),
        (None, Some(_)) if server.isolation.is_some() || server.has_jail_settings() => Err(
            "has a `url`, so `isolation`, `read`, `write`, `http`, `private_addresses` and `limits` have no effect; leave them out",
        ),
        (Some(_), None) if server.isolation == Some(ProgramIsolation::None) && server.has_jail_settings() => Err(
            "has isolation = \"none\", so `read`, `write`, `http`, `private_addresses` and `limits` have no effect; leave them out",
        ),
        (None, Some(_)) if server.package.is_some() => Err("has a `url`, so `package` has no effect; leave it out"),
        (Some(_), None) if server.package.as_ref().is_some_and(|package| package.digest.is_none()) => {
            Err("has a `package` without a digest; install it with `fumehood add`, which writes the section")
        }
        (Some(command), None) if command.first().is_none_or(String::is_empty) => {
            Err("has an empty `command`; expected [\"PROGRAM\", …]")
        }
        (None, Some(_)) if !server.env.is_empty() || !server.secret_env.is_empty() || server.folder.is_some() => {
            Err("has a `url`, so `env`, `secret_env` and `folder` have no effect; leave them out")
        }
        (Some(_), None) if server.bearer.is_some() || server.login.is_some() || has_headers(server) => {
            Err("has a `command`, so `bearer`, `login`, `headers` and `secret_headers` have no effect; leave them out")
        }
        (Some(_), None) => Ok(Kind::Program),
        (None, Some(url)) => Ok(Kind::Address(url)),
    }
}

fn has_headers(server: &McpServerSection) -> bool {
    !server.headers.is_empty() || !server.secret_headers.is_empty()
}

fn check_program(server: &McpServerSection, add: &mut dyn FnMut(&[&str], String)) {
    if let Err((key, message)) = server.requests() {
        add(&[key], message);
    }
    let limits = server.limits.clone().unwrap_or_default();
    let zeros = [
        ("memory", limits.memory.is_some_and(|bytes| bytes.0 == 0)),
        ("cpu", limits.cpu.is_some_and(|time| time.0.as_secs() == 0)),
        ("processes", limits.processes.is_some_and(|count| count.0 == 0)),
        ("open_files", limits.open_files.is_some_and(|count| count.0 == 0)),
    ];
    for (limit, _) in zeros.into_iter().filter(|(_, is_zero)| *is_zero) {
        add(
            &["limits", limit],
            format!("no program can run with this `{limit}`; raise it, or leave it out for the default"),
        );
    }
    for (name, value) in &server.env {
        if let Err(error) = Environment::default().with(name, value) {
            add(&["env", name], error.to_string());
        }
    }
    for name in server.secret_env.keys() {
        if let Err(error) = Environment::default().with(name, "any value") {
            add(&["secret_env", name], error.to_string());
        }
        if server.env.contains_key(name) {
            add(&["secret_env", name], format!("`{name}` is also in `env`; leave one of them out"));
        }
    }
}

fn check_address_of(server: &McpServerSection, url: &str, add: &mut dyn FnMut(&[&str], String)) {
    let with_secret = server.bearer.is_some() || !server.secret_headers.is_empty();
    if let Err(error) = check_address(url, with_secret) {
        add(&["url"], error.to_string());
    }
    if let Some(login) = &server.login {
        if server.bearer.is_some() {
            add(&["login"], "`bearer` conflicts with `login`; leave one of them out".to_owned());
        }
        if login.client_secret.is_some() && (login.client_id.is_none() || login.authorization_server.is_none()) {
            let needed = "`client_secret` requires `client_id` and `authorization_server`".to_owned();
            add(&["login", "client_secret"], needed);
        }
        if let Some(Err(error)) = login.authorization_server.as_deref().map(|url| check_address(url, true)) {
            add(&["login", "authorization_server"], error.to_string());
        }
    }
    let mut headers = Headers::default();
    // Sources of secrets are not read: they may be those of another machine.
    let secret = server.secret_headers.keys().map(|name| ("secret_headers", name, "any value"));
    let open = server.headers.iter().map(|(name, value)| ("headers", name, value.as_str()));
    for (key, name, value) in open.chain(secret) {
        if let Err(error) = headers.add(name, value) {
            add(&[key, name], error.to_string());
        }
        if server.bearer.is_some() && name.eq_ignore_ascii_case("authorization") {
            add(&[key, name], "`bearer` already sets this header; leave one of them out".to_owned());
        }
    }
}

/// Returns the prefix of the names of a server's tools for models and clients; `None` for the name of the server.
pub(crate) fn name_prefix(server: &McpServerSection) -> Option<Result<NamePrefix, NameError>> {
    let prefix = server.prefix.as_deref()?;
    Some(if prefix.is_empty() { Ok(NamePrefix::None) } else { Namespace::parse(prefix).map(NamePrefix::Other) })
}
