//! Keys and values of tools on disk: one SQLite file for a host, or for several hosts and processes at once.
//!
//! [`DiskStore`] is a [`KeyValueStore`](fumehood_core::key_value::KeyValueStore). What it has said is set survives the end
//! of the process however it comes. After a loss of power the file is whole, and the last steps may be missing: nothing
//! waits for the disk to have written.
//!
//! Nothing in the file is encrypted. It is readable for its owner only.
//!
//! ```
//! use std::time::Duration;
//!
//! use fumehood_core::key_value::{Key, KeyValueStore};
//! use fumehood_core::name::Namespace;
//! use fumehood_key_value::DiskStore;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("tools.db");
//! let (owner, key) = (Namespace::parse("notes")?, Key::parse("shopping")?);
//! let patience = Duration::from_secs(1);
//! DiskStore::open(&path)?.set(&owner, &key, b"milk", 1 << 20, patience)?;
//! assert_eq!(DiskStore::open(&path)?.get(&owner, &key, patience)?, Some(b"milk".to_vec()));
//! # Ok(())
//! # }
//! ```

mod connect;
mod disk;
mod pool;
mod schema;
mod storage_error;

pub use connect::OpenError;
pub use disk::DiskStore;
pub use schema::SchemaError;
pub use storage_error::StorageError;
