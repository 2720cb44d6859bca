//! The MCP client: tools of MCP servers, which may die, hang, flood or change without harm to other tools.

mod backoff;
mod call_client;
mod call_clock;
mod call_error;
mod call_tool_result;
mod client_handler;
mod connect_error;
mod connection;
mod endpoint;
mod handshake;
mod headers;
mod http_client;
mod http_message;
mod inspecting_transport;
mod lenient;
mod library;
mod list_changes;
mod message_tracker;
mod metadata;
mod oauth;
mod pager;
mod process;
mod program;
mod progress;
mod redirect;
mod remote;
mod remote_options;
mod remote_tool;
mod server_requests;
mod service_error;
mod tool_notice;
mod tool_pins;

pub use connect_error::ConnectError;
pub use endpoint::{
    AddressError, Credentials, Endpoint, Launch, LaunchSandbox, LaunchWrapper, SandboxedLaunch, check_address,
};
pub use headers::{HeaderError, Headers};
pub(crate) use library::{LibraryMethod, ResourceSubscription};
pub use library::{LibraryOptions, RemoteLibrary};
pub use list_changes::ListChanges;
pub(crate) use metadata::passed_client_metadata;
pub use oauth::{ClientSecret, Login, LoginError, OAuthOptions, logout};
pub use process::end_with_parent;
pub use remote::Remote;
pub use remote_options::RemoteOptions;
pub use remote_tool::{NamePrefix, RemoteTool};
pub use server_requests::ServerRequestPolicy;
pub use tool_notice::ToolNotice;

/// Minimum of the number of pages that are requested of one `tools/list`. There are as many as there may be tools, because
/// a page has one at least.
const MIN_PAGES: usize = 64;
