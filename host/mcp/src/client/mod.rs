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
mod foreign;
mod free_form;
mod headers;
mod http_client;
mod launcher;
mod pending;
mod process;
mod remote;
mod report;
mod result;
mod seen;
mod watched;

pub use address::{AddressError, check_address};
pub use connection::ConnectError;
pub use end_with_parent::end_with_parent;
pub use endpoint::{Endpoint, Launch, Through};
pub use foreign::RemoteTool;
pub use headers::{HeaderError, Headers};
pub use remote::{Remote, RemoteOptions};
pub use watched::OnProgress;
