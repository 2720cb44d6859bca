//! The difference between arguments of an adapted schema and those of the original.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The property under which a root that is no object is sent.
pub(super) const WRAPPER: &str = "value";

/// The difference between arguments of an adapted schema and those of the original.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ArgumentShape {
    /// True if the arguments are under the property `value`.
    pub(super) is_wrapped: bool,
    /// The properties with other names.
    pub(super) names: RenamedProperties,
}

/// The properties of a value that have other names in the adapted schema. Only what differs is listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RenamedProperties {
    /// By the name that is sent.
    properties: BTreeMap<String, RenamedProperty>,
    /// Those of the items of an array.
    items: Option<Box<RenamedProperties>>,
    /// Those of properties that are not listed in the schema.
    others: Option<Box<RenamedProperties>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RenamedProperty {
    /// The name in the original schema.
    name: String,
    nested: RenamedProperties,
}

impl RenamedProperties {
    pub(super) fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.items.is_none() && self.others.is_none()
    }

    pub(super) fn add_property(&mut self, wire: &str, name: &str, nested: Self) {
        if wire != name || !nested.is_empty() {
            self.properties.insert(wire.to_owned(), RenamedProperty { name: name.to_owned(), nested });
        }
    }

    pub(super) fn set_items(&mut self, nested: Self) {
        self.items = (!nested.is_empty()).then(|| Box::new(nested));
    }

    pub(super) fn set_others(&mut self, nested: Self) {
        self.others = (!nested.is_empty()).then(|| Box::new(nested));
    }

    /// Adds those of another alternative of the same value.
    pub(super) fn merge(&mut self, other: Self) {
        for (wire, property) in other.properties {
            let merged = self.properties.entry(wire).or_default();
            merged.name = property.name;
            merged.nested.merge(property.nested);
        }
        for (own, other) in [(&mut self.items, other.items), (&mut self.others, other.others)] {
            if let Some(other) = other {
                own.get_or_insert_default().merge(*other);
            }
        }
    }

    /// Finds a property by its original name. Returns it with the name that is sent.
    fn find_property(&self, name: &str) -> Option<(&String, &RenamedProperty)> {
        self.properties.iter().find(|(_, property)| property.name == name)
    }

    /// Returns the value with the names that are sent.
    fn to_wire(&self, value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let members = map.into_iter().map(|(name, value)| match self.find_property(&name) {
                    Some((wire, property)) => (wire.clone(), property.nested.to_wire(value)),
                    None => (name, to_wire_of(self.others.as_deref(), value)),
                });
                Value::Object(members.collect::<Map<_, _>>())
            }
            Value::Array(items) => items.into_iter().map(|item| to_wire_of(self.items.as_deref(), item)).collect(),
            value => value,
        }
    }

    /// Writes a JSON text with the original names. Numbers, duplicate names and escapes of values stay as they are, so
    /// that the gate sees what the model wrote.
    fn write_original(&self, text: &str, out: &mut String) -> Result<(), serde_json::Error> {
        match text.as_bytes().first() {
            Some(b'{') if !(self.properties.is_empty() && self.others.is_none()) => {
                let Members(members) = serde_json::from_str(text)?;
                out.push('{');
                for (index, (wire, value)) in members.into_iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    let property = self.properties.get(&wire);
                    let name = property.map_or(wire.as_str(), |property| property.name.as_str());
                    out.push_str(&serde_json::to_string(name)?);
                    out.push(':');
                    let nested = property.map(|property| &property.nested).or(self.others.as_deref());
                    write_original_of(nested, value.get(), out)?;
                }
                out.push('}');
            }
            Some(b'[') if self.items.is_some() => {
                let items: Vec<&RawValue> = serde_json::from_str(text)?;
                out.push('[');
                for (index, item) in items.into_iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    write_original_of(self.items.as_deref(), item.get(), out)?;
                }
                out.push(']');
            }
            _ => out.push_str(text),
        }
        Ok(())
    }
}

