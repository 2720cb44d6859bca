//! The properties that a schema knows by name, for those that it does not know.

use std::collections::BTreeSet;

use serde_json::Value;

use super::format::{given, meant, names, quoted};
use super::keywords::Role;
use super::outline::{Node, NodeId, Outline};
use super::violation::Violation;

/// The properties that a schema and its pieces know.
#[derive(Default)]
pub(super) struct Declared<'w> {
    pub(super) names: BTreeSet<&'w str>,
    /// Whether names beyond those are accepted, by a pattern or altogether.
    pub(super) open: bool,
    visited: BTreeSet<NodeId>,
}

impl<'w> Declared<'w> {
    /// The names of the node itself.
    pub(super) fn own(&mut self, node: &'w Node) {
        for (role, _) in &node.edges {
            match role {
                Role::Property(name) => drop(self.names.insert(name)),
                Role::Pattern(_) => self.open = true,
                _ => {}
            }
        }
    }

    /// The names of the node and of everything in place of it. Each node once, so that this is linear; depth is bounded
    /// by the longest chain in place.
    pub(super) fn gather(&mut self, outline: &'w Outline, id: NodeId) {
        let Some(node) = outline.node(id) else { return };
        if !self.visited.insert(id) {
            return;
        }
        self.own(node);
        for (role, target) in &node.edges {
            match role {
                Role::AdditionalProperties | Role::UnevaluatedProperties => {
                    self.open |= outline.node(*target).is_some_and(|others| !others.never);
                }
                Role::Not => {}
                role if role.in_place() => self.gather(outline, *target),
                _ => {}
            }
        }
    }

    /// The violation for a property that is not among them.
    pub(super) fn undeclared(&self, pointer: String, name: &str, member: &Value) -> Violation {
        let expected = match self.names.len() {
            0 if self.open => "the names of properties follow a pattern".to_owned(),
            0 => "there are no properties".to_owned(),
            1 => format!("the property is {}", names(self.names.iter().map(|name| quoted(name)))),
            _ => format!("the properties are {}", names(self.names.iter().map(|name| quoted(name)))),
        };
        let guess = meant(name, self.names.iter().copied()).map(|meant| format!("; did you mean {}?", quoted(meant)));
        Violation::undeclared(pointer, expected + &guess.unwrap_or_default(), given(member))
    }
}
