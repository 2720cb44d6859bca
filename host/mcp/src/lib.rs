//! MCP both ways: sandboxed tools for any client, and any server's tools behind the same gate.
