//! Files of cases.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fumehood::limits::{LimitError, parse_bytes, parse_count, parse_duration};
use fumehood::{ErrorKind, Limits};
use serde::Deserialize;
use serde_json::Value;

/// Default deviation of fuel and memory from what a case expects, in percent.
const DEFAULT_TOLERANCE_PERCENT: u32 = 10;
/// Maximum size of a file of cases, in bytes.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// A file of cases.
#[derive(Debug, Clone)]
pub struct CaseFile {
    /// The file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Its cases, in order.
    pub cases: Vec<Case>,
}

/// One call, and what it must give.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name.
    pub name: String,
    /// The tool, as `inspect` shows it.
    pub tool: String,
    /// The arguments: a table, or JSON text.
    arguments: Option<toml::Value>,
    /// The actor of the call.
    pub actor: Option<String>,
    /// The agent's state: a table, or JSON text.
    state: Option<toml::Value>,
    /// The powers of the component, as in `[tools.NAME]` of a configuration.
    #[serde(default)]
    pub grant: toml::Table,
    /// The values of secrets that the manifest asks for, by name.
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
    #[serde(default)]
    limits: LimitSection,
    now: Option<toml::value::Datetime>,
    /// The seed of randomness.
    pub seed: Option<u64>,
    /// The keys and values of the private store before the call.
    #[serde(default)]
    pub store: BTreeMap<String, String>,
    /// The answers of servers.
    #[serde(default)]
    pub http: Vec<Exchange>,
    /// The expected result. A case without it is not compared, until it is updated.
    pub expect: Option<Expectation>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitSection {
    timeout: Option<String>,
    fuel: Option<Amount>,
    memory: Option<Amount>,
    output: Option<Amount>,
    string: Option<Amount>,
}

impl LimitSection {
    fn over(&self, default: Limits) -> Result<Limits, LimitError> {
        let Self { timeout, fuel, memory, output, string } = self;
        let bytes = |size: &Option<Amount>| size.as_ref().map(|size| parse_bytes(&size.text())).transpose();
        Ok(default
            .deadline(timeout.as_deref().map(parse_duration).transpose()?.unwrap_or(default.deadline))
            .fuel(fuel.as_ref().map(|fuel| parse_count(&fuel.text())).transpose()?.unwrap_or(default.fuel))
            .memory(bytes(memory)?.unwrap_or(default.memory))
            .output(bytes(output)?.unwrap_or(default.output))
            .string(bytes(string)?.or(default.string)))
    }
}

/// A number, or a text with a unit.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Amount {
    Number(u64),
    Text(String),
}

impl Amount {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// A request, and the answer that it gets.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// The request: its method, and its whole address.
    pub request: String,
    /// The body that the request must have; any body if it is left out.
    pub sends: Option<String>,
    /// Headers that the request must have, among others.
    #[serde(default)]
    pub sends_headers: BTreeMap<String, String>,
    /// The status of the answer.
    #[serde(default = "ok")]
    pub status: u16,
    /// The headers of the answer.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body of the answer.
    body: Option<String>,
    /// The body of the answer as a value, in place of `body`.
    json: Option<toml::Value>,
}

fn ok() -> u16 {
    200
}

/// The expected result of a call: one of `text`, `json`, `content` and `error`, and its cost.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    text: Option<String>,
    json: Option<toml::Value>,
    content: Option<String>,
    error: Option<ErrorKind>,
    /// A text that the message of the error must contain.
    pub message: Option<String>,
    /// The keys and values of the private store after the call, all of them.
    pub store: Option<BTreeMap<String, String>>,
    /// The fuel of the call.
    pub fuel: Option<u64>,
    /// The peak memory of the call, in bytes.
    pub memory: Option<u64>,
    tolerance: Option<u32>,
}

/// The result that a case expects.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExpectedResult {
    Text(String),
    Json(Value),
    /// The parts of the result, as `call --json` prints them.
    Content(Value),
    Error(ErrorKind),
}

/// Errors of files of cases.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// The file or folder cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The action.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is larger than 8 MiB.
    #[error("{} has {found} bytes; the maximum for a file of cases is {MAX_FILE_BYTES}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size, in bytes.
        found: u64,
    },
    /// The file is not valid.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error and its place.
        reason: String,
    },
    /// A case is not valid.
    #[error("{}: the case \"{case}\": {reason}", path.display())]
    Case {
        /// The file.
        path: PathBuf,
        /// The name of the case.
        case: String,
        /// The error.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    #[serde(default, rename = "case")]
    cases: Vec<Case>,
}

