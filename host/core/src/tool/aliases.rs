//! Aliases: the names of tools that models and clients are given where they accept less than MCP does.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Tool;
use super::name::{MAX_NAME_BYTES, MAX_TOOL_NAME_BYTES, SEPARATOR, ToolName, is_tool_name_character, with_digest};

/// Prefixes that models put before the name of a function, after the notation of their training.
const CALL_PREFIXES: &[&str] = &["functions.", "functions:", "default_api.", "default_api:"];

/// The form that names must have for those who are given them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameForm {
    /// 1 to 128 of `A-Z`, `a-z`, `0-9`, `_`, `-`, `.`, `/`: that of MCP.
    #[default]
    Mcp,
    /// 1 to 64 of `A-Z`, `a-z`, `0-9`, `_`, `-`, a letter or `_` first: what every provider of models accepts.
    Portable,
}

impl NameForm {
    fn max_bytes(self) -> usize {
        match self {
            Self::Mcp => MAX_TOOL_NAME_BYTES,
            Self::Portable => MAX_NAME_BYTES,
        }
    }

    fn allows(self, c: char) -> bool {
        is_tool_name_character(c) && (self == Self::Mcp || !matches!(c, '.' | '/'))
    }

    /// Returns whether a name has this form.
    #[must_use]
    pub fn accepts(self, name: &str) -> bool {
        let starts_well = name.starts_with(|c: char| self == Self::Mcp || c.is_ascii_alphabetic() || c == '_');
        starts_well && name.len() <= self.max_bytes() && name.chars().all(|c| self.allows(c))
    }

    /// Returns a name in this form: the name itself, or its beginning with `_` for other characters, and eight digits of
    /// the digest of the tool's own name. The result depends on the name alone.
    #[must_use]
    pub fn alias(self, name: &str) -> Cow<'_, str> {
        if self.accepts(name) { Cow::Borrowed(name) } else { Cow::Owned(self.salted_alias(name, 0)) }
    }

    fn salted_alias(self, name: &str, salt: u32) -> String {
        let mut alias: String = name.chars().map(|c| if self.allows(c) { c } else { '_' }).collect();
        if self == Self::Portable && !alias.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            alias.insert(0, '_');
        }
        let own = name.split_once(SEPARATOR).map_or(name, |(_, own)| own);
        with_digest(&alias, own, salt, self.max_bytes())
    }
}

/// The aliases of a set of tools. They are the same in whatever order the tools come.
///
/// ```
/// use fumehood_core::tool::{NameForm, ToolAliases};
///
/// let names = ["jira__createIssue", "bigquery__sql.run"];
/// let aliases = ToolAliases::new(names.map(|name| (name, None)), NameForm::Portable);
/// assert_eq!(aliases.alias("jira__createIssue"), "jira__createIssue");
/// let alias = aliases.alias("bigquery__sql.run");
/// assert!(alias.starts_with("bigquery__sql_run_"));
/// assert_eq!(aliases.resolve(alias), Some("bigquery__sql.run"));
/// assert_eq!(aliases.resolve("functions.jira__createIssue:0"), Some("jira__createIssue"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct ToolAliases {
    names: BTreeSet<String>,
    to_alias: HashMap<String, String>,
    /// Also has names that are understood without being given.
    from_alias: HashMap<String, String>,
    displaced: Vec<String>,
}

