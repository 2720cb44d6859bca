//! Explanations of values that fit none of several alternatives: the violations of the intended alternative if it can
//! be found, or else a summary of all.

use serde_json::Value;

use super::assertions::{FailureKind, accepted_types};
use super::explain::{EvaluatedParts, Explainer};
use super::finding::{Findings, Path};
use super::format::{describe_schema, describe_value, format_value, join_choices, suggest_correction, truncate};
use super::graph::{NodeId, SchemaGraph};
use super::keywords::Role;
use super::violation::Violation;

/// Maximum number of violations kept for each alternative.
const MAX_VIOLATIONS: usize = 32;

/// Maximum number of alternatives described.
const MAX_ALTERNATIVES: usize = 8;

/// Maximum size of the description of one alternative, in bytes.
const MAX_BRIEF_BYTES: usize = 120;

/// Maximum number of references followed to find a tag.
const MAX_TAG_HOPS: usize = 8;

impl Explainer<'_> {
    pub(super) fn explain_union<'v>(
        &mut self,
        alternatives: &[NodeId],
        exactly_one: bool,
        tag: Option<&str>,
        value: &'v Value,
        path: &Path<'_>,
        found: &mut Findings,
    ) -> EvaluatedParts<'v> {
        if let (Some(tag), Value::Object(_)) = (tag, value) {
            return self.explain_tagged(alternatives, tag, value, path, found);
        }
        let mut seen = EvaluatedParts::default();
        let mut fitting = 0;
        let mut failed = Vec::new();
        for id in alternatives {
            let mut inner = Findings::with_cap(MAX_VIOLATIONS);
            let own = self.explain_value(*id, value, path, &mut inner);
            if inner.count() == 0 {
                fitting += 1;
                seen.merge(own);
            } else {
                failed.push((*id, inner));
            }
        }
        match fitting {
            0 => self.explain_no_match(failed, value, path, found),
            2.. if exactly_one => {
                let expected = format!(
                    "a value that fits exactly one of: {}",
                    join_choices(alternatives.iter().map(|id| describe_schema(self.graph, *id)))
                );
                let count = format!("{}, which fits {fitting} of them", describe_value(value));
                found.add(path, FailureKind::Detail, |at| Violation::mismatch(at, expected, count));
            }
            _ => {}
        }
        seen
    }

    /// Explains a union with a tag: the property `tag` of the value selects the alternative.
    fn explain_tagged<'v>(
        &mut self,
        alternatives: &[NodeId],
        tag: &str,
        value: &'v Value,
        path: &Path<'_>,
        found: &mut Findings,
    ) -> EvaluatedParts<'v> {
        let texts: Vec<_> =
            alternatives.iter().filter_map(|id| Some((*id, tag_value(self.graph, *id, tag)?))).collect();
        let accepted = || join_choices(texts.iter().map(|(_, text)| format_value(text)));
        let Some(own) = value.get(tag) else {
            let expected = format!("the property {} ({})", format_value(&tag.into()), accepted());
            found.add(path, FailureKind::Choice, |at| Violation::missing(at, expected));
            return EvaluatedParts::default();
        };
        match texts.iter().find(|(_, text)| *text == own) {
            Some((id, _)) => self.explain_value(*id, value, path, found),
            None => {
                found.add(&path.name(tag), FailureKind::Choice, |at| {
                    Violation::mismatch(at, accepted(), describe_value(own))
                });
                EvaluatedParts::default()
            }
        }
    }

    fn explain_no_match(
        &self,
        mut failed: Vec<(NodeId, Findings)>,
        value: &Value,
        path: &Path<'_>,
        found: &mut Findings,
    ) {
        if let Some(intended) = find_intended(&failed, path.depth) {
            return found.append(failed.swap_remove(intended).1);
        }
        if failed.iter().all(|(_, inner)| !is_right_type(inner, path.depth)) {
            let expected = join_choices(failed.iter().map(|(id, _)| describe_schema(self.graph, *id)));
            let wanted: Vec<_> = failed.iter().flat_map(|(id, _)| resolved_types(self.graph, *id)).collect();
            let given = describe_value(value) + &suggest_correction(&wanted, value).unwrap_or_default();
            return found.add(path, FailureKind::Type, |at| Violation::mismatch(at, expected, given));
        }
        if self.is_for_repair {
            return found.append(common_findings(failed, path.depth));
        }
        found.add(path, FailureKind::Detail, |at| {
            let briefs = failed.iter().take(MAX_ALTERNATIVES).enumerate().map(|(index, (id, inner))| {
                let first = inner.list.first().map(|finding| {
                    if finding.depth == path.depth {
                        finding.violation.sentence()
                    } else {
                        finding.violation.to_string()
                    }
                });
                let first = first.unwrap_or_default();
                truncate(&format!("({}) {}: {first}", index + 1, describe_schema(self.graph, *id)), MAX_BRIEF_BYTES)
            });
            let briefs: Vec<_> = briefs.collect();
            let expected = format!("one of {} alternatives", failed.len());
            let sentence = format!("expected {expected}, and none fits: {}", briefs.join("; "));
            Violation::plain(at, expected, sentence)
        });
    }
}

