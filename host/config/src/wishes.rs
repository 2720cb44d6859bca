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
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use toml::de::DeTable;

use crate::amount::{Bytes, Count, MAX_MEMORY_BYTES};
use crate::folder::{WriteFolder, WriteFolderTable};
use crate::http_limits::HttpLimitsSection;
use crate::json::deserialize_setting;
use crate::keys;
use crate::limits::LimitsSection;
use crate::powers::{PowerFault, Powers};
use crate::secret::{SecretSection, ValueSource};

/// Maximum number of wishes of one component.
const MAX_WISHES: usize = 64;
/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 200;
/// Maximum length of an error about the wishes of a component, in characters: it quotes them.
const MAX_ERROR_CHARS: usize = 300;
/// Keys whose wishes may be written without a table, with the key that the value then has. The first are lists.
const PLAIN_FORMS: [(&str, &str); 6] = [
    ("http", "rule"),
    ("read", "guest"),
    ("write", "guest"),
    ("env", "name"),
    ("scratch", "bytes"),
    ("key_value", "bytes"),
];
/// The host folder where the operator has not named one.
const FOLDER_PLACEHOLDER: &str = "FOLDER";
/// The value of a variable or secret where the operator has not given one. It is as long as a secret has to be.
const VALUE_PLACEHOLDER: &str = "VALUE";

/// One wish, and the reason for it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wish<T> {
    /// The power or limits, in the words of the configuration.
    #[serde(flatten)]
    wanted: T,
    /// The reason, for people, such as "to read the weather".
    reason: Option<String>,
}

/// Requests that it makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HttpWish {
    /// The requests, as "METHOD URL", such as "GET https://api.example.com/v1/**".
    rule: String,
}

/// A folder of the host, which the operator chooses.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FolderWish {
    /// The path at which the tool sees it, such as "/docs".
    guest: String,
}

/// A folder of the host that it changes, which the operator chooses.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFolderWish {
    /// The path at which the tool sees it, such as "/out".
    guest: String,
    /// Maximum number of bytes that it adds.
    bytes: Option<Bytes>,
    /// Maximum number of files and folders that it adds.
    entries: Option<Count>,
}

/// An amount of space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SizeWish {
    /// The size, such as "1MiB".
    bytes: Bytes,
}

/// An environment variable, whose value the operator gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EnvWish {
    /// The name of the variable.
    name: String,
}

/// A secret that the host adds to requests. The operator says where its value comes from.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SecretWish {
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
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wishes {
    /// Requests that it makes: "METHOD URL", or tables with `rule`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    http: Vec<Wish<HttpWish>>,
    /// Limits on the requests of one call.
    http_limits: Option<Wish<HttpLimitsSection>>,
    /// Folders that it reads: paths at which it sees them, or tables with `guest`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    read: Vec<Wish<FolderWish>>,
    /// Folders that it reads and changes: paths at which it sees them, or tables with `guest`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    write: Vec<Wish<WriteFolderWish>>,
    /// An empty folder for each call, /scratch: its size, or a table with `bytes`.
    scratch: Option<Wish<SizeWish>>,
    /// A private key-value store: its size, or a table with `bytes`.
    key_value: Option<Wish<SizeWish>>,
    /// Environment variables: their names, or tables with `name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    env: Vec<Wish<EnvWish>>,
    /// Secrets that the host adds to its requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<Wish<SecretWish>>,
    /// Limits of one call.
    limits: Option<Wish<LimitsSection>>,
}

/// Wishes that have no meaning: every fault, one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WishesError(String);

impl Wishes {
    /// Reads the wishes of a manifest.
    ///
    /// # Errors
    /// Every unknown key and wrong type; otherwise everything that could not be granted, or that is too much.
    pub fn new(written: Value) -> Result<Self, WishesError> {
        let mut written = written;
        write_tables(&mut written);
        check_keys(&written)?;
        let mut wishes: Self = deserialize_setting("wants", written).map_err(|error| WishesError(error.to_string()))?;
        for reason in wishes.reasons_mut().into_iter().flatten() {
            *reason = PrintableLine::from(&*reason).into();
        }
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
        *self == Self::default()
    }

