//! The bodies of the fuzz targets. Each takes bytes, and panics if an invariant is violated.
//! `tests/tests/it/fuzz/replay.rs` runs them on the corpus without a fuzzer.

pub mod batch_parser;
#[cfg(feature = "engine")]
pub mod configuration;
#[cfg(feature = "engine")]
pub mod engine;
pub mod gate;
pub mod loopback;
pub mod mcp_answers;
pub mod mcp_framing;
pub mod model_reply;
#[cfg(feature = "engine")]
pub mod prescan;
#[cfg(feature = "engine")]
pub mod typed_conversion;
pub mod typed_values;
