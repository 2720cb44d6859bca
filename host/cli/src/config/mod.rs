//! `fumehood.toml`: what an operator sets up once instead of typing it every time.
//!
//! One file for each section, as plain structs. Their documentation is also what the JSON Schema says, so it is written for
//! those who edit the file. Nothing here decides whether a power makes sense; the types of the sandbox do.

pub(crate) mod agent;
pub(crate) mod amount;
mod check;
mod fault;
pub(crate) mod file;
mod files;
pub(crate) mod guardrail;
mod keys;
pub(crate) mod limits;
pub(crate) mod log;
#[cfg(test)]
mod malformed;
pub(crate) mod mcp;
mod methods;
pub(crate) mod model;
mod open;
mod position;
pub(crate) mod powers;
mod read;
pub(crate) mod secret;
pub(crate) mod serve;
mod server;
pub(crate) mod skill;
pub(crate) mod text;
pub(crate) mod tool;

pub(crate) use fault::ConfigError;
pub(crate) use file::{Config, resolve, schema};
pub(crate) use open::{DEFAULT_FILE_NAME, text_of};
