//! Explanations of invalid documents: a walk along the schema graph that collects violations.
//!
//! The validator has decided that the document is invalid. It could also list the errors, but it lists all of them,
//! each with a copy of the value concerned, which takes gigabytes for a large document and a wide schema. This walk
//! stops after [`MAX_EVALUATIONS`].

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::assertions::{FailureKind, Patterns, check_assertions};
use super::declared_properties::DeclaredProperties;
use super::finding::{Finding, Findings, Path};
use super::format::{closest_name, describe_schema, describe_value, quote};
use super::graph::{Node, NodeId, ROOT, SchemaGraph};
use super::keywords::Role;
use super::violation::{Violation, Violations};

/// Maximum number of evaluations of subschemas for one explanation.
const MAX_EVALUATIONS: u64 = 200_000;

/// Names that providers and protocols use for the arguments of a call.
const WRAPPER_NAMES: [&str; 7] = ["arguments", "args", "input", "parameters", "params", "kwargs", "tool_input"];

/// The properties and items of one value that in-place schemas have evaluated, and that `unevaluated…` skips (Core
/// 2020-12, section 11).
#[derive(Default)]
pub(super) struct EvaluatedParts<'v> {
    names: BTreeSet<&'v str>,
    items: BTreeSet<usize>,
}

impl EvaluatedParts<'_> {
    pub(super) fn merge(&mut self, other: Self) {
        self.names.extend(other.names);
        self.items.extend(other.items);
    }
}

/// Collects the violations of an invalid document. The list is never empty, even if the walk finds nothing.
pub(super) fn explain(graph: &SchemaGraph, patterns: &Patterns, document: &Value, cap: usize) -> Violations {
    let mut explainer = Explainer { graph, patterns, budget: MAX_EVALUATIONS, is_for_repair: false };
    let mut found = Findings::with_cap(cap);
    explainer.explain_value(ROOT, document, &Path::ROOT, &mut found);
    let more = found.more;
    let mut violations: Vec<_> = found.list.into_iter().map(|finding| finding.violation).collect();
    if let Some(wrapper) = find_wrapper(document) {
        let hint = format!("; move the properties of {0} to the top, and remove {0}", quote(wrapper));
        let of_wrapper = |violation: &&mut Violation| violation.pointer.strip_prefix('/') == Some(wrapper);
        violations.iter_mut().filter(of_wrapper).for_each(|violation| violation.add_hint_if_undeclared(&hint));
    }
    if violations.is_empty() {
        let expected = "a document that fits the schema";
        return Violations::one(Violation::mismatch(String::new(), expected, describe_value(document)));
    }
    Violations { violations, more }
}

/// Collects the violations of an invalid document for repairs: of alternatives that all fail, those that all of them have.
pub(super) fn find_for_repair(graph: &SchemaGraph, patterns: &Patterns, document: &Value, cap: usize) -> Vec<Finding> {
    let mut explainer = Explainer { graph, patterns, budget: MAX_EVALUATIONS, is_for_repair: true };
    let mut found = Findings::with_cap(cap);
    explainer.explain_value(ROOT, document, &Path::ROOT, &mut found);
    found.list
}

/// Returns the only member of a document if its name is one that protocols wrap arguments in.
fn find_wrapper(document: &Value) -> Option<&'static str> {
    let members = document.as_object().filter(|members| members.len() == 1)?;
    WRAPPER_NAMES.into_iter().find(|name| members.get(*name).is_some_and(Value::is_object))
}

/// A walk along a document and its schemas.
pub(super) struct Explainer<'w> {
    pub(super) graph: &'w SchemaGraph,
    patterns: &'w Patterns,
    budget: u64,
    /// True if violations that all alternatives have are more useful than a summary.
    pub(super) is_for_repair: bool,
}

