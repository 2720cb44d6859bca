//! The key-value store of tools on disk: one SQLite file for one host, or for several hosts and processes at once.
//!
//! [`DiskStore`] implements [`KeyValueStore`](fumehood_core::key_value::KeyValueStore). A completed operation survives
//! a crash of the process. After a power failure the file is intact, but the last operations may be lost: no operation
//! waits for the disk (`synchronous = NORMAL`).
//!
//! The file is not encrypted. It is readable by its owner only.
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
mod disk_store;
mod schema;
mod storage_error;

pub use connect::OpenError;
pub use disk_store::DiskStore;
pub use schema::SchemaError;
pub use storage_error::StorageError;
