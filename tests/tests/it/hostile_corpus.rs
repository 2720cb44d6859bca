//! The table of the hostile corpus is complete, and every test and program that it names exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fumehood_tests::named::{files, tests};

const ROWS: u8 = 93;
/// Rows about features that do not exist yet: they have a reason instead of tests.
const WITHOUT: &[u8] = &[];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A row: its programs, its tests, and whether it has a reason.
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

fn programs() -> BTreeSet<String> {
    let folder = fumehood_tests::folder();
    let name = |path: PathBuf| path.strip_prefix(&folder).unwrap().with_extension("").to_str().unwrap().to_owned();
    files(&folder).unwrap().into_iter().map(name).collect()
}

/// Finds the faults of the table.
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
    let faults = faults(&rows(&table), &tests().unwrap(), &programs());
    assert!(faults.is_empty(), "docs/hostile-corpus.md and the tests disagree:\n  {}", faults.join("\n  "));
}

#[test]
fn a_gap_and_what_was_renamed_are_found() {
    let tests = BTreeSet::from(["one".to_owned(), "two".to_owned()]);
    let programs = BTreeSet::from(["spin".to_owned()]);
    let check = |table: &str, expected: &[&str]| {
        let faults = faults(&rows(table), &tests, &programs);
        let others: Vec<_> = faults.iter().filter(|fault| !fault.ends_with("is missing")).collect();
        assert_eq!(others, expected);
        faults.len() - others.len()
    };
    assert_eq!(check("| 1 | loops | `spin` | `one` `two` |", &[]), usize::from(ROWS) - 1);
    check("| 1 | loops | `spin` | `three` |", &["row 1: there is no test `three`"]);
    check("| 1 | loops | `spin` | |", &["row 1 has neither a test nor a reason, or both"]);
    check("| 1 | loops | `spin` | reason: later |", &["row 1 has neither a test nor a reason, or both"]);
    check("| 1 | loops | | `one` |", &["`spin` has no row"]);
    check("| 1 | loops | `spin` `gone` | `one` |", &["row 1: there is no program `gone`"]);
    check("| 200 | loops | `spin` | `one` |", &["there is no row 200"]);
}
