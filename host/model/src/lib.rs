//! Implementations of [`fumehood_core::chat::Model`]: providers over the network, and a scripted model for tests.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! Closures implement the trait too, in `fumehood_core::chat`. The client library (`genai`) is not named outside this
//! crate.
//!
//! ```
//! use fumehood_core::chat::{Message, Model, Request, NullDeltaSink};
//! use fumehood_model::{ModelSpec, Provider, ProviderConfig, ScriptedModel, ScriptedReply};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // No request is sent before `chat` is called.
//! let provider = Provider::new(&ModelSpec::parse("ollama:llama3.2")?, ProviderConfig::default())?;
//! assert_eq!(provider.model(), "llama3.2");
//!
//! let script = ScriptedModel::new(vec![ScriptedReply::text("16").expect_text("(3 + 5) * 2")]);
//! let request = Request { messages: vec![Message::user("What is (3 + 5) * 2?")], ..Request::default() };
//! assert_eq!(script.chat(&request, &mut NullDeltaSink).await?.reply.text(), "16");
//! # Ok(())
//! # }
//! ```

mod answer_stream;
mod config;
mod endpoint;
mod provider;
mod refused_tools;
mod replies;
mod retry;
mod scripted;
mod spec;
mod tool_schema;
mod wire;

pub use config::{Key, ProviderConfig, ReasoningEffort, Retries, Timeouts};
pub use endpoint::SetupError;
pub use provider::Provider;
pub use scripted::{MAX_SCRIPT_BYTES, ScriptError, ScriptedAnswer, ScriptedModel, ScriptedReply};
pub use spec::{ModelSpec, Service, SpecError};
