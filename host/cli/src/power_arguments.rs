//! Options that grant powers.

use std::path::{Path, PathBuf};

use clap::Args;
use fumehood::Grant;
use fumehood::settings::{HttpLimitsSection, SecretSection, WriteFolder, WriteFolderTable, read_value};

use crate::config::amount::{Bytes, Time, parse_size};
use crate::config::powers::{PowerFault, Powers};
use crate::exit::UsageError;
use crate::flags;

/// Powers of a tool. Without grants, a tool can only compute.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Powers")]
pub(crate) struct PowerArguments {
    /// Let it read the agent state from `--state`
    #[arg(long)]
    allow_state: bool,

    /// Folder to read, such as `./docs:/docs`; repeatable
    #[arg(long, value_name = "HOST:GUEST")]
    allow_read: Vec<String>,

    /// Folder to read and change, such as `./out:/out`; repeatable
    #[arg(long, value_name = "HOST:GUEST", value_parser = write_folder)]
    allow_write: Vec<WriteFolder>,

    /// Give each call an empty folder, /scratch, of at most this size
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    scratch: Option<Bytes>,

    /// HTTP requests to allow, such as `GET https://api.example.com/v1/**`; repeatable
    #[arg(long, value_name = "RULE")]
    allow_http: Vec<String>,

    /// Limits on HTTP requests, such as `requests=10, bytes_in="1MiB", connect="2s"`
    #[arg(long, value_name = "TOML", value_parser = http_limits)]
    http_limits: Option<HttpLimitsSection>,

    /// Private addresses that requests may reach, such as `127.0.0.1/32`; repeatable
    #[arg(long, value_name = "ADDRESSES")]
    allow_private: Vec<String>,

    /// Secret that the host adds to requests, which the tool never sees, such as `name="token", from={env="TOKEN"},
    /// for="https://api.example.com/**", header="Authorization"`
    #[arg(long, value_name = "TOML", value_parser = secret)]
    secret: Vec<SecretSection>,

    /// Environment variable for the tool; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,

    /// Command line argument for the tool; most languages take the first as the program name; repeatable
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    arg: Vec<String>,

    /// Give it a private key-value store of at most this size
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    key_value: Option<Bytes>,

    /// File of the key-value store [default: a file for this component in your state folder]
    #[arg(long, value_name = "FILE", requires = "key_value")]
    pub(crate) key_value_store: Option<PathBuf>,

    /// Resolution of its clocks, such as `1us` [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    clock: Option<Time>,

    /// Seed that makes its randomness the same in every call, for replay and tests
    #[arg(long, value_name = "NUMBER")]
    random_seed: Option<u64>,

    /// Show its pages (MCP Apps) to clients
    #[arg(long)]
    allow_apps: bool,

    /// Origin that its pages may reach, such as `https://api.example.com`; repeatable
    #[arg(long, value_name = "ORIGIN")]
    app_origin: Vec<String>,

    /// Refuse the component if it imports a power that is not granted
    #[arg(long)]
    pub(crate) strict_imports: bool,
}

impl PowerArguments {
    /// Returns the powers that were typed, as a configuration has them too.
    pub(crate) fn powers(&self) -> Powers {
        Powers {
            state: self.allow_state,
            read: self.allow_read.clone(),
            write: self.allow_write.clone(),
            scratch: self.scratch,
            http: self.allow_http.clone(),
            http_limits: self.http_limits.clone(),
            private_addresses: self.allow_private.clone(),
            env: self.env.clone(),
            args: self.arg.clone(),
            secrets: self.secret.clone(),
            clock: self.clock,
            random_seed: self.random_seed,
            key_value: self.key_value,
            apps: self.allow_apps,
            app_origins: self.app_origin.clone(),
        }
    }

