//! Keywords of JSON Schema 2020-12 that the gate acts on, and the subschemas in them.

use serde_json::{Map, Value};

/// The way in which a subschema applies to the value of the schema that holds it.
///
/// The first group applies in place, to the *same* value (Core 2020-12, sections 8.2.3 and 10.2); the second to a
/// value, or a property name, within it (section 10.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    /// The target of `$ref` or `$dynamicRef`.
    Ref,
    /// One entry of `allOf`.
    AllOf,
    /// One entry of `anyOf`.
    AnyOf,
    /// One entry of `oneOf`.
    OneOf,
    Not,
    If,
    Then,
    Else,
    /// The entry of `dependentSchemas` for this property.
    Dependent(String),
    /// The entry of `properties` for this property.
    Property(String),
    /// The entry of `patternProperties` for this pattern.
    Pattern(String),
    AdditionalProperties,
    UnevaluatedProperties,
    PropertyNames,
    /// One entry of `prefixItems`.
    PrefixItem,
    Items,
    Contains,
    UnevaluatedItems,
}

impl Role {
    /// Returns whether the subschema applies to the same value as the schema that holds it.
    pub(super) fn is_in_place(&self) -> bool {
        matches!(
            self,
            Self::Ref
                | Self::AllOf
                | Self::AnyOf
                | Self::OneOf
                | Self::Not
                | Self::If
                | Self::Then
                | Self::Else
                | Self::Dependent(_)
        )
    }

    /// Returns the keyword of this role, and the key below it if there is one.
    pub(super) fn keyword(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Ref => ("$ref", None),
            Self::AllOf => ("allOf", None),
            Self::AnyOf => ("anyOf", None),
            Self::OneOf => ("oneOf", None),
            Self::Not => ("not", None),
            Self::If => ("if", None),
            Self::Then => ("then", None),
            Self::Else => ("else", None),
            Self::Dependent(name) => ("dependentSchemas", Some(name)),
            Self::Property(name) => ("properties", Some(name)),
            Self::Pattern(pattern) => ("patternProperties", Some(pattern)),
            Self::AdditionalProperties => ("additionalProperties", None),
            Self::UnevaluatedProperties => ("unevaluatedProperties", None),
            Self::PropertyNames => ("propertyNames", None),
            Self::PrefixItem => ("prefixItems", None),
            Self::Items => ("items", None),
            Self::Contains => ("contains", None),
            Self::UnevaluatedItems => ("unevaluatedItems", None),
        }
    }

    /// Returns whether the keyword holds a list of schemas.
    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::AllOf | Self::AnyOf | Self::OneOf | Self::PrefixItem)
    }
}

/// A schema that another schema holds.
pub(super) struct Subschema<'s> {
    /// Its role; `None` for a definition, which has no effect until it is referred to.
    pub(super) role: Option<Role>,
    /// Its location below the schema that holds it, as a JSON pointer.
    pub(super) suffix: String,
    pub(super) schema: &'s Value,
}

/// The form of a keyword's value.
enum Shape {
    One(Role),
    List(Role),
    Named(fn(String) -> Role),
    Definitions,
}

fn shape_of(keyword: &str) -> Option<Shape> {
    Some(match keyword {
        "allOf" => Shape::List(Role::AllOf),
        "anyOf" => Shape::List(Role::AnyOf),
        "oneOf" => Shape::List(Role::OneOf),
        "not" => Shape::One(Role::Not),
        "if" => Shape::One(Role::If),
        "then" => Shape::One(Role::Then),
        "else" => Shape::One(Role::Else),
        "dependentSchemas" => Shape::Named(Role::Dependent),
        "properties" => Shape::Named(Role::Property),
        "patternProperties" => Shape::Named(Role::Pattern),
        "additionalProperties" => Shape::One(Role::AdditionalProperties),
        "unevaluatedProperties" => Shape::One(Role::UnevaluatedProperties),
        "propertyNames" => Shape::One(Role::PropertyNames),
        "prefixItems" => Shape::List(Role::PrefixItem),
        "items" => Shape::One(Role::Items),
        "contains" => Shape::One(Role::Contains),
        "unevaluatedItems" => Shape::One(Role::UnevaluatedItems),
        "$defs" | "definitions" => Shape::Definitions,
        _ => return None,
    })
}

/// The places of the schemas in the value of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The value is a schema.
    Schema,
    /// The value is a list of schemas.
    List,
    /// The value is an object with schemas as members.
    Named,
}

/// Returns the place of the schemas that a keyword holds; `None` if it holds none.
pub(super) fn place_of(keyword: &str) -> Option<Place> {
    shape_of(keyword).map(|shape| match shape {
        Shape::One(_) => Place::Schema,
        Shape::List(_) => Place::List,
        Shape::Named(_) | Shape::Definitions => Place::Named,
    })
}

/// Keywords that are assertions and hold no schema. All others are annotations and are left out.
pub(super) const ASSERTIONS: [&str; 20] = [
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
];

/// Keywords that refer to another schema.
pub(super) const REFERENCES: [&str; 2] = ["$ref", "$dynamicRef"];

/// Returns the direct subschemas of `schema`, in document order.
///
/// Data is never read as a schema: values of `const`, `enum`, `default` and `examples`, and of unknown keywords.
pub(super) fn subschemas(schema: &Map<String, Value>) -> Vec<Subschema<'_>> {
    let mut found = Vec::new();
    for (keyword, value) in schema {
        match (shape_of(keyword), value) {
            (Some(Shape::One(role)), schema) => {
                found.push(Subschema { role: Some(role), suffix: format!("/{keyword}"), schema });
            }
            (Some(Shape::List(role)), Value::Array(list)) => {
                for (index, schema) in list.iter().enumerate() {
                    found.push(Subschema { role: Some(role.clone()), suffix: format!("/{keyword}/{index}"), schema });
                }
            }
            (Some(Shape::Named(role)), Value::Object(named)) => {
                for (name, schema) in named {
                    let suffix = format!("/{keyword}/{}", escape(name));
                    found.push(Subschema { role: Some(role(name.clone())), suffix, schema });
                }
            }
            (Some(Shape::Definitions), Value::Object(named)) => {
                for (name, schema) in named {
                    found.push(Subschema { role: None, suffix: format!("/{keyword}/{}", escape(name)), schema });
                }
            }
            _ => {}
        }
    }
    found
}

/// Escapes one step of a JSON pointer (RFC 6901, section 3).
pub(super) fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ignores_property_names_and_data() {
        let schema = json!({
            "properties": {"required": {"type": "string"}, "a/b~c": true},
            "const": {"properties": {"x": true}},
            "default": {"$ref": "http://example.com"},
            "oneOf": [true, {}],
            "$defs": {"d": {}},
            "x-unknown": {"properties": {}},
        });
        let mut found: Vec<_> = subschemas(schema.as_object().unwrap()).into_iter().map(|held| held.suffix).collect();
        found.sort();
        assert_eq!(found, ["/$defs/d", "/oneOf/0", "/oneOf/1", "/properties/a~1b~0c", "/properties/required"]);
    }
}
