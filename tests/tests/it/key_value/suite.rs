//! The suite of all stores, on the one in memory and the one on disk.

use std::sync::Arc;

use fumehood::key_value::{DiskStore, KeyValueStore, MemoryStore};
use fumehood_tests::key_value_suite::check_store;

#[test]
fn store_in_memory_passes_the_suite() {
    let store: Arc<dyn KeyValueStore> = Arc::new(MemoryStore::default());
    check_store(&|| Ok(Arc::clone(&store))).unwrap();
}

#[test]
fn store_on_disk_passes_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tools.db");
    check_store(&|| Ok(Arc::new(DiskStore::open(&path)?))).unwrap();
}
