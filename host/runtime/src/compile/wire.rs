//! What the host and its compiler process say to each other.
//!
//! The host writes one line of JSON, then the component. The compiler answers on its standard output: a mark, the length
//! of the code, the code, and nothing after it. If it does not compile, it says why in one line of JSON on its standard
//! error.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};
use wasmtime::Engine;

/// What an answer begins with, so that what some other program prints is not taken for code.
pub(super) const MARK: [u8; 8] = *b"FumeCode";
/// The mark, and the length in little-endian order.
pub(super) const HEAD: usize = 16;
/// The longest first line of a request, and the longest reason of a refusal, in bytes.
pub(super) const MAX_LINE: u64 = 16 << 10;

/// What is to be compiled, and what that may cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    /// Everything about the host's engine that compiled code depends on. The compiler must be set up the same.
    pub(super) engine: String,
    /// The length of the component, in bytes.
    pub(super) bytes: u64,
    /// CPU time for all threads, in whole seconds.
    pub(super) cpu_seconds: u64,
    /// Memory to write to, in bytes.
    pub(super) memory: u64,
}

/// Why there is no code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "message", rename_all = "snake_case")]
pub(super) enum Said {
    /// The component is at fault.
    Malformed(String),
    /// The memory that was allowed is not enough.
    Memory,
    /// The compiler cannot serve this host.
    Unfit(String),
}

/// Everything about an engine that compiled code depends on, as text.
pub(crate) fn engine_id(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The start of an answer with so many bytes of code.
pub(super) fn head(bytes: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let (mark, length) = head.split_at_mut(MARK.len());
    mark.copy_from_slice(&MARK);
    length.copy_from_slice(&bytes.to_le_bytes());
    head
}

/// The length of the code after this start of an answer; `None` if it is no answer.
pub(super) fn length(head: [u8; HEAD]) -> Option<u64> {
    let rest = head.strip_prefix(&MARK)?;
    Some(u64::from_le_bytes(*rest.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{self, EngineProfile, EngineSettings};

    #[test]
    fn an_answer_says_how_long_it_is() {
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
