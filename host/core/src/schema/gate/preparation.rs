//! Limits on the work of the validator to compile `unevaluatedProperties` and `unevaluatedItems`.

use super::error::SchemaError;
use super::graph::{NodeId, SchemaGraph};
use super::keywords::Role;

/// Maximum number of steps that the validator may take to prepare `unevaluatedProperties` and `unevaluatedItems`.
const MAX_STEPS: u64 = 20_000;

/// Maximum number of levels that the validator may descend for that. Bounds the stack.
const MAX_LEVELS: usize = 64;

/// Rejects a schema that the validator would need too much time or stack to prepare.
pub(super) fn check(graph: &SchemaGraph) -> Result<(), SchemaError> {
    Preparation { graph, steps: 0, pending: Vec::new() }.run()
}

/// A simulation of how the validator prepares `unevaluated…`: it visits everything in place of the node, through
/// references and without a cache, and everything below those once more.
struct Preparation<'o> {
    graph: &'o SchemaGraph,
    steps: u64,
    pending: Vec<NodeId>,
}

impl Preparation<'_> {
    fn run(mut self) -> Result<(), SchemaError> {
        for id in 0..self.graph.len() {
            if self.has_unevaluated(id) {
                self.prepare(id, 0)?;
            }
        }
        Ok(())
    }

    fn has_unevaluated(&self, id: NodeId) -> bool {
        let edges = self.graph.node(id).map(|node| node.edges.as_slice()).unwrap_or_default();
        edges.iter().any(|(role, _)| matches!(role, Role::UnevaluatedProperties | Role::UnevaluatedItems))
    }

    fn count_step(&mut self, id: NodeId, depth: usize) -> Result<(), SchemaError> {
        self.steps += 1;
        let (found, limit, what) = if depth > MAX_LEVELS {
            (depth as u64, MAX_LEVELS as u64, "levels of composition below unevaluatedProperties")
        } else if self.steps > MAX_STEPS {
            (self.steps, MAX_STEPS, "subschemas to prepare for unevaluatedProperties")
        } else {
            return Ok(());
        };
        Err(SchemaError::TooLarge { pointer: self.graph.origin(id), what, found, limit })
    }

    fn prepare(&mut self, id: NodeId, depth: usize) -> Result<(), SchemaError> {
        self.count_step(id, depth)?;
        if self.pending.contains(&id) {
            return Ok(());
        }
        self.pending.push(id);
        let edges = self.graph.node(id).map(|node| node.edges.as_slice()).unwrap_or_default();
        for (role, target) in edges {
            if *role != Role::Ref {
                self.compile(*target, depth + 1)?;
            }
            if role.is_in_place() && *role != Role::Not {
                self.prepare(*target, depth + 1)?;
            }
        }
        self.pending.pop();
        Ok(())
    }

    fn compile(&mut self, id: NodeId, depth: usize) -> Result<(), SchemaError> {
        self.count_step(id, depth)?;
        let edges = self.graph.node(id).map(|node| node.edges.as_slice()).unwrap_or_default();
        for (_, target) in edges.iter().filter(|(role, _)| *role != Role::Ref) {
            self.compile(*target, depth + 1)?;
        }
        if self.has_unevaluated(id) {
            self.prepare(id, depth + 1)?;
        }
        Ok(())
    }
}
