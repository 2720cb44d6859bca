//! The worst-case cost of checking a document against a schema.
//!
//! The unit is one evaluation of one subschema for one value. For a path through the document of `d` levels,
//!
//! ```text
//! cost(s, d) = the evaluations of s and of everything in place of s, at this level
//!            + the most expensive child: the sum of cost(t, d - 1) over all t that apply to that child
//! ```
//!
//! so a schema that evaluates one child twice doubles at every level and is rejected, whether the doubling is in place
//! (`allOf` of two references to a schema that does the same) or from level to level. Sums saturate.

use std::collections::BTreeMap;

use serde_json::Value;

use super::GateLimits;
use super::assertions::Patterns;
use super::error::SchemaError;
use super::graph::{Node, NodeId, ROOT, SchemaGraph};
use super::keywords::Role;
use super::strict::Extent;
use super::toposort;

/// Entries of `enum` or `required` that are compared in the time of one evaluation.
const LIST_ENTRIES_PER_EVALUATION: u64 = 8;

/// Evaluations that `uniqueItems` takes for each value within the array.
const UNIQUE_ITEMS_EVALUATIONS: u64 = 8;

/// Maximum number of entries in the tables of one level. Bounds the time that this module takes.
const MAX_TABLE_ENTRIES: usize = 40_000;

/// Worst-case costs for one path through a document, indexed by the depth of the document; a scalar has depth 0. The
/// last entry holds for any deeper document.
#[derive(Debug)]
pub(super) struct Costs {
    /// Evaluations of subschemas.
    evaluations: Vec<u64>,
    /// Steps to match patterns for one byte of text; empty if there are no patterns.
    matching: Vec<u64>,
}

impl Costs {
    /// Computes the costs.
    ///
    /// # Errors
    /// If a schema applies in place of itself, or any cost exceeds its limit.
    pub(super) fn compute(graph: &SchemaGraph, patterns: &Patterns, limits: &GateLimits) -> Result<Self, SchemaError> {
        let order = toposort::sort(graph)?;
        let nodes = || (0..graph.len()).filter_map(|id| graph.node(id));
        let evaluations = nodes().map(count_evaluations).collect();
        let evaluations = Tables::new(graph, &order, evaluations, limits.cost).compute_by_depth(graph, limits.depth)?;
        let steps: Vec<_> = nodes().map(|node| count_matching_steps(node, patterns)).collect();
        let matching = if steps.iter().any(|steps| *steps > 0) {
            Tables::new(graph, &order, steps, u64::MAX).compute_by_depth(graph, limits.depth)?
        } else {
            Vec::new()
        };
        Ok(Self { evaluations, matching })
    }

    /// Returns the maximum steps to check a document of this extent.
    pub(super) fn steps(&self, extent: Extent) -> u64 {
        let at = |costs: &[u64]| costs.get(extent.depth).or(costs.last()).copied().unwrap_or(0);
        let evaluations = at(&self.evaluations).saturating_mul(extent.values.saturating_add(extent.arithmetic));
        evaluations.saturating_add(at(&self.matching).saturating_mul(extent.text))
    }
}

/// Returns 1, and more where a keyword compares with long lists.
fn count_evaluations(node: &Node) -> u64 {
    let listed = |keyword| node.assertions.get(keyword).and_then(Value::as_array).map_or(0, Vec::len) as u64;
    let unique = u64::from(node.assertions.contains_key("uniqueItems"));
    1 + listed("enum") / LIST_ENTRIES_PER_EVALUATION
        + listed("required") / LIST_ENTRIES_PER_EVALUATION
        + unique * UNIQUE_ITEMS_EVALUATIONS
}

/// Returns the steps that the patterns of a node take for one byte of the value, names included.
fn count_matching_steps(node: &Node, patterns: &Patterns) -> u64 {
    let own = node.assertions.get("pattern").and_then(Value::as_str);
    let named = node.edges.iter().filter_map(|(role, _)| match role {
        Role::Pattern(pattern) => Some(pattern.as_str()),
        _ => None,
    });
    own.into_iter().chain(named).map(|pattern| patterns.steps_per_byte(pattern)).fold(0, u64::saturating_add)
}

/// Costs by child: by name or index, and for all children without an entry.
#[derive(Debug, Clone, Default)]
struct ChildCosts<'o> {
    named: BTreeMap<Key<'o>, u64>,
    others: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'o> {
    Name(&'o str),
    Index(usize),
}

impl<'o> ChildCosts<'o> {
    fn merge(&mut self, other: &Self, combine: fn(u64, u64) -> u64) {
        for (key, cost) in &mut self.named {
            *cost = combine(*cost, other.named.get(key).copied().unwrap_or(other.others));
        }
        for (key, cost) in &other.named {
            self.named.entry(*key).or_insert_with(|| combine(self.others, *cost));
        }
        self.others = combine(self.others, other.others);
    }

