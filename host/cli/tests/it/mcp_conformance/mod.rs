//! Third-party programs against ours: the official conformance suite of MCP in both roles and both revisions, the
//! Inspector, and a client, a server and a validator of registry entries in Python.
//!
//! `tests/mcp/setup DIR` installs them and `FUMEHOOD_MCP_TOOLS=DIR` says where they are; DIR counts from the root of
//! the project. Without the variable nothing is tested here, and a note on stderr says so.

mod clients;
mod expected;
mod registry_entry;
mod served;
mod servers;
mod suite;
pub(crate) mod tools;
