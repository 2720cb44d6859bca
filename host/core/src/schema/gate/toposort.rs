//! A topological order of schemas that apply to the same value, and a check that they form no cycle.

use std::collections::HashMap;

use super::error::SchemaError;
use super::graph::{NodeId, SchemaGraph};

/// Maximum number of schemas in a row that apply to the same value. Bounds the stack, together with the depth of
/// documents.
const MAX_IN_PLACE_CHAIN: usize = 16;

/// Sorts the nodes so that each comes after all nodes in place of it.
///
/// # Errors
/// If a schema applies in place of itself, or too many apply in a row.
pub(super) fn sort(graph: &SchemaGraph) -> Result<Vec<NodeId>, SchemaError> {
    let mut missing: Vec<usize> = (0..graph.len()).map(|id| in_place_targets(graph, id).count()).collect();
    let mut holders: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
    for id in 0..graph.len() {
        for target in in_place_targets(graph, id) {
            holders.entry(target).or_default().push(id);
        }
    }
    let mut order: Vec<NodeId> = (0..graph.len()).filter(|id| missing.get(*id) == Some(&0)).collect();
    let mut next = 0;
    while let Some(id) = order.get(next).copied() {
        next += 1;
        for holder in holders.get(&id).into_iter().flatten() {
            if let Some(missing) = missing.get_mut(*holder) {
                *missing -= 1;
                if *missing == 0 {
                    order.push(*holder);
                }
            }
        }
    }
    let is_waiting = |id: &NodeId| missing.get(*id).is_some_and(|missing| *missing > 0);
    let Some(mut id) = (0..graph.len()).find(is_waiting) else {
        return check_chains(graph, &order).map(|()| order);
    };
    // A waiting node may only lead to the cycle; after as many steps as there are nodes, the walk is in it.
    for _ in 0..graph.len() {
        id = in_place_targets(graph, id).find(is_waiting).unwrap_or(id);
    }
    Err(SchemaError::Cycle { pointer: graph.origin(id) })
}

fn in_place_targets(graph: &SchemaGraph, id: NodeId) -> impl Iterator<Item = NodeId> {
    let edges = graph.node(id).map(|node| node.edges.as_slice()).unwrap_or_default();
    edges.iter().filter(|(role, _)| role.is_in_place()).map(|(_, target)| *target)
}

/// Rejects too long a chain of schemas in place of each other.
fn check_chains(graph: &SchemaGraph, order: &[NodeId]) -> Result<(), SchemaError> {
    let mut lengths = vec![1_usize; graph.len()];
    for id in order {
        let Some(node) = graph.node(*id) else { continue };
        let in_place = node.edges.iter().filter(|(role, _)| role.is_in_place());
        let longest = in_place.filter_map(|(_, target)| lengths.get(*target)).max().copied().unwrap_or(0) + 1;
        if longest > MAX_IN_PLACE_CHAIN {
            return Err(SchemaError::TooLarge {
                pointer: node.origin.clone(),
                what: "schemas in a row for one value",
                found: longest as u64,
                limit: MAX_IN_PLACE_CHAIN as u64,
            });
        }
        if let Some(length) = lengths.get_mut(*id) {
            *length = longest;
        }
    }
    Ok(())
}
