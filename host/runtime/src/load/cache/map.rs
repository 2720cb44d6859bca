//! The only `unsafe` code of the project: mapping compiled code with wasmtime.
//!
//! wasmtime trusts compiled code completely: control over these bytes is native code execution in this process. So this
//! function takes nothing but an [`AuthenticCode`], which is created in three ways only:
//!
//! - [`super::CodeCache::load`] checks on the open file itself, not on a path, that it belongs to this user, that no
//!   other user may write it, and that its keyed hash is the one that this installation wrote beside it. A file from
//!   anywhere else has no such hash.
//! - [`super::map_fresh`] takes [`super::FreshCode`], which came over a pipe from the compiler process that this
//!   process started from a program that the operator named, and is sealed against every change. That program is as
//!   trusted as this one: it is this one, unless an embedder configures another.
//! - [`AuthenticCode::from_host`] takes an open file that the host of a worker process sent, and that it got in one of
//!   these ways itself.
#![allow(unsafe_code, reason = "the reason is the documentation of this file")]

use wasmtime::Engine;
use wasmtime::component::Component;

use super::AuthenticCode;

/// Maps a compiled component.
///
/// # Errors
/// If it was compiled by another version of wasmtime or with other settings.
pub(super) fn map(engine: &Engine, file: &AuthenticCode) -> wasmtime::Result<Component> {
    // The path leads to the file that was checked, even if its name in the folder belongs to another file by now.
    let path = fumehood_platform::sealed::path_of(&file.0);
    // SAFETY: the bytes were written by wasmtime's own serialization, on this installation or in the compiler that it
    // started, and have not changed since, which `AuthenticCode` guarantees. Another process of the same user could
    // still write to the file while it is mapped, but such a process can do anything to this one already.
    unsafe { Component::deserialize_file(engine, path) }
}
