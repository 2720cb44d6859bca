//! Requests of tools over real sockets: those that are granted arrive as they should, and no others do.

mod addresses;
mod bounds;
mod cost;
mod examples;
mod names;
mod secrets;
pub(crate) mod server;
pub(crate) mod stage;
mod time;
mod wire;
