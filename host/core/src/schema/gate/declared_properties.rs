//! The declared properties of a schema, for messages about undeclared ones.

use std::collections::BTreeSet;

use serde_json::Value;

use super::format::{closest_name, describe_value, join_names, quote};
use super::graph::{Node, NodeId, SchemaGraph};
use super::keywords::Role;
use super::violation::Violation;

/// The properties that a schema and its in-place subschemas declare.
#[derive(Default)]
pub(super) struct DeclaredProperties<'w> {
    pub(super) names: BTreeSet<&'w str>,
    /// True if further names are accepted, by a pattern or in general.
    pub(super) open: bool,
    visited: BTreeSet<NodeId>,
}

impl<'w> DeclaredProperties<'w> {
    /// Adds the names that the node itself declares.
    pub(super) fn add_node(&mut self, node: &'w Node) {
        for (role, _) in &node.edges {
            match role {
                Role::Property(name) => drop(self.names.insert(name)),
                Role::Pattern(_) => self.open = true,
                _ => {}
            }
        }
    }

    /// Adds the names that the node and everything in place of it declare. Visits each node once, so this takes linear
    /// time; recursion is bounded by the longest chain in place.
    pub(super) fn add_in_place(&mut self, graph: &'w SchemaGraph, id: NodeId) {
        let Some(node) = graph.node(id) else { return };
        if !self.visited.insert(id) {
            return;
        }
        self.add_node(node);
        for (role, target) in &node.edges {
            match role {
                Role::AdditionalProperties | Role::UnevaluatedProperties => {
                    self.open |= graph.node(*target).is_some_and(|others| !others.never);
                }
                Role::Not => {}
                role if role.is_in_place() => self.add_in_place(graph, *target),
                _ => {}
            }
        }
    }

    /// Returns the violation for a property that is not declared, with the most similar declared name.
    pub(super) fn undeclared_violation(&self, pointer: String, name: &str, member: &Value) -> Violation {
        let expected = match self.names.len() {
            0 if self.open => "the names of properties follow a pattern".to_owned(),
            0 => "there are no properties".to_owned(),
            1 => format!("the property is {}", join_names(self.names.iter().map(|name| quote(name)))),
            _ => format!("the properties are {}", join_names(self.names.iter().map(|name| quote(name)))),
        };
        let suggestion = closest_name(name, self.names.iter().copied());
        let suggestion = suggestion.map(|name| format!("; did you mean {}?", quote(name)));
        Violation::undeclared(pointer, expected + &suggestion.unwrap_or_default(), describe_value(member))
    }
}
