//! Stores keep their values, separate from those of other components; without a grant there is no store.

use std::sync::Arc;
use std::time::Duration;

use fumehood::key_value::{DiskStore, Key, KeyValueStore, MemoryStore};
use fumehood::permission::Power;
use fumehood::{ErrorKind, Grant, Host, Namespace};
use serde_json::{Value, json};

use super::stage::{call, get, host_with, list, load, load_with, set, step};

#[tokio::test]
async fn without_a_grant_every_step_is_denied_and_says_nothing_else() {
    let store = Arc::new(MemoryStore::default());
    let host = host_with(store.clone());
    load_with(&host, "it", Grant::none()).await;
    // A value that could be found.
    let owner = Namespace::parse("it").unwrap();
    store.set(&owner, &Key::parse("k").unwrap(), b"secret", 1 << 20, Duration::ZERO).unwrap();
    for (tool, arguments, tried) in [
        ("get", json!({"key": "k"}), "reading the key `k`"),
        ("get", json!({"key": ""}), "reading the key ``"),
        ("set", json!({"key": "k", "value": "v"}), "setting the key `k`"),
        ("set", json!({"key": "k".repeat(300), "value": "v"}), "setting the key `kkk"),
        ("delete", json!({"key": "k"}), "deleting the key `k`"),
        ("list", json!({"prefix": "k", "cursor": null, "limit": 1}), "listing the keys that begin with `k`"),
    ] {
        let result = call(&host, &format!("it__{tool}"), arguments).await;
        let error = result.error().unwrap_or_else(|| panic!("{tool}: {result:?}"));
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Denied, "\"denied\""), "{tool}");
        let [refused] = &result.metadata.refused[..] else { panic!("{tool}: {:?}", result.metadata.refused) };
        assert_eq!(refused.power, Power::KeyValue);
        assert!(refused.tried.starts_with(tried), "{}", refused.tried);
        assert!(error.hint.as_deref().unwrap().contains("key_value = \"1MiB\""), "{error:?}");
    }
    assert_eq!(store.get(&owner, &Key::parse("k").unwrap(), Duration::ZERO).unwrap(), Some(b"secret".to_vec()));
}

#[tokio::test]
async fn what_one_call_sets_the_next_one_gets() {
    let host = Host::builder().concurrency(4).build().unwrap();
    load(&host, "it", 1 << 20).await;
    assert_eq!(get(&host, "it", "k").await, Ok(Value::Null));
    for value in ["first", "", "Überblick \u{1f4d3}"] {
        assert_eq!(set(&host, "it", "k", value).await, Ok(Value::Null));
        assert_eq!(get(&host, "it", "k").await, Ok(json!(value)));
    }
    assert_eq!(step(&host, "it__delete", json!({"key": "k"})).await, Ok(json!(true)));
    assert_eq!(step(&host, "it__delete", json!({"key": "k"})).await, Ok(json!(false)));
    assert_eq!(get(&host, "it", "k").await, Ok(Value::Null));
}

#[tokio::test]
async fn components_do_not_see_what_others_keep() {
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskStore::open(folder.path().join("tools.db")).unwrap();
    for store in [Arc::new(MemoryStore::default()) as Arc<dyn KeyValueStore>, Arc::new(disk)] {
        let host = host_with(store);
        for name in ["one", "two", "one-more"] {
            load(&host, name, 1024).await;
            assert_eq!(set(&host, name, "k", name).await, Ok(Value::Null));
            assert_eq!(set(&host, name, name, "").await, Ok(Value::Null));
        }
        assert_eq!(step(&host, "two__delete", json!({"key": "one"})).await, Ok(json!(false)));
        for name in ["one", "two", "one-more"] {
            assert_eq!(get(&host, name, "k").await, Ok(json!(name)));
            let mut expected = vec!["k".to_owned(), name.to_owned()];
            expected.sort();
            assert_eq!(list(&host, name, "", None, 0).await, (expected, None));
        }
    }
}

#[tokio::test]
async fn on_disk_it_outlives_its_host_and_is_shared_by_several() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state").join("tools.db");
    let first = host_with(Arc::new(DiskStore::open(&path).unwrap()));
    load(&first, "it", 1 << 20).await;
    assert_eq!(set(&first, "it", "k", "v").await, Ok(Value::Null));
    let second = host_with(Arc::new(DiskStore::open(&path).unwrap()));
    load(&second, "it", 1 << 20).await;
    assert_eq!(get(&second, "it", "k").await, Ok(json!("v")));
    assert_eq!(set(&second, "it", "k", "w").await, Ok(Value::Null));
    assert_eq!(get(&first, "it", "k").await, Ok(json!("w")));
    first.shutdown(Duration::from_secs(5)).await;
    drop((first, second));
    let third = host_with(Arc::new(DiskStore::open(&path).unwrap()));
    load(&third, "it", 1 << 20).await;
    assert_eq!(get(&third, "it", "k").await, Ok(json!("w")));
    // A store in memory ends with its host.
    let other = Host::builder().concurrency(4).build().unwrap();
    load(&other, "it", 1 << 20).await;
    assert_eq!(get(&other, "it", "k").await, Ok(Value::Null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let host = host_with(Arc::new(DiskStore::open(folder.path().join("tools.db")).unwrap()));
    load(&host, "it", 1 << 20).await;
    let setting = (0..64).map(|number| {
        let host = host.clone();
        tokio::spawn(async move { set(&host, "it", &format!("k{number:02}"), "v").await })
    });
    for set in Vec::from_iter(setting) {
        assert_eq!(set.await.unwrap(), Ok(Value::Null));
    }
    assert_eq!(list(&host, "it", "k", None, 0).await.0.len(), 64);
}