    /// Adds the cost of a schema that applies to every child.
    fn add_to_all(&mut self, cost: u64) {
        self.named.values_mut().for_each(|own| *own = own.saturating_add(cost));
        self.others = self.others.saturating_add(cost);
    }

    fn max(&self) -> u64 {
        self.named.values().copied().fold(self.others, u64::max)
    }
}

/// The cost of one evaluation of a schema: at this level, and by child.
#[derive(Debug, Clone, Default)]
struct CostProfile<'o> {
    local: u64,
    properties: ChildCosts<'o>,
    items: ChildCosts<'o>,
}

impl CostProfile<'_> {
    fn merge(&mut self, other: &Self, combine: fn(u64, u64) -> u64) {
        self.local = combine(self.local, other.local);
        self.properties.merge(&other.properties, combine);
        self.items.merge(&other.items, combine);
    }

    fn total(&self) -> u64 {
        self.local.saturating_add(self.properties.max().max(self.items.max()))
    }

    fn entries(&self) -> usize {
        self.properties.named.len() + self.items.named.len() + 1
    }
}

/// Three costs for each node, which follow from the way the validator works.
///
/// To find what `unevaluatedProperties` applies to, it evaluates the in-place subschemas a second time (*marking*).
/// It caches the results of a definition that refers to itself, so the second evaluation does not descend into those.
struct Tables<'o> {
    order: &'o [NodeId],
    /// By node: the cost of the node alone.
    weights: Vec<u64>,
    /// The maximum cost of a node.
    limit: u64,
    /// By node: one evaluation, children included, at the level before.
    full: Vec<u64>,
    /// Like `full`, for an evaluation that is a repetition.
    repeated: Vec<u64>,
    /// By node: true if it has an `unevaluated…` keyword that needs marking.
    marks: Vec<bool>,
}

impl<'o> Tables<'o> {
    fn new(graph: &SchemaGraph, order: &'o [NodeId], weights: Vec<u64>, limit: u64) -> Self {
        let marks = (0..graph.len()).map(|id| needs_marking(graph, id)).collect();
        let zero = vec![0; graph.len()];
        Self { order, weights, limit, full: zero.clone(), repeated: zero, marks }
    }

    fn compute_by_depth(mut self, graph: &'o SchemaGraph, depth: usize) -> Result<Vec<u64>, SchemaError> {
        let mut costs = Vec::new();
        for _ in 0..=depth {
            let settled = self.advance(graph)?;
            costs.push(self.full.get(ROOT).copied().unwrap_or(u64::MAX));
            if settled {
                break;
            }
        }
        Ok(costs)
    }

