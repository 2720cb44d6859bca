//! Hooks of an operator: code that decides on calls before they run, and on their results.
//!
//! A hook is a component of the world `fumehood:hooks/hooks` ([`ComponentHook`]), or any [`Policy`](crate::policy::Policy). The
//! pipeline of an agent runs them ([`AgentBuilder::hooks`](crate::AgentBuilder::hooks)); for everybody else, a
//! [`Stack`](crate::Stack) puts them around tools.
//!
//! ```
//! use std::sync::Arc;
//!
//! use fumehood::hooks::ToolPatterns;
//! use fumehood::policy::{Policies, Policy};
//! use fumehood::{Call, Host, Load, Stack};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist");
//! let host = Host::builder().build()?;
//! host.load(Load::path(format!("{dist}/text.wasm"))).await?;
//! host.load(Load::path(format!("{dist}/redact-email.wasm"))).await?;
//! let hook = host.hook("redact-email")?.tools(ToolPatterns::new(["text__*"])?);
//! let hooks: Policies = [Arc::new(hook) as Arc<dyn Policy>].into_iter().collect();
//!
//! let tools = Stack::new().policies(hooks).around([host]);
//! let call = Call::new("text__regex_search", r#"{"text": "ada@example.com", "pattern": ".+"}"#);
//! let result = tools.dispatch(call).await;
//! assert!(result.is_ok() && !format!("{:?}", result.text()).contains("ada@"));
//! # Ok(())
//! # }
//! ```

mod component_hook;
mod protocol;
#[cfg(feature = "rate-limit")]
mod rate_limit;
mod redaction;
mod tool_patterns;

pub use component_hook::{ComponentHook, HookError, HookFunction};
#[cfg(feature = "rate-limit")]
pub use rate_limit::RateLimit;
pub use redaction::{Redaction, RedactionError};
pub use tool_patterns::{ToolPatternError, ToolPatterns};
