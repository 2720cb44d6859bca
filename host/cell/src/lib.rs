//! Gateways and workers on NATS, for tools that one machine is too small for.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! A gateway has the definitions of tools and checks their calls; a worker runs them. The module `protocol` is what both
//! agree on, without a network and without a clock; `identity` signs what they send.
//!
//! ```
//! use fumehood_cell::NodeKey;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("cell.key");
//! // Every gateway and worker has a key. The others know its public half.
//! let key = NodeKey::create(&file)?;
//! assert!(key.public().to_string().starts_with("ed25519:"));
//! assert_eq!(NodeKey::read(&file)?.public(), key.public());
//! # Ok(())
//! # }
//! ```

mod error;
mod gateway;
mod identity;
mod jetstream;
mod jobs;
mod link;
mod load;
mod protocol;
mod worker;

pub use error::CellError;
pub use gateway::{CellTools, DrainState, GatewayOptions, LateResult};
pub use identity::{KeyError, NodeKey, NodePublicKey};
pub use jetstream::{BucketError, ComponentStore, ComponentStoreError, NatsCounters, NatsStore};
pub use jobs::{CellJobs, JobQueueOptions, JobRunner};
pub use link::{NodeOptions, ServerOptions, is_node_name};
pub use load::{BareRequests, Load, LoadReport};
pub use worker::{KeptValues, LimitsOf, Worker, WorkerOptions};
