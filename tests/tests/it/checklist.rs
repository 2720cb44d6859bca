//! The table of the checklist is complete, and every test that it names exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fumehood_tests::named::tests;

/// Number of items from each of the systems, and about the replies of models (R).
const ITEMS: [(char, u32); 6] = [('I', 42), ('C', 28), ('G', 26), ('K', 25), ('L', 23), ('R', 8)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A row of the table.
struct Row {
    text: String,
    tests: Vec<String>,
}

fn rows(text: &str) -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [item, text, tests] = cells[..] else { continue };
        let (letter, number) = item.split_at(item.chars().next().map_or(0, char::len_utf8));
        if letter.is_empty() || number.parse::<u32>().is_err() {
            continue;
        }
        let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let row = Row { text: text.to_owned(), tests };
        assert!(rows.insert(item.to_owned(), row).is_none(), "{item} stands twice in the table");
    }
    rows
}

/// Finds the faults of the table.
fn faults(rows: &BTreeMap<String, Row>, tests: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    let all = ITEMS.iter().flat_map(|(letter, last)| (1..=*last).map(move |number| format!("{letter}{number}")));
    let all: BTreeSet<String> = all.collect();
    faults.extend(all.iter().filter(|item| !rows.contains_key(*item)).map(|item| format!("{item} is missing")));
    for (item, row) in rows {
        if !all.contains(item) {
            faults.push(format!("{item} is no item"));
        }
        if row.tests.is_empty() && !row.text.starts_with("reason: ") {
            faults.push(format!("{item} has neither a test nor a reason"));
        }
        let gone = row.tests.iter().filter(|name| !tests.contains(*name));
        faults.extend(gone.map(|name| format!("{item}: there is no test `{name}`")));
    }
    faults
}

#[test]
fn every_item_has_its_row_and_every_test_in_it_exists() {
    let table = std::fs::read_to_string(root().join("docs/checklist.md")).unwrap();
    let faults = faults(&rows(&table), &tests().unwrap());
    assert!(faults.is_empty(), "docs/checklist.md and the tests disagree:\n  {}", faults.join("\n  "));
    assert_eq!(rows(&table).len(), 152);
}

#[test]
fn no_test_is_named_after_an_item_that_there_is_not() {
    let table = std::fs::read_to_string(root().join("docs/checklist.md")).unwrap();
    let rows = rows(&table);
    for name in tests().unwrap() {
        let Some((item, _)) = name.split_once('_') else { continue };
        let number = item.get(1..).and_then(|number| number.parse::<u32>().ok());
        let letter = item.chars().next().filter(|letter| "icgkl".contains(*letter));
        if let (Some(letter), Some(number)) = (letter, number) {
            let row = rows.get(&format!("{}{number}", letter.to_ascii_uppercase()));
            assert!(row.is_some(), "`{name}` is named after an item that there is not");
        }
    }
}

#[test]
fn a_gap_a_repetition_and_a_test_that_was_renamed_are_found() {
    let tests = BTreeSet::from(["one".to_owned(), "two".to_owned()]);
    let check = |table: &str, expected: &[&str]| {
        let faults = faults(&rows(table), &tests);
        let missing = |fault: &&String| fault.ends_with("is missing");
        assert_eq!(faults.iter().filter(|fault| !missing(fault)).collect::<Vec<_>>(), expected);
        faults.iter().filter(missing).count()
    };
    assert_eq!(check("| I1 | does | `one` `two` |", &[]), 151);
    check("| I1 | does | `one` `three` |", &["I1: there is no test `three`"]);
    check("| I1 | does | |", &["I1 has neither a test nor a reason"]);
    assert_eq!(check("| I1 | reason: it is elsewhere | |\n| item | what | tests |\n|---|---|---|", &[]), 151);
    check("| I43 | does | `one` |", &["I43 is no item"]);
}
