//! Quotas of stores.

use std::sync::Arc;

use fumehood::Host;
use fumehood::key_value::{DiskStore, KeyValueStore, MAX_VALUE_BYTES, MemoryStore};
use serde_json::{Value, json};

use super::stage::{get, host_with, list, load, set, step};

#[tokio::test]
async fn quotas_and_caps_are_kept_and_the_store_stays_usable() {
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskStore::open(folder.path().join("tools.db")).unwrap();
    for store in [Arc::new(MemoryStore::default()) as Arc<dyn KeyValueStore>, Arc::new(disk)] {
        let host = host_with(store);
        load(&host, "it", 1024).await;
        // 1 + 64 for the key, so that 959 bytes are left for the value.
        assert_eq!(set(&host, "it", "k", &"v".repeat(960)).await, Err("full".to_owned()));
        assert_eq!(set(&host, "it", "k", &"v".repeat(959)).await, Ok(Value::Null));
        assert_eq!(set(&host, "it", "l", "").await, Err("full".to_owned()), "an empty value is not free");
        assert_eq!(set(&host, "it", "k", &"v".repeat(959)).await, Ok(Value::Null), "not longer than before");
        assert_eq!(set(&host, "it", "k", "short").await, Ok(Value::Null));
        assert_eq!(set(&host, "it", "l", "").await, Ok(Value::Null));
        assert_eq!(step(&host, "it__delete", json!({"key": "k"})).await, Ok(json!(true)));
        for key in ["", "a\u{1}", &"k".repeat(257)] {
            assert_eq!(set(&host, "it", key, "").await, Err("invalid-key".to_owned()), "{key:?}");
            assert_eq!(get(&host, "it", key).await, Err("invalid-key".to_owned()), "{key:?}");
        }
        assert_eq!(list(&host, "it", "", None, 0).await, (vec!["l".to_owned()], None));
    }
}

#[tokio::test]
async fn a_value_has_at_most_64_kib() {
    let host = Host::builder().concurrency(4).build().unwrap();
    load(&host, "it", 1 << 30).await;
    let sized = async |bytes: usize| step(&host, "it__set-size", json!({"bytes": bytes})).await;
    assert_eq!(sized(MAX_VALUE_BYTES).await, Ok(Value::Null));
    assert_eq!(sized(MAX_VALUE_BYTES + 1).await, Err("too-large".to_owned()));
    assert_eq!(sized(1 << 20).await, Err("too-large".to_owned()));
}
