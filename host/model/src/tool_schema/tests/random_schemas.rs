//! Random schemas, the same in every run.

use serde_json::{Map, Value, json};

use super::TYPES;

/// The property names of random schemas.
pub(super) const NAMES: [&str; 10] = ["a", "b c", "$top", "x[y]", "größe", "", "7", "d.e-f", "_", "b_c"];

/// A source of numbers that is the same in every run.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.below(NAMES.len())]
    }

    /// Returns a schema of any form, valid or not.
    pub(super) fn schema(&mut self, depth: usize) -> Value {
        if depth == 0 || self.below(12) == 0 {
            return self
                .pick(&[json!(true), json!(false), json!({}), json!(null), json!({"type": "string"}), json!(3)])
                .clone();
        }
        let mut map = Map::new();
        for _ in 0..=self.below(4) {
            let (keyword, value) = self.keyword(depth - 1);
            map.insert(keyword.to_owned(), value);
        }
        Value::Object(map)
    }

    fn schemas(&mut self, depth: usize) -> Value {
        (0..self.below(4)).map(|_| self.schema(depth)).collect()
    }

    fn keyword(&mut self, depth: usize) -> (&'static str, Value) {
        match self.below(16) {
            0 | 1 => ("type", self.pick(&TYPES).to_string().into()),
            2 => ("type", json!([self.pick(&TYPES), self.pick(&TYPES), "odd", 1])),
            3..=5 => {
                let properties = (0..self.below(4)).map(|_| (self.name().to_owned(), self.schema(depth)));
                ("properties", Value::Object(properties.collect()))
            }
            6 => ("required", json!([self.name(), self.name(), 5])),
            7 => (*self.pick(&["anyOf", "oneOf", "allOf", "prefixItems"]), self.schemas(depth)),
            8 => (*self.pick(&["items", "additionalProperties", "not", "contains", "if"]), self.schema(depth)),
            9 => ("items", self.schemas(depth)),
            10 => ("$ref", (*self.pick(&["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "other", "#/x"])).into()),
            11 => (
                "enum",
                self.pick(&[json!([1, "a", null]), json!([]), json!([{}, [1]]), json!([true, 1.5]), json!("a")])
                    .clone(),
            ),
            12 => ("const", self.pick(&[json!("a"), json!(1), json!(null), json!({"a": 1})]).clone()),
            13 => (
                *self.pick(&["minimum", "maxLength", "minItems", "exclusiveMinimum", "multipleOf"]),
                self.pick(&[json!(1), json!(-1.5), json!(true), json!("x"), json!(u64::MAX)]).clone(),
            ),
            14 => (
                *self.pick(&["pattern", "format", "description", "title", "default", "nullable", "x-y"]),
                self.pick(&[json!("uri"), json!("date-time"), json!(null), json!(true), json!(["a"])]).clone(),
            ),
            _ => (
                *self.pick(&["properties", "required", "items", "anyOf", "$defs", "type"]),
                self.pick(&[json!(null), json!(1), json!("a"), json!({}), json!([])]).clone(),
            ),
        }
    }
}
