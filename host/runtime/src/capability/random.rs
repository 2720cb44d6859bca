//! Randomness: real, and no more at once than the limit.

use wasmtime_wasi::WasiCtxBuilder;

/// Caps one request; a larger one traps. Each call of a guest has generators of its own, seeded by the host.
pub(crate) fn bound(builder: &mut WasiCtxBuilder, bytes: u64) {
    builder.max_random_size(bytes);
}
