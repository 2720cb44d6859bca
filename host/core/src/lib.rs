//! Values and decisions of the Fumehood tool host.
//!
//! Nothing here reads a clock, a file or a socket, and nothing depends on wasmtime or on an executor: time and bytes are passed
//! as arguments. Names of tools, their definitions, limits, grants and results are the vocabulary that every other
//! crate shares.

pub mod approval;
pub mod boxed;
pub mod call;
pub mod chat;
pub mod content;
pub mod definition;
pub mod digest;
pub mod error_kind;
pub mod event;
pub mod gate;
pub mod json;
pub mod key_value;
pub mod limits;
pub mod name;
pub mod permission;
pub mod persistence;
pub mod record;
pub mod redact;
pub mod result;
pub mod sanitize;
pub mod time;
pub mod tool;
pub mod typed;
pub mod untrusted;