impl CaseFile {
    /// Reads a file of cases.
    ///
    /// # Errors
    /// If it cannot be read, or anything in it is not valid.
    pub fn read(path: &Path) -> Result<Self, CaseError> {
        let io = |source| CaseError::Io { action: "read", path: path.to_owned(), source };
        let found = fs::metadata(path).map_err(io)?.len();
        if found > MAX_FILE_BYTES {
            return Err(CaseError::TooLarge { path: path.to_owned(), found });
        }
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                let reason = "it is not in UTF-8; save it in that encoding".to_owned();
                Err(CaseError::Malformed { path: path.to_owned(), reason })
            }
            Err(source) => Err(io(source)),
        }
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// If anything in it is not valid.
    pub fn parse(path: &Path, text: &str) -> Result<Self, CaseError> {
        let Shape { cases } = toml::from_str(text).map_err(|error| CaseError::Malformed {
            path: path.to_owned(),
            reason: error.to_string().trim().to_owned(),
        })?;
        for (index, case) in cases.iter().enumerate() {
            let wrong = |reason| CaseError::Case { path: path.to_owned(), case: case.name.clone(), reason };
            case.check().map_err(wrong)?;
            if cases.iter().take(index).any(|other| other.name == case.name) {
                return Err(wrong("another case has the same name; rename one of them".to_owned()));
            }
        }
        Ok(Self { path: path.to_owned(), text: text.to_owned(), cases })
    }

    /// Reads all files of cases in a folder, in the order of their names. A folder that is missing has none.
    ///
    /// # Errors
    /// If one cannot be read, or is not valid.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, CaseError> {
        let io = |source| CaseError::Io { action: "read", path: folder.to_owned(), source };
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io(error)),
        };
        let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut paths = paths.map_err(io)?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml") && path.is_file());
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }
}

impl Case {
    /// Checks what the types cannot say.
    fn check(&self) -> Result<(), String> {
        match self.arguments()? {
            Value::Object(_) => {}
            _ => return Err("`arguments` is not an object; expected a table, or the text of a JSON object".to_owned()),
        }
        self.state()?;
        self.limits(Limits::default())?;
        self.fixed_time()?;
        if let Some(expected) = &self.expect {
            expected.result()?;
        }
        for exchange in &self.http {
            exchange.parts()?;
            exchange.response_body()?;
        }
        Ok(())
    }

    /// Returns the arguments as JSON.
    pub(super) fn arguments(&self) -> Result<Value, String> {
        self.arguments
            .as_ref()
            .map_or_else(|| Ok(Value::Object(serde_json::Map::new())), |value| to_json("arguments", value))
    }

    /// Returns the agent's state as JSON text.
    pub(super) fn state(&self) -> Result<Option<String>, String> {
        self.state.as_ref().map(|value| to_json("state", value).map(|value| value.to_string())).transpose()
    }

    /// Returns the limits of the call: those of the case, and otherwise those of the tool.
    pub(super) fn limits(&self, tool: Limits) -> Result<Limits, String> {
        self.limits.over(tool).map_err(|error| format!("`limits`: {error}"))
    }

    /// Returns the time at which the wall clock stands, since 1970.
    pub(super) fn fixed_time(&self) -> Result<Option<Duration>, String> {
        let Some(now) = &self.now else { return Ok(None) };
        let wrong = || format!("`now` is {now}; expected a time in UTC, such as 2027-01-15T08:00:00Z");
        let time = humantime::parse_rfc3339(&now.to_string()).map_err(|_| wrong())?;
        time.duration_since(SystemTime::UNIX_EPOCH).map(Some).map_err(|_| wrong())
    }
}

impl Exchange {
    /// Returns the method and the address of the request.
    pub(super) fn parts(&self) -> Result<(&str, &str), String> {
        let words: Vec<&str> = self.request.split_whitespace().collect();
        match words.as_slice() {
            [method, address] if address.starts_with("http://") || address.starts_with("https://") => {
                Ok((method, address))
            }
            _ => Err(format!(
                "invalid request `{}`; expected one such as \"GET https://api.example.com/v1/items\"",
                self.request
            )),
        }
    }

    /// Returns the name of the host, without its port.
    pub(super) fn host(&self) -> Option<&str> {
        let (_, address) = self.parts().ok()?;
        let rest = address.split_once("://")?.1;
        let authority = rest.split(['/', '?', '#']).next()?;
        let name = authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        Some(name.map_or(authority, |(name, _)| name))
    }

    /// Returns the body of the answer.
    pub(super) fn response_body(&self) -> Result<String, String> {
        match (&self.body, &self.json) {
            (Some(_), Some(_)) => Err(format!("`{}` has both `body` and `json`; leave one of them out", self.request)),
            (Some(body), None) => Ok(body.clone()),
            (None, Some(json)) => plain_json(json).map(|value| value.to_string()),
            (None, None) => Ok(String::new()),
        }
    }

