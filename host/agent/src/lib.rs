//! The agent loop: a pure session, drivers that turn replies of a model into calls, and the pipeline that runs calls.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! Models, recorders and tools are ports: no provider, database or sandbox is named here.
//!
//! [`Agent`](agent::Agent) carries out what its [`session`] decides. The session reads replies through one of the
//! drivers, such as [`native`], and its calls run through an [`executor`], which is usually the [`pipeline`] in front of a
//! [`registry`] of tools.
//!
//! ```
//! use std::sync::Arc;
//!
//! use fumehood_agent::agent::Agent;
//! use fumehood_agent::native::NativeDriver;
//! use fumehood_agent::pipeline::PipelineBuilder;
//! use fumehood_core::chat::{Model, Request, Response};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A model is a provider, a script or a closure. This one always gives the same answer.
//! let model: Arc<dyn Model> = Arc::new(|_: &Request| Ok(Response::text("16")));
//! let pipeline = Arc::new(PipelineBuilder::default().build()?);
//! let mut agent = Agent::builder(model).driver(NativeDriver::default()).executor(pipeline).build()?;
//! assert_eq!(agent.run("What is (3 + 5) * 2?").await?.text(), "16");
//! # Ok(())
//! # }
//! ```

pub mod agent;
mod allowance;
mod clock;
pub mod code;
pub mod deferred;
mod drivers;
pub mod execution;
pub mod executor;
pub mod memory;
mod names;
mod output_schema;
pub mod pipeline;
pub mod program_record;
pub mod registry;
pub mod run_settings;
pub mod session;
pub mod tool_search;
mod truncate;

pub use allowance::CallAllowance;
pub use drivers::{batch, driver, native, react, render, reply_part};
pub use fumehood_core::persistence;
pub use memory::knowledge;
pub use names::suggest;
pub use pipeline::{allowlist, approval_queue, guardrail};
pub use registry::{identity, retry};
pub use session::{budget, transcript};
