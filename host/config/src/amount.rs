//! Amounts as people write them: `"250ms"`, `"64MiB"`, `"10M"`.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use fumehood_core::call::limits::{LimitError, display_bytes, parse_bytes, parse_count, parse_duration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum memory of a call, in bytes: the size of a 32-bit address space.
pub const MAX_MEMORY_BYTES: usize = 4 << 30;

/// An amount of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Duration);

/// An amount of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub usize);

/// A count of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub u64);

impl FromStr for Time {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        parse_duration(text).map(Self)
    }
}

/// Unlike a number in a file, an option of the command line needs a unit: see [`parse_size`].
impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_size(text).map(Self)
    }
}

impl FromStr for Count {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        parse_count(text).map(Self)
    }
}

/// A number, or a text with a unit.
struct Amount;

impl serde::de::Visitor<'_> for Amount {
    type Value = String;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a whole number, or a string with a number and a unit")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

/// A text with a unit of time.
struct TimeText;

impl serde::de::Visitor<'_> for TimeText {
    type Value = String;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string with a number and a unit, such as \"2s\"")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_str(TimeText)?;
        parse_duration(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_any(Amount)?;
        parse_bytes(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_any(Amount)?;
        parse_count(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nanos = self.0.as_nanos();
        let text = match () {
            () if nanos.is_multiple_of(1_000_000_000) => format!("{}s", nanos / 1_000_000_000),
            () if nanos.is_multiple_of(1_000_000) => format!("{}ms", nanos / 1_000_000),
            () => format!("{nanos}ns"),
        };
        serializer.collect_str(&text)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.0 as u64;
        let shown = display_bytes(bytes);
        // Only if the text stands for exactly this number.
        if parse_bytes(&shown).is_ok_and(|read| read == self.0) {
            serializer.serialize_str(&shown)
        } else {
            serializer.serialize_u64(bytes)
        }
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A time: a number with a unit, such as \"2s\".",
            "examples": ["250ms", "2s", "1m 30s"],
        })
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "minimum": 0,
            "description": "A size: a number of bytes, or a number with a unit, such as \"64MiB\".",
            "examples": ["64MiB", "512KiB", 65536],
        })
    }
}

impl JsonSchema for Count {
    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "minimum": 0,
            "description": "A whole number; `k`, `M` and `G` mean thousands, millions and billions.",
            "examples": [5000, "500M", "10G"],
        })
    }
}

/// Reads an amount of bytes with its unit, as times are read: a bare number could mean bytes or mebibytes. Zero is
/// zero.
///
/// # Errors
/// If it is no size, or has no unit.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let size = parse_bytes(text).map_err(|error| error.to_string())?;
    let number = text.trim();
    if number.bytes().all(|byte| byte.is_ascii_digit()) && size != 0 {
        Err(format!("`{number}` has no unit; expected, for example, `{number}MiB`, or `{number}B` for bytes"))
    } else {
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fumehood_core::call::limits::parse_duration;

    #[test]
    fn sizes_have_units() {
        assert_eq!((parse_size("64MiB"), parse_size("100B"), parse_size("0")), (Ok(64 << 20), Ok(100), Ok(0)));
        assert_eq!(
            parse_size("64").unwrap_err(),
            "`64` has no unit; expected, for example, `64MiB`, or `64B` for bytes"
        );
        assert!(parse_size("much").unwrap_err().contains("invalid size `much`"));
        assert!(parse_duration("5").is_err(), "times have units too");
    }
}
