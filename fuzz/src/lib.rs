//! The bodies of the fuzz targets. Each takes bytes and panics if a promise is broken; `tests/tests/fuzz/replay.rs` runs them
//! over the corpus without a fuzzer.

pub mod batch_parser;
#[cfg(feature = "engine")]
pub mod engine;
pub mod gate;
#[cfg(feature = "engine")]
pub mod prescan;
pub mod typed_values;
