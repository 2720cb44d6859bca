//! What a cell keeps in JetStream of its NATS server: the keys and values of tools,
//! the components that
//! gateways push, and the counters of budgets.

mod bucket;
mod budget_counters;
mod catalog;
mod component_store;
mod key_value_store;

pub use bucket::BucketError;
pub use budget_counters::NatsCounters;
pub use component_store::{ComponentStore, ComponentStoreError};
pub use key_value_store::NatsStore;
