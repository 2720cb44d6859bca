//! The client: tools of MCP servers, which may die, hang, flood or change without harm to anybody else.

mod address;
mod allowance;
mod backoff;
mod changes;
mod client_handler;
mod connection;
mod end_with_parent;
mod endpoint;
mod event_limit;
mod failure;
mod foreign;
mod headers;
mod http_client;
mod inspecting_transport;
mod launcher;
mod notice;
mod pending;
mod process;
mod program;
mod remote;
mod report;
mod result;
mod tool_pins;

pub use address::{AddressError, check_address};
pub use end_with_parent::end_with_parent;
pub use endpoint::{Endpoint, Launch, Through};
pub use failure::ConnectError;
pub use foreign::RemoteTool;
pub use headers::{HeaderError, Headers};
pub use inspecting_transport::OnProgress;
pub use notice::ToolNotice;
pub use remote::{Remote, RemoteOptions};

/// Pages of tools that are asked for.
const MAX_PAGES: usize = 64;
/// Tools that are taken from one server.
const MAX_LISTED_TOOLS: usize = 1000;
