//! Imports, annotations and grants of a component, in words.

use std::collections::BTreeMap;

use anyhow::Result;
use fumehood::limits::{display_bytes, parse_bytes};
use fumehood::permission::Power;
use fumehood::{Annotations, Import};

use super::quotation::{Quotation, write_host_text};
use super::{BAD, line, styled};

/// Keys of a grant whose values are amounts of bytes.
const BYTE_KEYS: [&str; 4] = ["bytes", "bytes_in", "bytes_out", "key_value"];

/// Prints imports: first those that work without a grant, then those that need one.
pub(super) fn print_imports(imports: &[Import]) -> Result<()> {
    print_grouped_imports(imports, None)
}

/// Like [`print_imports`], with the interfaces behind each meaning.
pub(super) fn print_imports_with_names(imports: &[Import], quotation: &mut Quotation) -> Result<()> {
    print_grouped_imports(imports, Some(quotation))
}

fn print_grouped_imports(imports: &[Import], mut names: Option<&mut Quotation>) -> Result<()> {
    if imports.is_empty() {
        return write_host_text(4, "none: it can only compute");
    }
    let free: Vec<&Import> = imports.iter().filter(|import| import.power.is_none()).collect();
    if !free.is_empty() {
        write_host_text(4, "without any grant")?;
        print_meanings(&free, names.as_deref_mut())?;
    }
    let powers = powers(imports);
    for power in &powers {
        let needing: Vec<&Import> = imports.iter().filter(|import| import.power == Some(*power)).collect();
        let name = styled(BAD, power.as_str());
        match power.example() {
            Some(_) => line(&format!("    only with a grant of `{name}`"))?,
            None => line(&format!("    never, because no grant gives `{name}`"))?,
        }
        print_meanings(&needing, names.as_deref_mut())?;
    }
    if powers.is_empty() {
        write_host_text(4, "nothing else: there is nothing to grant")?;
    }
    Ok(())
}

/// Describes in a few words what imports could do with a grant.
pub(super) fn summarize_imports(imports: &[Import]) -> String {
    match powers(imports).into_iter().map(Power::as_str).collect::<Vec<_>>().as_slice() {
        [] => "nothing that needs a grant".to_owned(),
        powers => format!("{}: usable only as far as they are granted", powers.join(", ")),
    }
}

/// Returns the powers that imports need, in the order of their names.
pub(crate) fn powers(imports: &[Import]) -> Vec<Power> {
    let mut powers: Vec<Power> = imports.iter().filter_map(|import| import.power).collect();
    powers.sort_unstable_by_key(|power| power.as_str());
    powers.dedup();
    powers
}

/// Prints each meaning once, with its interfaces if `names` is given.
fn print_meanings(imports: &[&Import], mut names: Option<&mut Quotation>) -> Result<()> {
    let mut printed: Vec<&str> = Vec::new();
    for import in imports {
        if printed.contains(&&*import.meaning) {
            continue;
        }
        printed.push(&import.meaning);
        write_host_text(6, &import.meaning)?;
        if let Some(quotation) = names.as_deref_mut() {
            for same in imports.iter().filter(|other| other.meaning == import.meaning) {
                quotation.write_block(8, &same.name)?;
            }
        }
    }
    Ok(())
}

/// Describes pinned annotations, one line for each.
pub(super) fn describe_pinned_annotations(annotations: &BTreeMap<String, bool>) -> Vec<String> {
    describe_annotations(&read_annotations(annotations))
}

/// Returns the effect that pinned annotations declare, in a word.
pub(super) fn declared_effect(annotations: &BTreeMap<String, bool>) -> &'static str {
    match read_annotations(annotations) {
        Annotations { read_only: Some(true), .. } => "read-only",
        Annotations { destructive: Some(true), .. } => "destructive",
        Annotations { destructive: Some(false), .. } => "adds only",
        _ => "undeclared",
    }
}

fn read_annotations(annotations: &BTreeMap<String, bool>) -> Annotations {
    let flag = |name: &str| annotations.get(name).copied();
    Annotations {
        read_only: flag("read_only"),
        destructive: flag("destructive"),
        idempotent: flag("idempotent"),
        open_world: flag("open_world"),
    }
}

fn describe(value: Option<bool>, yes: &str, no: &str) -> Option<String> {
    value.map(|is| if is { yes } else { no }.to_owned())
}

/// Describes annotations with their consequences, one line for each; a single line if the tool has none.
pub(super) fn describe_annotations(annotations: &Annotations) -> Vec<String> {
    let lines: Vec<String> = [
        describe(
            annotations.read_only,
            "read-only: its calls are not judged by a model, and may be repeated after a failure",
            "not read-only",
        ),
        describe(annotations.destructive, "destructive", "not destructive"),
        describe(annotations.idempotent, "idempotent: its calls may be repeated after a failure", "not idempotent"),
        describe(annotations.open_world, "open-world", "closed-world"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if lines.is_empty() { vec!["nothing; any effect is assumed".to_owned()] } else { lines }
}

/// Formats a line of a grant, with units for its amounts, such as `key_value = 1.0 MiB`. Two different lines stay
/// different, and text in quotes is left as it is.
pub(crate) fn format_grant(line: &str) -> String {
    let (quoted, rest) = line.split_at(line.rfind('"').map_or(0, |at| at + 1));
    let parts: Vec<String> = rest.split(", ").map(format_part).collect();
    format!("{quoted}{}", parts.join(", "))
}

fn format_part(part: &str) -> String {
    let amount =
        part.rsplit_once(" = ").filter(|(key, _)| BYTE_KEYS.iter().any(|name| key.rsplit(' ').next() == Some(name)));
    match amount.and_then(|(key, digits)| Some((key, digits.parse::<u64>().ok()?))) {
        Some((key, bytes)) => format!("{key} = {}", format_amount(bytes)),
        None => part.to_owned(),
    }
}

/// Formats an amount with a unit if that is exact, and in bytes otherwise.
fn format_amount(bytes: u64) -> String {
    let shown = display_bytes(bytes);
    if parse_bytes(&shown).is_ok_and(|read| read as u64 == bytes) { shown } else { format!("{bytes} B") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_formatted(line: &str, expected: &str) {
        assert_eq!(format_grant(line), expected)
    }

    #[test]
    fn formats_amounts_and_keeps_quoted_text() {
        assert_formatted("key_value = 1048576", "key_value = 1.0 MiB");
        assert_formatted("key_value = 1048577", "key_value = 1048577 B");
        assert_formatted("scratch = bytes = 67108864, entries = 1000", "scratch = bytes = 64.0 MiB, entries = 1000");
        assert_formatted(
            r#"write: "./o:/o, bytes = 1024", bytes = 2048, entries = 5"#,
            r#"write: "./o:/o, bytes = 1024", bytes = 2.0 KiB, entries = 5"#,
        );
        assert_formatted(r#"env: A = "bytes = 1024""#, r#"env: A = "bytes = 1024""#);
        assert_formatted(
            "http_limits: requests = 3, bytes_out = 1024",
            "http_limits: requests = 3, bytes_out = 1.0 KiB",
        );
    }
}
