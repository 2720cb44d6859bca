//! Why a schema is not accepted.

/// Why a schema was refused when it was loaded.
///
/// Every message names the place in the schema as a JSON pointer (RFC 6901); the schema as a whole is `#`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The schema says that it is written in another dialect.
    #[error(
        "the schema names `{given}` as its `$schema`; only JSON Schema draft 2020-12 is understood: leave `$schema` \
         out or write \"https://json-schema.org/draft/2020-12/schema\""
    )]
    Dialect {
        /// What `$schema` says.
        given: String,
    },
    /// The schema of a tool's arguments does not describe an object.
    #[error(
        "the schema does not describe an object ({found}); a tool's arguments are an object: say \"type\": \"object\" \
         at the root"
    )]
    RootNotObject {
        /// What it describes.
        found: String,
    },
    /// JSON Schema does not allow what stands there.
    #[error("at #{pointer} stands {given}, which JSON Schema 2020-12 does not allow there")]
    Malformed {
        /// Where.
        pointer: String,
        /// What stands there, shortened.
        given: String,
    },
    /// A keyword that is not accepted there.
    #[error("at #{pointer} the keyword `{keyword}` is not accepted; {instead}")]
    Keyword {
        /// The schema that holds the keyword.
        pointer: String,
        /// The keyword.
        keyword: &'static str,
        /// What to do about it.
        instead: &'static str,
    },
    /// A reference that leads nowhere, or out of the document.
    #[error(
        "at #{pointer} the reference {reference} {why}; refer to a schema within this document, as in \"#/$defs/name\""
    )]
    Reference {
        /// The schema that holds the reference.
        pointer: String,
        /// The reference, shortened.
        reference: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// References lead back to their start without ever looking at another part of the value.
    #[error(
        "the schema at #{pointer} refers back to itself for the very same value; put a property or an item between"
    )]
    Cycle {
        /// One of the schemas of the circle.
        pointer: String,
    },
    /// A pattern that is not accepted.
    #[error("at #{pointer} the pattern {pattern} {why}")]
    Pattern {
        /// The schema that holds the pattern.
        pointer: String,
        /// The pattern, shortened.
        pattern: String,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// The schema is over one of its size limits.
    #[error("at #{pointer} the schema has {found} {what}; at most {limit} are accepted")]
    TooLarge {
        /// Where the limit was passed.
        pointer: String,
        /// What was counted, with its unit.
        what: &'static str,
        /// How many there are, or how many had been counted when it was clear that there are too many.
        found: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Checking a document could take too long.
    #[error(
        "checking a value against the schema at #{pointer} can take {found} evaluations for one path through the \
         document, of at most {limit}; let fewer alternatives look at the same value, tell them apart by a required \
         property with a \"const\", or say additionalProperties in each"
    )]
    TooExpensive {
        /// The schema that costs the most.
        pointer: String,
        /// Evaluations of a subschema, worst case; `u64::MAX` stands for any larger figure.
        found: u64,
        /// The limit.
        limit: u64,
    },
}
