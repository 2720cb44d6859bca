//! Errors of compiling a schema.

/// An error returned when a schema is compiled.
///
/// A message about a location in the schema names it as a JSON pointer (RFC 6901); the schema as a whole is `#`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// `$schema` names another dialect than draft 2020-12.
    #[error(
        "the schema names `{given}` as its `$schema`; only JSON Schema draft 2020-12 is understood: leave `$schema` \
         out or write \"https://json-schema.org/draft/2020-12/schema\""
    )]
    Dialect {
        /// The value of `$schema`.
        given: String,
    },
    /// The schema of a tool's arguments does not describe an object.
    #[error(
        "the schema does not describe an object ({found}); a tool's arguments are an object: say \"type\": \"object\" \
         at the root"
    )]
    RootNotObject {
        /// The root of the schema, in words.
        found: String,
    },
    /// The schema violates the meta-schema of JSON Schema 2020-12.
    #[error("at #{pointer} stands {given}, which JSON Schema 2020-12 does not allow there")]
    Malformed {
        /// The location of the violation.
        pointer: String,
        /// The value there, shortened.
        given: String,
    },
    /// A number that is out of range, or has too many digits.
    #[error(
        "at #{pointer} stands the number {given}; numbers of a schema have at most 1,024 bytes and fit in a 64-bit float"
    )]
    Number {
        /// The schema that holds the number.
        pointer: String,
        /// The number, shortened.
        given: String,
    },
    /// An unsupported keyword.
    #[error("at #{pointer} the keyword `{keyword}` is not accepted; {instead}")]
    Keyword {
        /// The schema that holds the keyword.
        pointer: String,
        /// The keyword.
        keyword: &'static str,
        /// Advice on what to write instead.
        instead: &'static str,
    },
    /// A reference to nothing, or out of the document.
    #[error(
        "at #{pointer} the reference {reference} {why}; refer to a schema within this document, as in \"#/$defs/name\""
    )]
    Reference {
        /// The schema that holds the reference.
        pointer: String,
        /// The reference, shortened.
        reference: String,
        /// The reason why it is rejected.
        why: &'static str,
    },
    /// A cycle of references that all apply to the same value.
    #[error(
        "the schema at #{pointer} refers back to itself for the very same value; put a property or an item between"
    )]
    Cycle {
        /// One of the schemas in the cycle.
        pointer: String,
    },
    /// An unsupported pattern.
    #[error("at #{pointer} the pattern {pattern} {why}")]
    Pattern {
        /// The schema that holds the pattern.
        pointer: String,
        /// The pattern, shortened.
        pattern: String,
        /// The reason why it is rejected, and advice on what to write instead.
        why: String,
    },
    /// An exceeded size limit.
    #[error("at #{pointer} the schema has {found} {what}; at most {limit} are accepted")]
    TooLarge {
        /// The location where the limit was exceeded.
        pointer: String,
        /// The thing that was counted, with its unit.
        what: &'static str,
        /// The count, or the count reached when the limit was exceeded.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// An exceeded limit on the cost of checking a document.
    #[error(
        "checking a value against the schema at #{pointer} can take {found} evaluations for one path through the \
         document, of at most {limit}; let fewer alternatives look at the same value, tell them apart by a required \
         property with a \"const\", or say additionalProperties in each"
    )]
    TooExpensive {
        /// The schema that exceeds the limit.
        pointer: String,
        /// Evaluations of subschemas in the worst case; `u64::MAX` stands for any larger number.
        found: u64,
        /// The limit.
        limit: u64,
    },
}
