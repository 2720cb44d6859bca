//! Limits on what a JSON message costs to parse, checked before it is parsed.
//!
//! A parsed value takes some thirty bytes where the message may spend two on it, and rmcp reads a message into generic
//! values first and then tries one type after the other on them. So a short message can cost seconds and hundreds of
//! megabytes. [`measure`] looks at each byte once, allocates nothing, and bounds what any parser can make of the
//! message. Every message passes it: HTTP bodies, lines, and what the servers of other parties send.

/// Maximum nesting of arrays and objects. `serde_json` refuses more than this, too.
pub const MAX_DEPTH: usize = 127;
/// Maximum number of values and member names in a message. The largest legitimate messages, lists of a thousand tools
/// with their schemas and tables as arguments, have some ten thousand.
pub const MAX_VALUES: usize = 100_000;
/// A message with at most this many bytes and 512 values is parsed where it is read, which takes about a millisecond.
pub const CHEAP_BYTES: usize = 64 << 10;
/// The beginning of the names by which `serde_json` passes numbers and texts through its own types. As the name of a member, one
/// turns a string into the values in it, which nobody has counted.
const RESERVED_NAMES: &[u8] = b"$serde_json::private::";
/// See [`CHEAP_BYTES`].
const CHEAP_VALUES: usize = 512;

/// An upper bound for what parsing a message takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the message.
    pub bytes: usize,
    /// Values and member names, empty arrays and objects counted twice.
    pub values: usize,
}

impl Size {
    /// Returns whether the message may be parsed on a thread that serves others.
    #[must_use]
    pub fn is_cheap(self) -> bool {
        self.bytes <= CHEAP_BYTES && self.values <= CHEAP_VALUES
    }
}

/// Errors returned by [`measure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// Nesting over [`MAX_DEPTH`].
    #[error("the message is nested deeper than {MAX_DEPTH} levels; send a flatter one")]
    Depth,
    /// More values and names than [`MAX_VALUES`].
    #[error("the message has more than {MAX_VALUES} values and names; send fewer")]
    Values,
    /// Several messages in an array. The revisions of the protocol that are served do not support batches.
    #[error("batches are not supported; send one message at a time, as an object")]
    Batch,
    /// A member with a name that the parser of JSON keeps for itself.
    #[error("the name of a member starts with `$serde_json::private::`, which is reserved; rename it")]
    ReservedName,
}

/// Bounds what parsing the message takes, in one pass and without allocating. It need not be JSON.
///
/// Up to the byte at which a parser finds an error, strings begin and end here where they do for the parser, so the
/// counts hold for what it has read by then.
///
/// # Errors
/// If the message is over [`MAX_DEPTH`] or [`MAX_VALUES`], is an array, or has a member with a reserved name.
pub fn measure(message: &[u8]) -> Result<Size, BoundsError> {
    let mut values = 1_usize;
    let mut depth = 0_usize;
    let mut bytes = message.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                let rest = bytes.as_slice();
                skip_string(&mut bytes);
                if is_reserved(rest) && bytes.as_slice().trim_ascii_start().starts_with(b":") {
                    return Err(BoundsError::ReservedName);
                }
            }
            b'[' | b'{' => {
                (values, depth) = (values + 1, depth + 1);
                if depth > MAX_DEPTH {
                    return Err(BoundsError::Depth);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            // The first element of an array or object was counted with its bracket.
            b',' | b':' => values += 1,
            _ => continue,
        }
        if values > MAX_VALUES {
            return Err(BoundsError::Values);
        }
    }
    if message.trim_ascii_start().starts_with(b"[") {
        return Err(BoundsError::Batch);
    }
    Ok(Size { bytes: message.len(), values })
}

/// Skips to the byte after the quote that ends a string.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                let _escaped = bytes.next();
            }
            _ => {}
        }
    }
}

