//! Private stores of keys and values: what keys are, what a store can do, and the store that lives in memory.
//!
//! A store serves every component of a host, and keeps them apart by their names: [`Namespace`](crate::name::Namespace)
//! is the owner of what it sets, and nobody else ever sees that.

mod key;
mod memory;
mod store;

pub use key::{Key, KeyError, Prefix};
pub use memory::MemoryStore;
pub use store::{ENTRY_BYTES, KeyValueStore, MAX_PAGE_KEYS, MAX_VALUE_BYTES, Page, Query, StoreError, check_quota, entry_bytes};