    /// Returns each wish by itself.
    #[must_use]
    pub fn split(&self) -> Vec<Self> {
        let none = Self::default;
        let http = self.http.iter().map(|wish| Self { http: vec![wish.clone()], ..none() });
        let http_limits = self.http_limits.iter().map(|wish| Self { http_limits: Some(wish.clone()), ..none() });
        let read = self.read.iter().map(|wish| Self { read: vec![wish.clone()], ..none() });
        let write = self.write.iter().map(|wish| Self { write: vec![wish.clone()], ..none() });
        let scratch = self.scratch.iter().map(|wish| Self { scratch: Some(wish.clone()), ..none() });
        let key_value = self.key_value.iter().map(|wish| Self { key_value: Some(wish.clone()), ..none() });
        let env = self.env.iter().map(|wish| Self { env: vec![wish.clone()], ..none() });
        let secrets = self.secrets.iter().map(|wish| Self { secrets: vec![wish.clone()], ..none() });
        let limits = self.limits.iter().map(|wish| Self { limits: Some(wish.clone()), ..none() });
        let files = read.chain(write).chain(scratch);
        http.chain(http_limits).chain(files).chain(key_value).chain(env).chain(secrets).chain(limits).collect()
    }

    /// Returns the reason of a single wish, if its author gives one.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.clone().reasons_mut().into_iter().find_map(Option::take)
    }

    /// Returns the powers that it asks for.
    #[must_use]
    pub fn powers(&self) -> Vec<Power> {
        let is_files = !self.read.is_empty() || !self.write.is_empty() || self.scratch.is_some();
        let wanted = [
            (Power::Http, !self.http.is_empty()),
            (Power::Files, is_files),
            (Power::KeyValue, self.key_value.is_some()),
            (Power::Env, !self.env.is_empty()),
            (Power::Secrets, !self.secrets.is_empty()),
        ];
        wanted.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(power, _)| power).collect()
    }

    /// Returns what an operator has to say before the wish can be granted; `None` if it can be granted as it is.
    #[must_use]
    pub fn missing_value(&self) -> Option<String> {
        let folders = self.read.iter().map(|wish| &wish.wanted.guest);
        let mut folders = folders.chain(self.write.iter().map(|wish| &wish.wanted.guest));
        if let Some(guest) = folders.next() {
            return Some(format!("the folder of this machine that the tool sees as {guest}"));
        }
        if let Some(wish) = self.env.first() {
            return Some(format!("the value of {}", wish.wanted.name));
        }
        let secret = self.secrets.first()?;
        Some(format!("the environment variable with the secret `{}`", secret.wanted.name))
    }

    /// Returns whether the operator has already decided on everything that it asks for.
    #[must_use]
    pub fn is_decided(&self, powers: &Powers, limits: &LimitsSection) -> bool {
        let read = powers.read.iter().filter_map(|text| text.rsplit_once(':')).map(|(_, guest)| guest);
        let guests = read.chain(powers.write.iter().filter_map(WriteFolder::guest)).collect::<Vec<_>>();
        self.http.iter().all(|wish| powers.http.contains(&wish.wanted.rule))
            && (self.http_limits.is_none() || powers.http_limits.is_some())
            && self.read.iter().all(|wish| guests.contains(&&*wish.wanted.guest))
            && self.write.iter().all(|wish| guests.contains(&&*wish.wanted.guest))
            && (self.scratch.is_none() || powers.scratch.is_some())
            && (self.key_value.is_none() || powers.key_value.is_some())
            && self.env.iter().all(|wish| powers.env.iter().any(|(name, _)| *name == wish.wanted.name))
            && self.secrets.iter().all(|wish| powers.secrets.iter().any(|it| it.name == wish.wanted.name))
            && self.limits.as_ref().is_none_or(|wish| limits.or(&wish.wanted) == *limits)
    }

    /// Adds what it asks for to the powers and limits of a component. `value` is what [`Self::missing_value`] names; without
    /// it, a placeholder is added.
    pub fn add_to(&self, powers: &mut Powers, limits: &mut LimitsSection, value: Option<&str>) {
        let folder = value.unwrap_or(FOLDER_PLACEHOLDER);
        powers.http.extend(self.http.iter().map(|wish| wish.wanted.rule.clone()));
        powers.read.extend(self.read.iter().map(|wish| format!("{folder}:{}", wish.wanted.guest)));
        powers.write.extend(self.write.iter().map(|wish| wish.wanted.folder(folder)));
        powers.env.extend(self.env.iter().map(|wish| {
            let value = value.unwrap_or(VALUE_PLACEHOLDER);
            (wish.wanted.name.clone(), value.to_owned())
        }));
        powers.secrets.extend(self.secrets.iter().map(|wish| wish.wanted.section(value)));
        if let Some(wish) = &self.http_limits {
            powers.http_limits = Some(wish.wanted.clone());
        }
        if let Some(wish) = &self.scratch {
            powers.scratch = Some(wish.wanted.bytes);
        }
        if let Some(wish) = &self.key_value {
            powers.key_value = Some(wish.wanted.bytes);
        }
        if let Some(wish) = &self.limits {
            *limits = limits.or(&wish.wanted);
        }
    }

    fn reasons_mut(&mut self) -> Vec<&mut Option<String>> {
        let mut reasons: Vec<&mut Option<String>> = self.http.iter_mut().map(|wish| &mut wish.reason).collect();
        reasons.extend(self.http_limits.iter_mut().map(|wish| &mut wish.reason));
        reasons.extend(self.read.iter_mut().map(|wish| &mut wish.reason));
        reasons.extend(self.write.iter_mut().map(|wish| &mut wish.reason));
        reasons.extend(self.scratch.iter_mut().map(|wish| &mut wish.reason));
        reasons.extend(self.key_value.iter_mut().map(|wish| &mut wish.reason));
        reasons.extend(self.env.iter_mut().map(|wish| &mut wish.reason));
        reasons.extend(self.secrets.iter_mut().map(|wish| &mut wish.reason));
        reasons.extend(self.limits.iter_mut().map(|wish| &mut wish.reason));
        reasons
    }

    /// Checks that everything could be granted, with any folders and values of an operator.
    fn check(&self) -> Result<(), WishesError> {
        let mut faults = Vec::new();
        let found = self.split().len();
        if found > MAX_WISHES {
            faults.push(format!("`wants` has {found} wishes; the maximum is {MAX_WISHES}"));
        }
        let mut reasons = self.split().into_iter().filter_map(|wish| wish.reason());
        if let Some(long) = reasons.find(|reason| reason.chars().count() > MAX_REASON_CHARS) {
            let beginning: String = long.chars().take(40).collect();
            faults.push(format!("the reason \"{beginning}…\" has more than {MAX_REASON_CHARS} characters; shorten it"));
        }
        if self.limits.as_ref().is_some_and(|wish| wish.wanted == LimitsSection::default()) {
            faults.push("`wants.limits` has no limit; leave it out".to_owned());
        }
        let mut powers = Powers::default();
        let mut limits = LimitsSection::default();
        self.add_to(&mut powers, &mut limits, None);
        if let Err(found) = powers.grant(Path::new("/"), &|_| Ok(VALUE_PLACEHOLDER.to_owned())) {
            faults.extend(found.iter().map(|fault: &PowerFault| format!("`wants.{}`: {}", fault.key, fault.message)));
        }
        if let Err(error) = limits.over(Limits::default()).check(MAX_MEMORY_BYTES) {
            faults.push(format!("`wants.limits`: {error}"));
        }
        if faults.is_empty() { Ok(()) } else { Err(WishesError(faults.join("\n"))) }
    }
}

