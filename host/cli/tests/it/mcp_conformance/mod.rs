//! Third-party programs against ours: the official conformance suite of MCP in both roles and both revisions, the
//! Inspector, and a client and a server in Python.
//!
//! `tests/mcp/setup DIR` installs them and `FUMEHOOD_MCP_TOOLS=DIR` says where they are; DIR counts from the root of
//! the project. Without the variable nothing is tested here, and a note on stderr says so.

mod clients;
mod expected;
mod served;
mod servers;
mod suite;
mod tools;