    /// Builds the grant. Folders are relative to the working folder.
    ///
    /// # Errors
    /// Everything that cannot be granted, with its flag.
    pub(crate) fn grant(&self) -> Result<Grant, UsageError> {
        let here = Path::new(".");
        let granted = self.powers().grant(here, &|source| read_value(source, here));
        granted.map_err(|faults| UsageError(faults.iter().map(fault).collect::<Vec<_>>().join("\n")))
    }

    /// Makes the grant of the components that were named on the command line; `place` says where.
    ///
    /// # Errors
    /// If a power is invalid, or there are powers and no component.
    pub(crate) fn grant_for(&self, components: &[PathBuf], place: &str) -> Result<Grant, UsageError> {
        if components.is_empty() && self.has_any() {
            let message = format!(
                "these options grant powers to components named {place}, but none are named there; components of \
                 fumehood.toml get their powers in that file"
            );
            return Err(UsageError(message));
        }
        self.grant()
    }

    /// Returns the options as they are typed again, without what may be secret in them.
    pub(crate) fn words(&self) -> Vec<String> {
        let written = self.allow_write.iter().map(|folder| match folder {
            WriteFolder::Text(text) => format!("--allow-write {text:?}"),
            WriteFolder::Table(_) => "--allow-write …".to_owned(),
        });
        let mut words = Vec::new();
        add_each(&mut words, "--allow-read", &self.allow_read);
        words.extend(written);
        add_each(&mut words, "--allow-http", &self.allow_http);
        add_each(&mut words, "--allow-private", &self.allow_private);
        add_each(&mut words, "--app-origin", &self.app_origin);
        words.extend(self.env.iter().map(|(name, _)| format!("--env {name}=…")));
        let others = [
            (self.allow_state, "--allow-state"),
            (self.scratch.is_some(), "--scratch …"),
            (self.http_limits.is_some(), "--http-limits …"),
            (!self.secret.is_empty(), "--secret …"),
            (!self.arg.is_empty(), "--arg …"),
            (self.key_value.is_some(), "--key-value …"),
            (self.clock.is_some(), "--clock …"),
            (self.random_seed.is_some(), "--random-seed …"),
            (self.allow_apps, "--allow-apps"),
            (self.strict_imports, "--strict-imports"),
        ];
        words.extend(others.into_iter().filter(|(is_typed, _)| *is_typed).map(|(_, words)| words.to_owned()));
        words
    }

    /// Returns whether a store of keys and values is granted without a file for it.
    pub(crate) fn needs_store(&self) -> bool {
        self.key_value.is_some() && self.key_value_store.is_none()
    }

    /// Returns whether any power was typed.
    pub(crate) fn has_any(&self) -> bool {
        self.strict_imports || self.key_value_store.is_some() || self.powers() != Powers::default()
    }
}

/// Adds an option once for each of its values.
fn add_each(words: &mut Vec<String>, option: &str, values: &[String]) {
    words.extend(values.iter().map(|value| format!("{option} {value:?}")));
}

/// Describes a power that cannot be granted, in the language of the command line.
fn fault(fault: &PowerFault) -> String {
    let option = flags::option(fault.key).unwrap_or(fault.key);
    format!("{option}: {}", flags::translate(&fault.message))
}

fn bytes(text: &str) -> Result<Bytes, String> {
    parse_size(text).map(Bytes)
}

