//! Wishes: the grants and limits that the author of a component asks for, each with a reason.
//!
//! They stand in the manifest of a project, and travel in a section of the component. They grant nothing: an operator
//! grants them one by one or all at once, and gives the folders of the host, the values of variables, and the sources
//! of secrets.

use std::fmt;
use std::path::Path;

use fumehood_core::call::limits::Limits;
use fumehood_core::policy::permission::Power;
use fumehood_core::text::line::PrintableLine;
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::MAX_WISHES_BYTES;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;
use toml::de::DeTable;

use crate::amount::{Bytes, Count, MAX_MEMORY_BYTES};
use crate::folder::{WriteFolder, WriteFolderTable};
use crate::http_limits::HttpLimitsSection;
use crate::json::SettingError;
use crate::keys;
use crate::limits::LimitsSection;
use crate::powers::{PowerFault, Powers};
use crate::secret::{SecretSection, ValueSource};
use crate::tcp_limits::TcpLimitsSection;

/// Maximum number of wishes of one component.
const MAX_WISHES: usize = 64;
/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 200;
/// Maximum length of an error about the wishes of a component, in characters: it quotes them.
const MAX_ERROR_CHARS: usize = 300;
/// The host folder where the operator has not named one.
const FOLDER_PLACEHOLDER: &str = "FOLDER";
/// The value of a variable or secret where the operator has not given one. It is as long as a secret has to be.
const VALUE_PLACEHOLDER: &str = "VALUE";

/// The form in which wishes of one key are written.
struct Form {
    key: &'static str,
    /// Whether a component may have several, in a list.
    is_list: bool,
    /// The member that a wish without a table is.
    plain: Option<&'static str>,
}

/// The forms of all keys, in the order in which wishes are shown.
const FORMS: [Form; 11] = [
    Form { key: "http", is_list: true, plain: Some("rule") },
    Form { key: "http_limits", is_list: false, plain: None },
    Form { key: "tcp", is_list: true, plain: Some("rule") },
    Form { key: "tcp_limits", is_list: false, plain: None },
    Form { key: "read", is_list: true, plain: Some("guest") },
    Form { key: "write", is_list: true, plain: Some("guest") },
    Form { key: "scratch", is_list: false, plain: Some("bytes") },
    Form { key: "key_value", is_list: false, plain: Some("bytes") },
    Form { key: "env", is_list: true, plain: Some("name") },
    Form { key: "secrets", is_list: true, plain: None },
    Form { key: "limits", is_list: false, plain: None },
];

/// The powers or limits of one wish: a key of `[tools.NAME]`, and its value without what the operator decides.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Wanted {
    /// Requests that it makes: "METHOD URL", or tables with `rule`.
    Http {
        /// The requests, as "METHOD URL", such as "GET https://api.example.com/v1/**".
        rule: String,
    },
    /// Limits on the requests of one call.
    HttpLimits(HttpLimitsSection),
    /// TCP connections that it opens: "HOST:PORT", or tables with `rule`.
    Tcp {
        /// The connections, as "HOST:PORT", such as "db.example.com:5432".
        rule: String,
    },
    /// Limits on the TCP connections of one call.
    TcpLimits(TcpLimitsSection),
    /// Folders that it reads: paths at which it sees them, or tables with `guest`.
    Read {
        /// The path at which the tool sees it, such as "/docs".
        guest: String,
    },
    /// Folders that it reads and changes: paths at which it sees them, or tables with `guest`.
    Write {
        /// The path at which the tool sees it, such as "/out".
        guest: String,
        /// Maximum number of bytes that it adds.
        bytes: Option<Bytes>,
        /// Maximum number of files and folders that it adds.
        entries: Option<Count>,
    },
    /// An empty folder for each call, /scratch: its size, or a table with `bytes`.
    Scratch {
        /// The size, such as "1MiB".
        bytes: Bytes,
    },
    /// A private key-value store: its size, or a table with `bytes`.
    KeyValue {
        /// The size, such as "1MiB".
        bytes: Bytes,
    },
    /// Environment variables: their names, or tables with `name`.
    Env {
        /// The name of the variable.
        name: String,
    },
    /// Secrets that the host adds to its requests.
    Secrets {
        /// The name of the secret.
        name: String,
        /// The requests that get it, such as `https://api.example.com/**`. `http` must have them too.
        #[serde(rename = "for")]
        requests: String,
        /// The header that carries it, such as "Authorization". Set either `header` or `query`.
        header: Option<String>,
        /// The query parameter that carries it. Set either `header` or `query`.
        query: Option<String>,
        /// The text to send, where {secret} stands for the value, such as "Bearer {secret}". Default: "{secret}".
        value: Option<String>,
    },
    /// Limits of one call.
    Limits(LimitsSection),
}

