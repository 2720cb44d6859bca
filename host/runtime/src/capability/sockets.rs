//! Raw sockets and name lookup: refused, whatever else is granted.

use wasmtime_wasi::WasiCtxBuilder;

/// Refuses TCP, UDP and name lookup, and every address besides.
pub(crate) fn refuse(builder: &mut WasiCtxBuilder) {
    builder.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
    builder.socket_addr_check(|_, _| Box::pin(async { false }));
}