/// Returns the findings that all alternatives for this type of value have.
fn common_findings(failed: Vec<(NodeId, Findings)>, depth: usize) -> Findings {
    let mut lists = failed.into_iter().map(|(_, inner)| inner).filter(|inner| is_right_type(inner, depth));
    let Some(mut common) = lists.next() else { return Findings::with_cap(0) };
    for other in lists {
        common.list.retain(|finding| other.list.iter().any(|one| one.is_like(finding)));
    }
    common
}

/// Returns the alternative that was intended: the only one for this type of value, or else the only one whose constants
/// match, or else the only one whose violations are all within the value.
fn find_intended(failed: &[(NodeId, Findings)], depth: usize) -> Option<usize> {
    find_only(failed, |inner| is_right_type(inner, depth))
        .or_else(|| find_only(failed, |inner| is_right_type(inner, depth) && has_no_choice(inner)))
        .or_else(|| find_only(failed, |inner| inner.list.iter().all(|finding| finding.depth > depth)))
}

fn find_only(failed: &[(NodeId, Findings)], fits: impl Fn(&Findings) -> bool) -> Option<usize> {
    let mut fitting = failed.iter().enumerate().filter(|(_, (_, inner))| fits(inner)).map(|(index, _)| index);
    fitting.next().filter(|_| fitting.next().is_none())
}

fn has_no_choice(inner: &Findings) -> bool {
    inner.list.iter().all(|finding| finding.kind != FailureKind::Choice)
}

/// Returns whether the alternative is for values of this type.
fn is_right_type(inner: &Findings, depth: usize) -> bool {
    inner.list.iter().all(|finding| finding.kind == FailureKind::Detail || finding.depth > depth)
}

/// Returns the types that an alternative accepts, itself or through a reference.
fn resolved_types(graph: &SchemaGraph, id: NodeId) -> Vec<&str> {
    let Some(node) = graph.node(id) else {
        return Vec::new();
    };
    let own = accepted_types(node);
    match node.target(&Role::Ref).and_then(|target| graph.node(target)) {
        Some(target) if own.is_empty() => accepted_types(target),
        _ => own,
    }
}

/// Returns the only value that an alternative accepts for its tag.
fn tag_value<'o>(graph: &'o SchemaGraph, id: NodeId, tag: &str) -> Option<&'o Value> {
    let mut id = id;
    for _ in 0..MAX_TAG_HOPS {
        let node = graph.node(id)?;
        if let Some(property) = node.property(tag).and_then(|property| graph.node(property)) {
            let only = || property.assertions.get("enum").and_then(|listed| listed.get(0));
            if let Some(text) = property.assertions.get("const").or_else(only) {
                return Some(text);
            }
        }
        id = node.target(&Role::Ref)?;
    }
    None
}
