//! MCP servers of settings: how each is started or reached, with which limits, and those of a host inside another program.

mod embedded_servers;
mod jail;
mod options;

pub(super) use embedded_servers::EmbeddedServers;
pub use embedded_servers::{AddedServer, ServerError};
pub use jail::{JailPlace, RUN_PROGRAM, server_jail};
pub use options::{entry_lines, server_options, start_timeout};
