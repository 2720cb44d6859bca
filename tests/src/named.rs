//! The names of all tests of this project, which tables in `docs/` are checked against.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Returns the names of all test functions in `host` and `tests`.
///
/// # Errors
/// If a source cannot be read.
pub fn tests() -> Result<BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for path in [files(&root.join("host"))?, files(&root.join("tests"))?].concat() {
        if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            found.extend(tests_of(&source));
        }
    }
    Ok(found)
}

/// Returns every file below a folder.
///
/// # Errors
/// If a folder cannot be listed.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    Ok(found)
}

/// Returns the functions under `#[test]` or `#[tokio::test]`, with other attributes in between, and those of
/// `proptest!`, which have `#[test]` as well.
fn tests_of(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(name) = function(line) {
            if std::mem::take(&mut is_test) {
                found.push(name.to_owned());
            }
        } else if !line.starts_with("#[") && !line.starts_with("//") && !line.is_empty() {
            is_test = false;
        }
    }
    found
}

/// Returns the name in a line such as `async fn name() {`.
fn function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split_once('(').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_tests_if_they_are_marked_so() {
        let [test, timed, ignored] = ["#[test]", "#[tokio::test(start_paused = true)]", "#[ignore]"];
        let source = format!("{test}\nfn one() {{\n}}\n{timed}\n{ignored}\nasync fn two() {{}}\nfn three() {{}}");
        assert_eq!(tests_of(&source), ["one", "two"]);
        assert!(tests().unwrap().contains("functions_are_tests_if_they_are_marked_so"));
    }
}
