//! JSON Schema of Rust types, and arguments parsed into them.

use schemars::JsonSchema;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::ToolError;

/// Returns the schema of a tool's arguments, which is always an object.
pub fn input_schema<T: JsonSchema>() -> Value {
    let mut schema =
        finish(SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>());
    // The schema of an enum with tagged variants has an object in each variant, but no type at the top.
    if let Some(object) = schema.as_object_mut() {
        object.entry("type").or_insert_with(|| json!("object"));
    }
    schema
}

/// Returns the schema of a tool's result.
pub(crate) fn output_schema<T: JsonSchema>() -> Value {
    finish(SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>())
}

/// Parses a tool's arguments. The host has already validated them against the schema; arguments that the types still
/// reject are reported to the model as invalid, with serde's message.
///
/// # Errors
///
/// If the text is not JSON or does not fit `T`.
pub fn parse_arguments<T: DeserializeOwned>(json: &str) -> Result<T, ToolError> {
    serde_json::from_str(json).map_err(ToolError::invalid_arguments)
}

fn finish(mut schema: Schema) -> Value {
    RecursiveTransform(replace_number_formats).transform(&mut schema);
    // The dialect is fixed by the contract, and the root's title is a Rust name, which is of no use to a model.
    schema.remove("$schema");
    schema.remove("title");
    schema.to_value()
}

/// Replaces schemars' names of Rust's number types, which validators ignore, by the corresponding bounds, so that a
/// host rejects numbers out of range before the tool runs.
fn replace_number_formats(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    let Some(format) = object.get("format").and_then(Value::as_str) else {
        return;
    };
    let bounds = match format {
        "int8" => bounds_of(i8::MIN, i8::MAX),
        "int16" => bounds_of(i16::MIN, i16::MAX),
        // A tool's `isize` and `usize` have 32 bits, even if its schema is generated natively.
        "int32" | "int" => bounds_of(i32::MIN, i32::MAX),
        "int64" => bounds_of(i64::MIN, i64::MAX),
        "uint8" => bounds_of(u8::MIN, u8::MAX),
        "uint16" => bounds_of(u16::MIN, u16::MAX),
        "uint32" | "uint" => bounds_of(u32::MIN, u32::MAX),
        "uint64" => bounds_of(u64::MIN, u64::MAX),
        "int128" | "uint128" | "float" | "double" => None,
        _ => return,
    };
    object.remove("format");
    if let Some((minimum, maximum)) = bounds {
        tighten(object, "minimum", minimum, |own, bound| own < bound);
        tighten(object, "maximum", maximum, |own, bound| own > bound);
    }
}

fn bounds_of(minimum: impl Into<Value>, maximum: impl Into<Value>) -> Option<(Value, Value)> {
    Some((minimum.into(), maximum.into()))
}

/// Sets a bound, unless the author set one that is at least as tight.
fn tighten(object: &mut Map<String, Value>, name: &str, bound: Value, is_looser: fn(f64, f64) -> bool) {
    let own = object.get(name).and_then(Value::as_f64);
    if own.zip(bound.as_f64()).is_none_or(|(own, bound)| is_looser(own, bound)) {
        object.insert(name.to_owned(), bound);
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    /// Not for the model.
    #[derive(Deserialize, Serialize, JsonSchema)]
    #[schemars(crate = "schemars")]
    struct Everything {
        /// A small one.
        small: u8,
        #[schemars(range(min = 1, max = 10))]
        some: Option<u32>,
        #[serde(default)]
        far: i64,
        ratio: f64,
        index: usize,
        #[schemars(extend("format" = "date"))]
        day: String,
    }

    #[test]
    fn replaces_number_formats_by_bounds() {
        let schema = input_schema::<Everything>();
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "description": "Not for the model.",
                "properties": {
                    "small": {"type": "integer", "minimum": 0, "maximum": 255, "description": "A small one."},
                    "some": {"type": ["integer", "null"], "minimum": 1, "maximum": 10},
                    "far": {"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX, "default": 0},
                    "ratio": {"type": "number"},
                    "index": {"type": "integer", "minimum": 0, "maximum": u32::MAX},
                    "day": {"type": "string", "format": "date"},
                },
                "required": ["small", "ratio", "index", "day"],
            })
        );
    }

    #[test]
    fn input_schema_is_always_an_object() {
        #[derive(Deserialize, JsonSchema)]
        #[serde(tag = "shape")]
        #[expect(dead_code, reason = "only its schema matters")]
        enum Shape {
            Circle { radius: f64 },
            Square { side: f64 },
        }
        assert_eq!(input_schema::<Shape>()["type"], "object");
    }
}
