//! Parsers of options of the command line that are settings too.

use crate::folder::{WriteFolder, WriteFolderTable};
use crate::http_limits::HttpLimitsSection;
use crate::secret::SecretSection;

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
