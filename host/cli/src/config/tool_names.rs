//! Checks of the names of tools in a configuration, against the tools that there are.

use std::collections::{BTreeMap, BTreeSet};

use fumehood::agent::suggest;
use fumehood::agent::tool_search::SEARCH_TOOLS;
use fumehood::agent::{code, memory};
use fumehood::approval::{Manifest, ToolManifest};
use fumehood::mcp::NamePrefix;
use fumehood::{SEPARATOR, Tool, ToolName, is_named};

use super::hooks::tools_of;
use super::{Config, KeyFault};

/// Maximum number of names in a message that lists what there is.
const MAX_LISTED_NAMES: usize = 20;
/// The places of lists that name tools of `serve`.
const SERVED: &str = "`tools` of [serve]";
const LABELLED: &str = "[flows.tools]";

/// The requests to a server that are tools for hooks, and are called by nobody.
const LIBRARY_METHODS: [&str; 3] = ["resources/read", "prompts/get", "completion/complete"];

/// The tools that a configuration has, as far as they are known without starting anything.
#[derive(Debug, Default)]
pub(crate) struct KnownTools {
    names: BTreeSet<String>,
    /// The names that models and clients are given instead, by the full name.
    aliases: BTreeMap<String, String>,
    /// The requests that only hooks see.
    methods: BTreeSet<String>,
    /// The beginnings of names that tools which are not known may be given. One is empty if they are given bare names.
    unknown_aliases: BTreeSet<String>,
    /// The components and servers whose tools are not known.
    unknown: BTreeSet<String>,
}

impl KnownTools {
    /// Creates the tools of the host itself, and the entries of knowledge.
    pub(crate) fn of_host(config: &Config) -> Self {
        let own = memory::TOOL_NAMES.into_iter().chain([memory::READ_RESULT, SEARCH_TOOLS, code::RUN_CODE]);
        let names = own.map(str::to_owned).chain(config.knowledge.keys().cloned()).collect();
        Self { names, ..Self::default() }
    }

