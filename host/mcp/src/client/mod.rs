//! The client: tools of MCP servers, which may die, hang, flood or change without harm to anybody else.

mod address;
mod allowance;
mod backoff;
mod changes;
mod connection;
mod ears;
mod end_with_parent;
mod endpoint;
mod event_limit;
mod failure;
mod foreign;
mod headers;
mod http_client;
mod launcher;
mod notice;
mod pending;
mod process;
mod program;
mod remote;
mod report;
mod result;
mod seen;
mod watched;

pub use address::{AddressError, check_address};
pub use end_with_parent::end_with_parent;
pub use endpoint::{Endpoint, Launch, Through};
pub use failure::ConnectError;
pub use foreign::RemoteTool;
pub use headers::{HeaderError, Headers};
pub use notice::ToolNotice;
pub use remote::{Remote, RemoteOptions};
pub use watched::OnProgress;

/// Pages of tools that are asked for.
const MAX_PAGES: usize = 64;
/// Tools that are taken from one server.
const MAX_LISTED_TOOLS: usize = 1000;
