//! Values that fumehood.toml names without containing them: secrets, and texts in files.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use fumehood::settings::{TextSource, ValueSource};

use crate::config::Config;
use crate::exit::UsageError;
use crate::text_file::FileBeneath;

/// Environment variable with the bearer token of `fumehood serve`, for the server and its clients on this machine.
pub(crate) const TOKEN_VARIABLE: &str = "FUMEHOOD_MCP_TOKEN";
/// Maximum size of a text for a model, in bytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Reads a secret value.
///
/// # Errors
/// If the value is not available.
pub(crate) fn read_secret(config: &Config, source: &ValueSource, what: &str) -> Result<String> {
    Ok(source.value(config.folder()).map_err(|error| UsageError(format!("{what}: {error}")))?)
}

/// Returns a sentence for each secret of the configuration that is not on this machine: its variable is not set, or its
/// file does not exist. No value is read, and the keyring is not asked.
pub(crate) fn missing_secrets(config: &Config) -> Vec<String> {
    let missing = |(key, source): (String, &ValueSource)| {
        let why = match source {
            ValueSource::Env(name) => std::env::var_os(name).is_none().then_some("is not set"),
            ValueSource::File(file) => (!config.path(file).exists()).then_some("does not exist"),
            ValueSource::Keyring(_) => None,
        };
        Some(format!("{key}: {} {}", source.place(), why?))
    };
    secret_sources(config).into_iter().filter_map(missing).collect()
}

/// Returns the sources of the secrets that `serve` reads at its start, with their keys.
fn secret_sources(config: &Config) -> Vec<(String, &ValueSource)> {
    let mut sources = Vec::new();
    for (name, tool) in &config.tools {
        let secrets = tool.secrets.iter();
        sources.extend(secrets.map(|secret| (format!("[tools.{name}] the secret `{}`", secret.name), &secret.from)));
    }
    for (name, server) in &config.mcp.servers {
        let section = format!("[mcp.servers.{name}]");
        let variables =
            server.secret_env.iter().map(|(name, source)| (format!("{section} `secret_env` {name}"), source));
        let headers =
            server.secret_headers.iter().map(|(name, source)| (format!("{section} `secret_headers` {name}"), source));
        let login = server.login.iter().filter_map(|login| login.client_secret.as_ref());
        sources.extend(variables.chain(headers));
        sources.extend(server.bearer.iter().map(|source| (format!("{section} `bearer`"), source)));
        sources.extend(login.map(|source| (format!("{section} `login.client_secret`"), source)));
    }
    sources.extend(config.serve.token.iter().map(|source| ("[serve] `token`".to_owned(), source)));
    sources.extend(config.log.key.iter().map(|source| ("[log] `key`".to_owned(), source)));
    let headers = config.telemetry.secret_headers.iter();
    sources.extend(headers.map(|(name, source)| (format!("[telemetry] `secret_headers` {name}"), source)));
    sources
}

/// Returns a text of the configuration, or of the file that it names.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn read_text(config: &Config, source: &TextSource) -> Result<String> {
    match source {
        TextSource::Here(text) => Ok(text.clone()),
        TextSource::InFile(file) => read_file(&config.path(&file.file), "a text of fumehood.toml"),
    }
}

/// Checks that a text of the configuration can be read, without reading it.
///
/// # Errors
/// If it is in a file that is not there, or is of another kind or too large.
pub(crate) fn check_text(config: &Config, source: &TextSource) -> Result<(), UsageError> {
    let TextSource::InFile(file) = source else { return Ok(()) };
    let opened = FileBeneath::new(config.folder(), &file.file).open();
    opened
        .map(|_| ())
        .map_err(|error| UsageError(format!("a text of fumehood.toml: {} {error}", config.path(&file.file).display())))
}

/// Parses the agent's state as it was typed: JSON, or `@` and the file that has it.
///
/// # Errors
/// If it is not JSON, or the file cannot be read.
pub(crate) fn parse_state(typed: &str) -> Result<Arc<str>> {
    let text = match typed.strip_prefix('@') {
        Some(file) => read_file(Path::new(file), "`--state`")?,
        None => typed.to_owned(),
    };
    let json: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| UsageError(format!("`--state` is not JSON: {error}; expected JSON, or `@FILE`")))?;
    Ok(json.to_string().into())
}

/// Reads a text file of at most 1 MiB.
///
/// # Errors
/// If it cannot be read, is larger than that, or is not UTF-8.
pub(crate) fn read_file(path: &Path, what: &str) -> Result<String> {
    let to_error = |why: String| UsageError(format!("{what}: {} {why}", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| to_error(format!("cannot be read: {error}")))?;
    file.take(MAX_TEXT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| to_error(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_TEXT_BYTES {
        return Err(to_error("is larger than 1 MiB".to_owned()).into());
    }
    Ok(String::from_utf8(bytes).map_err(|_| to_error("is not UTF-8 text".to_owned()))?)
}

/// Formats an error with its causes, in one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", error_chain(cause)),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_value_is_read_or_its_absence_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str, mode: u32| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            ValueSource::File(name.into())
        };
        let check = |source: ValueSource, expected: &str| {
            let found = source.value(folder.path()).unwrap_or_else(|error| error);
            assert!(found.contains(expected), "{found}");
        };
        assert_eq!(put("token", "s3cret\r\n", 0o600).value(folder.path()), Ok("s3cret".to_owned()));
        check(put("open", "s3cret", 0o644), "run `chmod 600");
        check(put("empty", "", 0o600), "the value of a secret needs at least");
        check(ValueSource::File("absent".into()), "No such file");
        check(ValueSource::Env("FUMEHOOD_TEST_ABSENT".to_owned()), "is not set");
        check(ValueSource::Keyring("absent-from-tests".to_owned()), "keyring");
    }
}