/// One wish, and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    wanted: Wanted,
    /// The reason, for people, such as "to read the weather".
    reason: Option<String>,
}

/// Returns the environment variable with the answer to the wish of this name, such as `FUMEHOOD_WISH_HTTP_1`.
#[must_use]
pub fn answer_variable(name: &str) -> String {
    format!("FUMEHOOD_WISH_{}", name.to_uppercase())
}

/// The kind of answer that grants a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AnswerKind {
    /// Yes or no.
    Switch,
    /// A folder of the host.
    Folder,
    /// The value of a variable.
    Text,
    /// A secret.
    Secret,
}

/// The wishes of a component, with the keys of `[tools.NAME]`.
///
/// ```
/// use fumehood_config::wishes::Wishes;
/// use serde_json::json;
///
/// let weather = json!({"rule": "GET https://api.open-meteo.com/**", "reason": "to read the weather"});
/// let wishes = Wishes::new(json!({"http": [weather], "scratch": "1MiB"}))?;
/// assert_eq!(wishes.to_string(), "http: GET https://api.open-meteo.com/** — to read the weather\nscratch: 1.0 MiB");
/// # Ok::<(), fumehood_config::wishes::WishesError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes(Vec<Wish>);

/// Wishes that have no meaning: every fault, one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WishesError(String);

impl Wishes {
    /// Reads the wishes of a manifest.
    ///
    /// # Errors
    /// Every unknown key and wrong type; otherwise everything that could not be granted, or that is too much.
    pub fn new(mut written: Value) -> Result<Self, WishesError> {
        write_tables(&mut written);
        check_keys(&written)?;
        let mut wishes = Vec::new();
        for Form { key, .. } in FORMS {
            match written.get_mut(key).map(Value::take) {
                Some(Value::Array(items)) => {
                    for (index, item) in items.into_iter().enumerate() {
                        wishes.push(Wish::read(key, item, &format!("wants.{key}[{index}]"))?);
                    }
                }
                Some(item) => wishes.push(Wish::read(key, item, &format!("wants.{key}"))?),
                None => {}
            }
        }
        let wishes = Self(wishes);
        wishes.check()?;
        Ok(wishes)
    }

    /// Reads the section of a component. Control characters in it are escaped.
    ///
    /// # Errors
    /// If it is too large or malformed, or asks for something that could not be granted.
    pub fn from_section(text: &Untrusted<String>) -> Result<Self, WishesError> {
        if text.len() > MAX_WISHES_BYTES {
            return Err(WishesError(format!("they are larger than {} KiB", MAX_WISHES_BYTES >> 10)));
        }
        let value = text.parse_json().ok_or_else(|| WishesError("they are not JSON".to_owned()))?;
        Self::new(value.to_sanitized().into_owned()).map_err(|WishesError(message)| {
            let message: String = PrintableLine::from(&message).into();
            let ellipsis = if message.chars().count() > MAX_ERROR_CHARS { "…" } else { "" };
            WishesError(message.chars().take(MAX_ERROR_CHARS).collect::<String>() + ellipsis)
        })
    }

    /// Returns the content of the section.
    ///
    /// # Errors
    /// If it would be too large.
    pub fn to_section(&self) -> Result<String, WishesError> {
        let text = serde_json::to_string(self).map_err(|error| WishesError(error.to_string()))?;
        if text.len() <= MAX_WISHES_BYTES {
            return Ok(text);
        }
        let found = text.len();
        Err(WishesError(format!("they have {found} bytes; the maximum is {MAX_WISHES_BYTES}; shorten the reasons")))
    }