fn time(text: &str) -> Result<Time, fumehood::LimitError> {
    fumehood::limits::parse_duration(text).map(Time)
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses `HOST:GUEST`, or the table of the configuration, for quotas.
fn write_folder(text: &str) -> Result<WriteFolder, String> {
    match table(text) {
        Some(table) => parse_table::<WriteFolderTable>(&table).map(WriteFolder::Table),
        None => Ok(WriteFolder::Text(text.to_owned())),
    }
}

/// Parses the table of the configuration, with or without its braces. The error names a missing key, and quotes nothing that
/// was typed.
fn secret(text: &str) -> Result<SecretSection, String> {
    let secret = parse_table(&table(text).unwrap_or_else(|| format!("{{{text}}}")));
    secret.map_err(|message| {
        let is_safe = message.starts_with("missing field");
        if is_safe {
            message
        } else {
            "expected a table with `name`, `from`, `for`, and `header` or `query`".to_owned()
        }
    })
}

/// Parses the table of the configuration, with or without its braces.
fn http_limits(text: &str) -> Result<HttpLimitsSection, String> {
    parse_table(&table(text).unwrap_or_else(|| format!("{{{text}}}")))
}

fn table(text: &str) -> Option<String> {
    let text = text.trim();
    text.starts_with('{').then(|| text.to_owned())
}

fn parse_table<T: serde::de::DeserializeOwned>(table: &str) -> Result<T, String> {
    #[derive(serde::Deserialize)]
    struct One<T> {
        it: T,
    }
    let read: Result<One<T>, _> = toml::from_str(&format!("it = {table}"));
    read.map(|one| one.it).map_err(|error| error.message().split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        powers: PowerArguments,
    }

    fn typed(words: &[&str]) -> Result<Powers, String> {
        let words = std::iter::once("x").chain(words.iter().copied());
        Line::try_parse_from(words).map(|line| line.powers.powers()).map_err(|error| error.to_string())
    }

    #[test]
    fn options_and_configuration_give_the_same_powers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fumehood.toml");
        let text = r#"
            [tools.a]
            component = "a.wasm"
            read = ["./docs:/docs"]
            write = ["./out:/out", { folder = "./b", guest = "/b", bytes = "1MiB" }]
            scratch = "10MiB"
            http = ["GET https://api.example.com/v1/**"]
            http_limits = { requests = 9, bytes_in = "1MiB", connect = "2s", first_byte = "3s" }
            private_addresses = ["127.0.0.1/32"]
            env = { A = "1=2" }
            args = ["--verbose"]
            clock = "2ms"
            random_seed = 7
            key_value = "1MiB"
            [[tools.a.secrets]]
            name = "token"
            from = { env = "TOKEN" }
            for = "https://api.example.com/**"
            header = "Authorization"
        "#;
        std::fs::write(&file, text).unwrap();
        let config = crate::config::load(&file).unwrap();
        let words = [
            "--allow-read",
            "./docs:/docs",
            "--allow-write",
            "./out:/out",
            "--allow-write",
            "{ folder = './b', guest = '/b', bytes = '1MiB' }",
            "--scratch=10MiB",
            "--allow-http",
            "GET https://api.example.com/v1/**",
            "--http-limits",
            "requests=9, bytes_in='1MiB', connect='2s', first_byte='3s'",
            "--allow-private=127.0.0.1/32",
            "--env=A=1=2",
            "--arg",
            "--verbose",
            "--clock=2ms",
            "--random-seed=7",
            "--key-value=1MiB",
            "--secret",
            "name='token', from={env='TOKEN'}, for='https://api.example.com/**', header='Authorization'",
        ];
        assert_eq!(typed(&words).unwrap(), config.tools["a"].powers);
        assert_eq!(typed(&[]).unwrap(), Powers::default());
    }

    fn assert_refused(words: &[&str], expected: &str) {
        let message = typed(words).unwrap_err();
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn rejects_malformed_powers() {
        assert_refused(&["--env", "A"], "expected NAME=VALUE");
        assert_refused(&["--scratch", "much"], "invalid size `much`");
        assert_refused(&["--secret", "name='a'"], "missing field `from`");
        assert_refused(
            &["--secret", "nme='a'"],
            "expected a table with `name`, `from`, `for`, and `header` or `query`",
        );
        assert_refused(&["--http-limits", "request=1"], "unknown field `request`");
        assert_refused(&["--http-limits", "bytes_in='much'"], "invalid size `much`");
        assert_refused(&["--http-limits", "requests="], "invalid value");
        assert_refused(&["--allow-write", "{ folder = 1 }"], "invalid type: integer `1`, expected a string");
    }
}
