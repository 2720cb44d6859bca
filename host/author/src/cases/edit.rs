//! Writing cases: the results of calls, in files that keep their comments.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::SystemTime;

use fumehood_platform::private;
use serde_json::Value;
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, value};

use super::case::{CaseError, CaseFile, to_toml};
use super::http_recorder::{JSON, RecordedExchange};
use super::runner::Observation;

/// The seed of a recorded call.
const RECORDED_SEED: i64 = 1;

/// Writes what calls gave into the cases of a file, in place of what they expected. `found` has one entry for each case,
/// in order; `None` leaves a case as it is.
///
/// # Errors
/// If the file cannot be read or written, or has other cases by now.
pub fn update_cases(path: &Path, found: &[Option<&Observation>]) -> Result<(), CaseError> {
    let mut document = read(path)?;
    let cases = document.get_mut("case").and_then(Item::as_array_of_tables_mut).ok_or_else(|| changed_error(path))?;
    if cases.len() != found.len() {
        return Err(changed_error(path));
    }
    for (case, found) in cases.iter_mut().zip(found) {
        if let Some(found) = found {
            set_expectation(case, found);
        }
    }
    write(path, &document.to_string())
}

fn changed_error(path: &Path) -> CaseError {
    CaseError::Malformed {
        path: path.to_owned(),
        reason: "it was changed while its cases ran; run the test again".to_owned(),
    }
}

/// A case of a call that is recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewCase<'a> {
    /// The name.
    pub name: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The arguments, an object.
    pub arguments: &'a Value,
    /// The powers of the component, as in `[tools.NAME]` of a configuration.
    pub grant: &'a toml::Table,
    /// The time of day of the call, if that and its random numbers have to be the same each time.
    pub now: Option<SystemTime>,
}

impl NewCase<'_> {
    /// Returns a file with this case alone, which expects nothing yet.
    ///
    /// # Errors
    /// If the case is not valid.
    pub fn to_file(&self, path: &Path) -> Result<CaseFile, CaseError> {
        let mut cases = ArrayOfTables::new();
        cases.push(self.to_table());
        let mut document = DocumentMut::new();
        document.insert("case", Item::ArrayOfTables(cases));
        CaseFile::parse(path, &document.to_string())
    }

    fn to_table(self) -> Table {
        let mut case = Table::new();
        case.insert("name", value(self.name));
        case.insert("tool", value(self.tool));
        let arguments = to_toml(self.arguments).unwrap_or_else(|| self.arguments.to_string().into());
        case.insert("arguments", Item::Value(arguments));
        if let Some(grant) = serde_json::to_value(self.grant).ok().as_ref().and_then(to_toml)
            && !self.grant.is_empty()
        {
            case.insert("grant", Item::Value(grant));
        }
        if let Some(now) = self.now.and_then(|now| humantime::format_rfc3339_seconds(now).to_string().parse().ok()) {
            case.insert("now", value::<toml_edit::Datetime>(now));
            case.insert("seed", value(RECORDED_SEED));
        }
        case
    }
}

/// Adds a case for a call that was made, with what servers answered and what it gave. A file that is missing is created.
///
/// # Errors
/// If the file cannot be read or written, or has a case of that name.
pub fn append_case(
    path: &Path,
    new: &NewCase<'_>,
    exchanges: &[RecordedExchange],
    found: &Observation,
) -> Result<(), CaseError> {
    let mut document = if path.exists() { read(path)? } else { DocumentMut::new() };
    if CaseFile::parse(path, &document.to_string())?.cases.iter().any(|case| case.name == new.name) {
        let reason = "a case with this name already exists; update it with `--update`".to_owned();
        return Err(CaseError::Case { path: path.to_owned(), case: new.name.to_owned(), reason });
    }
    let mut case = new.to_table();
    if !exchanges.is_empty() {
        let exchanges: ArrayOfTables = exchanges.iter().map(to_exchange).collect();
        case.insert("http", Item::ArrayOfTables(exchanges));
    }
    set_expectation(&mut case, found);
    if !document.is_empty() {
        case.decor_mut().set_prefix("\n");
    }
    let cases = document.entry("case").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let cases = cases.as_array_of_tables_mut().ok_or_else(|| CaseError::Malformed {
        path: path.to_owned(),
        reason: "`case` is not a list of tables; expected [[case]]".to_owned(),
    })?;
    cases.push(case);
    write(path, &document.to_string())
}