    /// Returns whether the answer is given as a value.
    pub(super) fn is_json(&self) -> bool {
        self.json.is_some()
    }
}

impl Expectation {
    pub(super) fn result(&self) -> Result<ExpectedResult, String> {
        if self.message.is_some() && self.error.is_none() {
            return Err("`message` needs `error`; add the kind of the error".to_owned());
        }
        match (&self.text, &self.json, &self.content, self.error) {
            (Some(text), None, None, None) => Ok(ExpectedResult::Text(text.clone())),
            (None, Some(json), None, None) => to_json("json", json).map(ExpectedResult::Json),
            (None, None, Some(content), None) => serde_json::from_str(content)
                .map(ExpectedResult::Content)
                .map_err(|error| format!("`content` is not JSON: {error}")),
            (None, None, None, Some(kind)) => Ok(ExpectedResult::Error(kind)),
            _ => Err("`expect` needs one of `text`, `json`, `content` and `error`".to_owned()),
        }
    }

    /// Returns the tolerance of fuel and memory, in percent.
    pub(super) fn tolerance(&self) -> u32 {
        self.tolerance.unwrap_or(DEFAULT_TOLERANCE_PERCENT)
    }
}

/// Converts a value of TOML to JSON. A text is JSON itself, because TOML has no null.
fn to_json(key: &str, value: &toml::Value) -> Result<Value, String> {
    match value {
        toml::Value::String(text) => serde_json::from_str(text)
            .map_err(|error| format!("`{key}` is not JSON ({error}); a string is written as '\"text\"'")),
        value => plain_json(value),
    }
}

fn plain_json(value: &toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => serde_json::Number::from_f64(*number)
            .map(Value::Number)
            .ok_or_else(|| format!("{number} cannot be represented in JSON"))?,
        toml::Value::Boolean(boolean) => Value::from(*boolean),
        toml::Value::Datetime(time) => Value::from(time.to_string()),
        toml::Value::Array(items) => Value::Array(items.iter().map(plain_json).collect::<Result<_, _>>()?),
        toml::Value::Table(table) => {
            let members = table.iter().map(|(key, value)| Ok((key.clone(), plain_json(value)?)));
            Value::Object(members.collect::<Result<_, String>>()?)
        }
    })
}

