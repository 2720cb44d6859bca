//! Paths in arguments, as text: nothing here looks at a disk.

use serde_json::Value;

/// Calls `see` with every string under a property of one of these names, however deep, until it says something.
pub(super) fn find_map<T>(value: &Value, fields: &[String], see: &mut impl FnMut(&str) -> Option<T>) -> Option<T> {
    match value {
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            if fields.iter().any(|field| field == name) { strings(value, see) } else { find_map(value, fields, see) }
        }),
        Value::Array(items) => items.iter().find_map(|item| find_map(item, fields, see)),
        _ => None,
    }
}

fn strings<T>(value: &Value, see: &mut impl FnMut(&str) -> Option<T>) -> Option<T> {
    match value {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().find_map(|item| strings(item, see)),
        Value::Object(members) => members.values().find_map(|value| strings(value, see)),
        _ => None,
    }
}

/// The components of a path below one of the roots. A path that is not absolute is taken to be below a root.
///
/// # Errors
/// In words for a model, if the path leads or could lead elsewhere.
pub(super) fn within<'p>(path: &'p str, roots: &[String]) -> Result<Vec<&'p str>, String> {
    let refused = |why: &str| Err(format!("the path {path:?} {why}; give a path inside the workspace"));
    if path.contains('\0') {
        return refused("holds a NUL");
    }
    let is_separator = |c: char| matches!(c, '/' | '\\');
    let components: Vec<&str> = path.split(is_separator).filter(|part| !part.is_empty() && *part != ".").collect();
    if components.iter().any(|part| is_parent(part)) {
        return refused("has `..` in it");
    }
    let first = components.first().copied().unwrap_or_default();
    if first.starts_with('~') || first.contains(':') {
        return refused("starts at a home directory, a drive or a scheme");
    }
    if !path.starts_with(is_separator) {
        return Ok(components);
    }
    for root in roots {
        let root: Vec<&str> = root.split(is_separator).filter(|part| !part.is_empty() && *part != ".").collect();
        if components.starts_with(&root) {
            return Ok(components.into_iter().skip(root.len()).collect());
        }
    }
    refused("is outside the workspace")
}

/// `..`, also with the dots and spaces after it that some systems drop.
fn is_parent(part: &str) -> bool {
    part.starts_with("..") && part.chars().all(|c| matches!(c, '.' | ' '))
}