    /// Adds tools with their aliases.
    pub(crate) fn extend<'a>(&mut self, tools: impl IntoIterator<Item = &'a Tool>) {
        for tool in tools {
            let name = tool.full_name();
            self.names.insert(name.to_owned());
            self.aliases.extend(tool.alias().map(|alias| (name.to_owned(), alias.to_owned())));
        }
    }

    /// Adds the tools of a server: those of its approval, or else any.
    pub(crate) fn add_server(&mut self, name: &str, prefix: Option<&NamePrefix>, approved: Option<&Manifest>) {
        self.methods.extend(LIBRARY_METHODS.map(|method| format!("{name}__{method}")));
        let Some(approved) = approved else {
            self.add_unknown(name);
            self.unknown_aliases.extend(prefix.map(|prefix| match prefix {
                NamePrefix::None => String::new(),
                NamePrefix::Other(prefix) => format!("{prefix}__"),
            }));
            return;
        };
        for tool in approved.tools.iter().filter_map(current_name) {
            let full_name = format!("{name}__{tool}");
            self.aliases.extend(prefix.map(|prefix| (full_name.clone(), prefix.alias(&tool))));
            self.names.insert(full_name);
        }
    }

    /// Adds a component or a server whose tools are not known. Any name of one of its tools is accepted.
    pub(crate) fn add_unknown(&mut self, name: &str) {
        self.unknown.insert(format!("{name}__"));
    }

    /// Returns whether the tools of this component or server are not known.
    pub(crate) fn is_unknown(&self, name: &str) -> bool {
        self.unknown.contains(&format!("{name}__"))
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(name) || self.unknown.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }

    /// Returns whether a name is the full name of a tool of a component or server, or may be. `serve` offers only these.
    fn has_full_name(&self, name: &str) -> bool {
        name.contains(SEPARATOR) && self.has(name)
    }

    /// Returns whether a name begins with that of a component or server which is not known at all.
    fn is_unconfigured(&self, name: &str) -> bool {
        name.split_once(SEPARATOR).is_some_and(|(namespace, _)| !self.namespaces().contains(namespace))
    }

    fn namespaces(&self) -> BTreeSet<&str> {
        let known = self.names.iter().filter_map(|name| Some(name.split_once(SEPARATOR)?.0));
        known.chain(self.unknown.iter().map(|prefix| prefix.trim_end_matches(SEPARATOR))).collect()
    }

    /// Returns whether a name in a list that restricts tools is that of a tool, or may be: see [`is_named`].
    fn has_named(&self, name: &str) -> bool {
        let list = BTreeSet::from([name.to_owned()]);
        self.has(name)
            || self.unknown_aliases.iter().any(|prefix| name.starts_with(prefix.as_str()))
            || self.names.iter().any(|full| is_named(&list, full, self.aliases.get(full).map(String::as_str)))
    }

    /// Returns whether a pattern matches a tool, or may match one that is not known.
    fn has_match(&self, pattern: &str) -> bool {
        // What is no pattern was reported when the configuration was read.
        let Ok(patterns) = tools_of(Some(&[pattern.to_owned()])) else { return true };
        let start = pattern.split(['*', '?']).next().unwrap_or_default();
        self.names.iter().chain(&self.methods).any(|name| patterns.matches(name))
            || self.unknown.iter().any(|prefix| start.starts_with(prefix.as_str()) || prefix.starts_with(start))
    }

    /// Returns the component or server that a pattern may have meant, or else the tools that there are.
    fn alternatives_to_pattern(&self, pattern: &str) -> String {
        let namespaces = self.namespaces();
        let meant = pattern.split_once(SEPARATOR).and_then(|(written, tool)| {
            let near: Vec<String> = namespaces
                .into_iter()
                .filter(|namespace| suggest(written, [*namespace]).is_some())
                .map(|namespace| format!("`{namespace}{SEPARATOR}{tool}`"))
                .collect();
            (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
        });
        meant.unwrap_or_else(|| self.alternatives(pattern.trim_end_matches(['*', '?'])))
    }

    /// Returns the tools that may have been meant, or else those that there are.
    pub(crate) fn alternatives(&self, name: &str) -> String {
        // One of the host itself is known, and not everywhere a tool that can be named.
        let mut names = self.names.iter().map(String::as_str).filter(|known| *known != name);
        if let Some(question) = suggest(name, names.clone()) {
            return question;
        }
        let listed: Vec<&str> = names.by_ref().filter(|name| name.contains("__")).take(MAX_LISTED_NAMES).collect();
        if listed.is_empty() {
            return "no tool is loaded".to_owned();
        }
        let rest = if names.any(|name| name.contains("__")) { ", …" } else { "" };
        format!("there are: {}{rest}", listed.join(", "))
    }
}

/// Returns the name that an approved tool of a server has now. Earlier releases escaped it.
fn current_name(tool: &ToolManifest) -> Option<ToolName> {
    let foreign = tool.export.as_ref().map(|export| export.expose_raw().as_str());
    let escaped = foreign.filter(|foreign| ToolName::escaped(foreign).is_some_and(|name| name.as_str() == tool.name));
    match escaped {
        Some(foreign) => ToolName::from_foreign(foreign).ok(),
        None => ToolName::parse(&tool.name).ok(),
    }
}

/// Returns a sentence for each name in `deny` and `ask` of the guardrails that no tool has.
pub(crate) fn unknown_in_rules(config: &Config, known: &KnownTools) -> Vec<String> {
    let mut faults = NameFaults { known, found: Vec::new() };
    faults.check_rules(config);
    faults.found.into_iter().map(|(_, message)| message).collect()
}

