//! Tests of the guest SDK as a tool author uses it.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used, reason = "a test fails by panicking")]

mod bindings;
mod guide;
mod tools;
