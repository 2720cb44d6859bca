//! The protocol between the host and its compiler process.
//!
//! The host writes one line of JSON, then the component. The compiler answers on its standard output: magic bytes, the
//! length of the code, the code, and nothing after it. If it does not compile, it writes the reason as one line of JSON
//! to its standard error.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};
use wasmtime::Engine;

/// The first bytes of an answer, so that output of another program is not taken for code.
pub(super) const ANSWER_MAGIC: [u8; 8] = *b"FumeCode";
/// Size of the header of an answer: the magic bytes, and the length in little-endian order.
pub(super) const HEADER_BYTES: usize = 16;
/// Maximum length of the first line of a request, and of a reported reason.
pub(super) const MAX_LINE_BYTES: u64 = 16 << 10;

/// The first line of a request: the size of the component, and the limits of the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    /// The [`engine_id`] of the host, which must equal the compiler's.
    pub(super) engine: String,
    /// The length of the component, in bytes.
    pub(super) bytes: u64,
    /// Maximum CPU time of all threads, in whole seconds.
    pub(super) cpu_seconds: u64,
    /// Maximum writable memory, in bytes.
    pub(super) memory: u64,
}

/// A reason for not returning code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "message", rename_all = "snake_case")]
pub(super) enum CompileFailure {
    /// The component is malformed, or uses something that the engine does not support.
    Malformed(String),
    /// Compiling needs more memory than allowed.
    Memory,
    /// The compiler cannot serve this host.
    Unfit(String),
}

/// Returns a hash of everything about an engine that compiled code depends on, such as its version and settings, in
/// hexadecimal.
pub(crate) fn engine_id(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Encodes the header of an answer with `bytes` bytes of code.
pub(super) fn encode_header(bytes: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let (magic, length) = header.split_at_mut(ANSWER_MAGIC.len());
    magic.copy_from_slice(&ANSWER_MAGIC);
    length.copy_from_slice(&bytes.to_le_bytes());
    header
}

/// Decodes the length of the code from a header; `None` if it is not one of an answer.
pub(super) fn decode_header(header: [u8; HEADER_BYTES]) -> Option<u64> {
    let rest = header.strip_prefix(&ANSWER_MAGIC)?;
    Some(u64::from_le_bytes(*rest.first_chunk()?))
}

/// Returns the engine's reason for refusing a component, in one line, with a hint if the file seems to be truncated or
/// to have something appended.
pub(super) fn describe_malformed(error: &wasmtime::Error) -> String {
    describe_parser_error(&error.chain().last().map_or_else(String::new, ToString::to_string))
}

/// Like [`describe_malformed`], for a message of the parser.
pub(super) fn describe_parser_error(cause: &str) -> String {
    let cut_or_appended = ["unexpected end", "unexpected-end", "out of bounds"].iter().any(|sign| cause.contains(sign));
    let hint = if cut_or_appended { " (check that the file is complete)" } else { "" };
    format!("{}{hint}", crate::wasi::guest_output::cut(cause))
}

/// Returns whether the system or an allocator refused memory.
pub(super) fn is_out_of_memory(error: &wasmtime::Error) -> bool {
    error.is::<wasmtime::error::OutOfMemory>() || error.chain().any(fumehood_platform::limits::is_out_of_memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{self, EngineKind, EngineProfile, EngineSettings};

    #[test]
    fn header_round_trips_the_length() {
        assert_eq!(decode_header(encode_header(0x0102_0304_0506)), Some(0x0102_0304_0506));
        assert_eq!(decode_header(*b"#!/bin/sh\nexit 0"), None);
    }

    fn id_of(profile: EngineProfile, memory_ceiling: usize) -> String {
        let kind = EngineKind::Synchronous;
        engine_id(
            &engine::build(&EngineSettings { kind, profile, memory_ceiling, concurrency: 2, programs: 0 }).unwrap(),
        )
    }

    #[test]
    fn engines_of_all_profiles_share_compiled_code() {
        let [plain, asynchronous] =
            EngineKind::ALL.map(|kind| engine_id(&engine::build(&EngineSettings::only_compiling(kind)).unwrap()));
        assert_ne!(plain, asynchronous);
        assert_eq!(plain, id_of(EngineProfile::Plain, 64 << 20));
        assert_eq!(plain, id_of(EngineProfile::Strict, 64 << 20));
        assert_eq!(plain, id_of(EngineProfile::Automatic, 256 << 20));
    }
}
