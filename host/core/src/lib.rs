//! Values and decisions of the Fumehood tool host.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! Nothing here reads a clock, a file or a socket, and nothing depends on wasmtime or on an executor: time and bytes are
//! passed as arguments. Names of tools, their definitions, limits, grants and results are the vocabulary that every other
//! crate shares.
//!
//! ```
//! use std::sync::Arc;
//!
//! use fumehood_core::call::Arguments;
//! use fumehood_core::schema::gate::{Gate, GateLimits};
//! use fumehood_core::tool::Tool;
//! use fumehood_core::tool::definition::{DefinitionLimits, RawDefinition};
//! use serde_json::json;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
//! let definition = RawDefinition {
//!     name: "count".to_owned(),
//!     description: "Counts the words of a text.".to_owned(),
//!     input_schema: schema.to_string(),
//!     ..RawDefinition::default()
//! };
//! let gate = Gate::for_arguments(&schema, GateLimits::default())?;
//! let tool = Arc::new(Tool::new(definition.parse(&DefinitionLimits::default())?, gate));
//!
//! // Only arguments that match the schema become a call.
//! let call = tool.validate(Arguments::Value(json!({"text": "one two"})))?;
//! assert_eq!(call.to_text(), r#"{"text":"one two"}"#);
//! assert!(tool.validate(Arguments::Value(json!({"txt": "one two"}))).is_err());
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "wire")]
pub mod bounded_list;
pub mod call;
pub mod capability;
pub mod chat;
pub mod dependency;
pub mod digest;
pub mod job;
pub mod key_value;
pub mod log;
pub mod opaque_numbers;
pub mod panic;
pub mod persistence;
pub mod policy;
pub mod program;
pub mod record;
pub mod saved_session;
pub mod schema;
pub mod telemetry;
pub mod text;
pub mod time;
pub mod tool;
pub mod trace_context;

pub use policy::flow;

/// The boxed future that asynchronous ports return, so that a port can be a trait object.
pub mod boxed {
    use std::pin::Pin;

    /// A boxed future that can be sent between threads: the return type of asynchronous methods of ports.
    pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
}
