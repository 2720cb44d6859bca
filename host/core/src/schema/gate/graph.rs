//! A graph of subschemas: closed, without annotations, with all references resolved.
//!
//! The validator is compiled from it, costs are computed on it, and violations are explained with it, so that all three
//! use the same schema.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};

use super::GateLimits;
use super::closing::{Closer, Closing};
use super::error::SchemaError;
use super::keywords::{ASSERTIONS, Role, subschemas};
use super::source::Source;

/// The index of a node in [`SchemaGraph::nodes`].
pub(super) type NodeId = usize;

/// The node of the whole schema.
pub(super) const ROOT: NodeId = 0;

/// Maximum factor by which a schema may grow when its definitions are copied, closed and open.
const MAX_GROWTH: usize = 4;

/// One subschema.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Its location in the schema as written, as a JSON pointer.
    pub(super) origin: String,
    /// True for the schema `false`.
    pub(super) never: bool,
    /// The change that closing made to it; `None` for a node that is no schema of the document.
    pub(super) closing: Option<Closing>,
    /// Its keywords that hold no schemas.
    pub(super) assertions: Map<String, Value>,
    /// The schemas that it holds or refers to.
    pub(super) edges: Vec<(Role, NodeId)>,
    /// The definition that it is part of: the root, or a target of references.
    pub(super) owner: NodeId,
    /// The property that distinguishes the entries of `anyOf`, if there is one.
    pub(super) any_of_tag: Option<String>,
    /// The property that distinguishes the entries of `oneOf`, if there is one.
    pub(super) one_of_tag: Option<String>,
}

impl Node {
    /// Returns the nodes that this one holds in the given role.
    pub(super) fn targets(&self, role: &Role) -> impl Iterator<Item = NodeId> {
        self.edges.iter().filter(move |(own, _)| own == role).map(|(_, id)| *id)
    }

    /// Returns the first node that this one holds in the given role.
    pub(super) fn target(&self, role: &Role) -> Option<NodeId> {
        self.targets(role).next()
    }

    /// Returns the node of the property `name`, if it is declared by name.
    pub(super) fn property(&self, name: &str) -> Option<NodeId> {
        self.edges.iter().find(|(role, _)| matches!(role, Role::Property(own) if own == name)).map(|(_, id)| *id)
    }
}

/// A schema as a graph of nodes.
#[derive(Debug)]
pub(super) struct SchemaGraph {
    nodes: Vec<Node>,
    definitions: Vec<NodeId>,
}

/// The extent to which one schema is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ClosingScope {
    /// True if the schema itself is closed.
    here: bool,
    /// True if the value locations below it are closed.
    below: bool,
    /// True if it applies to the document as a whole.
    root: bool,
}

impl SchemaGraph {
    /// Builds the graph. With `close`, undeclared properties are rejected.
    ///
    /// # Errors
    /// If the copies that closing needs make the schema too large.
    pub(super) fn build(source: &Source<'_>, close: bool, limits: &GateLimits) -> Result<Self, SchemaError> {
        let scope = ClosingScope { here: close, below: close, root: true };
        let mut builder = Builder {
            source,
            closer: Closer::new(source),
            nodes: vec![Node::default()],
            targets: HashMap::from([((String::new(), scope), ROOT)]),
            queue: VecDeque::from([(ROOT, String::new(), source.root, scope)]),
            limit: limits.schema_nodes.saturating_mul(MAX_GROWTH),
        };
        while let Some((id, pointer, schema, scope)) = builder.queue.pop_front() {
            builder.fill(id, pointer, schema, scope, id)?;
        }
        let mut definitions: Vec<_> = builder.targets.into_values().filter(|id| *id != ROOT).collect();
        definitions.sort_unstable();
        Ok(Self { nodes: builder.nodes, definitions })
    }

    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the node with this index, which comes from the graph itself.
    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Returns the location of the node in the schema as written, as a JSON pointer.
    pub(super) fn origin(&self, id: NodeId) -> String {
        self.node(id).map(|node| node.origin.clone()).unwrap_or_default()
    }

