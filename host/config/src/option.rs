//! Parsers of options of the command line that are settings too.

use crate::folder::{WriteFolder, WriteFolderTable};
use crate::http_limits::HttpLimitsSection;
use crate::secret::SecretSection;
use crate::tcp_limits::TcpLimitsSection;

pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses `HOST:GUEST`, or the table of the configuration, for quotas.
pub(crate) fn write_folder(text: &str) -> Result<WriteFolder, String> {
    match braced(text) {
        Some(table) => parse_table::<WriteFolderTable>(&table).map(WriteFolder::Table),
        None => Ok(WriteFolder::Text(text.to_owned())),
    }
}

/// Parses the table of the configuration, with or without its braces. The error names a missing key, and quotes nothing that
/// was typed.
pub(crate) fn secret(text: &str) -> Result<SecretSection, String> {
    let secret = parse_table(&braced(text).unwrap_or_else(|| format!("{{{text}}}")));
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
pub(crate) fn http_limits(text: &str) -> Result<HttpLimitsSection, String> {
    parse_table(&braced(text).unwrap_or_else(|| format!("{{{text}}}")))
}

/// Parses the table of the configuration, with or without its braces.
pub(crate) fn tcp_limits(text: &str) -> Result<TcpLimitsSection, String> {
    parse_table(&braced(text).unwrap_or_else(|| format!("{{{text}}}")))
}

fn braced(text: &str) -> Option<String> {
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
    use clap::{Args as _, Command, FromArgMatches as _};

    use crate::agent::BudgetSection;
    use crate::limits::LimitsSection;
    use crate::powers::Powers;

    fn command() -> Command {
        BudgetSection::augment_args(LimitsSection::augment_args(Powers::augment_args(Command::new("x"))))
    }

    #[test]
    fn options_of_all_settings_go_together() {
        command().debug_assert();
    }

    #[test]
    fn options_are_read_as_settings() {
        let words = ["x", "--timeout=2s", "--fuel=1M", "--fuel-in-all=2M", "--env", "A=1", "--scratch=1MiB"];
        let matches = command().get_matches_from(words);
        let limits = LimitsSection::from_arg_matches(&matches).unwrap();
        let budget = BudgetSection::from_arg_matches(&matches).unwrap();
        let powers = Powers::from_arg_matches(&matches).unwrap();
        assert_eq!(serde_json::to_string(&limits).unwrap(), r#"{"deadline":"2s","fuel":1000000}"#);
        assert_eq!(serde_json::to_string(&budget).unwrap(), r#"{"fuel":2000000}"#);
        let powers = serde_json::to_string(&powers).unwrap();
        assert_eq!(powers, r#"{"state":false,"scratch":"1.0 MiB","env":{"A":"1"},"apps":false}"#);
        for (option, expected) in [("--memory=64", "`64` has no unit"), ("--timeout=5", "invalid time `5`")] {
            let refused = command().try_get_matches_from(["x", option]).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
