//! Private key-value stores: keys, the port for stores, and an in-memory store.
//!
//! One store serves all components of a host and separates them by their names: the
//! [`Namespace`](crate::tool::name::Namespace) of a component owns the entries that it sets, and no other component sees
//! them.

mod key;
mod memory;
mod store;

pub use key::{Key, KeyError, Prefix};
pub use memory::MemoryStore;
pub use store::{
    ENTRY_BYTES, KeyValueStore, MAX_PAGE_KEYS, MAX_VALUE_BYTES, Page, Query, StoreError, check_quota, entry_bytes,
};
