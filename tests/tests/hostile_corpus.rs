//! The table of the hostile corpus is whole, and every test and program that it names is there.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const ROWS: u8 = 65;
/// Rows about what there is not yet: they have a reason in place of tests.
const WITHOUT: &[u8] = &[54];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// One row: what is tried, the programs, the tests or the reason.
struct Row {
    programs: Vec<String>,
    tests: Vec<String>,
    reason: bool,
}

fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn rows(text: &str) -> BTreeMap<u8, Row> {
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [number, _, programs, tests] = cells[..] else { continue };
        let Ok(number) = number.parse::<u8>() else { continue };
        let row = Row { programs: quoted(programs), tests: quoted(tests), reason: tests.starts_with("reason: ") };
        assert!(rows.insert(number, row).is_none(), "row {number} stands twice in the table");
    }
    rows
}

/// Everything below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The names of all functions that follow a line which makes them tests, with other attributes in between.
fn tests_of(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((name, _)) = rest.and_then(|rest| rest.split_once('(')) {
            if std::mem::take(&mut is_test) {
                found.push(name.to_owned());
            }
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            is_test = false;
        }
    }
    found
}

fn tests() -> BTreeSet<String> {
    let sources = [files(&root().join("host")), files(&root().join("tests"))].concat();
    let sources = sources.iter().filter(|path| path.extension().is_some_and(|found| found == "rs"));
    sources.flat_map(|path| tests_of(&std::fs::read_to_string(path).unwrap())).collect()
}

fn programs() -> BTreeSet<String> {
    let folder = fumehood_tests::folder();
    let name = |path: PathBuf| path.strip_prefix(&folder).unwrap().with_extension("").to_str().unwrap().to_owned();
    files(&folder).into_iter().map(name).collect()
}

/// What is wrong with the table.
fn faults(rows: &BTreeMap<u8, Row>, tests: &BTreeSet<String>, programs: &BTreeSet<String>) -> Vec<String> {
    let mut faults: Vec<String> =
        (1..=ROWS).filter(|row| !rows.contains_key(row)).map(|row| format!("row {row} is missing")).collect();
    for (number, row) in rows {
        if !(1..=ROWS).contains(number) {
            faults.push(format!("there is no row {number}"));
        }
        if row.tests.is_empty() != WITHOUT.contains(number) || row.reason != WITHOUT.contains(number) {
            faults.push(format!("row {number} has neither a test nor a reason, or both"));
        }
        let gone = row.tests.iter().filter(|name| !tests.contains(*name));
        faults.extend(gone.map(|name| format!("row {number}: there is no test `{name}`")));
        let gone = row.programs.iter().filter(|name| !programs.contains(*name));
        faults.extend(gone.map(|name| format!("row {number}: there is no program `{name}`")));
    }
    let named: BTreeSet<&String> = rows.values().flat_map(|row| &row.programs).collect();
    faults.extend(programs.iter().filter(|name| !named.contains(name)).map(|name| format!("`{name}` has no row")));
    faults
}

#[test]
fn every_row_is_there_and_what_it_names_too() {
    let table = std::fs::read_to_string(root().join("docs/hostile-corpus.md")).unwrap();
    let faults = faults(&rows(&table), &tests(), &programs());
    assert!(faults.is_empty(), "docs/hostile-corpus.md and the tests disagree:\n  {}", faults.join("\n  "));
}

#[test]
fn a_gap_and_what_was_renamed_are_found() {
    let source =
        "#[test]\nfn one() {\n}\n#[tokio::test(start_paused = true)]\n#[ignore]\nasync fn two() {}\nfn three() {}";
    assert_eq!(tests_of(source), ["one", "two"]);
    let tests: BTreeSet<String> = tests_of(source).into_iter().collect();
    let programs = BTreeSet::from(["spin".to_owned()]);
    let check = |table: &str, expected: &[&str]| {
        let faults = faults(&rows(table), &tests, &programs);
        let others: Vec<_> = faults.iter().filter(|fault| !fault.ends_with("is missing")).collect();
        assert_eq!(others, expected);
        faults.len() - others.len()
    };
    assert_eq!(check("| 1 | loops | `spin` | `one` `two` |", &[]), 64);
    check("| 1 | loops | `spin` | `three` |", &["row 1: there is no test `three`"]);
    check("| 1 | loops | `spin` | |", &["row 1 has neither a test nor a reason, or both"]);
    check("| 1 | loops | `spin` | reason: later |", &["row 1 has neither a test nor a reason, or both"]);
    check("| 1 | loops | | `one` |", &["`spin` has no row"]);
    check("| 1 | loops | `spin` `gone` | `one` |", &["row 1: there is no program `gone`"]);
    check("| 66 | loops | `spin` | `one` |", &["there is no row 66"]);
}
