//! Names of properties that a provider accepts.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::dialect::NameRule;

/// Maximum size of a property name that every provider accepts, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Size that is left for the number that tells two aliases apart, in bytes.
const SUFFIX_BYTES: usize = 8;

/// The aliases of one schema. A name has one alias wherever it appears, and no alias is the name of another property.
#[derive(Debug, Default)]
pub(super) struct PropertyAliases(HashMap<String, String>);

impl PropertyAliases {
    /// Finds an alias for every property name of the schema that the rule does not accept.
    pub(super) fn new(schema: &Value, rule: NameRule) -> Self {
        let mut names = BTreeSet::new();
        if rule != NameRule::Any {
            collect_names(schema, &mut names);
        }
        let (mut taken, others): (BTreeSet<String>, Vec<String>) = {
            let (accepted, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| is_accepted(name, rule));
            (accepted.into_iter().collect(), others)
        };
        let mut aliases = HashMap::new();
        for name in others {
            let stem = stem(&name, rule);
            let numbered = (2..u32::MAX).map(|number| format!("{stem}_{number}"));
            let alias = std::iter::once(stem.clone()).chain(numbered).find(|alias| !taken.contains(alias));
            if let Some(alias) = alias {
                taken.insert(alias.clone());
                aliases.insert(name, alias);
            }
        }
        Self(aliases)
    }

    /// Returns the name that is sent for a property.
    pub(super) fn to_wire<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.get(name).map_or(name, String::as_str)
    }
}

pub(super) fn is_accepted(name: &str, rule: NameRule) -> bool {
    let is_short = (1..=MAX_NAME_BYTES).contains(&name.len());
    match rule {
        NameRule::Any => true,
        NameRule::Anthropic => is_short && name.chars().all(|c| is_accepted_char(c, rule)),
        NameRule::Identifier => {
            let starts_well = !name.starts_with(|c: char| c.is_ascii_digit());
            is_short && starts_well && name.chars().all(|c| is_accepted_char(c, rule))
        }
    }
}

fn is_accepted_char(c: char, rule: NameRule) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || (rule == NameRule::Anthropic && matches!(c, '.' | '-'))
}

/// Returns the readable part of an alias.
fn stem(name: &str, rule: NameRule) -> String {
    let replaced: String = name.chars().map(|c| if is_accepted_char(c, rule) { c } else { '_' }).collect();
    let trimmed = replaced.trim_matches('_');
    let mut stem = if trimmed.is_empty() { "property".to_owned() } else { trimmed.to_owned() };
    if rule == NameRule::Identifier && stem.starts_with(|c: char| c.is_ascii_digit()) {
        stem.insert(0, '_');
    }
    // All characters are ASCII now.
    stem.truncate(MAX_NAME_BYTES - SUFFIX_BYTES);
    stem
}

/// Collects the keys of all `properties` and the names in all `required`, wherever they are.
fn collect_names(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                names.extend(properties.keys().cloned());
            }
            if let Some(Value::Array(required)) = map.get("required") {
                names.extend(required.iter().filter_map(|name| name.as_str().map(str::to_owned)));
            }
            map.values().for_each(|value| collect_names(value, names));
        }
        Value::Array(items) => items.iter().for_each(|value| collect_names(value, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(rule: NameRule, names: &[&str], expected: &[&str]) {
        let properties: serde_json::Map<_, _> = names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        let aliases = PropertyAliases::new(&json!({"properties": properties}), rule);
        let found: Vec<_> = names.iter().map(|name| aliases.to_wire(name)).collect();
        assert_eq!(found, expected);
        assert!(found.iter().all(|name| is_accepted(name, rule)), "{found:?}");
    }

    #[test]
    fn replaces_only_names_that_the_rule_forbids() {
        let odd = ["$top", "filter[name]", "größe", "a b", "x-y", "a.b", "ok"];
        check(NameRule::Any, &odd, &odd);
        check(NameRule::Anthropic, &odd, &["top", "filter_name", "gr__e", "a_b", "x-y", "a.b", "ok"]);
        check(NameRule::Identifier, &["$top", "x-y", "a.b", "7z"], &["top", "x_y", "a_b", "_7z"]);
        check(NameRule::Anthropic, &["", "名前", &"n".repeat(65)], &["property", "property_2", &"n".repeat(56)]);
    }

    #[test]
    fn alias_is_never_the_name_of_another_property() {
        check(NameRule::Anthropic, &["a_b", "a b", "a$b"], &["a_b", "a_b_2", "a_b_3"]);
    }
}
