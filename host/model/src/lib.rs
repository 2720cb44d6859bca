//! Models behind the one port of `fumehood_core::chat`: providers over the network, and a script.
//!
//! A closure is a model too; `fumehood_core::chat` sees to that. Nothing outside this crate knows the client library.

mod config;
mod endpoint;
mod provider;
mod retry;
mod scripted;
mod spec;
mod wire;

pub use config::{Key, ProviderConfig, Retries, Timeouts};
pub use endpoint::SetupError;
pub use provider::Provider;
pub use scripted::{MAX_SCRIPT_BYTES, ScriptError, ScriptedAnswer, ScriptedModel, ScriptedReply};
pub use spec::{ModelSpec, Service, SpecError};
