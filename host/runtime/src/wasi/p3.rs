//! The interfaces of WASI 0.3, for asynchronous components. They read the same contexts as those of 0.2, so that a grant means
//! the same in both.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p3::Request;
use wasmtime_wasi_http::p3::bindings::http::types::{HostRequest as _, Method, Scheme};

use super::kept_memory::{MAX_AUTHORITY_BYTES, MAX_METHOD_BYTES, MAX_PATH_BYTES, MAX_SCHEME_BYTES};
use super::{CallState, filesystem};

/// The interface of requests and responses.
const HTTP_TYPES: &str = "wasi:http/types@0.3.0";

/// Links all of WASI 0.3.
pub(super) fn link(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p3::add_to_linker(linker)?;
    wasmtime_wasi_http::p3::add_to_linker(linker)?;
    linker.allow_shadowing(true);
    filesystem::link_p3(linker)?;
    bound_request_texts(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Replaces the functions that store a text of a request, as [`super::kept_memory`] does for those of WASI 0.2.
fn bound_request_texts(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    type Set<T> = (Resource<Request>, T);
    type Store<'a> = StoreContextMut<'a, CallState>;
    let mut types = linker.instance(HTTP_TYPES)?;
    types.func_wrap(
        "[method]request.set-method",
        |mut store: Store<'_>, (request, method): Set<Method>| match &method {
            Method::Other(name) if name.len() > MAX_METHOD_BYTES => Ok((Err(()),)),
            _ => Ok((store.data_mut().http().set_method(request, method)?,)),
        },
    )?;
    types.func_wrap("[method]request.set-scheme", |mut store: Store<'_>, (request, scheme): Set<Option<Scheme>>| {
        match &scheme {
            Some(Scheme::Other(name)) if name.len() > MAX_SCHEME_BYTES => Ok((Err(()),)),
            _ => Ok((store.data_mut().http().set_scheme(request, scheme)?,)),
        }
    })?;
    types.func_wrap(
        "[method]request.set-authority",
        |mut store: Store<'_>, (request, authority): Set<Option<String>>| match &authority {
            Some(name) if name.len() > MAX_AUTHORITY_BYTES => Ok((Err(()),)),
            _ => Ok((store.data_mut().http().set_authority(request, authority)?,)),
        },
    )?;
    types.func_wrap(
        "[method]request.set-path-with-query",
        |mut store: Store<'_>, (request, path): Set<Option<String>>| match &path {
            Some(path) if path.len() > MAX_PATH_BYTES => Ok((Err(()),)),
            _ => Ok((store.data_mut().http().set_path_with_query(request, path)?,)),
        },
    )
}
