//! Why a document does not fit a schema: a walk along the outline that collects every violation.
//!
//! The verdict is the validator's. It could also list errors, but it lists all of them, each with a copy of the value
//! it is about, which a large document and a wide schema turn into gigabytes. This walk stops when it has cost enough.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::assertions::{About, Patterns, failures};
use super::declared::Declared;
use super::finding::{Found, Path};
use super::format::{asked, given, meant, quoted};
use super::keywords::Role;
use super::outline::{Node, NodeId, Outline, ROOT};
use super::violation::{Violation, Violations};

/// Evaluations of a subschema that an explanation may take.
const EFFORT: u64 = 200_000;

/// Names that providers and protocols have for the arguments of a call.
const WRAPPERS: [&str; 7] = ["arguments", "args", "input", "parameters", "params", "kwargs", "tool_input"];

/// What the schemas in place of one value have looked at: what `unevaluated…` leaves alone.
#[derive(Default)]
pub(super) struct Evaluated<'v> {
    names: BTreeSet<&'v str>,
    items: BTreeSet<usize>,
}

impl Evaluated<'_> {
    pub(super) fn merge(&mut self, other: Self) {
        self.names.extend(other.names);
        self.items.extend(other.items);
    }
}

/// Says why the document does not fit. Never empty, even if the walk should find nothing.
pub(super) fn violations(outline: &Outline, patterns: &Patterns, document: &Value, cap: usize) -> Violations {
    let mut walk = Walk { outline, patterns, effort: EFFORT };
    let mut found = Found::up_to(cap);
    walk.value(ROOT, document, &Path::START, &mut found);
    let more = found.more;
    let mut violations: Vec<_> = found.list.into_iter().map(|finding| finding.violation).collect();
    if let Some(wrapper) = wrapper(document) {
        let hint = format!("; write what is in {0} at the top, without {0} around it", quoted(wrapper));
        let of_wrapper = |violation: &&mut Violation| violation.pointer.strip_prefix('/') == Some(wrapper);
        violations.iter_mut().filter(of_wrapper).for_each(|violation| violation.hint_undeclared(&hint));
    }
    if violations.is_empty() {
        let expected = "a document that fits the schema";
        return Violations::one(Violation::mismatch(String::new(), expected, given(document)));
    }
    Violations { violations, more }
}

/// The one member of a document that wraps its arguments once more, as messages of protocols do.
fn wrapper(document: &Value) -> Option<&'static str> {
    let members = document.as_object().filter(|members| members.len() == 1)?;
    WRAPPERS.into_iter().find(|name| members.get(*name).is_some_and(Value::is_object))
}

pub(super) struct Walk<'w> {
    pub(super) outline: &'w Outline,
    patterns: &'w Patterns,
    effort: u64,
}