    fn base_profile(&self, id: NodeId) -> CostProfile<'o> {
        CostProfile { local: self.weights.get(id).copied().unwrap_or(0), ..CostProfile::default() }
    }

    /// Advances by one level. Returns true if no cost changed, so that deeper documents cost no more.
    fn advance(&mut self, graph: &'o SchemaGraph) -> Result<bool, SchemaError> {
        let mut full: Vec<CostProfile<'o>> = vec![CostProfile::default(); graph.len()];
        let mut repeated = full.clone();
        let mut marking = full.clone();
        let mut entries = 0;
        for &id in self.order {
            let mut marked = self.marking_profile(graph, id, &repeated, &marking);
            let mut once = self.node_profile(graph, id, &self.full);
            let mut again = self.node_profile(graph, id, &self.repeated);
            add_in_place(graph, id, &full, false, &mut once);
            add_in_place(graph, id, &repeated, true, &mut again);
            if self.marks.get(id) == Some(&true) {
                once.merge(&marked, u64::saturating_add);
                again.merge(&marked, u64::saturating_add);
            }
            entries += once.entries() + again.entries() + marked.entries();
            let found = once.total();
            let pointer = || graph.origin(id);
            if found > self.limit {
                return Err(SchemaError::TooExpensive { pointer: pointer(), found, limit: self.limit });
            }
            if entries > MAX_TABLE_ENTRIES {
                let what = "combinations of subschemas and the properties that they look at";
                let found = entries as u64;
                let limit = MAX_TABLE_ENTRIES as u64;
                return Err(SchemaError::TooLarge { pointer: pointer(), what, found, limit });
            }
            for (table, profile) in [(&mut full, &mut once), (&mut repeated, &mut again), (&mut marking, &mut marked)] {
                if let Some(slot) = table.get_mut(id) {
                    std::mem::swap(slot, profile);
                }
            }
        }
        let full: Vec<u64> = full.iter().map(CostProfile::total).collect();
        let repeated: Vec<u64> = repeated.iter().map(CostProfile::total).collect();
        let settled = full == self.full && repeated == self.repeated;
        self.full = full;
        self.repeated = repeated;
        Ok(settled)
    }

    /// Returns the cost of the node alone, given the costs of its children.
    fn node_profile(&self, graph: &'o SchemaGraph, id: NodeId, below: &[u64]) -> CostProfile<'o> {
        let mut profile = self.base_profile(id);
        let Some(node) = graph.node(id) else { return profile };
        let mut prefix = 0;
        for (role, target) in &node.edges {
            let cost = below.get(*target).copied().unwrap_or(u64::MAX);
            match role {
                Role::Property(name) => drop(profile.properties.named.insert(Key::Name(name), cost)),
                Role::PrefixItem => {
                    profile.items.named.insert(Key::Index(prefix), cost);
                    prefix += 1;
                }
                Role::AdditionalProperties => {
                    profile.properties.others = profile.properties.others.saturating_add(cost);
                }
                Role::Items => profile.items.others = profile.items.others.saturating_add(cost),
                _ => {}
            }
        }
        for (role, target) in &node.edges {
            let cost = below.get(*target).copied().unwrap_or(u64::MAX);
            match role {
                Role::Pattern(_) | Role::PropertyNames | Role::UnevaluatedProperties => {
                    profile.properties.add_to_all(cost);
                }
                Role::Contains | Role::UnevaluatedItems => profile.items.add_to_all(cost),
                _ => {}
            }
        }
        profile
    }

    /// Returns the cost of marking, which evaluates everything in place of the node once more.
    fn marking_profile(
        &self,
        graph: &'o SchemaGraph,
        id: NodeId,
        again: &[CostProfile<'o>],
        marking: &[CostProfile<'o>],
    ) -> CostProfile<'o> {
        let mut profile = self.base_profile(id);
        let Some(node) = graph.node(id) else { return profile };
        for (role, target) in &node.edges {
            let repeats = matches!(role, Role::AllOf | Role::AnyOf | Role::OneOf | Role::If);
            if let Some(again) = again.get(*target).filter(|_| repeats) {
                profile.merge(again, u64::saturating_add);
            }
            if let Some(marking) = marking.get(*target).filter(|_| role.is_in_place() && *role != Role::Not) {
                profile.merge(marking, u64::saturating_add);
            }
            let below = self.repeated.get(*target).copied().unwrap_or(u64::MAX);
            match role {
                Role::UnevaluatedProperties => profile.properties.add_to_all(below),
                Role::UnevaluatedItems | Role::Contains => profile.items.add_to_all(below),
                _ => {}
            }
        }
        profile
    }
}

/// Adds the costs of the schemas in place of the node. Of alternatives with a tag, only the most expensive counts.
fn add_in_place<'o>(
    graph: &'o SchemaGraph,
    id: NodeId,
    table: &[CostProfile<'o>],
    again: bool,
    into: &mut CostProfile<'o>,
) {
    let Some(node) = graph.node(id) else { return };
    let mut alternatives: [Option<CostProfile<'o>>; 2] = [None, None];
    let [any, one] = &mut alternatives;
    for (role, target) in node.edges.iter().filter(|(role, _)| role.is_in_place()) {
        let Some(profile) = table.get(*target) else { continue };
        // A lookup in the cache costs about as much as an evaluation.
        let remembered = CostProfile { local: 1, ..CostProfile::default() };
        let profile = if again && *role == Role::Ref && *target == node.owner { &remembered } else { profile };
        let slot = match role {
            Role::AnyOf if node.any_of_tag.is_some() => &mut *any,
            Role::OneOf if node.one_of_tag.is_some() => &mut *one,
            _ => {
                into.merge(profile, u64::saturating_add);
                continue;
            }
        };
        match slot {
            Some(dearest) => dearest.merge(profile, u64::max),
            None => *slot = Some(profile.clone()),
        }
    }
    for dearest in alternatives.iter().flatten() {
        into.merge(dearest, u64::saturating_add);
    }
}

/// Returns whether an `unevaluated…` keyword at this node makes the validator mark.
fn needs_marking(graph: &SchemaGraph, id: NodeId) -> bool {
    let edges = graph.node(id).map(|node| node.edges.as_slice()).unwrap_or_default();
    let has = |wanted: &Role| edges.iter().any(|(role, _)| role == wanted);
    // Without in-place subschemas the names are known beforehand; items are always evaluated.
    let pieces = edges.iter().any(|(role, _)| role.is_in_place() && *role != Role::Not);
    has(&Role::UnevaluatedItems) || (has(&Role::UnevaluatedProperties) && pieces)
}
