//! Messages, requests and responses between the agent loop and a model, in a provider-neutral format.

mod error;
mod message;
mod model;
mod request;
mod response;

pub use error::{ModelError, ModelFailure};
pub use message::{Image, Message, Role, Thought, ToolIntent};
pub use model::{Activity, Delta, DeltaSink, Model, NullDeltaSink};
pub use request::{Request, ToolChoice, ToolSpec};
pub use response::{Reply, Response, StopReason, Usage};
