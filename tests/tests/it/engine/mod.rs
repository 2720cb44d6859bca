//! The engine with exactly the host's settings: the tests of the WebAssembly specification, every proposal that is off,
//! and generated modules that use all proposals. An abort would end this process, so the tests pass only if there is
//! none.

mod fixture;
mod generated;
mod proposals;
mod specification;
#[allow(unreachable_pub, reason = "it is public in the crate of the fuzz targets")]
#[path = "../../../../fuzz/src/engine.rs"]
pub(super) mod target;
mod wast_runner;