/// Converts JSON to TOML, which has no null and no number beyond 64 bits.
pub(super) fn to_toml(json: &Value) -> Option<toml_edit::Value> {
    Some(match json {
        Value::Null => return None,
        Value::Bool(boolean) => (*boolean).into(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.into(),
            None if number.is_f64() => number.as_f64()?.into(),
            None => return None,
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => {
            toml_edit::Value::Array(items.iter().map(to_toml).collect::<Option<Vec<_>>>()?.into_iter().collect())
        }
        Value::Object(members) => {
            let mut table = toml_edit::InlineTable::new();
            for (name, member) in members {
                table.insert(name, to_toml(member)?);
            }
            toml_edit::Value::InlineTable(table)
        }
    })
}

/// Returns the text of an answer that a case has as this value; `None` if it cannot have it. The order of members may change.
pub(super) fn played_json(value: &Value) -> Option<String> {
    let text = format!("json = {}", to_toml(value)?);
    let table: toml::Table = toml::from_str(&text).ok()?;
    plain_json(table.get("json")?).ok().map(|json| json.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(case: &str) -> Result<CaseFile, CaseError> {
        CaseFile::parse(Path::new("tests/a.toml"), &format!("[[case]]\nname = \"a\"\ntool = \"t\"\n{case}"))
    }

    /// Returns whether the published schema accepts the text of a file.
    fn fits_schema(text: &str) -> bool {
        let schema: Value = serde_json::from_str(super::super::SCHEMA).unwrap();
        let file: toml::Table = toml::from_str(text).unwrap();
        jsonschema::is_valid(&schema, &plain_json(&file.into()).unwrap())
    }

    #[test]
    fn schema_accepts_what_the_parser_accepts() {
        let complete = r#"
            [[case]]
            name = "a"
            tool = "t"
            arguments = '{"a": 1}'
            actor = "ada"
            state = { n = 1 }
            grant = { state = true }
            secrets = { github = "token" }
            limits = { timeout = "2s", fuel = "5M", memory = 1048576, output = "1MiB", string = "1MiB" }
            now = 2027-01-15T08:00:00Z
            seed = 7
            store = { k = "v" }
            expect = { error = "tool_failed", message = "m", store = { k = "v" }, fuel = 5, memory = 5, tolerance = 3 }
            [[case.http]]
            request = "GET https://api.example.com/v1"
            sends = "x"
            sends_headers = { authorization = "Bearer token" }
            status = 404
            headers = { a = "b" }
            json = { EUR = 0.9 }
        "#;
        let template = include_str!("../../templates/common/greet.toml").replace("{{refusal}}", "tool_failed");
        let uncommented: String =
            template.lines().map(|line| line.strip_prefix("#| ").unwrap_or(line)).collect::<Vec<_>>().join("\n");
        for text in [complete, template.as_str(), uncommented.as_str()] {
            assert!(CaseFile::parse(Path::new("a.toml"), text).is_ok() && fits_schema(text), "{text}");
        }
        assert!(uncommented.contains("[[case.http]]"), "{uncommented}");
        let case = "[[case]]\nname = 'a'\ntool = 't'\n";
        for wrong in [
            "colour = 1",
            "seed = -1",
            "store = { k = 1 }",
            "limits = { time = '1s' }",
            "expect = {}",
            "expect = { text = 'a', json = 1 }",
            "expect = { text = 'a', message = 'b' }",
            "http = [{ request = 'api.example.com' }]",
            "http = [{ request = 'GET https://a.example', body = '', json = 1 }]",
        ] {
            let text = format!("{case}{wrong}");
            assert!(CaseFile::parse(Path::new("a.toml"), &text).is_err() && !fits_schema(&text), "{wrong}");
        }
    }

    #[test]
    fn reads_a_complete_case() {
        let text = r#"
            arguments = { a = 1, at = 2027-01-15, list = ["x", { y = 0.5 }] }
            actor = "ada"
            state = '{"n": null}'
            now = 2027-01-15T08:00:00Z
            seed = 7
            store = { k = "v" }
            limits = { timeout = "2s", fuel = "5M", memory = 1048576 }
            expect = { json = '"text"', fuel = 5, tolerance = 3 }
            [[case.http]]
            request = "GET https://api.example.com:8443/v1?a=b"
            json = { EUR = 0.9 }
        "#;
        let file = parse(text).unwrap();
        let case = &file.cases[0];
        assert_eq!(case.arguments(), Ok(json!({"a": 1, "at": "2027-01-15", "list": ["x", {"y": 0.5}]})));
        assert_eq!(case.state(), Ok(Some("{\"n\":null}".to_owned())));
        assert_eq!(case.fixed_time(), Ok(Some(Duration::from_secs(1_800_000_000))));
        let limits = case.limits(Limits::default()).unwrap();
        assert_eq!((limits.deadline, limits.fuel, limits.memory), (Duration::from_secs(2), 5_000_000, 1 << 20));
        assert_eq!(case.http[0].host(), Some("api.example.com"));
        assert_eq!(case.http[0].response_body(), Ok("{\"EUR\":0.9}".to_owned()));
        let expect = case.expect.as_ref().unwrap();
        assert_eq!(expect.result(), Ok(ExpectedResult::Json(json!("text"))));
        assert_eq!(expect.tolerance(), 3);
    }

    #[test]
    fn rejects_cases_with_the_place_and_a_remedy() {
        fn check(case: &str, expected: &str) {
            let error = parse(case).unwrap_err().to_string();
            assert!(error.starts_with("tests/a.toml: ") && error.contains(expected), "{case}: {error}");
        }

        check("argument = {}", "unknown field `argument`");
        check("arguments = [1]", "`arguments` is not an object");
        check("arguments = \"a=1\"", "`arguments` is not JSON");
        check("limits = { timeout = \"fast\" }", "invalid time `fast`");
        check("now = 2027-01-15", "expected a time in UTC, such as 2027-01-15T08:00:00Z");
        check("expect = {}", "`expect` needs one of `text`, `json`, `content` and `error`");
        check("expect = { text = \"a\", json = 1 }", "`expect` needs one of");
        check("expect = { text = \"a\", message = \"b\" }", "`message` needs `error`");
        check("expect = { error = \"oops\" }", "unknown variant `oops`");
        check("http = [{ request = \"https://example.com\" }]", "expected one such as \"GET https://");
        check("http = [{ request = \"GET http://a/\", body = \"\", json = 1 }]", "leave one of them out");
        check("[[case]]\nname = \"a\"\ntool = \"t\"", "another case has the same name");
        assert!(CaseFile::read(Path::new("/no/such")).unwrap_err().to_string().contains("cannot read /no/such"));
        assert!(CaseFile::read_all(Path::new("/no/such")).unwrap().is_empty());
    }
}
