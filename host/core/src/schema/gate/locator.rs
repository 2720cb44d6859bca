//! Lookup of the schemas that apply at a location of a document.
//!
//! A schema can relax one rule of strict JSON: a string may be longer than the cap where its schema has a `maxLength`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::assertions::Patterns;
use super::graph::{Node, NodeId, ROOT, SchemaGraph};
use super::keywords::Role;

/// Maximum number of edges visited for one document. After that, no rule is relaxed.
const MAX_EDGES: u64 = 2_000_000;

/// One step into a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// To the member of this name.
    Name(String),
    /// To the item at this index.
    Index(usize),
}

/// Schemas that apply to the same value, without those in `if` and `not`.
pub(super) type NodeSet = BTreeSet<NodeId>;

/// A lookup of schemas by location. Its budget is for one document.
pub(super) struct Locator<'o> {
    graph: &'o SchemaGraph,
    patterns: &'o Patterns,
    budget: u64,
}

impl<'o> Locator<'o> {
    pub(super) fn new(graph: &'o SchemaGraph, patterns: &'o Patterns) -> Self {
        Self { graph, patterns, budget: MAX_EDGES }
    }

    /// Returns the schemas of the document as a whole.
    pub(super) fn root(&mut self) -> NodeSet {
        let mut nodes = NodeSet::new();
        self.add_in_place(ROOT, &mut nodes);
        nodes
    }

    /// Returns the schemas that apply one step below the values of the given schemas.
    pub(super) fn child(&mut self, parents: &NodeSet, step: &Step) -> NodeSet {
        let mut nodes = NodeSet::new();
        for id in parents {
            match step {
                Step::Name(name) => self.add_member(*id, name, &mut nodes),
                Step::Index(index) => self.add_item(*id, *index, &mut nodes),
            }
        }
        nodes
    }

    /// Returns the schemas that apply at a JSON pointer.
    pub(super) fn at(&mut self, document: &Value, pointer: &str) -> NodeSet {
        let mut nodes = self.root();
        let mut value = Some(document);
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let (step, below) = match value {
                Some(Value::Array(items)) => {
                    let index = step.parse().unwrap_or(usize::MAX);
                    (Step::Index(index), items.get(index))
                }
                _ => {
                    let below = value.and_then(|value| value.get(&step));
                    (Step::Name(step), below)
                }
            };
            nodes = self.child(&nodes, &step);
            value = below;
        }
        nodes
    }

    /// Returns whether a string may be as long as the whole document.
    pub(super) fn can_be_long(&self, nodes: &NodeSet) -> bool {
        self.any(nodes, |node| node.assertions.contains_key("maxLength"))
    }

    fn any(&self, nodes: &NodeSet, is: impl Fn(&Node) -> bool) -> bool {
        self.budget > 0 && nodes.iter().filter_map(|id| self.graph.node(*id)).any(is)
    }

    /// Adds the schema and everything in place of it, each once.
    fn add_in_place(&mut self, id: NodeId, into: &mut NodeSet) {
        let graph = self.graph;
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            let Some(node) = graph.node(id).filter(|_| into.insert(id)) else { continue };
            if !self.try_spend(node.edges.len()) {
                return;
            }
            let in_place =
                node.edges.iter().filter(|(role, _)| role.is_in_place() && !matches!(role, Role::Not | Role::If));
            pending.extend(in_place.map(|(_, target)| *target));
        }
    }

    fn add_member(&mut self, id: NodeId, name: &str, into: &mut NodeSet) {
        let graph = self.graph;
        let Some(node) = graph.node(id).filter(|node| self.try_spend(node.edges.len())) else { return };
        let mut is_declared = false;
        for (role, target) in &node.edges {
            let declares = match role {
                Role::Property(own) => own == name,
                Role::Pattern(pattern) => self.patterns.matches(pattern, name),
                _ => false,
            };
            if declares {
                is_declared = true;
                self.add_in_place(*target, into);
            }
        }
        if let Some(others) = node.target(&Role::AdditionalProperties).filter(|_| !is_declared) {
            self.add_in_place(others, into);
        }
    }

    fn add_item(&mut self, id: NodeId, index: usize, into: &mut NodeSet) {
        let graph = self.graph;
        let Some(node) = graph.node(id).filter(|node| self.try_spend(node.edges.len())) else { return };
        let prefixed = node.targets(&Role::PrefixItem).nth(index);
        if let Some(target) = prefixed.or_else(|| node.target(&Role::Items)) {
            self.add_in_place(target, into);
        }
    }

    /// Spends the budget for a node with `edges` edges. Returns false if nothing is left.
    fn try_spend(&mut self, edges: usize) -> bool {
        self.budget = self.budget.saturating_sub(edges as u64 + 1);
        self.budget > 0
    }
}
