//! Listing of keys, a page at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fumehood::Namespace;
use fumehood::key_value::{DiskStore, Key, KeyValueStore, MemoryStore, Prefix, Query};
use serde_json::json;

use super::stage::{host_with, list, load, step};

#[tokio::test]
async fn every_key_is_listed_once_a_page_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskStore::open(folder.path().join("tools.db")).unwrap();
    for store in [Arc::new(MemoryStore::default()) as Arc<dyn KeyValueStore>, Arc::new(disk)] {
        let owner = Namespace::parse("it").unwrap();
        let keys: Vec<String> = (0..1100).map(|number| format!("a/{number:04}")).collect();
        for key in keys.iter().map(String::as_str).chain(["a", "a0", "b", "\u{10ffff}", "ä"]) {
            store.set(&owner, &Key::parse(key).unwrap(), b"", 1 << 20, Duration::from_secs(10)).unwrap();
        }
        let host = host_with(store);
        load(&host, "it", 1 << 20).await;
        for limit in [0, 1000, 5000, 300] {
            let mut seen = Vec::new();
            let mut cursor = None::<String>;
            loop {
                let (page, next) = list(&host, "it", "a/", cursor.as_deref(), limit).await;
                let most = if limit == 0 { 1000 } else { limit.min(1000) };
                assert!(page.len() <= most as usize, "{} of {limit}", page.len());
                seen.extend(page);
                cursor = next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, keys, "a page of {limit}");
        }
        let named = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        assert_eq!(list(&host, "it", "", Some("a/1099"), 0).await.0, named(&["a0", "b", "ä", "\u{10ffff}"]));
        assert_eq!(list(&host, "it", "b", Some("a"), 0).await, (named(&["b"]), None));
        assert_eq!(list(&host, "it", "b", Some("c"), 0).await, (vec![], None));
        assert_eq!(list(&host, "it", "c", None, 0).await, (vec![], None));
        assert_eq!(list(&host, "it", "a/109", Some("a/1097"), 1).await, (named(&["a/1098"]), Some("a/1098".into())));
        let bad = step(&host, "it__list", json!({"prefix": "", "cursor": "", "limit": 1})).await;
        assert_eq!(bad, Err("invalid-key".to_owned()));
    }
}

#[test]
fn stores_agree_about_prefixes_and_cursors() {
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskStore::open(folder.path().join("tools.db")).unwrap();
    let stores: [&dyn KeyValueStore; 2] = [&MemoryStore::default(), &disk];
    let owner = Namespace::parse("it").unwrap();
    let patience = Duration::from_secs(10);
    let words = ["a", "aa", "ab", "a%", "a_", "A", "b", "ß", "\u{ffff}", "\u{10000}"];
    for store in stores {
        for word in words {
            store.set(&owner, &Key::parse(word).unwrap(), b"", 1 << 20, patience).unwrap();
        }
        for prefix in words.iter().copied().chain(["", "zz"]) {
            for after in words.iter().map(Some).chain([None]) {
                let query = |limit| Query {
                    prefix: Prefix::parse(prefix).unwrap(),
                    after: after.map(|after| Key::parse(*after).unwrap()),
                    limit,
                };
                let sorted: BTreeSet<&str> = words.into_iter().collect();
                let wanted = |key: &&str| key.starts_with(prefix) && after.is_none_or(|after| *key > *after);
                let expected: Vec<&str> = sorted.into_iter().filter(wanted).collect();
                for limit in [1, 3, 1000] {
                    let page = store.list(&owner, &query(limit), patience).unwrap();
                    let found: Vec<&str> = page.keys.iter().map(Key::as_str).collect();
                    assert_eq!(found, expected[..limit.min(expected.len())], "{store:?} {prefix:?} {after:?}");
                    assert_eq!(page.more, expected.len() > limit, "{store:?} {prefix:?} {after:?} {limit}");
                }
            }
        }
    }
}
