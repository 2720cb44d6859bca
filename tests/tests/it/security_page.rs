//! The tables of promises in SECURITY.md are complete, and the files and functions that they name exist.

use std::path::{Path, PathBuf};

use fumehood_tests::named::files;

const HEADER: [&str; 4] = ["promise", "mechanism", "tests", "not promised"];
/// Length of the promise that names a row in a message, in characters.
const NAME_CHARS: usize = 70;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A table, with the heading that it stands under.
struct Table<'p> {
    heading: &'p str,
    rows: Vec<Vec<String>>,
}

/// Returns the cells of a row. A pipe between backticks or after a backslash is part of its cell.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_code = false;
    let mut before = ' ';
    for c in line.trim().trim_matches('|').chars() {
        is_code ^= c == '`';
        if c == '|' && !is_code && before != '\\' {
            cells.push(String::new());
        } else if let Some(cell) = cells.last_mut() {
            cell.push(c);
        }
        before = c;
    }
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

fn tables(page: &str) -> Vec<Table<'_>> {
    let mut tables: Vec<Table<'_>> = Vec::new();
    let mut heading = "";
    let mut is_table = false;
    for line in page.lines() {
        let is_row = line.starts_with('|');
        if let Some(text) = line.strip_prefix('#') {
            heading = text.trim_start_matches('#').trim();
        }
        if is_row && !is_table {
            tables.push(Table { heading, rows: Vec::new() });
        }
        if let Some(table) = tables.last_mut().filter(|_| is_row) {
            table.rows.push(cells(line));
        }
        is_table = is_row;
    }
    tables
}

fn is_promises(table: &Table<'_>) -> bool {
    table.rows.first().and_then(|header| header.first()).is_some_and(|cell| cell == HEADER[0])
}

fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn is_path(name: &str) -> bool {
    name.contains(['/', '.'])
}

/// Returns whether a source file at this path, or below it, has a function of this name.
fn has_function(path: &Path, name: &str) -> bool {
    let sources = if path.is_dir() { files(path).unwrap() } else { vec![path.to_owned()] };
    let mut sources = sources.iter().filter(|source| source.extension().is_some_and(|extension| extension == "rs"));
    sources.any(|source| {
        let text = std::fs::read_to_string(source).unwrap();
        let mut functions = text.split("fn ").skip(1);
        functions.any(|rest| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(['(', '<'])))
    })
}

/// Finds the faults of a row.
fn faults_of_row(root: &Path, row: &[String]) -> Vec<String> {
    if row.len() != HEADER.len() {
        return vec![format!("it has {} cells instead of {}", row.len(), HEADER.len())];
    }
    let empty = HEADER.iter().zip(row).filter(|(_, cell)| cell.is_empty());
    let mut faults: Vec<String> = empty.map(|(name, _)| format!("the cell `{name}` is empty; `–` says none")).collect();
    let tests = &row[2];
    let paths: Vec<&str> = quoted(tests).filter(|name| is_path(name)).collect();
    if paths.is_empty() {
        faults.push("it names no file with tests".to_owned());
    }
    let gone = paths.iter().filter(|path| !root.join(path).exists());
    faults.extend(gone.map(|path| format!("there is no file or folder `{path}`")));
    let there: Vec<PathBuf> = paths.iter().map(|path| root.join(path)).filter(|path| path.exists()).collect();
    let functions = quoted(tests).filter(|name| !is_path(name));
    let unknown = functions.filter(|name| !there.iter().any(|path| has_function(path, name)));
    faults.extend(unknown.map(|name| format!("none of its files has a function `{name}`")));
    faults
}

/// Finds the faults of all tables of promises, each with its section and its promise.
fn faults(root: &Path, page: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let tables = tables(page);
    for table in &tables {
        let is_separated =
            table.rows.get(1).is_some_and(|row| row.iter().all(|cell| cell.trim_matches('-').is_empty()));
        if !is_separated {
            faults.push(format!("{}: a table has no header; an empty line may have cut it", table.heading));
        } else if is_promises(table) {
            if table.rows[0] != HEADER {
                faults.push(format!("{}: the columns are not {}", table.heading, HEADER.join(", ")));
            }
            for row in &table.rows[2..] {
                let name: String = row[0].chars().take(NAME_CHARS).collect();
                let of_row = faults_of_row(root, row).into_iter();
                faults.extend(of_row.map(|fault| format!("{}: \"{name}\": {fault}", table.heading)));
            }
        }
    }
    let promises = page.split("\n## ").find(|section| section.starts_with("Promises\n")).unwrap_or_default();
    let headings = promises.lines().filter_map(|line| line.strip_prefix("### "));
    let without =
        headings.filter(|heading| !tables.iter().any(|table| table.heading == *heading && is_promises(table)));
    faults.extend(without.map(|heading| format!("{heading}: there is no table of promises")));
    faults
}

#[test]
fn every_promise_has_a_mechanism_tests_and_limits() {
    let page = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    assert!(tables(&page).iter().filter(|table| is_promises(table)).count() > 5);
    let faults = faults(&root(), &page);
    assert!(faults.is_empty(), "SECURITY.md and the sources disagree:\n  {}", faults.join("\n  "));
}

#[test]
fn finds_broken_tables_and_rows() {
    let header = format!("| {} |", HEADER.join(" | "));
    let good = "| p | `a | b` | `tests/tests/it/security_page.rs`: `is_path`, `tests/src/`: `tests_of` | – |";
    check_faults(&header, good, &[]);
    check_faults(
        "| promise | tests | mechanism | – |",
        good,
        &["Time: the columns are not promise, mechanism, tests, not promised"],
    );
    check_faults("| who | can | cannot | – |", good, &["Time: there is no table of promises"]);
    check_faults(&header, "| p | m | `tests/src/` |", &["Time: \"p\": it has 3 cells instead of 4"]);
    check_faults(
        &header,
        "| p | m | `tests/src/` | |",
        &["Time: \"p\": the cell `not promised` is empty; `–` says none"],
    );
    check_faults(
        &header,
        "| p | m | `is_path` | – |",
        &["Time: \"p\": it names no file with tests", "Time: \"p\": none of its files has a function `is_path`"],
    );
    check_faults(
        &header,
        "| p | m | `tests/gone.rs` | – |",
        &["Time: \"p\": there is no file or folder `tests/gone.rs`"],
    );
    check_faults(
        &header,
        "| p | m | `tests/src/named.rs`: `test` | – |",
        &["Time: \"p\": none of its files has a function `test`"],
    );
    let cut = format!("{good}\n\n{good}");
    check_faults(&header, &cut, &["Time: a table has no header; an empty line may have cut it"]);
}

fn check_faults(columns: &str, rows: &str, expected: &[&str]) {
    let page = format!("# Page\n\n## Promises\n\n### Time\n\n{columns}\n|---|---|---|---|\n{rows}\n");
    assert_eq!(faults(&root(), &page), expected, "{rows}");
}