impl<'w> Walk<'w> {
    /// Recursion is bounded by the depth of documents times the longest chain of schemas in place.
    pub(super) fn value<'v>(
        &mut self,
        id: NodeId,
        value: &'v Value,
        path: &Path<'_>,
        found: &mut Found,
    ) -> Evaluated<'v> {
        let mut seen = Evaluated::default();
        let Some(node) = self.outline.node(id) else { return seen };
        if self.effort == 0 {
            return seen;
        }
        self.effort -= 1;
        if node.never {
            found.add(path, About::Detail, |pointer| Violation::mismatch(pointer, "nothing here", given(value)));
            return seen;
        }
        let mut misfit = false;
        for failure in failures(node, value, self.patterns) {
            misfit |= failure.about != About::Detail;
            found.add(path, failure.about, |pointer| Violation::mismatch(pointer, failure.expected, failure.given));
        }
        if misfit {
            return seen;
        }
        let before = found.count();
        self.in_place(node, value, path, found, &mut seen);
        let composed = found.count() == before;
        match value {
            Value::Object(members) => {
                self.required(id, node, members, path, found);
                self.members(node, members, path, found, &mut seen);
                self.unevaluated_members(id, members, path, composed, found, &mut seen);
            }
            Value::Array(items) => self.items(node, items, path, found, &mut seen),
            _ => {}
        }
        seen
    }

    fn in_place<'v>(
        &mut self,
        node: &'w Node,
        value: &'v Value,
        path: &Path<'_>,
        found: &mut Found,
        seen: &mut Evaluated<'v>,
    ) {
        for (role, target) in &node.edges {
            match role {
                Role::Ref | Role::AllOf => seen.merge(self.value(*target, value, path, found)),
                Role::Dependent(name) if value.get(name).is_some() => {
                    seen.merge(self.value(*target, value, path, found));
                }
                Role::Not => {
                    let mut inner = Found::up_to(0);
                    self.value(*target, value, path, &mut inner);
                    if inner.count() == 0 {
                        let expected = format!("anything but {}", asked(self.outline, *target));
                        found.add(path, About::Detail, |at| Violation::mismatch(at, expected, given(value)));
                    }
                }
                Role::If => {
                    let mut inner = Found::up_to(0);
                    let condition = self.value(*target, value, path, &mut inner);
                    let next = if inner.count() == 0 {
                        seen.merge(condition);
                        Role::Then
                    } else {
                        Role::Else
                    };
                    if let Some(next) = node.one(&next) {
                        seen.merge(self.value(next, value, path, found));
                    }
                }
                _ => {}
            }
        }
        for (role, tag) in [(Role::AnyOf, &node.any_tag), (Role::OneOf, &node.one_tag)] {
            let alternatives: Vec<_> = node.held(&role).collect();
            if !alternatives.is_empty() {
                let tag = tag.as_deref();
                seen.merge(self.union(&alternatives, role == Role::OneOf, tag, value, path, found));
            }
        }
    }

    fn required(&self, id: NodeId, node: &Node, members: &Map<String, Value>, path: &Path<'_>, found: &mut Found) {
        let required = node.assertions.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str).filter(|name| !members.contains_key(*name)) {
            let mut declared = Declared::default();
            declared.gather(self.outline, id);
            let meant = meant(name, members.keys().map(String::as_str).filter(|given| !declared.names.contains(given)));
            found.add(path, About::Detail, |pointer| {
                let kind = node.property(name).map(|property| asked(self.outline, property)).unwrap_or_default();
                let kind = kind.trim_start_matches("a ").trim_start_matches("an ");
                let kind = if matches!(kind, "" | "value") { String::new() } else { format!(" ({kind})") };
                let instead = meant.map(|meant| format!(" in place of {}", quoted(meant))).unwrap_or_default();
                Violation::missing(pointer, format!("the property {}{kind}{instead}", quoted(name)))
            });
        }
    }

    fn members<'v>(
        &mut self,
        node: &'w Node,
        members: &'v Map<String, Value>,
        path: &Path<'_>,
        found: &mut Found,
        seen: &mut Evaluated<'v>,
    ) {
        let others = node.one(&Role::AdditionalProperties);
        let named = node.one(&Role::PropertyNames);
        for (name, member) in members {
            let path = path.name(name);
            let mut declared = false;
            if let Some(property) = node.property(name) {
                declared = true;
                self.value(property, member, &path, found);
            }
            for (role, target) in &node.edges {
                if matches!(role, Role::Pattern(pattern) if self.patterns.matches(pattern, name)) {
                    declared = true;
                    self.value(*target, member, &path, found);
                }
            }
            if let Some(others) = others.filter(|_| !declared) {
                declared = true;
                if self.outline.node(others).is_some_and(|others| others.never) {
                    let mut known = Declared::default();
                    known.own(node);
                    found.add(&path, About::Detail, |at| known.undeclared(at, name, member));
                } else {
                    self.value(others, member, &path, found);
                }
            }
            if let Some(named) = named {
                self.value(named, &Value::String(name.clone()), &path, found);
            }
            if declared {
                seen.names.insert(name);
            }
        }
    }

    fn unevaluated_members<'v>(
        &mut self,
        id: NodeId,
        members: &'v Map<String, Value>,
        path: &Path<'_>,
        composed: bool,
        found: &mut Found,
        seen: &mut Evaluated<'v>,
    ) {
        let others = self.outline.node(id).and_then(|node| node.one(&Role::UnevaluatedProperties));
        let Some(others) = others else { return };
        let never = self.outline.node(others).is_some_and(|others| others.never);
        let mut known = Declared::default();
        known.gather(self.outline, id);
        for (name, member) in members.iter().filter(|(name, _)| !seen.names.contains(name.as_str())) {
            // Where a piece fails, what it declares is unknown; only what no piece can mean is reported as well.
            if !composed && (known.open || known.names.contains(name.as_str())) {
                continue;
            }
            let path = path.name(name);
            if never {
                found.add(&path, About::Detail, |at| known.undeclared(at, name, member));
            } else {
                self.value(others, member, &path, found);
            }
        }
        seen.names.extend(members.keys().map(String::as_str));
    }

    fn items<'v>(
        &mut self,
        node: &'w Node,
        items: &'v [Value],
        path: &Path<'_>,
        found: &mut Found,
        seen: &mut Evaluated<'v>,
    ) {
        let prefix: Vec<_> = node.held(&Role::PrefixItem).collect();
        let others = node.one(&Role::Items);
        for (index, item) in items.iter().enumerate() {
            if let Some(target) = prefix.get(index).copied().or(others) {
                self.value(target, item, &path.index(index), found);
                seen.items.insert(index);
            }
        }
        if let Some(contains) = node.one(&Role::Contains) {
            self.contains(node, contains, items, path, found, seen);
        }
        if let Some(others) = node.one(&Role::UnevaluatedItems) {
            for (index, item) in items.iter().enumerate() {
                if seen.items.insert(index) {
                    self.value(others, item, &path.index(index), found);
                }
            }
        }
    }

    fn contains(
        &mut self,
        node: &Node,
        contains: NodeId,
        items: &[Value],
        path: &Path<'_>,
        found: &mut Found,
        seen: &mut Evaluated<'_>,
    ) {
        let mut count = 0_u64;
        for (index, item) in items.iter().enumerate() {
            let mut inner = Found::up_to(0);
            self.value(contains, item, &path.index(index), &mut inner);
            if inner.count() == 0 {
                count += 1;
                seen.items.insert(index);
            }
        }
        let limit = |keyword| node.assertions.get(keyword).and_then(Value::as_u64);
        let least = limit("minContains").unwrap_or(1);
        let mut report = |words: &str, limit: u64| {
            let expected = format!("an array with {words} {limit} items that are {}", asked(self.outline, contains));
            found.add(path, About::Detail, |at| Violation::mismatch(at, expected, count.to_string()));
        };
        if count < least {
            report("at least", least);
        }
        if let Some(most) = limit("maxContains").filter(|most| count > *most) {
            report("at most", most);
        }
    }
}
