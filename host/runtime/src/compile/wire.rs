//! The protocol between the host and its compiler process.
//!
//! The host writes one line of JSON, then the component. The compiler answers on its standard output: magic bytes, the
//! length of the code, the code, and nothing after it. If it does not compile, it writes the reason as one line of JSON to
//! its standard error.

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
pub(super) enum Said {
    /// A malformed component.
    Malformed(String),
    /// More memory needed than allowed.
    Memory,
    /// A compiler that cannot serve this host.
    Unfit(String),
}

/// Returns a hash of the engine's settings that compiled code depends on, in hexadecimal.
pub(crate) fn engine_id(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Encodes the header of an answer with `bytes` bytes of code.
pub(super) fn head(bytes: u64) -> [u8; HEADER_BYTES] {
    let mut head = [0; HEADER_BYTES];
    let (mark, length) = head.split_at_mut(ANSWER_MAGIC.len());
    mark.copy_from_slice(&ANSWER_MAGIC);
    length.copy_from_slice(&bytes.to_le_bytes());
    head
}

/// Decodes the length of the code from a header; `None` if it is not one of an answer.
pub(super) fn length(head: [u8; HEADER_BYTES]) -> Option<u64> {
    let rest = head.strip_prefix(&ANSWER_MAGIC)?;
    Some(u64::from_le_bytes(*rest.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{self, EngineProfile, EngineSettings};

    #[test]
    fn header_round_trips_the_length() {
        assert_eq!(length(head(0x0102_0304_0506)), Some(0x0102_0304_0506));
        assert_eq!(length(*b"#!/bin/sh\nexit 0"), None);
    }

    #[test]
    fn engines_of_all_profiles_share_compiled_code() {
        let id = |profile, memory_ceiling| {
            engine_id(&engine::build(&EngineSettings { profile, memory_ceiling, concurrency: 2 }).unwrap())
        };
        let plain = engine_id(&engine::build(&EngineSettings::only_compiling()).unwrap());
        assert_eq!(plain, id(EngineProfile::Plain, 64 << 20));
        assert_eq!(plain, id(EngineProfile::Strict, 64 << 20));
        assert_eq!(plain, id(EngineProfile::Automatic, 256 << 20));
    }
}
