//! Limits on the size and depth of a schema, enforced before anything else reads it.

use std::io;

use serde_json::Value;

use super::error::SchemaError;
use super::format::format_value;
use super::keywords::escape;
use super::{GateLimits, number};

/// Rejects a schema that is nested too deeply or whose text is too long.
///
/// Depth is checked first, because all later steps, serialization included, may recurse.
pub(super) fn check(schema: &Value, limits: &GateLimits) -> Result<(), SchemaError> {
    check_depth(schema, limits.schema_depth)?;
    let mut counter = ByteCounter(0);
    let written = serde_json::to_writer(&mut counter, schema);
    if written.is_err() || counter.0 > limits.schema_bytes {
        return Err(SchemaError::TooLarge {
            pointer: String::new(),
            what: "bytes of text",
            found: u64::try_from(counter.0).unwrap_or(u64::MAX),
            limit: u64::try_from(limits.schema_bytes).unwrap_or(u64::MAX),
        });
    }
    Ok(())
}

/// Rejects a value with more than `limit` levels. Walks without recursion, because the depth is not bounded yet.
fn check_depth(schema: &Value, limit: usize) -> Result<(), SchemaError> {
    let mut pending = vec![(schema, 0_usize, String::new())];
    while let Some((value, depth, pointer)) = pending.pop() {
        let below = match value {
            Value::Array(items) => {
                items.iter().enumerate().map(|(index, item)| (item, index.to_string())).collect::<Vec<_>>()
            }
            Value::Object(members) => members.iter().map(|(name, member)| (member, escape(name))).collect(),
            _ => continue,
        };
        check_numbers(below.iter().map(|(value, _)| *value), &pointer)?;
        if depth >= limit {
            return Err(SchemaError::TooLarge {
                pointer,
                what: "levels of nesting",
                found: depth as u64 + 1,
                limit: limit as u64,
            });
        }
        // Scalars add no depth.
        let containers = below.into_iter().filter(|(value, _)| value.is_array() || value.is_object());
        pending.extend(containers.map(|(value, step)| (value, depth + 1, format!("{pointer}/{step}"))));
    }
    Ok(())
}

/// Rejects numbers with so many digits that comparing with them takes long.
fn check_numbers<'v>(values: impl Iterator<Item = &'v Value>, pointer: &str) -> Result<(), SchemaError> {
    for number in values.filter_map(Value::as_number) {
        if number::check(number.as_str()).is_err() {
            let given = format_value(&Value::Number(number.clone()));
            return Err(SchemaError::Number { pointer: pointer.to_owned(), given });
        }
    }
    Ok(())
}

/// A writer that counts bytes and stores none.
struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> Value {
        (1..levels).fold(json!({}), |inner, _| json!({"items": inner}))
    }

    #[test]
    fn enforces_depth_limit() {
        let limits = GateLimits::default();
        assert_eq!(check(&nested(32), &limits), Ok(()));
        let error = check(&nested(33), &limits).unwrap_err();
        assert!(error.to_string().contains("33 levels of nesting; at most 32"), "{error}");
        assert!(error.to_string().contains("#/items/items"), "{error}");
    }

    #[test]
    fn enforces_size_limit() {
        fn fill(bytes: usize) -> Value {
            json!({"title": "x".repeat(bytes - r#"{"title":""}"#.len())})
        }

        let limits = GateLimits::default();
        assert_eq!(check(&fill(65_536), &limits), Ok(()));
        let error = check(&fill(65_537), &limits).unwrap_err();
        assert_eq!(error.to_string(), "at # the schema has 65537 bytes of text; at most 65536 are accepted");
    }
}
