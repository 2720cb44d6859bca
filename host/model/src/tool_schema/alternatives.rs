//! Alternatives of one value: their properties, what they require, and lists of values.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::argument_shape::RenamedProperties;
use super::phrases::show;

/// A translated subschema.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Node {
    pub(super) schema: Map<String, Value>,
    /// The properties with other names.
    pub(super) names: RenamedProperties,
}

/// Adds a schema of a property: if it has another one already, each is an alternative.
pub(super) fn add_alternative(properties: &mut Map<String, Value>, name: &str, schema: &Value) {
    let Some(known) = properties.get_mut(name).filter(|known| known.as_object().is_some_and(|map| !map.is_empty()))
    else {
        properties.insert(name.to_owned(), schema.clone());
        return;
    };
    if known != schema {
        *known = json!({"anyOf": [known.take(), schema]});
    }
}

/// Returns the phrase for alternatives that differ in the properties that they require.
pub(super) fn requirement_phrase(sets: impl Iterator<Item = BTreeSet<String>>) -> Option<String> {
    let sets: BTreeSet<String> = sets.map(|names| Vec::from_iter(names).join(" and ")).collect();
    let named = sets.iter().map(|set| if set.is_empty() { "none" } else { set.as_str() });
    let text = named.collect::<Vec<_>>().join(", or ");
    (sets.len() > 1).then(|| format!("requires {}", show(&text.into())))
}

/// Removes repeated alternatives, and merges those that only list values of one type.
pub(super) fn merge_enums(nodes: Vec<Node>) -> Vec<Node> {
    let mut merged: Vec<Node> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let same_type = |other: &&mut Node| is_list(other) && other.schema.get("type") == node.schema.get("type");
        if merged.contains(&node) {
            continue;
        }
        let known = if is_list(&node) { merged.iter_mut().find(same_type) } else { None };
        match (known.and_then(|known| known.schema.get_mut("enum")), node.schema.get("enum")) {
            (Some(Value::Array(known)), Some(Value::Array(values))) => {
                let new: Vec<Value> = values.iter().filter(|value| !known.contains(value)).cloned().collect();
                known.extend(new);
            }
            _ => merged.push(node),
        }
    }
    merged
}

fn is_list(node: &Node) -> bool {
    node.schema.len() == 2 && node.schema.contains_key("enum")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(schema: Value) -> Node {
        Node { schema: schema.as_object().cloned().unwrap_or_default(), ..Node::default() }
    }

    #[test]
    fn lists_of_one_type_are_merged() {
        let nodes = [
            json!({"type": "string", "enum": ["a"]}),
            json!({"type": "integer", "enum": [1]}),
            json!({"type": "string", "enum": ["b", "a"]}),
            json!({"type": "null"}),
            json!({"type": "null"}),
            json!({"type": "string", "enum": ["c"], "description": "D"}),
        ];
        let found = merge_enums(nodes.map(node).to_vec());
        let expected = [
            json!({"type": "string", "enum": ["a", "b"]}),
            json!({"type": "integer", "enum": [1]}),
            json!({"type": "null"}),
            json!({"type": "string", "enum": ["c"], "description": "D"}),
        ];
        assert_eq!(found, expected.map(node));
    }

    #[test]
    fn says_what_alternatives_require_if_that_differs() {
        fn check(sets: &[&[&str]], expected: Option<&str>) {
            let sets = sets.iter().map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(requirement_phrase(sets).as_deref(), expected);
        }

        check(&[&["a", "b"], &["c"]], Some("requires a and b, or c"));
        check(&[&["a"], &[]], Some("requires none, or a"));
        check(&[&["a"], &["a"]], None);
        check(&[], None);
    }
}