    /// Returns whether it asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each wish with a name that no other has, such as `http_1`, for the settings of a program that asks for them.
    #[must_use]
    pub fn named(&self) -> Vec<(String, &Wish)> {
        let mut named = Vec::new();
        let mut previous = "";
        let mut number = 0;
        // Those of one key follow each other.
        for (key, wish) in self.iter().filter_map(|wish| Some((wish.written()?.0.key, wish))) {
            number = if key == previous { number + 1 } else { 1 };
            previous = key;
            named.push((format!("{key}_{number}"), wish));
        }
        named
    }

    /// Returns each wish.
    pub fn iter(&self) -> std::slice::Iter<'_, Wish> {
        self.0.iter()
    }

    /// Checks that everything could be granted, with any folders and values of an operator.
    fn check(&self) -> Result<(), WishesError> {
        let mut faults = Vec::new();
        let found = self.0.len();
        if found > MAX_WISHES {
            faults.push(format!("`wants` has {found} wishes; the maximum is {MAX_WISHES}"));
        }
        let mut reasons = self.iter().filter_map(Wish::reason);
        if let Some(long) = reasons.find(|reason| reason.chars().count() > MAX_REASON_CHARS) {
            let beginning: String = long.chars().take(40).collect();
            faults.push(format!("the reason \"{beginning}…\" has more than {MAX_REASON_CHARS} characters; shorten it"));
        }
        if self.iter().any(|wish| wish.wanted == Wanted::Limits(LimitsSection::default())) {
            faults.push("`wants.limits` has no limit; leave it out".to_owned());
        }
        let mut powers = Powers::default();
        let mut limits = LimitsSection::default();
        self.iter().for_each(|wish| wish.add_to(&mut powers, &mut limits, None));
        if let Err(found) = powers.grant(Path::new("/"), &|_| Ok(VALUE_PLACEHOLDER.to_owned())) {
            faults.extend(found.iter().map(|fault: &PowerFault| format!("`wants.{}`: {}", fault.key, fault.message)));
        }
        if let Err(error) = limits.over(Limits::default()).check(MAX_MEMORY_BYTES) {
            faults.push(format!("`wants.limits`: {error}"));
        }
        if faults.is_empty() { Ok(()) } else { Err(WishesError(faults.join("\n"))) }
    }
}

impl Wish {
    /// Reads a wish from a table. `setting` is its path, for errors.
    fn read(key: &str, mut table: Value, setting: &str) -> Result<Self, WishesError> {
        let reason = table.as_object_mut().and_then(|members| members.remove("reason"));
        let reason = reason.as_ref().and_then(Value::as_str).map(|reason| PrintableLine::from(reason).into());
        match serde_json::from_value(json!({ key: table })) {
            Ok(wanted) => Ok(Self { wanted, reason }),
            Err(error) => Err(WishesError(SettingError::new(setting, error).to_string())),
        }
    }

    /// Returns the reason, if its author gives one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns what it asks for, without the reason: `http: GET https://api.example.com/**`. In its plain form, the value stands
    /// without its key. `None` if it has no form.
    fn subject(&self) -> Option<String> {
        let (form, members) = self.written()?;
        let plain = form.plain.filter(|_| members.len() == 1).and_then(|plain| members.get(plain));
        if let Some(Value::String(text)) = plain {
            return Some(format!("{}: {text}", form.key));
        }
        let toml::Value::Table(table) = to_toml(&members.into())? else { return None };
        let members: Vec<String> = table.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        Some(format!("{}: {}", form.key, members.join(", ")))
    }

