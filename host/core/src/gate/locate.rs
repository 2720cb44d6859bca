//! The schemas that describe one place of a document, for rules that depend on what a schema says there.
//!
//! Two rules of strict JSON give way to a schema: a string may be longer than the cap where its schema has a `maxLength` of
//! its own, and a number may have more digits than a binary64 keeps where its schema says `number`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::assertions::{Patterns, types};
use super::keywords::Role;
use super::outline::{Node, NodeId, Outline, ROOT};

/// Edges of schemas that are looked at for one document. Beyond that nothing gives way.
const EFFORT: u64 = 2_000_000;

/// One step into a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The member of this name.
    Name(String),
    /// The item at this index.
    Index(usize),
}

/// Schemas that look at the same value, besides conditions.
pub(super) type Nodes = BTreeSet<NodeId>;

/// Finds the schemas of places. Its effort is bounded for one document.
pub(super) struct Locator<'o> {
    outline: &'o Outline,
    patterns: &'o Patterns,
    effort: u64,
}

impl<'o> Locator<'o> {
    pub(super) fn new(outline: &'o Outline, patterns: &'o Patterns) -> Self {
        Self { outline, patterns, effort: EFFORT }
    }

    /// The schemas of the document as a whole.
    pub(super) fn root(&mut self) -> Nodes {
        let mut nodes = Nodes::new();
        self.gather(ROOT, &mut nodes);
        nodes
    }

    /// The schemas of what is one step below values that these schemas describe.
    pub(super) fn child(&mut self, parents: &Nodes, step: &Step) -> Nodes {
        let mut nodes = Nodes::new();
        for id in parents {
            match step {
                Step::Name(name) => self.member(*id, name, &mut nodes),
                Step::Index(index) => self.item(*id, *index, &mut nodes),
            }
        }
        nodes
    }

    /// The schemas of the value that a JSON pointer leads to.
    pub(super) fn at(&mut self, document: &Value, pointer: &str) -> Nodes {
        let (mut nodes, mut value) = (self.root(), Some(document));
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

    /// Whether a string may be as long as the whole document.
    pub(super) fn can_be_long(&self, nodes: &Nodes) -> bool {
        self.any(nodes, |node| node.assertions.contains_key("maxLength"))
    }

    /// Whether a number may be rounded to the nearest binary64.
    pub(super) fn can_be_rounded(&self, nodes: &Nodes) -> bool {
        self.any(nodes, |node| types(node).contains(&"number"))
    }

    fn any(&self, nodes: &Nodes, is: impl Fn(&Node) -> bool) -> bool {
        self.effort > 0 && nodes.iter().filter_map(|id| self.outline.node(*id)).any(is)
    }

    /// The schema and everything in place of it, each once.
    fn gather(&mut self, id: NodeId, into: &mut Nodes) {
        let outline = self.outline;
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            let Some(node) = outline.node(id).filter(|_| into.insert(id)) else { continue };
            if !self.afford(node.edges.len()) {
                return;
            }
            let in_place =
                node.edges.iter().filter(|(role, _)| role.in_place() && !matches!(role, Role::Not | Role::If));
            pending.extend(in_place.map(|(_, target)| *target));
        }
    }

    fn member(&mut self, id: NodeId, name: &str, into: &mut Nodes) {
        let outline = self.outline;
        let Some(node) = outline.node(id).filter(|node| self.afford(node.edges.len())) else { return };
        let mut is_declared = false;
        for (role, target) in &node.edges {
            let declares = match role {
                Role::Property(own) => own == name,
                Role::Pattern(pattern) => self.patterns.matches(pattern, name),
                _ => false,
            };
            if declares {
                is_declared = true;
                self.gather(*target, into);
            }
        }
        if let Some(others) = node.one(&Role::AdditionalProperties).filter(|_| !is_declared) {
            self.gather(others, into);
        }
    }

    fn item(&mut self, id: NodeId, index: usize, into: &mut Nodes) {
        let outline = self.outline;
        let Some(node) = outline.node(id).filter(|node| self.afford(node.edges.len())) else { return };
        let prefixed = node.held(&Role::PrefixItem).nth(index);
        if let Some(target) = prefixed.or_else(|| node.one(&Role::Items)) {
            self.gather(target, into);
        }
    }

    fn afford(&mut self, edges: usize) -> bool {
        self.effort = self.effort.saturating_sub(edges as u64 + 1);
        self.effort > 0
    }
}