impl WriteFolderWish {
    fn folder(&self, folder: &str) -> WriteFolder {
        let Self { guest, bytes, entries } = self;
        match (bytes, entries) {
            (None, None) => WriteFolder::Text(format!("{folder}:{guest}")),
            (bytes, entries) => WriteFolder::Table(WriteFolderTable {
                folder: folder.to_owned(),
                guest: guest.clone(),
                bytes: *bytes,
                entries: *entries,
            }),
        }
    }
}

impl SecretWish {
    fn section(&self, variable: Option<&str>) -> SecretSection {
        let Self { name, requests, header, query, value } = self.clone();
        let variable = variable.map_or_else(|| name.to_uppercase().replace('-', "_"), str::to_owned);
        SecretSection { name, from: ValueSource::Env(variable), requests, header, query, value }
    }
}

impl fmt::Display for Wishes {
    /// Writes one line for each wish, such as `http: GET https://api.example.com/** — to read prices`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = self.http.iter().map(|wish| wish.line("http")).collect();
        lines.extend(self.http_limits.iter().map(|wish| wish.line("http_limits")));
        lines.extend(self.read.iter().map(|wish| wish.line("read")));
        lines.extend(self.write.iter().map(|wish| wish.line("write")));
        lines.extend(self.scratch.iter().map(|wish| wish.line("scratch")));
        lines.extend(self.key_value.iter().map(|wish| wish.line("key_value")));
        lines.extend(self.env.iter().map(|wish| wish.line("env")));
        lines.extend(self.secrets.iter().map(|wish| wish.line("secrets")));
        lines.extend(self.limits.iter().map(|wish| wish.line("limits")));
        f.write_str(&lines.join("\n"))
    }
}