    /// Returns the name of a setting that grants it.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.wanted {
            Wanted::Http { rule } => format!("Allow {rule}"),
            Wanted::Tcp { rule } => format!("Allow connections to {rule}"),
            Wanted::Read { guest } => format!("Folder to read, which the tool sees as {guest}"),
            Wanted::Write { guest, .. } => format!("Folder to change, which the tool sees as {guest}"),
            Wanted::Env { name } => format!("Value of {name}"),
            Wanted::Secrets { name, requests, .. } => format!("Secret {name}, for {requests}"),
            _ => format!("Allow {}", self.subject().unwrap_or_default()),
        }
    }

    /// Returns the key of `[tools.NAME]` that grants it.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self.wanted {
            Wanted::Http { .. } => "http",
            Wanted::HttpLimits(_) => "http_limits",
            Wanted::Tcp { .. } => "tcp",
            Wanted::TcpLimits(_) => "tcp_limits",
            Wanted::Read { .. } => "read",
            Wanted::Write { .. } => "write",
            Wanted::Scratch { .. } => "scratch",
            Wanted::KeyValue { .. } => "key_value",
            Wanted::Env { .. } => "env",
            Wanted::Secrets { .. } => "secrets",
            Wanted::Limits(_) => "limits",
        }
    }

    /// Returns the name of the secret that it asks for.
    #[must_use]
    pub fn secret_name(&self) -> Option<&str> {
        match &self.wanted {
            Wanted::Secrets { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Returns the power that it asks for; `None` if it asks for limits.
    #[must_use]
    pub fn power(&self) -> Option<Power> {
        match self.wanted {
            Wanted::Http { .. } => Some(Power::Http),
            Wanted::Tcp { .. } => Some(Power::Tcp),
            Wanted::Read { .. } | Wanted::Write { .. } | Wanted::Scratch { .. } => Some(Power::Files),
            Wanted::KeyValue { .. } => Some(Power::KeyValue),
            Wanted::Env { .. } => Some(Power::Env),
            Wanted::Secrets { .. } => Some(Power::Secrets),
            Wanted::HttpLimits(_) | Wanted::TcpLimits(_) | Wanted::Limits(_) => None,
        }
    }

    /// Returns the kind of answer that grants it.
    #[must_use]
    pub const fn answer_kind(&self) -> AnswerKind {
        match self.wanted {
            Wanted::Read { .. } | Wanted::Write { .. } => AnswerKind::Folder,
            Wanted::Env { .. } => AnswerKind::Text,
            Wanted::Secrets { .. } => AnswerKind::Secret,
            _ => AnswerKind::Switch,
        }
    }

    /// Returns what an operator has to say before the wish can be granted; `None` if it can be granted as it is.
    #[must_use]
    pub fn missing_value(&self) -> Option<String> {
        match &self.wanted {
            Wanted::Read { guest } | Wanted::Write { guest, .. } => {
                Some(format!("the folder of this machine that the tool sees as {guest}"))
            }
            Wanted::Env { name } => Some(format!("the value of {name}")),
            Wanted::Secrets { name, .. } => Some(format!("the environment variable with the secret `{name}`")),
            _ => None,
        }
    }

    /// Returns whether the operator has already decided on it.
    #[must_use]
    pub fn is_decided(&self, powers: &Powers, limits: &LimitsSection) -> bool {
        match &self.wanted {
            Wanted::Http { rule } => powers.http.contains(rule),
            Wanted::HttpLimits(_) => powers.http_limits.is_some(),
            Wanted::Tcp { rule } => powers.tcp.contains(rule),
            Wanted::TcpLimits(_) => powers.tcp_limits.is_some(),
            Wanted::Read { guest } | Wanted::Write { guest, .. } => {
                let read = powers.read.iter().filter_map(|text| text.rsplit_once(':')).map(|(_, guest)| guest);
                read.chain(powers.write.iter().filter_map(WriteFolder::guest)).any(|granted| granted == guest)
            }
            Wanted::Scratch { .. } => powers.scratch.is_some(),
            Wanted::KeyValue { .. } => powers.key_value.is_some(),
            Wanted::Env { name } => powers.env.iter().any(|(granted, _)| granted == name),
            Wanted::Secrets { name, .. } => powers.secrets.iter().any(|secret| secret.name == *name),
            Wanted::Limits(wanted) => limits.or(wanted) == *limits,
        }
    }

    /// Adds what it asks for to the powers and limits of a component. `value` is what [`Self::missing_value`] names; without
    /// it, a placeholder is added.
    pub fn add_to(&self, powers: &mut Powers, limits: &mut LimitsSection, value: Option<&str>) {
        let folder = value.unwrap_or(FOLDER_PLACEHOLDER);
        match self.wanted.clone() {
            Wanted::Http { rule } => powers.http.push(rule),
            Wanted::HttpLimits(wanted) => powers.http_limits = Some(wanted),
            Wanted::Tcp { rule } => powers.tcp.push(rule),
            Wanted::TcpLimits(wanted) => powers.tcp_limits = Some(wanted),
            Wanted::Read { guest } => powers.read.push(format!("{folder}:{guest}")),
            Wanted::Write { guest, bytes: None, entries: None } => {
                powers.write.push(WriteFolder::Text(format!("{folder}:{guest}")));
            }
            Wanted::Write { guest, bytes, entries } => {
                let table = WriteFolderTable { folder: folder.to_owned(), guest, bytes, entries };
                powers.write.push(WriteFolder::Table(table));
            }
            Wanted::Scratch { bytes } => powers.scratch = Some(bytes),
            Wanted::KeyValue { bytes } => powers.key_value = Some(bytes),
            Wanted::Env { name } => powers.env.push((name, value.unwrap_or(VALUE_PLACEHOLDER).to_owned())),
            Wanted::Secrets { name, requests, header, query, value: sent } => {
                let variable = value.map_or_else(|| name.to_uppercase().replace('-', "_"), str::to_owned);
                let from = ValueSource::Env(variable);
                powers.secrets.push(SecretSection { name, from, requests, header, query, value: sent });
            }
            Wanted::Limits(wanted) => *limits = limits.or(&wanted),
        }
    }

    /// Returns the form of its key, and the members of its table without the reason.
    fn written(&self) -> Option<(Form, Map<String, Value>)> {
        let Ok(Value::Object(written)) = serde_json::to_value(&self.wanted) else { return None };
        let (key, table) = written.into_iter().next()?;
        let form = FORMS.into_iter().find(|form| form.key == key)?;
        match table {
            Value::Object(members) => Some((form, members)),
            _ => None,
        }
    }
}

impl Serialize for Wishes {
    /// Writes a table for each wish, as in a manifest.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut written = Map::new();
        for wish in &self.0 {
            let Some((form, mut members)) = wish.written() else { continue };
            members.extend(wish.reason().map(|reason| ("reason".to_owned(), reason.into())));
            if form.is_list {
                let list = written.entry(form.key).or_insert_with(|| Value::Array(Vec::new()));
                list.as_array_mut().into_iter().for_each(|list| list.push(members.clone().into()));
            } else {
                written.insert(form.key.to_owned(), members.into());
            }
        }
        written.serialize(serializer)
    }
}

impl fmt::Display for Wishes {
    /// Writes one line for each wish, such as `http: GET https://api.example.com/** — to read prices`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.iter().map(Wish::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl fmt::Display for Wish {
    /// Writes the wish in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.subject().ok_or(fmt::Error)?)?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, " — {reason}"))
    }
}