impl ToolAliases {
    /// Finds the aliases of tools with these full names. The second part of a pair is the name that its provider wants
    /// instead; it is used if no other tool has it or wants it. A tool's own name with `__` in it is not used: it would be
    /// taken for a tool of another provider, which may be away.
    #[must_use]
    pub fn new<'a>(tools: impl IntoIterator<Item = (&'a str, Option<&'a str>)>, form: NameForm) -> Self {
        let mut wanted: BTreeMap<&str, Option<&str>> = BTreeMap::new();
        for (name, alias) in tools {
            let known = wanted.entry(name).or_default();
            *known = known.or(alias);
        }
        let mut claims: HashMap<Cow<'_, str>, u32> = HashMap::new();
        for alias in wanted.values().flatten() {
            *claims.entry(form.alias(alias)).or_default() += 1;
        }
        let mut aliases = Self { names: wanted.keys().map(|name| (*name).to_owned()).collect(), ..Self::default() };
        for (name, alias) in &wanted {
            let has_namespace = alias.is_some_and(|alias| names_another_namespace(name, alias));
            let Some(alias) = alias.map(|alias| form.alias(alias)).filter(|alias| *alias != *name) else { continue };
            if !has_namespace && claims.get(&alias) == Some(&1) && !aliases.names.contains(alias.as_ref()) {
                aliases.add(name, alias.into_owned());
            } else {
                aliases.displaced.push((*name).to_owned());
            }
        }
        for name in wanted.keys().filter(|name| !form.accepts(name)) {
            if !aliases.to_alias.contains_key(*name) {
                let mut candidates = (0..=u32::MAX).map(|salt| form.salted_alias(name, salt));
                if let Some(alias) = candidates.find(|alias| !aliases.is_taken(alias)) {
                    aliases.add(name, alias);
                }
            }
        }
        aliases.understand_further(wanted.keys());
        aliases
    }

    /// Finds the aliases of these tools.
    #[must_use]
    pub fn of_tools<'a>(tools: impl IntoIterator<Item = &'a Tool>, form: NameForm) -> Self {
        Self::new(tools.into_iter().map(|tool| (tool.full_name(), tool.alias())), form)
    }

    fn is_taken(&self, alias: &str) -> bool {
        self.names.contains(alias) || self.from_alias.contains_key(alias)
    }

    fn add(&mut self, name: &str, alias: String) {
        self.from_alias.insert(alias.clone(), name.to_owned());
        self.to_alias.insert(name.to_owned(), alias);
    }

    /// Adds what is understood although it is not given: the portable alias of each full name, and the name of earlier
    /// releases.
    fn understand_further<'a>(&mut self, names: impl Iterator<Item = &'a &'a str> + Clone) {
        let portable = names.clone().filter(|name| !NameForm::Portable.accepts(name));
        let portable = portable.map(|name| (*name, Some(NameForm::Portable.alias(name).into_owned())));
        let further: Vec<_> = portable.chain(names.map(|name| (*name, escaped(name)))).collect();
        for (name, alias) in further {
            if let Some(alias) = alias.filter(|alias| !self.is_taken(alias)) {
                self.from_alias.insert(alias, name.to_owned());
            }
        }
    }

    /// Returns the name that a tool is given.
    #[must_use]
    pub fn alias<'a>(&'a self, name: &'a str) -> &'a str {
        self.to_alias.get(name).map_or(name, String::as_str)
    }

    /// Returns the full name of the tool that a written name means: the tool's full name, an alias of it, or one of them
    /// with what models put around it, such as `functions.NAME` or `functions.NAME:0`.
    #[must_use]
    pub fn resolve(&self, written: &str) -> Option<&str> {
        self.known(written).or_else(|| bare_names(written).into_iter().flatten().find_map(|name| self.known(name)))
    }

    fn known(&self, written: &str) -> Option<&str> {
        self.names.get(written).or_else(|| self.from_alias.get(written)).map(String::as_str)
    }

    /// Returns the full names of the tools that are not given the name that their provider wants, because another tool has
    /// it or wants it, too, or might have it.
    #[must_use]
    pub fn displaced(&self) -> &[String] {
        &self.displaced
    }
}

/// Returns whether an alias is the tool's own name, and looks like the full name of another tool.
fn names_another_namespace(full_name: &str, alias: &str) -> bool {
    alias.contains(SEPARATOR) && full_name.split_once(SEPARATOR).is_some_and(|(_, own)| own == alias)
}

/// Returns whether a list of an operator that restricts tools names the one with this full name, and with this alias if it
/// wants one: by either, by their portable aliases, or by the name that earlier releases gave it.
#[must_use]
pub fn is_named(list: &BTreeSet<String>, full_name: &str, alias: Option<&str>) -> bool {
    let has = |name: &str| list.contains(name) || list.contains(NameForm::Portable.alias(name).as_ref());
    has(full_name) || alias.is_some_and(has) || escaped(full_name).is_some_and(|escaped| list.contains(&escaped))
}

/// Returns the name that earlier releases gave the tool of a server, if it was another one.
fn escaped(name: &str) -> Option<String> {
    let (server, own) = name.split_once(SEPARATOR)?;
    if ToolName::for_component(own).is_ok() && !own.contains("_x") {
        return None;
    }
    let escaped = format!("{server}{SEPARATOR}{}", ToolName::escaped(own)?);
    (escaped != name).then_some(escaped)
}

/// Returns a written name without the number of its call, without its prefix, and without both.
fn bare_names(written: &str) -> [Option<&str>; 3] {
    let bare = CALL_PREFIXES.iter().find_map(|prefix| written.strip_prefix(prefix));
    [without_number(written), bare, bare.and_then(without_number)]
}