/// Returns the table of an exchange. An answer in JSON becomes a value, which people can read and change.
fn to_exchange(exchange: &RecordedExchange) -> Table {
    let RecordedExchange { request, sends, status, headers, body } = exchange;
    let mut table = Table::new();
    table.insert("request", value(request));
    if let Some(sends) = sends {
        table.insert("sends", value(sends));
    }
    if *status != 200 {
        table.insert("status", value(i64::from(*status)));
    }
    let is_json = headers.get("content-type").is_some_and(|mime| mime == JSON);
    let json: Option<Value> = if is_json { serde_json::from_str(body).ok() } else { None };
    let json = json.as_ref().and_then(to_toml);
    // It is the header of an answer that is given as a value.
    let written = headers.iter().filter(|(name, _)| json.is_none() || *name != "content-type");
    let written: InlineTable = written.map(|(name, text)| (name.as_str(), text.as_str())).collect();
    if !written.is_empty() {
        table.insert("headers", value(written));
    }
    match json {
        Some(json) => table.insert("json", Item::Value(json)),
        None => table.insert("body", value(body)),
    };
    table
}

/// Sets what a case expects. Costs and stores that it does not mention stay out of it, unless it expected nothing.
fn set_expectation(case: &mut Table, found: &Observation) {
    let before = case.get("expect").and_then(Item::as_table_like);
    let is_new = before.is_none();
    let has = |key: &str| before.is_some_and(|expect| expect.contains_key(key));
    let with_fuel = is_new || has("fuel");
    let with_memory = is_new || has("memory");
    let with_store = has("store") || (is_new && !found.store.is_empty());
    let tolerance = before.and_then(|expect| expect.get("tolerance")).cloned();
    let kept_message = before.and_then(|expect| expect.get("message")).and_then(Item::as_str).map(str::to_owned);

    let mut expect = Table::new();
    for (key, result) in found.result.as_object().into_iter().flatten() {
        let item = match (key.as_str(), result) {
            // A part of the message that still fits is kept, because the author chose it.
            ("message", Value::String(message)) => {
                value(kept_message.as_ref().filter(|part| message.contains(*part)).unwrap_or(message))
            }
            ("text" | "error", Value::String(text)) => value(text),
            ("json", result) => Item::Value(json_value(result)),
            (_, result) => value(result.to_string()),
        };
        expect.insert(key, item);
    }
    if with_store {
        let entries: InlineTable = found.store.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
        expect.insert("store", value(entries));
    }
    if with_fuel {
        expect.insert("fuel", value(to_integer(found.fuel)));
    }
    if with_memory {
        expect.insert("memory", value(to_integer(found.memory)));
    }
    if let Some(tolerance) = tolerance {
        expect.insert("tolerance", tolerance);
    }
    case.insert("expect", Item::Table(expect));
}

fn to_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the form of a result of JSON: a value of TOML where there is one, and otherwise JSON as text.
fn json_value(result: &Value) -> toml_edit::Value {
    match result {
        // A text is read as JSON, so that one stands in quotes of its own.
        Value::String(_) => result.to_string().into(),
        result => to_toml(result).unwrap_or_else(|| result.to_string().into()),
    }
}

