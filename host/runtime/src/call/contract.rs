//! The functions of the contract, in both of its versions.

use wasmtime::Store;
use wasmtime::component::{Instance, StreamReader, TypedFunc};

use super::deferred::{self, PartItem};
use super::input::{Arguments, Returned};
use super::run::{CallFailure, call_error, instantiate_error};
use crate::load::dialect::ContractExports;
use crate::wasi::bindings::exports::fumehood::tool::tools::{ToolCall, ToolDefinition};
use crate::wasi::{CallState, Invocation};

/// `call` of version 0.1, which returns all parts of the result.
type Call<'a> = TypedFunc<(ToolCall<'a>,), (Returned,)>;
/// `call` of version 0.2, which returns them as a stream.
type StreamingCall<'a> = TypedFunc<(ToolCall<'a>,), (StreamReader<PartItem>,)>;

/// Checks the type of `call`, so that a component with another type fails to load.
///
/// # Errors
/// If it has another type than in its version of the contract.
pub(super) fn check_call(
    store: &mut Store<CallState>,
    guest: &Instance,
    exports: &ContractExports,
) -> wasmtime::Result<()> {
    if exports.returns_stream {
        let _checked: StreamingCall<'_> = guest.get_typed_func(store, exports.call)?;
    } else {
        let _checked: Call<'_> = guest.get_typed_func(store, exports.call)?;
    }
    Ok(())
}

/// Calls `describe`.
///
/// # Errors
/// If the guest fails.
pub(super) async fn describe(
    store: &mut Store<CallState>,
    guest: &Instance,
    exports: &ContractExports,
) -> Result<Vec<ToolDefinition>, CallFailure> {
    let describe: TypedFunc<(), (Vec<ToolDefinition>,)> =
        guest.get_typed_func(&mut *store, exports.describe).map_err(instantiate_error)?;
    let (tools,) = describe.call_async(store, ()).await.map_err(call_error)?;
    Ok(tools)
}

/// Calls `call`, and reads the stream that version 0.2 returns.
///
/// # Errors
/// If the guest fails.
pub(super) async fn call(
    store: &mut Store<CallState>,
    guest: &Instance,
    exports: &ContractExports,
    arguments: &Arguments,
    call: &Invocation,
) -> Result<Returned, CallFailure> {
    let arguments = arguments.to_text();
    let request = ToolCall { id: &call.id, tool: &call.tool, arguments: &arguments };
    if exports.returns_stream {
        let function: StreamingCall<'_> = guest.get_typed_func(&mut *store, exports.call).map_err(instantiate_error)?;
        let (stream,) = function.call_async(&mut *store, (request,)).await.map_err(call_error)?;
        return deferred::read_parts(store, stream, &call.limits).await.map_err(call_error);
    }
    let function: Call<'_> = guest.get_typed_func(&mut *store, exports.call).map_err(instantiate_error)?;
    let (returned,) = function.call_async(store, (request,)).await.map_err(call_error)?;
    Ok(returned)
}
