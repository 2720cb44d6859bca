//! The client: tools of MCP servers, which may die, hang, flood or change without harm to anybody else.

mod backoff;
mod connection;
mod endpoint;
mod foreign;
mod process;
mod remote;
mod result;

pub use connection::ConnectError;
pub use endpoint::{Endpoint, Launch};
pub use foreign::RemoteTool;
pub use remote::{Remote, RemoteOptions};