fn read(path: &Path) -> Result<DocumentMut, CaseError> {
    let io = |source| CaseError::Io { action: "read", path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(io)?;
    text.parse().map_err(|error: toml_edit::TomlError| CaseError::Malformed {
        path: path.to_owned(),
        reason: error.to_string().trim().to_owned(),
    })
}

/// Writes a file in one step. What would not be read again is not written.
fn write(path: &Path, text: &str) -> Result<(), CaseError> {
    CaseFile::parse(path, text)?;
    let io = |source| CaseError::Io { action: "write", path: path.to_owned(), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(io)?;
    let permissions = match fs::metadata(path) {
        Ok(metadata) => metadata.permissions(),
        Err(_) => private::readable_permissions(),
    };
    let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(folder).map_err(io)?;
    file.write_all(text.as_bytes()).map_err(io)?;
    file.persist(path).map_err(|error| io(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn found(result: Value) -> Observation {
        let unanswered = Vec::new();
        let unused = Vec::new();
        Observation {
            result,
            store: BTreeMap::new(),
            fuel: 1234,
            memory: 65536,
            unanswered,
            unused,
            output: Vec::new(),
        }
    }

    fn updated(before: &str, result: Value) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        fs::write(&path, before).unwrap();
        update_cases(&path, &[Some(&found(result))]).unwrap();
        fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn update_keeps_comments_and_what_the_author_chose() {
        let before = "# About cities.\n[[case]]\nname = \"a\" # short\ntool = \"t\"\n\n[case.expect]\nerror = \"trap\"\n\
             message = \"no such\"\ntolerance = 5\nfuel = 1\n";
        let after = updated(before, json!({"error": "tool_failed", "message": "no such city"}));
        assert!(after.starts_with("# About cities.\n[[case]]\nname = \"a\" # short\n"), "{after}");
        assert!(
            after.contains("error = \"tool_failed\"\nmessage = \"no such\"\nfuel = 1234\ntolerance = 5\n"),
            "{after}"
        );
        assert!(!after.contains("memory"), "{after}");
    }

    #[test]
    fn update_writes_every_kind_of_result() {
        let before = "[[case]]\nname = \"a\"\ntool = \"t\"\n";
        for result in [
            json!({"text": "a\n\"b\"\u{1b}"}),
            json!({"json": {"a": [1, 2.5, true, "x"], "b": {"c": {}}}}),
            json!({"json": {"a": null}}),
            json!({"json": "text"}),
            json!({"json": u64::MAX}),
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
        ] {
            let after = updated(before, result.clone());
            assert!(after.contains("fuel = 1234\nmemory = 65536\n"), "{after}");
            let file = CaseFile::parse(Path::new("a.toml"), &after).unwrap();
            let comparison = super::super::Comparison::new(&file.cases[0], &found(result));
            assert!(comparison.differences.is_empty() || after.contains("\\u"), "{after}: {comparison:?}");
        }
    }

    #[test]
    fn appended_case_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tests/new.toml");
        let arguments = json!({"a": [null]});
        let grant = toml::Table::new();
        let append = |name: &str| {
            let new = NewCase { name, tool: "t", arguments: &arguments, grant: &grant, now: None };
            append_case(&path, &new, &[], &found(json!({"text": "x"})))
        };
        append("first").unwrap();
        append("second").unwrap();
        let file = CaseFile::read(&path).unwrap();
        assert_eq!(file.cases.len(), 2);
        assert_eq!(file.cases[1].arguments(), Ok(json!({"a": [null]})));
        let error = append("first").unwrap_err().to_string();
        assert!(error.contains("a case with this name already exists"), "{error}");
        assert_eq!(CaseFile::read(&path).unwrap().cases.len(), 2);
    }

    #[test]
    fn recorded_exchanges_are_read_again() {
        let exchange = |mime: &str, body: &str| RecordedExchange {
            request: "GET https://a.example/v1?q=%C3%A4".to_owned(),
            sends: None,
            status: 404,
            headers: BTreeMap::from([("content-type".to_owned(), mime.to_owned())]),
            body: body.to_owned(),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let arguments = json!({});
        let grant = toml::from_str("http = ['GET https://a.example/**']\n[[secrets]]\nname = 'token'").unwrap();
        let now = Some(SystemTime::UNIX_EPOCH);
        let new = NewCase { name: "a", tool: "t", arguments: &arguments, grant: &grant, now };
        assert_eq!(new.to_file(&path).unwrap().cases[0].grant, grant);
        let given = [
            (exchange("application/json", r#"{"a":[1.5,"x"]}"#), "json = { a = [1.5, \"x\"] }\n"),
            (exchange("application/json", r#"{"a":null}"#), "body = '{\"a\":null}'\n"),
            (exchange("text/plain", "a\n\u{1b}"), "headers = { content-type = \"text/plain\" }\nbody = "),
        ];
        let exchanges: Vec<RecordedExchange> = given.iter().map(|(exchange, _)| exchange.clone()).collect();
        append_case(&path, &new, &exchanges, &found(json!({"text": "x"}))).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("now = 1970-01-01T00:00:00Z\nseed = 1\n"), "{text}");
        let read = &CaseFile::read(&path).unwrap().cases[0].http;
        for ((exchange, written), read) in given.iter().zip(read) {
            assert!(text.contains(written), "{written}: {text}");
            assert_eq!((&read.request, read.status), (&exchange.request, 404));
            assert_eq!(read.response_body().unwrap(), exchange.body);
        }
    }

    #[test]
    fn file_that_changed_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        fs::write(&path, "[[case]]\nname = \"a\"\ntool = \"t\"\n").unwrap();
        let error = update_cases(&path, &[None, None]).unwrap_err().to_string();
        assert!(error.contains("changed while its cases ran"), "{error}");
    }
}
