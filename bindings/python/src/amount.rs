//! Amounts as people write them: `"250ms"`, `"64MiB"`, `"10M"`, as in `fumehood.toml`.

use std::fmt;
use std::time::Duration;

use fumehood::limits::{parse_bytes, parse_count, parse_duration};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// An amount of time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time(pub(crate) Duration);

/// An amount of bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes(pub(crate) usize);

/// A count of something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(pub(crate) u64);

/// A whole number, or a text with a unit.
struct Amount;

impl Visitor<'_> for Amount {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, or a text with a number and a unit")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Self).map_err(Error::custom)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_any(Amount)?;
        parse_bytes(&text).map(Self).map_err(Error::custom)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_any(Amount)?;
        parse_count(&text).map(Self).map_err(Error::custom)
    }
}
