//! Parsing of a configuration, with all faults of the text.

use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use crate::fault::{Check, Fault, Faults, KeyFault};
use crate::file::{Config, schema};
use crate::keys;
use crate::position::{self, Position};
use crate::powers::Powers;

/// Maximum number of faults that are reported.
const MAX_FAULTS: usize = 50;

/// Parses `text`, the content of `file`. `check` is called with a configuration whose values are each well-formed.
///
/// # Errors
/// All faults, in the order of the text.
pub(crate) fn read(file: &Path, text: &str, check: Check<'_>) -> Result<Config, Faults> {
    let mut faults: Vec<(usize, String)> = Vec::new();
    let config = parse(text, check, &mut faults).map(|config| Config { origin: file.to_owned(), ..config });
    faults.sort();
    faults.dedup();
    faults.truncate(MAX_FAULTS);
    match config {
        Some(config) if faults.is_empty() => Ok(config),
        _ => {
            let placed = |(offset, message)| Fault { at: Position::from_offset(text, offset), message };
            Err(Faults { file: file.to_owned(), faults: faults.into_iter().map(placed).collect() })
        }
    }
}

/// Adds positions to faults of a text that was parsed.
pub(crate) fn locate(file: &Path, text: &str, broken: Vec<KeyFault>) -> Faults {
    let mut faults = Vec::new();
    for (path, message) in broken {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let at = place_of(text, &path).unwrap_or(Position { line: 1, column: 1 });
        faults.push(Fault { at, message });
    }
    faults.sort_by_key(|fault| fault.at);
    Faults { file: file.to_owned(), faults }
}

/// Returns the position of the value at the end of this path, or of the last value on the way to it; `None` if the text
/// is not TOML.
pub(crate) fn place_of(text: &str, path: &[&str]) -> Option<Position> {
    let path: Vec<String> = path.iter().map(|step| (*step).to_owned()).collect();
    let table = DeTable::parse(text).ok()?;
    Some(Position::from_offset(text, position::offset_of(table.get_ref(), &path)))
}

fn parse(text: &str, check: Check<'_>, faults: &mut Vec<(usize, String)>) -> Option<Config> {
    let whole = match DeTable::parse(text) {
        Ok(whole) => whole,
        Err(error) => {
            let offset = error.span().map_or(0, |span| span.start);
            faults.push((offset, format!("this is not TOML: {}", one_line(error.message()))));
            return None;
        }
    };
    let mut pruned = whole.clone();
    faults.extend(keys::check(&schema(), &mut pruned, ""));
    read_powers(pruned.get_mut(), faults);
    let config = read_values(&mut pruned, "", faults)?;
    let broken = check(&config);
    faults.extend(broken.into_iter().map(|(path, message)| (position::offset_of(whole.get_ref(), &path), message)));
    Some(config)
}

/// Reads the powers of each tool by themselves. Their section flattens them, and serde does not keep the positions of
/// flattened values.
fn read_powers(table: &mut DeTable<'_>, faults: &mut Vec<(usize, String)>) {
    let Some(DeValue::Table(tools)) = table.get_mut("tools").map(Spanned::get_mut) else { return };
    let schema = schemars::schema_for!(Powers).to_value();
    let Some(known) = schema.get("properties") else { return };
    for (name, tool) in tools.iter_mut() {
        let span = tool.span();
        let DeValue::Table(section) = tool.get_mut() else { continue };
        let all = std::mem::take(section).into_iter();
        let (powers, others): (DeTable<'_>, DeTable<'_>) =
            all.partition(|(key, _)| known.get(&**key.get_ref()).is_some());
        *section = others;
        let mut powers = Spanned::new(span, powers);
        let path = format!("tools.{}.", name.get_ref());
        let _faulty: Option<Powers> = read_values(&mut powers, &path, faults);
        section.extend(powers.into_inner());
    }
}

/// Reads the values of a table at this path. One that is wrong is noted and left out, so that the next one is found too.
fn read_values<T: DeserializeOwned>(
    table: &mut Spanned<DeTable<'_>>,
    path: &str,
    faults: &mut Vec<(usize, String)>,
) -> Option<T> {
    loop {
        let error = match T::deserialize(Deserializer::from(table.clone())) {
            Ok(values) => return Some(values),
            Err(error) => error,
        };
        let span = error.span().unwrap_or_default();
        let removed = position::remove(table.get_mut(), &span);
        // A field that is missing because it was removed is not reported.
        let is_reported = faults.iter().any(|(offset, _)| *offset == span.start);
        if faults.is_empty() || !(is_reported || error.message().starts_with("missing field")) {
            let at = removed.as_ref().map(|key| format!("`{path}{key}`: ")).unwrap_or_default();
            faults.push((span.start, format!("{at}{}", one_line(error.message()))));
        }
        if removed.is_none() || faults.len() > MAX_FAULTS {
            return None;
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
