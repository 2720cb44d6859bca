//! Requests of tools over real sockets: what is granted arrives as it should, and nothing else arrives anywhere.

mod addresses;
mod bounds;
mod cost;
mod examples;
mod names;
mod secrets;
mod server;
mod stage;
mod time;
mod wire;
