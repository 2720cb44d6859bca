//! The one `unsafe` step of the project: handing compiled code to wasmtime.
//!
//! wasmtime trusts compiled code completely: whoever can put bytes here runs native code in this process. So this
//! function takes nothing but an [`Authentic`] file, and there are three ways to one. [`super::CodeCache::load`] makes it
//! after it has checked on the open file itself, not on a path, that it belongs to this user, that nobody else may write
//! it, and that its keyed hash is the one that this installation wrote beside it; a file from anywhere else has no such
//! hash. [`super::map_fresh`] makes it of [`super::FreshCode`], which came over a pipe from the compiler process that
//! this process started from a program that the operator named, and is sealed against every change. That program is
//! trusted as this one is: it is this one, unless an embedder says otherwise. In a worker process the host that started it
//! hands over an open file that it got in one of these ways itself ([`Authentic::handed_over`]).
#![allow(unsafe_code, reason = "the reason is the documentation of this file")]

use std::os::fd::AsRawFd;

use wasmtime::Engine;
use wasmtime::component::Component;

use super::Authentic;

/// Maps the compiled component.
///
/// # Errors
/// If wasmtime finds that it was compiled by another version or with other settings.
pub(super) fn map(engine: &Engine, file: &Authentic) -> wasmtime::Result<Component> {
    // The path leads to the file that was checked, whatever the name in the folder stands for by now.
    let path = format!("/proc/self/fd/{}", file.0.as_raw_fd());
    // SAFETY: the bytes were written by wasmtime's own serialization, on this installation or in the compiler that it
    // started, and have not changed since, which `Authentic` stands for. Another process of the same user could still
    // write to the file while it is mapped, but such a process can do anything to this one already.
    unsafe { Component::deserialize_file(engine, path) }
}