    /// Makes the root accept objects only.
    pub(super) fn require_object(&mut self) {
        if let Some(root) = self.nodes.first_mut() {
            root.assertions.insert("type".to_owned(), json!("object"));
        }
    }

    /// Converts the graph to a schema document, with references of the form `#/$defs/<number>`.
    pub(super) fn to_schema(&self) -> Value {
        let mut root = self.node_to_schema(ROOT);
        let definitions: Map<_, _> =
            self.definitions.iter().map(|id| (id.to_string(), self.node_to_schema(*id))).collect();
        if let (Value::Object(root), false) = (&mut root, definitions.is_empty()) {
            root.insert("$defs".to_owned(), Value::Object(definitions));
        }
        root
    }

    /// Converts a node and the schemas that it holds. Recursion ends at references, so the depth of the source bounds
    /// it.
    fn node_to_schema(&self, id: NodeId) -> Value {
        let Some(node) = self.node(id).filter(|node| !node.never) else {
            return Value::Bool(false);
        };
        let mut map = node.assertions.clone();
        for (role, target) in &node.edges {
            let (keyword, key) = role.keyword();
            if *role == Role::Ref {
                let reference = if *target == ROOT { "#".to_owned() } else { format!("#/$defs/{target}") };
                match map.get(keyword) {
                    None => drop(map.insert(keyword.to_owned(), Value::String(reference))),
                    Some(_) => push_schema(&mut map, "allOf", json!({ "$ref": reference })),
                }
                continue;
            }
            let schema = self.node_to_schema(*target);
            match key {
                Some(key) => {
                    if let Value::Object(named) = map.entry(keyword).or_insert_with(|| json!({})) {
                        named.insert(key.to_owned(), schema);
                    }
                }
                None if role.is_list() => push_schema(&mut map, keyword, schema),
                None => drop(map.insert(keyword.to_owned(), schema)),
            }
        }
        for (keyword, tag) in [("anyOf", &node.any_of_tag), ("oneOf", &node.one_of_tag)] {
            if let Some(tag) = tag {
                pad_union(&mut map, keyword, tag);
            }
        }
        Value::Object(map)
    }
}

fn push_schema(map: &mut Map<String, Value>, keyword: &str, schema: Value) {
    if let Value::Array(list) = map.entry(keyword).or_insert_with(|| json!([])) {
        list.push(schema);
    }
}

/// Adds a third entry that matches nothing to a union of two with a tag.
///
/// The validator selects the entry by its tag only if there are at least three. Otherwise it would evaluate both, and
/// the cost of a recursive pair would double at every level.
fn pad_union(map: &mut Map<String, Value>, keyword: &str, tag: &str) {
    let Some(Value::Array(list)) = map.get_mut(keyword) else {
        return;
    };
    if list.len() == 2 {
        list.push(json!({"required": [tag], "properties": {tag: {"const": "\u{0}no such tag"}}, "not": {}}));
    }
}

/// A graph under construction.
struct Builder<'a, 's> {
    source: &'a Source<'s>,
    closer: Closer<'a, 's>,
    nodes: Vec<Node>,
    /// Targets of references, with one node for each scope of closing.
    targets: HashMap<(String, ClosingScope), NodeId>,
    queue: VecDeque<(NodeId, String, &'s Value, ClosingScope)>,
    limit: usize,
}

impl<'s> Builder<'_, 's> {
    fn reserve(&mut self, pointer: &str) -> Result<NodeId, SchemaError> {
        if self.nodes.len() >= self.limit {
            return Err(SchemaError::TooLarge {
                pointer: pointer.to_owned(),
                what: "subschemas, counting what is referred to more than once",
                found: self.limit as u64 + 1,
                limit: self.limit as u64,
            });
        }
        self.nodes.push(Node::default());
        Ok(self.nodes.len() - 1)
    }

