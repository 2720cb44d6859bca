//! Options that grant powers.

use std::path::{Path, PathBuf};

use clap::Args;
use fumehood::Grant;
use fumehood::settings::read_value;
use toml::Table;

use crate::config::powers::{PowerFault, Powers};
use crate::exit::UsageError;
use crate::flags;

/// Powers of a tool. Without grants, a tool can only compute.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Powers")]
pub(crate) struct PowerArguments {
    #[command(flatten)]
    pub(crate) typed: Powers,

    /// File of the key-value store [default: a file for this component in your state folder]
    #[arg(long, value_name = "FILE", requires = "powers.key_value")]
    pub(crate) key_value_store: Option<PathBuf>,

    /// Refuse the component if it imports a power that is not granted
    #[arg(long)]
    pub(crate) strict_imports: bool,
}

impl PowerArguments {
    /// Builds the grant. Folders are relative to the working folder.
    ///
    /// # Errors
    /// Everything that cannot be granted, with its flag.
    pub(crate) fn grant(&self) -> Result<Grant, UsageError> {
        let here = Path::new(".");
        let granted = self.typed.grant(here, &|source| read_value(source, here));
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
        let mut words = flags::options_without_secrets(&Table::try_from(&self.typed).unwrap_or_default());
        if self.strict_imports {
            words.push("--strict-imports".to_owned());
        }
        words
    }

    /// Returns whether a store of keys and values is granted without a file for it.
    pub(crate) fn needs_store(&self) -> bool {
        self.typed.key_value.is_some() && self.key_value_store.is_none()
    }

    /// Returns whether any power was typed.
    pub(crate) fn has_any(&self) -> bool {
        self.strict_imports || self.key_value_store.is_some() || self.typed != Powers::default()
    }
}

/// Describes a power that cannot be granted, in the language of the command line.
fn fault(fault: &PowerFault) -> String {
    let option = flags::option(fault.key).unwrap_or(fault.key);
    format!("{option}: {}", flags::translate(&fault.message))
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
        Line::try_parse_from(words).map(|line| line.powers.typed).map_err(|error| error.to_string())
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
            tcp = ["db.example.com:5432"]
            tcp_limits = { connections = 2, connect = "2s" }
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
            "--allow-tcp=db.example.com:5432",
            "--tcp-limits",
            "connections=2, connect='2s'",
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

    #[test]
    fn options_are_repeated_without_what_may_be_secret() {
        let words = [
            "x",
            "--allow-state",
            "--allow-read=./a:/a",
            "--allow-write={ folder = './b', guest = '/b', bytes = '1MiB' }",
            "--scratch=1MiB",
            "--allow-http=GET https://a.example/**",
            "--allow-private=10.0.0.1",
            "--env=TOKEN=hidden",
            "--arg=--password=hidden",
            "--random-seed=7",
            "--allow-apps",
            "--app-origin=https://a.example",
            "--strict-imports",
        ];
        let line = Line::try_parse_from(words).unwrap();
        let expected = [
            "--allow-state",
            "--allow-read \"./a:/a\"",
            "--allow-write …",
            "--scratch …",
            "--allow-http \"GET https://a.example/**\"",
            "--allow-private \"10.0.0.1\"",
            "--env TOKEN=…",
            "--arg …",
            "--random-seed …",
            "--allow-apps",
            "--app-origin \"https://a.example\"",
            "--strict-imports",
        ];
        assert_eq!(line.powers.words(), expected);
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