fn without_number(name: &str) -> Option<&str> {
    let (bare, number) = name.rsplit_once(':')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portable(names: &[&str]) -> ToolAliases {
        ToolAliases::new(names.iter().map(|name| (*name, None)), NameForm::Portable)
    }

    #[test]
    fn names_that_are_accepted_have_no_alias() {
        for name in ["add", "calculator__add", "a-b_C9", "_x", &"x".repeat(64)] {
            assert_eq!(portable(&[name]).alias(name), name);
            assert_eq!(NameForm::Mcp.alias(name), name);
        }
        let dotted = format!("m__{}.b/c", "a".repeat(119));
        let long = format!("m__{}", "a".repeat(126));
        assert_eq!((NameForm::Mcp.alias(&dotted).as_ref(), NameForm::Mcp.alias(&long).len()), (dotted.as_str(), 128));
    }

    #[test]
    fn other_names_have_distinct_aliases_that_resolve() {
        let long = "n".repeat(65);
        let longest = format!("{}__{}", "a".repeat(64), "b".repeat(128));
        let twin = format!("{}__{}c", "a".repeat(64), "b".repeat(127));
        let many =
            ["m__a.b", "m__a/b", "m__a_b", "m__A.b", "7zip__list", "-x", "", "ä\u{202e}", &long, &longest, &twin];
        let aliases = portable(&many);
        let given: BTreeSet<&str> = many.iter().map(|name| aliases.alias(name)).collect();
        assert_eq!(given.len(), many.len(), "{given:?}");
        for name in many {
            let alias = aliases.alias(name);
            assert!(NameForm::Portable.accepts(alias), "{alias}");
            assert_eq!((aliases.resolve(alias), aliases.resolve(name)), (Some(name), Some(name)));
        }
        assert_eq!(portable(&["m__a.b"]).alias("m__a.b"), aliases.alias("m__a.b"), "it depends on the name alone");
        assert_eq!(aliases.resolve("never_given"), None);
    }

    #[test]
    fn an_alias_is_never_the_name_of_another_tool() {
        let alias = portable(&["m__a.b"]).alias("m__a.b").to_owned();
        let both = portable(&["m__a.b", &alias]);
        assert_eq!((both.alias(&alias), both.resolve(&alias)), (alias.as_str(), Some(alias.as_str())));
        assert_ne!(both.alias("m__a.b"), alias);
        assert_eq!(both.resolve(both.alias("m__a.b")), Some("m__a.b"));
    }

    #[test]
    fn a_wanted_name_is_used_unless_another_tool_has_or_wants_it() {
        let tools = [
            ("a__get", Some("get")),
            ("b__get", Some("get")),
            ("b__list", Some("list")),
            ("c__x", Some("d__x")),
            ("d__x", None),
            ("e__sql.run", Some("sql.run")),
        ];
        for tools in [tools.to_vec(), tools.into_iter().rev().collect()] {
            let aliases = ToolAliases::new(tools, NameForm::Mcp);
            let given = ["a__get", "b__get", "b__list", "c__x", "d__x", "e__sql.run"].map(|name| aliases.alias(name));
            assert_eq!(given, ["a__get", "b__get", "list", "c__x", "d__x", "sql.run"]);
            assert_eq!(aliases.displaced(), ["a__get", "b__get", "c__x"]);
            assert_eq!((aliases.resolve("get"), aliases.resolve("b__list")), (None, Some("b__list")));
            assert_eq!(aliases.resolve("d__x"), Some("d__x"));
            let portable = NameForm::Portable.alias("e__sql.run").into_owned();
            assert_eq!(aliases.resolve(&portable), Some("e__sql.run"), "the portable alias is understood, too");
        }
    }

    #[test]
    fn understands_what_models_put_around_a_name() {
        let aliases = portable(&["m__echo", "m__a.b", "functions.m__real", "m__real"]);
        let dotted = aliases.alias("m__a.b").to_owned();
        for (written, expected) in [
            ("functions.m__echo", Some("m__echo")),
            ("functions.m__echo:0", Some("m__echo")),
            ("m__echo:12", Some("m__echo")),
            ("default_api.m__echo", Some("m__echo")),
            ("default_api:m__echo", Some("m__echo")),
            ("functions.m__a.b", Some("m__a.b")),
            (&format!("functions.{dotted}:1"), Some("m__a.b")),
            ("functions.m__real", Some("functions.m__real")),
            ("other.m__echo", None),
            ("functions.unknown", None),
            ("m__echo:x", None),
            ("functions.", None),
            ("m__echo:", None),
        ] {
            assert_eq!(aliases.resolve(written), expected, "{written}");
        }
    }

    #[test]
    fn names_of_earlier_releases_are_understood() {
        let aliases = portable(&["m__API-self"]);
        assert_eq!(aliases.resolve("m___x41__x50__x49_-self"), Some("m__API-self"));
        for named in ["m__API-self", "m___x41__x50__x49_-self"] {
            assert!(is_named(&BTreeSet::from([named.to_owned()]), "m__API-self", None), "{named}");
        }
        assert!(!is_named(&BTreeSet::from(["m__api-self".to_owned()]), "m__API-self", None));
    }

    #[test]
    fn a_list_names_a_tool_by_the_alias_that_everybody_sees() {
        let portable = NameForm::Portable.alias("gh__repo.delete").into_owned();
        for named in ["gh__repo.delete", portable.as_str(), "github__repo.delete"] {
            let list = BTreeSet::from([named.to_owned()]);
            assert!(is_named(&list, "github__repo.delete", Some("gh__repo.delete")), "{named}");
            assert!(!is_named(&list, "github__repo.get", Some("gh__repo.get")), "{named}");
        }
    }

    #[test]
    fn no_alias_looks_like_a_tool_of_another_server() {
        let tools =
            [("evil__bank__pay", Some("bank__pay")), ("evil__get", Some("get")), ("hub__a__b", Some("gh__a__b"))];
        let aliases = ToolAliases::new(tools, NameForm::Mcp);
        assert_eq!(tools.map(|(name, _)| aliases.alias(name)), ["evil__bank__pay", "get", "gh__a__b"]);
        assert_eq!((aliases.displaced(), aliases.resolve("bank__pay")), (&["evil__bank__pay".to_owned()][..], None));
    }
}