impl<'w> Explainer<'w> {
    /// Adds the violations of one value, and returns the parts of it that were evaluated.
    ///
    /// Recursion is bounded by the depth of documents times the longest chain of schemas in place.
    pub(super) fn explain_value<'v>(
        &mut self,
        id: NodeId,
        value: &'v Value,
        path: &Path<'_>,
        found: &mut Findings,
    ) -> EvaluatedParts<'v> {
        let mut seen = EvaluatedParts::default();
        let Some(node) = self.graph.node(id) else { return seen };
        if self.budget == 0 {
            return seen;
        }
        self.budget -= 1;
        if node.never {
            found.add(path, FailureKind::Detail, |pointer| {
                Violation::mismatch(pointer, "nothing here", describe_value(value))
            });
            return seen;
        }
        let mut is_unfit = false;
        for failure in check_assertions(node, value, self.patterns) {
            is_unfit |= failure.kind != FailureKind::Detail;
            found.add(path, failure.kind, |pointer| Violation::mismatch(pointer, failure.expected, failure.given));
        }
        if is_unfit {
            return seen;
        }
        let before = found.count();
        self.explain_in_place(node, value, path, found, &mut seen);
        let composed = found.count() == before;
        match value {
            Value::Object(members) => {
                self.explain_required(id, node, members, path, found);
                self.explain_members(node, members, path, found, &mut seen);
                self.explain_unevaluated_members(id, members, path, composed, found, &mut seen);
            }
            Value::Array(items) => self.explain_items(node, items, path, found, &mut seen),
            _ => {}
        }
        seen
    }

    fn explain_in_place<'v>(
        &mut self,
        node: &'w Node,
        value: &'v Value,
        path: &Path<'_>,
        found: &mut Findings,
        seen: &mut EvaluatedParts<'v>,
    ) {
        for (role, target) in &node.edges {
            match role {
                Role::Ref | Role::AllOf => seen.merge(self.explain_value(*target, value, path, found)),
                Role::Dependent(name) if value.get(name).is_some() => {
                    seen.merge(self.explain_value(*target, value, path, found));
                }
                Role::Not => {
                    // Findings are only counted: why a value does not match is no fault of it.
                    let mut inner = Findings::with_cap(0);
                    self.explain_value(*target, value, path, &mut inner);
                    if inner.count() == 0 {
                        let expected = format!("anything but {}", describe_schema(self.graph, *target));
                        found.add(path, FailureKind::Detail, |at| {
                            Violation::mismatch(at, expected, describe_value(value))
                        });
                    }
                }
                Role::If => {
                    let mut inner = Findings::with_cap(0);
                    let condition = self.explain_value(*target, value, path, &mut inner);
                    let next = if inner.count() == 0 {
                        seen.merge(condition);
                        Role::Then
                    } else {
                        Role::Else
                    };
                    if let Some(next) = node.target(&next) {
                        seen.merge(self.explain_value(next, value, path, found));
                    }
                }
                _ => {}
            }
        }
        for (role, tag) in [(Role::AnyOf, &node.any_of_tag), (Role::OneOf, &node.one_of_tag)] {
            let alternatives: Vec<_> = node.targets(&role).collect();
            if !alternatives.is_empty() {
                let tag = tag.as_deref();
                seen.merge(self.explain_union(&alternatives, role == Role::OneOf, tag, value, path, found));
            }
        }
    }

    fn explain_required(
        &self,
        id: NodeId,
        node: &Node,
        members: &Map<String, Value>,
        path: &Path<'_>,
        found: &mut Findings,
    ) {
        let required = node.assertions.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str).filter(|name| !members.contains_key(*name)) {
            let mut declared = DeclaredProperties::default();
            declared.add_in_place(self.graph, id);
            let misspelled =
                closest_name(name, members.keys().map(String::as_str).filter(|given| !declared.names.contains(given)));
            found.add(path, FailureKind::Detail, |pointer| {
                let words =
                    node.property(name).map(|property| describe_schema(self.graph, property)).unwrap_or_default();
                let words = words.trim_start_matches("a ").trim_start_matches("an ");
                let words = if matches!(words, "" | "value") { String::new() } else { format!(" ({words})") };
                let instead = misspelled.map(|name| format!(" in place of {}", quote(name))).unwrap_or_default();
                Violation::missing(pointer, format!("the property {}{words}{instead}", quote(name)))
            });
        }
    }

    fn explain_members<'v>(
        &mut self,
        node: &'w Node,
        members: &'v Map<String, Value>,
        path: &Path<'_>,
        found: &mut Findings,
        seen: &mut EvaluatedParts<'v>,
    ) {
        let others = node.target(&Role::AdditionalProperties);
        let named = node.target(&Role::PropertyNames);
        for (name, member) in members {
            let path = path.name(name);
            let mut declared = false;
            if let Some(property) = node.property(name) {
                declared = true;
                self.explain_value(property, member, &path, found);
            }
            for (role, target) in &node.edges {
                if matches!(role, Role::Pattern(pattern) if self.patterns.matches(pattern, name)) {
                    declared = true;
                    self.explain_value(*target, member, &path, found);
                }
            }
            if let Some(others) = others.filter(|_| !declared) {
                declared = true;
                if self.graph.node(others).is_some_and(|others| others.never) {
                    let mut known = DeclaredProperties::default();
                    known.add_node(node);
                    found.add(&path, FailureKind::Detail, |at| known.undeclared_violation(at, name, member));
                } else {
                    self.explain_value(others, member, &path, found);
                }
            }
            if let Some(named) = named {
                self.explain_value(named, &Value::String(name.clone()), &path, found);
            }
            if declared {
                seen.names.insert(name);
            }
        }
    }

    fn explain_unevaluated_members<'v>(
        &mut self,
        id: NodeId,
        members: &'v Map<String, Value>,
        path: &Path<'_>,
        composed: bool,
        found: &mut Findings,
        seen: &mut EvaluatedParts<'v>,
    ) {
        let others = self.graph.node(id).and_then(|node| node.target(&Role::UnevaluatedProperties));
        let Some(others) = others else { return };
        let never = self.graph.node(others).is_some_and(|others| others.never);
        let mut known = DeclaredProperties::default();
        known.add_in_place(self.graph, id);
        for (name, member) in members.iter().filter(|(name, _)| !seen.names.contains(name.as_str())) {
            // If an in-place subschema fails, its evaluated properties are unknown. Then only names that no subschema
            // declares are reported.
            if !composed && (known.open || known.names.contains(name.as_str())) {
                continue;
            }
            let path = path.name(name);
            if never {
                found.add(&path, FailureKind::Detail, |at| known.undeclared_violation(at, name, member));
            } else {
                self.explain_value(others, member, &path, found);
            }
        }
        seen.names.extend(members.keys().map(String::as_str));
    }

    fn explain_items<'v>(
        &mut self,
        node: &'w Node,
        items: &'v [Value],
        path: &Path<'_>,
        found: &mut Findings,
        seen: &mut EvaluatedParts<'v>,
    ) {
        let prefix: Vec<_> = node.targets(&Role::PrefixItem).collect();
        let others = node.target(&Role::Items);
        for (index, item) in items.iter().enumerate() {
            if let Some(target) = prefix.get(index).copied().or(others) {
                self.explain_value(target, item, &path.index(index), found);
                seen.items.insert(index);
            }
        }
        if let Some(contains) = node.target(&Role::Contains) {
            self.explain_contains(node, contains, items, path, found, seen);
        }
        if let Some(others) = node.target(&Role::UnevaluatedItems) {
            for (index, item) in items.iter().enumerate() {
                if seen.items.insert(index) {
                    self.explain_value(others, item, &path.index(index), found);
                }
            }
        }
    }

    fn explain_contains(
        &mut self,
        node: &Node,
        contains: NodeId,
        items: &[Value],
        path: &Path<'_>,
        found: &mut Findings,
        seen: &mut EvaluatedParts<'_>,
    ) {
        let mut count = 0_u64;
        for (index, item) in items.iter().enumerate() {
            let mut inner = Findings::with_cap(0);
            self.explain_value(contains, item, &path.index(index), &mut inner);
            if inner.count() == 0 {
                count += 1;
                seen.items.insert(index);
            }
        }
        let limit = |keyword| node.assertions.get(keyword).and_then(Value::as_u64);
        let min = limit("minContains").unwrap_or(1);
        let too_few = (count < min).then_some(("at least", min));
        let too_many = limit("maxContains").filter(|max| count > *max).map(|max| ("at most", max));
        for (words, limit) in too_few.into_iter().chain(too_many) {
            let expected =
                format!("an array with {words} {limit} items that are {}", describe_schema(self.graph, contains));
            found.add(path, FailureKind::Detail, |at| Violation::mismatch(at, expected, count.to_string()));
        }
    }
}
