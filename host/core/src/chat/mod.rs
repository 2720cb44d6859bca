//! What is said between the agent loop and a model, in no provider's own format.

mod error;
mod message;
mod model;
mod request;
mod response;

pub use error::{ModelError, ModelFailure};
pub use message::{Message, Role, Thought, ToolIntent};
pub use model::{Activity, Delta, DeltaSink, Model, Silent};
pub use request::{Request, ToolChoice, ToolSpec};
pub use response::{Reply, Response, StopReason, Usage};
