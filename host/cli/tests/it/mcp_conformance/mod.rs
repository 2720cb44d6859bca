//! Third-party programs against ours: the official conformance suite of MCP in both roles and both revisions, the
//! Inspector, and servers, clients and a validator of registry entries in Python and for Node.
//!
//! `tests/mcp/setup DIR` installs them and `FUMEHOOD_MCP_TOOLS=DIR` says where they are; DIR counts from the root of
//! the project. Without the variable nothing is tested here, and a note on stderr says so.

mod clients;
mod expected;
mod matrix;
mod real_servers;
mod registry_entry;
mod server_process;
mod servers;
mod stdio_client;
mod suite;
pub(crate) mod tools;
