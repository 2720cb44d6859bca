//! The memory that the host keeps for a guest between two host functions: its handles, and what is behind them.
//!
//! It counts toward the memory limit of the call, together with the guest's own memories and tables. Every function of
//! WASI begins with [`CallState::admit_host_function`], whatever its interface, so that a resource that this file does
//! not name is counted as a handle at least. ARCHITECTURE.md has the table of all resources.

use std::any::Any;

use wasmtime::component::{Linker, Resource, ResourceTable};
use wasmtime::{ResourceLimiter, StoreContextMut};
use wasmtime_wasi_http::p2::bindings::http::types::{HostOutgoingRequest as _, Method, Scheme};
use wasmtime_wasi_http::p2::body::{HostFutureTrailers, HostIncomingBody, HostOutgoingBody};
use wasmtime_wasi_http::p2::types::{
    HostFutureIncomingResponse, HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse,
};
use wasmtime_wasi_http::{FieldMap, WasiHttpView as _, p3};

use super::CallState;
use super::http::RequestBuffers;

/// Bytes that each handle counts, in addition to what is behind it.
const HANDLE_BYTES: usize = 1 << 10;
/// Maximum number of bytes that one host function adds to what is kept: the buffers of an exchange, a request with a
/// path of maximum length, or a batch of names.
const MAX_ADDED_BYTES: usize = 512 << 10;
/// Bytes of one entry in a map of headers, besides its text.
const FIELD_BYTES: usize = 128;
/// Bytes that a map of headers may hold on to after its entries were removed.
const FIELDS_SLACK_BYTES: usize = 32 << 10;

/// Maximum length of the method of a request. The longest registered one has 17 characters.
pub(super) const MAX_METHOD_BYTES: usize = 64;
/// Maximum length of the scheme of a request.
pub(super) const MAX_SCHEME_BYTES: usize = 64;
/// Maximum length of the authority of a request: a name has at most 253 characters (RFC 1035, section 2.3.4).
pub(super) const MAX_AUTHORITY_BYTES: usize = 1 << 10;
/// Maximum length of the path and query of a request.
pub(super) const MAX_PATH_BYTES: usize = (64 << 10) - 2;

/// The version of `wasi:http` that wasmtime links. Components that import an earlier one get the same functions.
const HTTP_TYPES: &str = "wasi:http/types@0.2.12";

impl CallState {
    /// Counts a host function that is about to run. If the host keeps more than the limit of the call by now, it
    /// releases all of it: this function and all later ones find no resource, and the guest is stopped.
    pub(super) fn admit_host_function(&mut self) {
        self.is_fuel_saved = true;
        if self.memory.add_kept(MAX_ADDED_BYTES) || self.memory.kept_too_much().is_some() {
            return;
        }
        let kept = self.kept_bytes();
        if !self.memory.recount_kept(kept) {
            self.memory.release_kept();
            let mut empty = ResourceTable::new();
            empty.set_max_capacity(0);
            *self.table_mut() = empty;
        }
    }
}

impl ResourceLimiter for CallState {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        self.make_room(desired.saturating_sub(current));
        self.memory.memory_growing(current, desired, maximum)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        self.make_room(desired.saturating_sub(current).saturating_mul(size_of::<usize>()));
        self.memory.table_growing(current, desired, maximum)
    }

    fn instances(&self) -> usize {
        self.memory.instances()
    }

    fn memories(&self) -> usize {
        self.memory.memories()
    }

    fn tables(&self) -> usize {
        self.memory.tables()
    }
}

impl CallState {
    /// Returns the bytes that the host keeps for the guest.
    fn kept_bytes(&mut self) -> usize {
        let (buffers, output) =
            self.wasi().map(|wasi| (wasi.egress.buffers(), wasi.output_bytes())).unwrap_or_default();
        let files = self.file_buffer_bytes();
        table_bytes(self.table_mut(), buffers).saturating_add(output).saturating_add(files)
    }

    /// Counts again what is kept, if the estimate leaves no room for `bytes` more.
    fn make_room(&mut self, bytes: usize) {
        if !self.memory.fits(bytes) {
            let kept = self.kept_bytes();
            self.memory.recount_kept(kept);
        }
    }
}

/// Returns the bytes behind all handles of a table, at most.
fn table_bytes(table: &mut ResourceTable, buffers: RequestBuffers) -> usize {
    table.iter_mut().map(|entry| HANDLE_BYTES.saturating_add(entry_bytes(entry, buffers))).sum()
}

