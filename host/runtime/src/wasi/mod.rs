//! The host functions that a guest can call, one file for each power.
//!
//! All of WASI 0.2 is linked, because language runtimes import it whether they use it or not. Linking grants nothing:
//! each file here refuses the uses of its power that were not granted. Nothing outside this folder decides whether a
//! guest may do something.

mod account;
pub(crate) mod capability;
pub(crate) mod clocks;
pub(crate) mod filesystem;
pub(crate) mod guest_output;
pub(crate) mod http;
pub(crate) mod journal;
mod kept_memory;
mod key_value;
mod outbound;
mod p3;
pub(crate) mod random;
mod refusals;
mod report;
pub(crate) mod sockets;
mod state;
pub(crate) mod stdio;

use std::sync::Arc;

use fumehood_core::call::limits::Limits;
use fumehood_core::policy::permission::Grant;
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder};
use wasmtime_wasi_http::WasiHttpCtx;

use crate::engine::EngineKind;
pub(crate) use account::RequestLedger;
use bindings::Tool;
pub use capability::capability_interfaces;
pub(crate) use capability::{CallSessions, Capabilities, GrantedCapabilities};
pub use filesystem::FolderError;
pub(crate) use filesystem::no_folder_refusal;
pub(crate) use filesystem::{
    OpenFolder, OpenFolders, ProtectedSet, Removals, ScratchRoot, WorkerScratch, open_all, open_files,
};
pub(crate) use key_value::{ComponentStore, GrantedStore, KeyValueBackend, MAX_STORE_WAIT, UseError};
use outbound::Outbound;
pub(crate) use outbound::{DirectOutbound, OutboundConfig};
pub(crate) use refusals::{MAX_REFUSALS, Refusals};
pub(crate) use report::CallReport;
use sockets::Sockets;
pub(crate) use state::{CallState, CommandInput, HostFailure, HostServices, Invocation, Powers};

/// Rust bindings of `wit/`, generated.
pub(crate) mod bindings {
    #![allow(missing_docs, reason = "the documentation is in the WIT files that this is generated from")]
    #![allow(unreachable_pub, reason = "generated code makes everything public")]

    wasmtime::component::bindgen!({
        path: "wit",
        world: "tool",
        // The only one of our own imports that may have to wait: the store may be on disk.
        imports: { "fumehood:tool/key-value": async },
        exports: { default: async },
        ownership: Borrowing { duplicate_if_necessary: false },
    });
}

/// Rust bindings of the interface `resources`, which is optional, generated.
pub(crate) mod resource_bindings {
    #![allow(missing_docs, reason = "the documentation is in the WIT files that this is generated from")]
    #![allow(unreachable_pub, dead_code, reason = "generated code makes everything public, and binds the world, too")]

    wasmtime::component::bindgen!({
        path: "wit",
        inline: "
            package fumehood:host;
            world resources {
                export fumehood:tool/resources@0.1.0;
            }
        ",
        world: "fumehood:host/resources",
        with: { "fumehood:tool/types": crate::wasi::bindings::fumehood::tool::types },
        exports: { default: async },
        ownership: Borrowing { duplicate_if_necessary: false },
    });

    pub(crate) use exports::fumehood::tool::resources::*;
}

/// The command line of a program. Granted arguments stand between its name and those of the call.
pub(crate) struct Program<'a> {
    pub(crate) name: &'a str,
    pub(crate) input: &'a CommandInput,
}

/// The WASI contexts of one call.
pub(crate) struct Wasi {
    pub(crate) ctx: WasiCtx,
    pub(crate) http: WasiHttpCtx,
    pub(crate) egress: http::Egress,
    sockets: Arc<dyn Sockets>,
    stdio: stdio::Capture,
}

impl Wasi {
    /// Creates contexts with the powers of `grant`; every other use is refused.
    pub(crate) fn new(
        grant: &Grant,
        limits: &Limits,
        report: &CallReport,
        outbound: Outbound,
        program: Option<Program<'_>>,
    ) -> Self {
        let mut builder = WasiCtxBuilder::new();
        // The variables and arguments that were granted, none of the host's own, and no working directory.
        builder.envs(grant.environment().variables());
        let stdio = match program {
            Some(Program { name, input }) => {
                builder.arg(name).args(grant.command_line().arguments()).args(&input.args);
                builder.stdin(MemoryInputPipe::new(input.stdin.clone()));
                stdio::Capture::of_program(limits.log, limits.output)
            }
            None => {
                builder.args(grant.command_line().arguments());
                stdio::Capture::new(limits.log)
            }
        };
        stdio.attach(&mut builder);
        clocks::configure(&mut builder, grant.clock(), grant.fixed_time());
        random::configure(&mut builder, limits.random_bytes, grant.seed());
        filesystem::configure(&mut builder);
        // The sockets of WASI 0.2 are ours. Those of 0.3 refuse everything.
        builder.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        let Outbound { egress, sockets, ledger } = outbound;
        report.set_wasi(stdio.clone(), ledger);
        Self { ctx: builder.build(), http: http::context(egress.may_request()), egress, sockets, stdio }
    }

    /// Returns the bytes that are kept of it.
    fn output_bytes(&self) -> usize {
        self.stdio.kept_bytes()
    }
}

/// Links the contract, all of WASI 0.2, and the capabilities of the embedder. Asynchronous components also get WASI 0.3. A
/// component that imports anything else fails to load.
pub(crate) fn link(
    linker: &mut Linker<CallState>,
    kind: EngineKind,
    capabilities: &Capabilities,
) -> wasmtime::Result<()> {
    Tool::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    filesystem::link(linker, CallState::files)?;
    sockets::link(linker, CallState::sockets)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    kept_memory::bound_request_texts(linker)?;
    if kind == EngineKind::Asynchronous {
        p3::link(linker)?;
    }
    capability::link(linker, capabilities)
}
