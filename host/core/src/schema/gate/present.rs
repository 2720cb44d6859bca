//! The schema of a gate, with what closing adds to it, for those who write arguments.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Gate;
use super::closing::Closing;

impl Gate {
    /// Returns the schema that the gate was compiled from, with `"additionalProperties": false` (and
    /// `"unevaluatedProperties": false` for composed schemas) where the gate rejects undeclared properties.
    ///
    /// A definition that is closed at one place and not at another stays as it is.
    ///
    /// ```
    /// use fumehood_core::schema::gate::{Gate, GateLimits};
    /// use serde_json::json;
    ///
    /// let schema = json!({"type": "object", "properties": {"a": {"type": "number"}}});
    /// let gate = Gate::for_arguments(&schema, GateLimits::default())?;
    /// assert_eq!(gate.present(&schema)["additionalProperties"], json!(false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn present(&self, schema: &Value) -> Value {
        let mut presented = schema.clone();
        for (pointer, closing) in self.closings() {
            if let Some(map) = presented.pointer_mut(pointer).and_then(Value::as_object_mut) {
                close(map, closing);
            }
        }
        presented
    }

    /// Returns the change at each location where all of its copies have the same one.
    fn closings(&self) -> BTreeMap<&str, Closing> {
        let mut found = BTreeMap::new();
        for node in (0..self.graph.len()).filter_map(|id| self.graph.node(id)) {
            let Some(closing) = node.closing else { continue };
            let known = found.entry(node.origin.as_str()).or_insert(closing);
            if *known != closing {
                *known = Closing::Leave;
            }
        }
        found
    }
}

fn close(map: &mut Map<String, Value>, closing: Closing) {
    match closing {
        Closing::Leave | Closing::Within(_) => {}
        Closing::Unevaluated => drop(map.insert("unevaluatedProperties".to_owned(), Value::Bool(false))),
        Closing::Additional => {
            // A required property counts as declared.
            let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
            let required: Vec<String> = required.filter_map(Value::as_str).map(str::to_owned).collect();
            if !required.is_empty()
                && let Value::Object(properties) = map.entry("properties").or_insert_with(|| Map::new().into())
            {
                for name in required {
                    properties.entry(name).or_insert_with(|| Map::new().into());
                }
            }
            map.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::gate::{ForeignSchema, GateLimits};

    fn check(schema: Value, expected: Value) {
        let gate = Gate::for_arguments(&schema, GateLimits::default()).unwrap();
        let presented = gate.present(&schema);
        assert_eq!(presented, expected, "{schema}");
        // What it says is what the gate does.
        let again = Gate::for_arguments(&presented, GateLimits::default()).unwrap();
        for document in [json!({}), json!({"z": 1}), json!({"a": {}}), json!({"a": {"z": 1}}), json!({"a": 1})] {
            assert_eq!(again.check(&document).is_ok(), gate.check(&document).is_ok(), "{schema} {document}");
        }
    }

    #[test]
    fn says_where_undeclared_properties_are_rejected() {
        fn part(extra: Value) -> Value {
            let mut part = json!({"properties": {"b": {}}});
            part.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            part
        }

        check(json!({}), json!({"additionalProperties": false}));
        check(json!({"type": "object"}), json!({"type": "object", "additionalProperties": false}));
        let free = json!({"type": "object", "properties": {"a": {"type": "object"}}, "additionalProperties": true});
        check(free.clone(), free);
        check(
            json!({"properties": {"a": {"properties": {"b": {}}}}}),
            json!({"properties": {"a": {"properties": {"b": {}}, "additionalProperties": false}}, "additionalProperties": false}),
        );
        check(
            json!({"required": ["a"]}),
            json!({"required": ["a"], "properties": {"a": {}}, "additionalProperties": false}),
        );
        check(
            json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}),
            json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}], "unevaluatedProperties": false}),
        );
        check(
            json!({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": part(json!({}))}}),
            json!({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": part(json!({"additionalProperties": false}))},
                "additionalProperties": false}),
        );
        // Closed at one place, and part of a whole at another.
        let both = json!({
            "properties": {"a": {"$ref": "#/$defs/A"}, "c": {"allOf": [{"$ref": "#/$defs/A"}, {"properties": {"d": {}}}]}},
            "$defs": {"A": part(json!({}))},
        });
        let gate = Gate::for_arguments(&both, GateLimits::default()).unwrap();
        assert_eq!(gate.present(&both)["$defs"], both["$defs"]);
    }

    #[test]
    fn schemas_of_servers_are_not_closed() {
        let limits = GateLimits::default();
        for schema in [
            json!({}),
            json!({"type": "object"}),
            json!({"type": "object", "properties": {}}),
            json!({"properties": {"a": {"type": "object", "properties": {"b": {}}}}}),
        ] {
            let foreign = ForeignSchema::translate(&schema, &limits);
            let gate = Gate::for_foreign_arguments(&foreign, limits.clone()).unwrap().gate;
            assert_eq!(gate.present(&schema), schema);
            assert_eq!(gate.check(&json!({"z": 1, "a": {"z": 1}})), Ok(()), "{schema}");
            assert!(gate.check(&json!([])).is_err());
        }
    }
}
