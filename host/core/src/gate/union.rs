//! Why a value fits none of several alternatives: the one that was meant if that is clear, else all of them in short.

use serde_json::Value;

use super::assertions::{About, types};
use super::explain::{Evaluated, Walk};
use super::finding::{Found, Path};
use super::format::{asked, choices, cut, given, hint, shortened};
use super::keywords::Role;
use super::outline::{NodeId, Outline};
use super::violation::Violation;

/// Violations kept of each alternative.
const KEPT: usize = 32;

/// Alternatives put into words.
const SHOWN: usize = 8;

/// Bytes of the words for one alternative.
const BRIEF: usize = 120;

/// How far a schema is followed in search of its tag.
const HOPS: usize = 8;

impl Walk<'_> {
    pub(super) fn union<'v>(
        &mut self,
        alternatives: &[NodeId],
        exactly_one: bool,
        tag: Option<&str>,
        value: &'v Value,
        path: &Path<'_>,
        found: &mut Found,
    ) -> Evaluated<'v> {
        if let (Some(tag), Value::Object(_)) = (tag, value) {
            return self.tagged(alternatives, tag, value, path, found);
        }
        let mut seen = Evaluated::default();
        let mut fitting = 0;
        let mut failed = Vec::new();
        for id in alternatives {
            let mut inner = Found::up_to(KEPT);
            let own = self.value(*id, value, path, &mut inner);
            if inner.count() == 0 {
                fitting += 1;
                seen.merge(own);
            } else {
                failed.push((*id, inner));
            }
        }
        match fitting {
            0 => self.none(failed, value, path, found),
            2.. if exactly_one => {
                let expected = format!(
                    "a value that fits exactly one of: {}",
                    choices(alternatives.iter().map(|id| asked(self.outline, *id)))
                );
                let count = format!("{}, which fits {fitting} of them", given(value));
                found.add(path, About::Detail, |at| Violation::mismatch(at, expected, count));
            }
            _ => {}
        }
        seen
    }

    /// The alternatives are told apart by the property `tag`: the value says itself which one it wants to be.
    fn tagged<'v>(
        &mut self,
        alternatives: &[NodeId],
        tag: &str,
        value: &'v Value,
        path: &Path<'_>,
        found: &mut Found,
    ) -> Evaluated<'v> {
        let texts: Vec<_> =
            alternatives.iter().filter_map(|id| Some((*id, text_of(self.outline, *id, tag)?))).collect();
        let accepted = || choices(texts.iter().map(|(_, text)| shortened(text)));
        let Some(own) = value.get(tag) else {
            let expected = format!("the property {} ({})", shortened(&tag.into()), accepted());
            found.add(path, About::Choice, |at| Violation::missing(at, expected));
            return Evaluated::default();
        };
        match texts.iter().find(|(_, text)| *text == own) {
            Some((id, _)) => self.value(*id, value, path, found),
            None => {
                found.add(&path.name(tag), About::Choice, |at| Violation::mismatch(at, accepted(), given(own)));
                Evaluated::default()
            }
        }
    }

    fn none(&self, mut failed: Vec<(NodeId, Found)>, value: &Value, path: &Path<'_>, found: &mut Found) {
        if let Some(meant) = meant(&failed, path.depth) {
            return found.take(failed.swap_remove(meant).1);
        }
        if failed.iter().all(|(_, inner)| !right_kind(inner, path.depth)) {
            let expected = choices(failed.iter().map(|(id, _)| asked(self.outline, *id)));
            let wanted: Vec<_> = failed.iter().flat_map(|(id, _)| kinds(self.outline, *id)).collect();
            let given = given(value) + &hint(&wanted, value).unwrap_or_default();
            return found.add(path, About::Type, |at| Violation::mismatch(at, expected, given));
        }
        found.add(path, About::Detail, |at| {
            let briefs = failed.iter().take(SHOWN).enumerate().map(|(index, (id, inner))| {
                let first = inner.list.first().map(|finding| match finding.depth == path.depth {
                    true => finding.violation.sentence(),
                    false => finding.violation.to_string(),
                });
                let first = first.unwrap_or_default();
                cut(&format!("({}) {}: {first}", index + 1, asked(self.outline, *id)), BRIEF)
            });
            let briefs: Vec<_> = briefs.collect();
            let expected = format!("one of {} alternatives", failed.len());
            let sentence = format!("expected {expected}, and none fits: {}", briefs.join("; "));
            Violation::plain(at, expected, sentence)
        });
    }
}

/// The one alternative that was clearly meant: the only one for this kind of value, or else the only one whose tags
/// fit, or else the only one that has nothing against the value itself, but only against something within it.
fn meant(failed: &[(NodeId, Found)], depth: usize) -> Option<usize> {
    let only = |fits: &dyn Fn(&Found) -> bool| {
        let mut fitting = failed.iter().enumerate().filter(|(_, (_, inner))| fits(inner)).map(|(index, _)| index);
        fitting.next().filter(|_| fitting.next().is_none())
    };
    let no_choice = |inner: &Found| inner.list.iter().all(|finding| finding.about != About::Choice);
    let within = |inner: &Found| inner.list.iter().all(|finding| finding.depth > depth);
    only(&|inner| right_kind(inner, depth))
        .or_else(|| only(&|inner| right_kind(inner, depth) && no_choice(inner)))
        .or_else(|| only(&within))
}

/// Whether the alternative is for values of this kind at all.
fn right_kind(inner: &Found, depth: usize) -> bool {
    inner.list.iter().all(|finding| finding.about == About::Detail || finding.depth > depth)
}

/// The types that an alternative accepts, itself or through a reference.
fn kinds(outline: &Outline, id: NodeId) -> Vec<&str> {
    let Some(node) = outline.node(id) else {
        return Vec::new();
    };
    let own = types(node);
    match node.one(&Role::Ref).and_then(|target| outline.node(target)) {
        Some(target) if own.is_empty() => types(target),
        _ => own,
    }
}

/// The one value that an alternative accepts for its tag.
fn text_of<'o>(outline: &'o Outline, id: NodeId, tag: &str) -> Option<&'o Value> {
    let mut id = id;
    for _ in 0..HOPS {
        let node = outline.node(id)?;
        if let Some(property) = node.property(tag).and_then(|property| outline.node(property)) {
            let only = || property.assertions.get("enum").and_then(|listed| listed.get(0));
            if let Some(text) = property.assertions.get("const").or_else(only) {
                return Some(text);
            }
        }
        id = node.one(&Role::Ref)?;
    }
    None
}
