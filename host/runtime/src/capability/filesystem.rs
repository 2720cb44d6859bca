//! Files: none. There are no preopened folders, so a guest has no path to start from.

use wasmtime_wasi::WasiCtxBuilder;

/// Leaves the guest without a folder, and keeps file work off the threads that run guests.
pub(crate) fn refuse(builder: &mut WasiCtxBuilder) {
    builder.allow_blocking_current_thread(false);
}