/// Returns a fault for each name, and each pattern of a hook, that no tool has.
pub(crate) fn check(config: &Config, known: &KnownTools) -> Vec<KeyFault> {
    let mut faults = NameFaults { known, found: Vec::new() };
    for (name, skill) in &config.skills {
        let place = format!("the skill `{name}`");
        faults.check_names(&["skills", name, "tools"], &place, &skill.tools);
        if let Some(by) = &skill.implemented_by {
            let keys = ["skills", name, "implemented_by"];
            faults.check_name(&[&keys[..], &["tool"]].concat(), &place, by.tool.as_ref());
            faults.check_names(&[&keys[..], &["tools"]].concat(), &place, &by.tools);
        }
    }
    for (name, channel) in &config.channels {
        faults.check_names(&["channels", name, "tools"], &format!("the channel `{name}`"), &channel.tools);
    }
    let agent = &config.agent;
    for (index, name) in config.serve.tools.iter().flatten().enumerate() {
        faults.check_served(&["serve", "tools", &index.to_string()], SERVED, name);
    }
    let labelled = config.flows.iter().flat_map(|flows| flows.tools.keys());
    for name in labelled.filter(|name| !memory::TOOL_NAMES.contains(&name.as_str())) {
        faults.check_served(&["flows", "tools", name], LABELLED, name);
    }
    faults.check_names(&["agent", "auto_tools"], "[agent]", &agent.auto_tools);
    faults.check_names(&["agent", "pinned"], "[agent]", &agent.pinned);
    let choice = agent.tool_choice.as_ref().filter(|choice| !["auto", "required", "none"].contains(&choice.as_str()));
    faults.check_name(&["agent", "tool_choice"], "[agent]", choice);
    faults.check_rules(config);
    if let Some(judge) = &config.guardrails.judge {
        faults.check_restricted(&["guardrails", "judge", "always"], "the judge", &judge.always);
        faults.check_names(&["guardrails", "judge", "never"], "the judge", &judge.never);
    }
    faults.check_hooks(config);
    faults.found
}

/// Returns a sentence for each tool whose component or server the configuration does not have. The component may be named
/// on the command line.
pub(crate) fn unconfigured(config: &Config, known: &KnownTools) -> Vec<String> {
    let served = config.serve.tools.iter().flatten().map(|name| (SERVED, name));
    let labelled = config.flows.iter().flat_map(|flows| flows.tools.keys()).map(|name| (LABELLED, name));
    let missing = served.chain(labelled).filter(|(_, name)| known.is_unconfigured(name));
    missing
        .map(|(place, name)| format!("{place} names `{name}`, whose component is not in the configuration"))
        .collect()
}

/// The faults that were found so far.
struct NameFaults<'a> {
    known: &'a KnownTools,
    found: Vec<KeyFault>,
}

