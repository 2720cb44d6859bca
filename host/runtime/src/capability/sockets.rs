//! Raw sockets and name lookup, which no grant allows.

use fumehood_core::policy::permission::{Power, Refusal};
use wasmtime_wasi::WasiCtxBuilder;

use super::refusals::Refusals;

/// Refuses TCP, UDP and name lookup, and also every single address.
pub(crate) fn deny(builder: &mut WasiCtxBuilder, refusals: &Refusals) {
    builder.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
    let refusals = refusals.clone();
    builder.socket_addr_check(move |address, _use| {
        refusals.add(Refusal {
            power: Power::Sockets,
            tried: format!("a raw socket to {address}"),
            because: "raw sockets are never granted".to_owned(),
            allow: None,
        });
        Box::pin(async { false })
    });
}
