//! The configuration file `fumehood.toml`.
//!
//! One file for each section, or for a few small ones, as plain structs. Their doc comments are the descriptions of the
//! JSON Schema, so they are written for those who edit the file. The types of the sandbox decide whether a power is
//! valid.

pub(crate) mod agent;
pub(crate) mod amount;
pub(crate) mod approval;
pub(crate) mod arguments;
#[cfg(feature = "cell")]
pub(crate) mod cell;
mod check;
mod fault;
pub(crate) mod file;
mod files;
pub(crate) mod flows;
pub(crate) mod guardrail;
pub(crate) mod hooks;
pub(crate) mod jobs;
mod keys;
pub(crate) mod logging;
#[cfg(test)]
mod malformed;
pub(crate) mod mcp;
pub(crate) mod model;
pub(crate) mod oauth;
mod open;
mod position;
pub(crate) mod powers;
pub(crate) mod price;
mod read;
pub(crate) mod registry;
mod server;
pub(crate) mod skill;
#[cfg(feature = "postgres")]
pub(crate) mod storage;
pub(crate) mod telemetry;
pub(crate) mod tenant;
pub(crate) mod tool;
pub(crate) mod tool_names;

pub(crate) use fault::{ConfigError, KeyFault};
pub(crate) use file::{Config, resolve, schema};
pub(crate) use open::{DEFAULT_FILE_NAME, text_of};
pub(crate) use powers::{Powers, grant_of_powers, powers_of_table};
