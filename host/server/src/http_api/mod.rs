//! The HTTP API: tools as resources, calls as requests, and a document that describes both.
//!
//! [`Api`] is a service of the listener, which admits requests, and limits connections and clients, in the same way for
//! every protocol. It serves any [`ToolProvider`](fumehood_core::tool::ToolProvider).
//!
//! ```
//! use std::sync::Arc;
//!
//! use fumehood_core::tool::ToolProvider;
//! use fumehood_server::http_api::{Api, ApiOptions};
//! use fumehood_server::{Access, HttpOptions, Listener};
//!
//! async fn serve(tools: Arc<dyn ToolProvider>) -> Result<(), Box<dyn std::error::Error>> {
//!     let listener = Listener::bind(HttpOptions::new(([127, 0, 0, 1], 8080).into(), Access::Anyone)).await?;
//!     let api = Api::new(tools, ApiOptions::default(), &listener)?;
//!     listener.services().open(vec![Arc::new(api)]);
//!     listener.serve(std::future::pending::<()>()).await;
//!     Ok(())
//! }
//! ```

mod api;
mod approval_resource;
mod call_answer;
mod calls;
pub mod dashboard;
mod extract;
mod history;
mod idempotency;
mod job_resource;
mod list_query;
mod negotiation;
mod openapi;
mod preferences;
mod problem;
mod response;
mod result;
mod routes;
mod running_message;
mod session_resource;
mod sessions;
mod state;
mod stream;
mod tools;
mod trace_headers;

pub use api::Api;
pub use history::{CallDetail, CallList, CallQuery, CallStore, CallSummary, PortError, RUNNING_STATUS};
pub use sessions::{
    ApprovalAnswer, ApprovalQuestion, NewSession, SavedSessionInfo, SessionAgent, SessionAgents, SessionApprovals,
    SessionCall, SessionError, SessionEvent, SessionEvents, SessionReply, WaitingCall,
};
pub use state::ApiOptions;