impl<T: Serialize> Wish<T> {
    /// Describes the wish in one line. In its plain form, the value stands without its key.
    fn line(&self, key: &str) -> String {
        let table = toml::Table::try_from(&self.wanted).unwrap_or_default();
        let plain = PLAIN_FORMS.iter().find(|(of, _)| *of == key).and_then(|(_, name)| table.get(*name));
        let wanted = match plain.filter(|_| table.len() == 1) {
            Some(toml::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => table.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", "),
        };
        match &self.reason {
            Some(reason) => format!("{key}: {wanted} — {reason}"),
            None => format!("{key}: {wanted}"),
        }
    }
}

/// Writes the plain forms of wishes as tables.
fn write_tables(written: &mut Value) {
    for (key, name) in PLAIN_FORMS {
        match written.get_mut(key) {
            Some(Value::Array(items)) => items.iter_mut().for_each(|item| write_table(item, name)),
            Some(item) => write_table(item, name),
            None => {}
        }
    }
}

fn write_table(item: &mut Value, name: &str) {
    if matches!(item, Value::String(_) | Value::Number(_)) {
        *item = serde_json::json!({ name: item.take() });
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
    let schema = schemars::schema_for!(Wishes).to_value();
    let faults = keys::check(&schema, &mut table, "wants");
    let messages: Vec<String> = faults.into_iter().map(|(_, message)| message).collect();
    if messages.is_empty() { Ok(()) } else { Err(WishesError(messages.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::json;

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
        let single = wishes.split();
        assert_eq!(single.len(), 11);
        let lines: Vec<String> = single.iter().map(ToString::to_string).collect();
        assert_eq!(lines.join("\n"), wishes.to_string());
    }

    #[test]
    fn rejects_wishes_that_have_no_meaning() {
        check(
            json!({"htp": [], "limits": {"timeout": "1s"}, "http": [{"rul": "GET https://a.example/"}]}),
            expect![[r#"
            error: unknown key `htp` in [wants]; did you mean `http`?; known keys: env, http, http_limits, key_value, limits, read, scratch, secrets, write
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
        for wish in Wishes::new(all()).unwrap().split() {
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