/// Returns the bytes behind one handle, at most. Buffers are counted as full: the tasks that fill and empty them run
/// at any time.
fn entry_bytes(entry: &(dyn Any + Send), buffers: RequestBuffers) -> usize {
    if let Some(fields) = entry.downcast_ref::<FieldMap>() {
        return fields_bytes(fields);
    }
    if let Some(request) = entry.downcast_ref::<HostOutgoingRequest>() {
        let body = if request.body.is_some() { buffers.body } else { 0 };
        return request_bytes(request).saturating_add(body);
    }
    if let Some(response) = entry.downcast_ref::<HostOutgoingResponse>() {
        let body = if response.body.is_some() { buffers.body } else { 0 };
        return fields_bytes(&response.headers).saturating_add(body);
    }
    if entry.is::<HostOutgoingBody>() {
        return buffers.body;
    }
    // Those of WASI 0.3. Their bodies are streams, whose buffers are counted with the request or the response.
    if let Some(request) = entry.downcast_ref::<p3::Request>() {
        let texts = request.authority.as_ref().map_or(0, |authority| authority.as_str().len())
            + request.path_with_query.as_ref().map_or(0, |path| path.as_str().len());
        return fields_bytes(&request.headers).saturating_add(texts).saturating_add(buffers.body);
    }
    if let Some(response) = entry.downcast_ref::<p3::Response>() {
        return fields_bytes(&response.headers).saturating_add(buffers.exchange.max(buffers.body));
    }
    if let Some(response) = entry.downcast_ref::<HostIncomingResponse>() {
        let connection = if response.body.is_some() { buffers.exchange } else { 0 };
        return fields_bytes(&response.headers).saturating_add(connection);
    }
    match entry.downcast_ref::<HostFutureIncomingResponse>() {
        Some(HostFutureIncomingResponse::Pending(_) | HostFutureIncomingResponse::Ready(Ok(_))) => {
            return buffers.exchange;
        }
        Some(_) => return 0,
        None => {}
    }
    match entry.downcast_ref::<HostFutureTrailers>() {
        Some(HostFutureTrailers::Waiting(_) | HostFutureTrailers::Done(Ok(Some(_)))) => return buffers.exchange,
        Some(_) => return 0,
        None => {}
    }
    if entry.is::<HostIncomingBody>() {
        return buffers.exchange;
    }
    super::filesystem::entry_bytes(entry).max(super::sockets::entry_bytes(entry))
}

fn request_bytes(request: &HostOutgoingRequest) -> usize {
    let method = if let Method::Other(name) = &request.method { name.capacity() } else { 0 };
    let scheme = if let Some(Scheme::Other(name)) = &request.scheme { name.capacity() } else { 0 };
    let texts = request.authority.as_ref().map_or(0, String::capacity)
        + request.path_with_query.as_ref().map_or(0, String::capacity);
    fields_bytes(&request.headers) + method + scheme + texts
}

/// Returns the bytes of a map of headers. A map that was shared is counted once for each of its handles.
fn fields_bytes(fields: &FieldMap) -> usize {
    if fields.capacity() == 0 {
        return 0;
    }
    // Further values of one name are entries of their own.
    let entries = fields.capacity().saturating_add(fields.len().saturating_sub(fields.keys_len()));
    let values: usize = fields.values().map(http::HeaderValue::len).sum();
    let names: usize = fields.keys().map(|name| name.as_str().len()).sum();
    FIELDS_SLACK_BYTES + entries.saturating_mul(FIELD_BYTES) + values + names
}

/// Replaces the functions that store a text of a request, which wasmtime accepts at any length. A text that is too long
/// is refused like one that is malformed.
pub(super) fn bound_request_texts(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    type Set<T> = (Resource<HostOutgoingRequest>, T);
    type Store<'a> = StoreContextMut<'a, CallState>;
    linker.allow_shadowing(true);
    let mut types = linker.instance(HTTP_TYPES)?;
    types.func_wrap(
        "[method]outgoing-request.set-method",
        |mut store: Store<'_>, (request, method): Set<Method>| match &method {
            Method::Other(name) if name.len() > MAX_METHOD_BYTES => Ok((Err(()),)),
            _ => Ok((store.data_mut().http().set_method(request, method)?,)),
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-scheme",
        |mut store: Store<'_>, (request, scheme): Set<Option<Scheme>>| match &scheme {
            Some(Scheme::Other(name)) if name.len() > MAX_SCHEME_BYTES => Ok((Err(()),)),
            _ => Ok((store.data_mut().http().set_scheme(request, scheme)?,)),
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut store: Store<'_>, (request, authority): Set<Option<String>>| match &authority {
            Some(name) if name.len() > MAX_AUTHORITY_BYTES => Ok((Err(()),)),
            _ => Ok((store.data_mut().http().set_authority(request, authority)?,)),
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-path-with-query",
        |mut store: Store<'_>, (request, path): Set<Option<String>>| match &path {
            Some(path) if path.len() > MAX_PATH_BYTES => Ok((Err(()),)),
            _ => Ok((store.data_mut().http().set_path_with_query(request, path)?,)),
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}