/// Writes the plain forms of wishes as tables.
fn write_tables(written: &mut Value) {
    for Form { key, plain, .. } in FORMS {
        let Some(plain) = plain else { continue };
        match written.get_mut(key) {
            Some(Value::Array(items)) => items.iter_mut().for_each(|item| write_table(item, plain)),
            Some(item) => write_table(item, plain),
            None => {}
        }
    }
}

fn write_table(item: &mut Value, name: &str) {
    if matches!(item, Value::String(_) | Value::Number(_)) {
        *item = json!({ name: item.take() });
    }
}

/// Returns a value as TOML; `None` if it contains null.
fn to_toml(value: &Value) -> Option<toml::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(is) => toml::Value::Boolean(*is),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => toml::Value::Integer(whole),
            None => toml::Value::Float(number.as_f64()?),
        },
        Value::String(text) => toml::Value::String(text.clone()),
        Value::Array(items) => toml::Value::Array(items.iter().map(to_toml).collect::<Option<_>>()?),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| Some((name.clone(), to_toml(value)?)));
            toml::Value::Table(members.collect::<Option<_>>()?)
        }
    })
}

/// Checks keys and types as those of the configuration are checked: all at once, each with a suggestion.
fn check_keys(written: &Value) -> Result<(), WishesError> {
    let Some(toml::Value::Table(table)) = to_toml(written) else {
        return Err(WishesError(
            "`wants` is not valid; expected a table of wishes such as `http`, without null".to_owned(),
        ));
    };
    let text = table.to_string();
    let mut table = DeTable::parse(&text).map_err(|error| WishesError(format!("`wants`: {error}")))?;
    let faults = keys::check(&schema(), &mut table, "wants");
    let messages: Vec<String> = faults.into_iter().map(|(_, message)| message).collect();
    if messages.is_empty() { Ok(()) } else { Err(WishesError(messages.join("\n"))) }
}