impl NameFaults<'_> {
    fn add(&mut self, keys: &[&str], message: String) {
        self.found.push((keys.iter().map(|key| (*key).to_owned()).collect(), message));
    }

    fn check_names(&mut self, keys: &[&str], place: &str, names: &[String]) {
        for (index, name) in names.iter().enumerate() {
            self.check_name(&[keys, &[&index.to_string()]].concat(), place, Some(name));
        }
    }

    fn check_name(&mut self, keys: &[&str], place: &str, name: Option<&String>) {
        if let Some(name) = name.filter(|name| !self.known.has(name)) {
            self.add_unknown(keys, place, name);
        }
    }

    /// Checks the name of a tool that `serve` has, perhaps of a component on its command line.
    fn check_served(&mut self, keys: &[&str], place: &str, name: &str) {
        if !self.known.has_full_name(name) && !self.known.is_unconfigured(name) {
            self.add_unknown(keys, place, name);
        }
    }

    /// Checks a list that restricts tools, which understands more names.
    fn check_restricted(&mut self, keys: &[&str], place: &str, names: &[String]) {
        for (index, name) in names.iter().enumerate().filter(|(_, name)| !self.known.has_named(name)) {
            self.add_unknown(&[keys, &[&index.to_string()]].concat(), place, name);
        }
    }

    fn add_unknown(&mut self, keys: &[&str], place: &str, name: &str) {
        let alternatives = self.known.alternatives(name);
        self.add(keys, format!("{place} names the unknown tool `{name}`; {alternatives}"));
    }

    fn check_rules(&mut self, config: &Config) {
        let guardrails = &config.guardrails;
        self.check_restricted(&["guardrails", "ask"], "[guardrails]", &guardrails.ask);
        self.check_restricted(&["guardrails", "deny"], "[guardrails]", &guardrails.deny);
    }

    fn check_hooks(&mut self, config: &Config) {
        let hooks = &config.hooks;
        for (index, hook) in hooks.component.iter().enumerate() {
            self.check_patterns("component", index, hook.tools.as_deref());
        }
        for (index, limit) in hooks.rate_limit.iter().enumerate() {
            self.check_patterns("rate_limit", index, limit.tools.as_deref());
        }
        for (index, redact) in hooks.redact.iter().enumerate() {
            self.check_patterns("redact", index, redact.tools.as_deref());
        }
    }

    fn check_patterns(&mut self, kind: &str, index: usize, patterns: Option<&[String]>) {
        let patterns = patterns.unwrap_or_default().iter().enumerate();
        for (number, pattern) in patterns.filter(|(_, pattern)| !self.known.has_match(pattern)).collect::<Vec<_>>() {
            let alternatives = self.known.alternatives_to_pattern(pattern);
            let keys = ["hooks", kind, &index.to_string(), "tools", &number.to_string()];
            let message = format!("the pattern `{pattern}` in [[hooks.{kind}]] matches no tool; {alternatives}");
            self.add(&keys, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fumehood::{Annotations, NameForm, ToolDefinition};
    use serde_json::json;

    use super::*;

    fn approved(name: &str, export: Option<&str>) -> Manifest {
        let definition = ToolDefinition {
            name: ToolName::parse(name).unwrap(),
            export: export.map(Into::into),
            title: None,
            description: "Deletes.".into(),
            input_schema: json!({}).into(),
            output_schema: None,
            annotations: Annotations::default(),
            mcp_members: None,
        };
        Manifest::new(None, "mcp", Vec::new(), &[definition])
    }

    fn config(key: &str, name: &str) -> Config {
        let text = match key {
            "hooks" => format!("[[hooks.rate_limit]]\ntools = [{name:?}]\nper_minute = 1\n"),
            key => format!("[guardrails]\n{key} = [{name:?}]\n"),
        };
        super::super::parse(Path::new("fumehood.toml"), &text).unwrap()
    }

    #[test]
    fn rules_and_hooks_name_tools_as_they_may_when_they_run() {
        let gh = NamePrefix::Other(fumehood::Namespace::parse("gh").unwrap());
        let mut known = KnownTools::default();
        known.add_server("github", Some(&gh), Some(&approved("Repo.delete", None)));
        known.add_server("old", None, Some(&approved("_x41__x50__x49_-self", Some("API-self"))));
        known.add_server("away", Some(&NamePrefix::Other(fumehood::Namespace::parse("aw").unwrap())), None);
        let portable = NameForm::Portable.alias("github__Repo.delete").into_owned();
        for (key, name, is_known) in [
            ("deny", "github__Repo.delete", true),
            ("deny", "gh__Repo.delete", true),
            ("ask", portable.as_str(), true),
            ("deny", "gh__Repo.get", false),
            ("ask", "old__API-self", true),
            ("ask", "old___x41__x50__x49_-self", true),
            ("deny", "old__API-other", false),
            ("deny", "away__anything", true),
            ("deny", "aw__anything", true),
            ("hooks", "old__resources/read", true),
            ("hooks", "*__prompts/get", true),
            ("hooks", "old__API-*", true),
            ("hooks", "old__resources/write", false),
            ("deny", "old__resources/read", false),
        ] {
            let faults = check(&config(key, name), &known);
            assert_eq!(faults.is_empty(), is_known, "{key}: {name}: {faults:?}");
            let warnings = unknown_in_rules(&config(key, name), &known);
            assert_eq!(warnings.is_empty(), is_known || key == "hooks", "{key}: {name}: {warnings:?}");
        }
        known.add_server("bare", Some(&NamePrefix::None), None);
        assert!(known.has_named("whatever"), "a server that is away may give any name");
        assert!(!known.has("whatever"));
    }
}
