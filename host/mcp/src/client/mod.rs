//! The MCP client: tools of MCP servers, which may die, hang, flood or change without harm to other tools.

mod call_clock;
mod call_error;
mod call_tool_result;
mod client_handler;
mod connect_error;
mod connection;
mod endpoint;
mod headers;
mod http_client;
mod inspecting_transport;
mod lenient;
mod message_tracker;
mod oauth;
mod process;
mod program;
mod progress;
mod redirect;
mod remote;
mod remote_tool;
mod tool_notice;
mod tool_pins;

pub use connect_error::ConnectError;
pub use endpoint::{AddressError, Credentials, Endpoint, Launch, LaunchWrapper, check_address};
pub use headers::{HeaderError, Headers};
pub use oauth::{ClientSecret, Login, LoginError, OAuthOptions, logout};
pub use process::end_with_parent;
pub use remote::{Remote, RemoteOptions};
pub use remote_tool::RemoteTool;
pub use tool_notice::ToolNotice;

/// Minimum of the number of pages that are requested of one `tools/list`. There are as many as there may be tools, because
/// a page has one at least.
const MIN_PAGES: usize = 64;