/// Returns whether a string, from the byte after its first quote on, begins as the reserved names do, however it is escaped.
fn is_reserved(mut string: &[u8]) -> bool {
    RESERVED_NAMES.iter().all(|expected| {
        let rest = match string {
            [found, rest @ ..] if found == expected => Some(rest),
            // No other escape stands for a character of these names.
            [b'\\', b'u', b'0', b'0', high, low, rest @ ..] => {
                let high = char::from(*high).to_digit(16);
                let code = high.zip(char::from(*low).to_digit(16)).map(|(high, low)| high << 4 | low);
                (code == Some(u32::from(*expected))).then_some(rest)
            }
            _ => None,
        };
        string = rest.unwrap_or_default();
        rest.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(message: &str) -> usize {
        measure(message.as_bytes()).unwrap().values
    }

    #[test]
    fn counts_values_and_names_outside_of_strings() {
        assert_eq!(values(""), 1);
        assert_eq!(values("7"), 1);
        assert_eq!(values(r#""[1,2]{:\"[[[,""#), 1);
        assert_eq!(values("{}"), 2);
        // The object, two names, two values.
        assert_eq!(values(r#"{"a":1,"b":2}"#), 5);
        assert_eq!(values(r#"{"a":[0,0,0]}"#), 6);
        assert_eq!(values(r#"{"a\\":[0,0]}"#), 5);
    }

    fn zeroes(count: usize) -> String {
        format!(r#"{{"a":[{}0]}}"#, "0,".repeat(count - 1))
    }

    fn nest(depth: usize) -> String {
        format!("{}0{}", r#"{"a":"#.repeat(depth), "}".repeat(depth))
    }

    #[test]
    fn limits_are_exact() {
        // The object, its member's name, and the array are three.
        assert_eq!(values(&zeroes(MAX_VALUES - 3)), MAX_VALUES);
        assert_eq!(measure(zeroes(MAX_VALUES - 2).as_bytes()), Err(BoundsError::Values));
        assert!(measure(nest(MAX_DEPTH).as_bytes()).is_ok());
        assert!(serde_json::from_str::<serde_json::Value>(&nest(MAX_DEPTH)).is_ok());
        assert_eq!(measure(nest(MAX_DEPTH + 1).as_bytes()), Err(BoundsError::Depth));
        assert!(serde_json::from_str::<serde_json::Value>(&nest(MAX_DEPTH + 1)).is_err());
        for batch in ["[]", " [1]", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#] {
            assert_eq!(measure(batch.as_bytes()), Err(BoundsError::Batch), "{batch}");
        }
    }

    fn has_reserved_name(message: &str) -> bool {
        measure(message.as_bytes()) == Err(BoundsError::ReservedName)
    }

    #[test]
    fn no_member_has_a_name_that_the_parser_makes_values_of() {
        for name in [
            "$serde_json::private::RawValue",
            "$serde_json::private::Number",
            r"\u0024serde_json::private::RawValue",
            r"$s\u0065rde_json\u003A\u003a\u0070rivate::RawValu\u0065",
        ] {
            assert!(has_reserved_name(&format!(r#"{{"{name}":"[0,0]"}}"#)), "{name}");
            assert!(has_reserved_name(&format!("{{\"a\":{{\"{name}\" \r\n\t: \"[0,0]\"}}}}")), "{name}");
            assert!(!has_reserved_name(&format!(r#"{{"a":["{name}","{name}"],"b":"{name}"}}"#)), "{name} as a text");
            assert!(!has_reserved_name(&format!(r#"{{"a{name}":"[0,0]"}}"#)), "within a name");
        }
        for other in ["$serde_json", r"\u0025serde_json::private::Number", r"\u24", "$serde_json::private:\\:"] {
            assert!(!has_reserved_name(&format!(r#"{{"{other}":1}}"#)), "{other}");
        }
    }

    #[test]
    fn never_counts_less_than_a_parser_finds() {
        fn parsed(value: &serde_json::Value) -> usize {
            1 + match value {
                serde_json::Value::Array(items) => items.iter().map(parsed).sum(),
                serde_json::Value::Object(members) => members.values().map(|value| 1 + parsed(value)).sum(),
                _ => 0,
            }
        }
        for message in [
            r#"{"a":{"b":[],"c":{},"d":[[],[{}]]},"e":"\"","f":"\\","g":null}"#,
            "{\"\\u0022\":[1.5e3,true,false,null,\"\u{e4},\"]}",
            " { \"a\" : [ 1 , 2 ] } ",
        ] {
            let value: serde_json::Value = serde_json::from_str(message).unwrap();
            assert!(values(message) >= parsed(&value), "{message}");
        }
    }
}
