//! What a cell keeps in JetStream of its NATS server: the keys and values of tools,
//! and the components that gateways push.

mod bucket;
mod catalog;
mod component_store;
mod key_value_store;

pub use bucket::BucketError;
pub use component_store::{ComponentStore, ComponentStoreError};
pub use key_value_store::NatsStore;
