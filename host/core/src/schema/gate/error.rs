//! Errors of compiling a schema.

/// An error returned when a schema is compiled.
///
/// A message about a location in the schema names it as a JSON pointer (RFC 6901); the schema as a whole is `#`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// `$schema` names another dialect than draft 2020-12.
    #[error(
        "unsupported `$schema` `{given}`; only JSON Schema draft 2020-12 is supported: leave `$schema` out, or use \
         \"https://json-schema.org/draft/2020-12/schema\""
    )]
    Dialect {
        /// The value of `$schema`.
        given: String,
    },
    /// The schema of a tool's arguments does not describe an object.
    #[error(
        "the schema does not describe an object ({found}), but the arguments of a tool are an object; add \"type\": \
         \"object\" at the root"
    )]
    RootNotObject {
        /// The root of the schema, in words.
        found: String,
    },
    /// The schema violates the meta-schema of JSON Schema 2020-12.
    #[error("at #{pointer}, {given} is not allowed by JSON Schema 2020-12")]
    Malformed {
        /// The location of the violation.
        pointer: String,
        /// The value there, shortened.
        given: String,
    },
    /// A number that is out of range, or has too many digits.
    #[error(
        "at #{pointer}, the number {given} is not supported; numbers in a schema must have at most 1,024 bytes and \
         fit in a 64-bit float"
    )]
    Number {
        /// The schema that holds the number.
        pointer: String,
        /// The number, shortened.
        given: String,
    },
    /// An unsupported keyword.
    #[error("at #{pointer}, the keyword `{keyword}` is not supported: {instead}")]
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
    #[error("the schema at #{pointer} refers to itself for the same value, without a property or item in between")]
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
        "checking a value against the schema at #{pointer} can take {found} evaluations per path through the \
         document; the maximum is {limit}. Use fewer alternatives for the same value, distinguish them by a required \
         property with a \"const\", or set additionalProperties in each"
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