fn to_wire_of(names: Option<&RenamedProperties>, value: Value) -> Value {
    match names {
        Some(names) => names.to_wire(value),
        None => value,
    }
}

fn write_original_of(names: Option<&RenamedProperties>, text: &str, out: &mut String) -> Result<(), serde_json::Error> {
    match names {
        Some(names) => names.write_original(text, out)?,
        None => out.push_str(text),
    }
    Ok(())
}

impl ArgumentShape {
    /// Returns whether arguments are the same in both schemas.
    pub(crate) fn is_same(&self) -> bool {
        !self.is_wrapped && self.names.is_empty()
    }

    /// Returns arguments of the original schema for a model's JSON text. A text that is not of the adapted schema's form
    /// is returned unchanged, and the gate judges it.
    pub(crate) fn to_original<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_same() {
            return Cow::Borrowed(text);
        }
        let inner = if self.is_wrapped { unwrap(text) } else { Some(text.trim_ascii()) };
        let mut out = String::with_capacity(text.len());
        match inner.map(|inner| self.names.write_original(inner, &mut out)) {
            Some(Ok(())) => Cow::Owned(out),
            Some(Err(_)) | None => Cow::Borrowed(text),
        }
    }

    /// Returns arguments of the adapted schema for those of an earlier call, which go back to the provider.
    pub(crate) fn to_wire(&self, arguments: Value) -> Value {
        let arguments = self.names.to_wire(arguments);
        if self.is_wrapped { json!({ WRAPPER: arguments }) } else { arguments }
    }
}

/// Returns the text of the only member of a wrapper.
fn unwrap(text: &str) -> Option<&str> {
    let Members(members) = serde_json::from_str(text).ok()?;
    match members.as_slice() {
        [(name, value)] if name == WRAPPER => Some(value.get()),
        _ => None,
    }
}

/// The members of an object in their order, with duplicates.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed() -> ArgumentShape {
        let mut nested = RenamedProperties::default();
        nested.add_property("a_b", "a b", RenamedProperties::default());
        let mut list = RenamedProperties::default();
        list.set_items(nested);
        let mut names = RenamedProperties::default();
        names.add_property("top", "$top", RenamedProperties::default());
        names.add_property("list", "list", list);
        names.add_property("same", "same", RenamedProperties::default());
        ArgumentShape { is_wrapped: false, names }
    }

    #[test]
    fn restores_names_and_leaves_all_else_as_written() {
        fn check(text: &str, expected: &str) {
            assert_eq!(renamed().to_original(text), expected);
        }

        check(r#"{"top": 18446744073709551616, "b": 1.0}"#, r#"{"$top":18446744073709551616,"b":1.0}"#);
        check(r#"{"top":1,"top":2}"#, r#"{"$top":1,"$top":2}"#);
        check(r#"{"list":[{"a_b":"\ud800"},5],"same":{"top":1}}"#, r#"{"list":[{"a b":"\ud800"},5],"same":{"top":1}}"#);
        // The original names are understood as well.
        check(r#"{"$top":1}"#, r#"{"$top":1}"#);
        for broken in ["", "{", "not json", r#"{"top":1"#, "[1]", "null"] {
            check(broken, broken);
        }
    }

    #[test]
    fn unwraps_the_only_member() {
        let shape = ArgumentShape { is_wrapped: true, names: RenamedProperties::default() };
        assert_eq!(shape.to_original(r#"{"value": ["a", 1e400]}"#), r#"["a", 1e400]"#);
        for other in [r#"{"value":1,"value":2}"#, r#"{"other":1}"#, "[]", "{}"] {
            assert_eq!(shape.to_original(other), other);
        }
        assert_eq!(shape.to_wire(json!([1])), json!({"value": [1]}));
    }

    #[test]
    fn earlier_calls_have_the_names_that_are_sent() {
        let sent = renamed().to_wire(json!({"$top": 1, "list": [{"a b": 2}], "b": {"$top": 3}}));
        assert_eq!(sent, json!({"top": 1, "list": [{"a_b": 2}], "b": {"$top": 3}}));
    }
}
