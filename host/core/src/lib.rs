//! Values and decisions of the Fumehood tool host.
//!
//! Nothing here reads a clock, a file or a socket, and nothing here knows of wasmtime or tokio: time and bytes arrive
//! as arguments. What a tool is called, what it takes and gives, how far it may go and how a call ended are the
//! vocabulary that every other crate shares.

pub mod approval;
pub mod boxed;
pub mod call;
pub mod canonical;
pub mod chat;
pub mod compact;
pub mod content;
pub mod definition;
pub mod digest;
pub mod error_kind;
pub mod event;
pub mod gate;
pub mod key_value;
pub mod limits;
pub mod name;
pub mod permission;
pub mod record;
pub mod redact;
pub mod request_report;
pub mod result;
pub mod sanitize;
pub mod time;
pub mod typed;
pub mod untrusted;
