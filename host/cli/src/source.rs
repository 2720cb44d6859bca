//! Values that fumehood.toml names without containing them: secrets, and texts in files.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use fumehood::listener::Token;
use fumehood::settings::{TextSource, ValueSource, read_value};

use crate::config::Config;
use crate::exit::UsageError;
use crate::text_file::FileBeneath;

/// Environment variable with the bearer token of `fumehood serve`, for the server and its clients on this machine.
const TOKEN_VARIABLE: &str = "FUMEHOOD_MCP_TOKEN";
/// The effect of most secrets.
const NEEDED: &str = "`serve` needs it";
/// The effect of the secrets of an MCP server.
const NEEDED_BY_SERVER: &str = "the server is left out without it";
/// Maximum size of a text for a model, in bytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Returns the token in the environment, if there is one.
///
/// # Errors
/// If the variable is set to something other than a token.
pub(crate) fn token_of_environment() -> Result<Option<Token>> {
    let Some(text) = std::env::var_os(TOKEN_VARIABLE) else { return Ok(None) };
    match Token::parse(&text.to_string_lossy()) {
        Ok(token) => Ok(Some(token)),
        Err(error) => Err(UsageError(format!("the variable {TOKEN_VARIABLE}: {error}")).into()),
    }
}

/// Reads a secret value.
///
/// # Errors
/// If the value is not available.
pub(crate) fn read_secret(config: &Config, source: &ValueSource, what: &str) -> Result<String> {
    Ok(read_value(source, config.folder()).map_err(|error| UsageError(format!("{what}: {error}")))?)
}

/// A secret that the configuration names.
pub(crate) struct NamedSecret<'a> {
    /// Its key, for people.
    key: String,
    /// Where its value is.
    pub(crate) source: &'a ValueSource,
    /// What follows if the value is missing.
    effect: &'static str,
}

/// Returns a sentence for each secret of the configuration that is not on this machine: its variable is not set, or its
/// file does not exist. No value is read, and the keyring is not asked.
pub(crate) fn missing_secrets(config: &Config) -> Vec<String> {
    let mut missing = Vec::new();
    for NamedSecret { key, source, effect } in named_secrets(config) {
        let why = match source {
            ValueSource::Env(name) if std::env::var_os(name).is_none() => "is not set",
            ValueSource::File(file) if !config.path(file).exists() => "does not exist",
            _ => continue,
        };
        missing.push(format!("{key}: {} {why}; {effect}", source.place()));
    }
    missing
}

/// Returns all secrets that the configuration names.
pub(crate) fn named_secrets(config: &Config) -> Vec<NamedSecret<'_>> {
    let mut found = Vec::new();
    let mut add = |key: String, source, effect| found.push(NamedSecret { key, source, effect });
    for (name, tool) in &config.tools {
        for secret in &tool.powers.secrets {
            add(format!("[tools.{name}] the secret `{}`", secret.name), &secret.from, NEEDED);
        }
    }
    for (name, server) in &config.mcp.servers {
        let section = format!("[mcp.servers.{name}]");
        for (name, source) in &server.secret_env {
            add(format!("{section} `secret_env` {name}"), source, NEEDED_BY_SERVER);
        }
        for (name, source) in &server.secret_headers {
            add(format!("{section} `secret_headers` {name}"), source, NEEDED_BY_SERVER);
        }
        if let Some(source) = &server.bearer {
            add(format!("{section} `bearer`"), source, NEEDED_BY_SERVER);
        }
        if let Some(source) = server.login.as_ref().and_then(|login| login.client_secret.as_ref()) {
            add(format!("{section} `login.client_secret`"), source, NEEDED_BY_SERVER);
        }
    }
    if let Some(source) = &config.serve.token {
        add("[serve] `token`".to_owned(), source, NEEDED);
    }
    if let Some(source) = &config.model.key {
        add("[model] `key`".to_owned(), source, "requests to the model need it");
    }
    if let Some(source) = &config.log.key {
        add("[log] `key`".to_owned(), source, NEEDED);
    }
    for (name, source) in &config.telemetry.secret_headers {
        add(format!("[telemetry] `secret_headers` {name}"), source, NEEDED);
    }
    #[cfg(feature = "postgres")]
    if let Some(source) = config.storage.as_ref().and_then(|storage| storage.password.as_ref()) {
        add("[storage] `password`".to_owned(), source, NEEDED);
    }
    #[cfg(feature = "cell")]
    if let Some(source) = config.cell.as_ref().and_then(|cell| cell.password.as_ref()) {
        add("[cell] `password`".to_owned(), source, "this node of the cell needs it");
    }
    found
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
    fn every_secret_is_named_and_its_file_is_protected() {
        let folder = tempfile::tempdir().unwrap();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fumehood.toml");
        let config = crate::config::load(&example).unwrap();
        // The example has every key; no other value has a keyring, or a variable as text.
        let text = serde_json::to_string(&config).unwrap();
        let written = text.matches(r#"{"env":""#).count() + text.matches(r#"{"keyring":""#).count();
        let secrets = named_secrets(&config);
        let named = secrets.iter().filter(|secret| !matches!(secret.source, ValueSource::File(_))).count();
        assert!(named > 5 && named == written, "{named} of {written}: {text}");
        let file = folder.path().join("fumehood.toml");
        let text = "[storage]\nurl = \"postgres://u@localhost/d\"\npassword = { file = \"db.key\" }\n";
        std::fs::write(&file, text).unwrap();
        let files = crate::protected_files::named_files(&crate::config::load(&file).unwrap());
        assert!(files.iter().any(|(file, _)| file.ends_with("db.key")), "{files:?}");
    }

    fn put_secret(folder: &Path, name: &str, text: &str, mode: u32) -> ValueSource {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        ValueSource::File(name.into())
    }

    fn assert_explained(folder: &Path, source: ValueSource, expected: &str) {
        let found = read_value(&source, folder).unwrap_or_else(|error| error);
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn a_value_is_read_or_its_absence_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let token = put_secret(folder.path(), "token", "s3cret\r\n", 0o600);
        assert_eq!(read_value(&token, folder.path()), Ok("s3cret".to_owned()));
        assert_explained(folder.path(), put_secret(folder.path(), "open", "s3cret", 0o644), "run `chmod 600");
        assert_explained(
            folder.path(),
            put_secret(folder.path(), "empty", "", 0o600),
            "the value of a secret needs at least",
        );
        assert_explained(folder.path(), ValueSource::File("absent".into()), "No such file");
        assert_explained(folder.path(), ValueSource::Env("FUMEHOOD_TEST_ABSENT".to_owned()), "is not set");
        assert_explained(folder.path(), ValueSource::Keyring("absent-from-tests".to_owned()), "keyring");
    }
}