    /// Builds a node and those that it holds. Recursion ends at references, so the depth of the document bounds it.
    fn fill(
        &mut self,
        id: NodeId,
        pointer: String,
        schema: &'s Value,
        scope: ClosingScope,
        owner: NodeId,
    ) -> Result<(), SchemaError> {
        let mut node = Node { never: schema == &Value::Bool(false), owner, ..Node::default() };
        if let Some(map) = schema.as_object() {
            let closing = if scope.here { self.closer.decide(schema, scope.root) } else { Closing::Leave };
            node.closing = Some(closing);
            node.assertions = ASSERTIONS
                .into_iter()
                .filter_map(|keyword| Some((keyword.to_owned(), map.get(keyword)?.clone())))
                .collect();
            node.any_of_tag = self.find_tag(map, "anyOf");
            node.one_of_tag = self.find_tag(map, "oneOf");
            for subschema in subschemas(map) {
                let Some(role) = subschema.role else { continue };
                // Without `if`, both have no effect (Core 2020-12, section 10.2.2).
                if matches!(role, Role::Then | Role::Else) && !map.contains_key("if") {
                    continue;
                }
                let place = format!("{pointer}{}", subschema.suffix);
                let child = self.reserve(&place)?;
                let scope = scope_below(&role, scope, closing);
                self.fill(child, place, subschema.schema, scope, owner)?;
                node.edges.push((role, child));
            }
            let scope = scope_below(&Role::Ref, scope, closing);
            for (target, schema) in self.source.targets(schema) {
                let child = self.reserve_target(target, schema, scope)?;
                node.edges.push((Role::Ref, child));
            }
            self.close(&mut node, map, closing, owner, &pointer)?;
        }
        node.origin = pointer;
        if let Some(slot) = self.nodes.get_mut(id) {
            *slot = node;
        }
        Ok(())
    }

    fn find_tag(&self, map: &'s Map<String, Value>, keyword: &str) -> Option<String> {
        let subschemas: Vec<_> = map.get(keyword)?.as_array()?.iter().collect();
        self.closer.find_tag(&subschemas).filter(|_| subschemas.len() > 1)
    }

    fn reserve_target(
        &mut self,
        pointer: String,
        schema: &'s Value,
        scope: ClosingScope,
    ) -> Result<NodeId, SchemaError> {
        if let Some(id) = self.targets.get(&(pointer.clone(), scope)) {
            return Ok(*id);
        }
        let id = self.reserve(&pointer)?;
        self.targets.insert((pointer.clone(), scope), id);
        self.queue.push_back((id, pointer, schema, scope));
        Ok(id)
    }

    fn close(
        &mut self,
        node: &mut Node,
        map: &Map<String, Value>,
        closing: Closing,
        owner: NodeId,
        pointer: &str,
    ) -> Result<(), SchemaError> {
        let role = match closing {
            Closing::Leave | Closing::Within(_) => return Ok(()),
            Closing::Additional => Role::AdditionalProperties,
            Closing::Unevaluated => Role::UnevaluatedProperties,
        };
        // A required property counts as declared, even if no other keyword mentions it.
        let required = map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|_| closing == Closing::Additional) {
            if node.property(name).is_none() {
                let any = self.reserve(pointer)?;
                self.set(any, Node { origin: pointer.to_owned(), owner, ..Node::default() });
                node.edges.push((Role::Property(name.to_owned()), any));
            }
        }
        let never = self.reserve(pointer)?;
        self.set(never, Node { origin: pointer.to_owned(), owner, never: true, ..Node::default() });
        node.edges.push((role, never));
        Ok(())
    }

    fn set(&mut self, id: NodeId, node: Node) {
        if let Some(slot) = self.nodes.get_mut(id) {
            *slot = node;
        }
    }
}

/// Returns the scope of closing for a schema held in the given role.
fn scope_below(role: &Role, scope: ClosingScope, closing: Closing) -> ClosingScope {
    let (keyword, _) = role.keyword();
    let below = match role {
        // A condition that rejects more makes the schema accept more: conditions keep their meaning.
        Role::Not | Role::If => false,
        _ => scope.below,
    };
    let here = match closing {
        Closing::Within("$dynamicRef") => *role == Role::Ref,
        Closing::Within(closed) => keyword == closed,
        _ => false,
    };
    // The flag only matters for closing; otherwise it would only duplicate nodes.
    let root = scope.root && below && role.is_in_place();
    ClosingScope { here: below && (here || !role.is_in_place()), below, root }
}