/// Returns the schema of a table of wishes: a property for each variant of [`Wanted`], with a reason.
fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let variants = settings.into_generator().into_root_schema_for::<Wanted>().to_value();
    let mut properties = Map::new();
    for variant in variants.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
        for (key, table) in variant.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let mut table = table.clone();
            if let Some(members) = table.get_mut("properties").and_then(Value::as_object_mut) {
                members.insert("reason".to_owned(), json!({"type": "string"}));
            }
            let is_list = FORMS.iter().any(|form| form.key == key && form.is_list);
            let mut property = if is_list { json!({"type": "array", "items": table}) } else { table };
            if let (Some(property), Some(about)) = (property.as_object_mut(), variant.get("description")) {
                property.insert("description".to_owned(), about.clone());
            }
            properties.insert(key.clone(), property);
        }
    }
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(written: Value, expected: Expect) {
        let text = match Wishes::new(written) {
            Ok(wishes) => wishes.to_string(),
            Err(error) => format!("error: {error}"),
        };
        expected.assert_eq(&text);
    }

    fn all() -> Value {
        json!({
            "http": ["GET https://a.example/**", {"rule": "POST https://b.example/", "reason": "to\n send"}],
            "http_limits": {"requests": 3, "reason": "one for each city"},
            "tcp": ["db.example.com:5432"],
            "tcp_limits": {"connections": 1},
            "read": [{"guest": "/docs", "reason": "to search"}],
            "write": ["/out", {"guest": "/more", "bytes": "1MiB"}],
            "scratch": "10MiB",
            "key_value": {"bytes": 1024, "reason": "to remember"},
            "env": ["LANG"],
            "secrets": [{"name": "to-ken", "for": "https://a.example/**", "header": "Authorization"}],
            "limits": {"deadline": "30s", "memory": "128MiB"},
        })
    }

    #[test]
    fn describes_each_wish_in_one_line() {
        check(
            all(),
            expect![[r#"
            http: GET https://a.example/**
            http: POST https://b.example/ — to send
            http_limits: requests = 3 — one for each city
            tcp: db.example.com:5432
            tcp_limits: connections = 1
            read: /docs — to search
            write: /out
            write: bytes = "1.0 MiB", guest = "/more"
            scratch: 10.0 MiB
            key_value: 1.0 KiB — to remember
            env: LANG
            secrets: for = "https://a.example/**", header = "Authorization", name = "to-ken"
            limits: deadline = "30s", memory = "128.0 MiB""#]],
        );
    }

    #[test]
    fn section_has_the_same_wishes() {
        let wishes = Wishes::new(all()).unwrap();
        let text = wishes.to_section().unwrap();
        assert_eq!(Wishes::from_section(&text.into()).unwrap(), wishes);
        assert_eq!(wishes.iter().count(), 13);
    }

    #[test]
    fn rejects_wishes_that_have_no_meaning() {
        check(
            json!({"htp": [], "limits": {"timeout": "1s"}, "http": [{"rul": "GET https://a.example/"}]}),
            expect![[r#"
            error: unknown key `htp` in [wants]; did you mean `http`?; known keys: env, http, http_limits, key_value, limits, read, scratch, secrets, tcp, tcp_limits, write
            unknown key `rul` in [wants.http[0]]; did you mean `rule`?; known keys: reason, rule
            [wants.http[0]] has no `rule`; add it. The requests, as "METHOD URL", such as "GET https://api.example.com/v1/**".
            unknown key `timeout` in [wants.limits]; did you mean `deadline`?; known keys: deadline, fuel, log, memory, output, reason, string"#]],
        );
        check(
            json!(["http"]),
            expect!["error: `wants` is not valid; expected a table of wishes such as `http`, without null"],
        );
        check(
            json!({"http": null}),
            expect!["error: `wants` is not valid; expected a table of wishes such as `http`, without null"],
        );
        check(
            json!({"http": ["GETT https://a.example/", "a.example"], "read": ["docs"], "env": ["A B"]}),
            expect![[r#"
            error: `wants.read`: invalid path `docs` for the tool: it is relative; expected an absolute path, such as `/docs`
            `wants.http`: unknown HTTP method `GETT` in `GETT https://a.example/`; did you mean `GET`?
            `wants.http`: invalid rule `a.example` for requests: it must start with `https://` or `http://`
            `wants.env`: invalid variable name `A B`; expected letters, digits and `_`, not starting with a digit"#]],
        );
        check(
            json!({"scratch": "much", "key_value": 0}),
            expect![
                "error: `wants.scratch`: invalid size `much`; expected a number with a unit, such as `512KiB` or `64MiB`"
            ],
        );
        check(
            json!({"secrets": [{"name": "a", "for": "https://a.example/**"}]}),
            expect![[
                r#"error: `wants.secrets`: the secret `a` needs one of: header = "Authorization", query = "NAME""#
            ]],
        );
        check(
            json!({"limits": {"memory": "64GiB"}}),
            expect!["error: `wants.limits`: the memory limit is 64.0 GiB, but the maximum of this host is 4.0 GiB"],
        );
        check(
            json!({"scratch": {"bytes": "1MiB", "reason": "x".repeat(201)}}),
            expect![[
                r#"error: the reason "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…" has more than 200 characters; shorten it"#
            ]],
        );
        let many: Vec<String> = (0..=MAX_WISHES).map(|index| format!("GET https://a.example/{index}")).collect();
        check(json!({"http": many}), expect!["error: `wants` has 65 wishes; the maximum is 64"]);
    }

    #[test]
    fn decided_wishes_are_not_asked_for() {
        let mut powers = Powers::default();
        let mut limits = LimitsSection::default();
        for wish in Wishes::new(all()).unwrap().iter() {
            assert!(!wish.is_decided(&powers, &limits), "{wish}");
            wish.add_to(&mut powers, &mut limits, Some("X"));
            assert!(wish.is_decided(&powers, &limits), "{wish}");
        }
        assert_eq!(powers.read, ["X:/docs"]);
        assert_eq!(powers.env, [("LANG".to_owned(), "X".to_owned())]);
    }

    #[test]
    fn hostile_sections_are_errors_of_one_printable_line() {
        for text in [
            String::new(),
            "[".repeat(9_000),
            "\u{0}".to_owned(),
            format!("{{\"{}\": 1}}", "\u{1b}[2J\n".repeat(900)),
            format!("{{\"http\": [\"{}\"]}}", "\u{202e}".repeat(2_000)),
            " ".repeat(MAX_WISHES_BYTES + 1),
            r#"{"http": [{"rule": {"a": 1}}]}"#.to_owned(),
            r#"{"limits": 5}"#.to_owned(),
            r#"{} {}"#.to_owned(),
        ] {
            let message = Wishes::from_section(&text.as_str().into()).unwrap_err().to_string();
            assert!(!message.is_empty() && message.chars().count() <= MAX_ERROR_CHARS + 1, "{message}");
            assert!(!message.chars().any(|c| c.is_control() || c == '\u{202e}'), "{message}");
        }
        let reason = r#"{"scratch": {"bytes": "1MiB", "reason": "a\u001b[2J\n  granted\u202e"}}"#;
        let wishes = Wishes::from_section(&reason.into()).unwrap();
        assert_eq!(wishes.to_string(), "scratch: 1.0 MiB — a\\u{1b}[2J granted\\u{202e}");
    }
}
