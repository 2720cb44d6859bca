//! What a tool keeps between its calls: granted or not at all, apart from what others keep, within its quota, and never a
//! reason for the host to fail.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood::key_value::{
    DiskStore, Key, KeyValueStore, MOST_VALUE_BYTES, MemoryStore, Page, Prefix, Query, StoreError,
};
use fumehood::permission::{KeyValueQuota, Power};
use fumehood::{Call, CallResult, ErrorKind, Event, Grant, Host, Limits, Load, Namespace, Observed};
use fumehood_tests::component;
use serde_json::{Value, json};

/// Hosts in these tests run the program `key-value`, whose functions hand on what the store says.
async fn load(host: &Host, name: &str, quota: u64) {
    let grant = Grant::none().with_key_value(KeyValueQuota::new(quota).unwrap());
    load_with(host, name, grant).await;
}

async fn load_with(host: &Host, name: &str, grant: Grant) {
    host.load(Load::bytes(name, component("key-value").unwrap()).with_grant(grant)).await.unwrap();
}

fn host_with(store: Arc<dyn KeyValueStore>) -> Host {
    Host::builder().concurrency(16).key_value_store(store).build().unwrap()
}

async fn call(host: &Host, tool: &str, arguments: Value) -> CallResult {
    host.call(Call::new(tool, arguments)).await
}

/// What a step gave, or the name of its error.
async fn step(host: &Host, tool: &str, arguments: Value) -> Result<Value, String> {
    let result = call(host, tool, arguments).await;
    match result.error() {
        None => Ok(result.text().map_or(Value::Null, |text| serde_json::from_str(text).unwrap())),
        Some(error) => Err(error.message.trim_matches('"').to_owned()),
    }
}

async fn set(host: &Host, name: &str, key: &str, value: &str) -> Result<Value, String> {
    step(host, &format!("{name}__set"), json!({"key": key, "value": value})).await
}

async fn get(host: &Host, name: &str, key: &str) -> Result<Value, String> {
    step(host, &format!("{name}__get"), json!({"key": key})).await
}

async fn list(
    host: &Host,
    name: &str,
    prefix: &str,
    cursor: Option<&str>,
    limit: u32,
) -> (Vec<String>, Option<String>) {
    let arguments = json!({"prefix": prefix, "cursor": cursor, "limit": limit});
    let page = step(host, &format!("{name}__list"), arguments).await.unwrap();
    let keys = page["keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap().to_owned()).collect();
    (keys, page["next"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn without_a_grant_every_step_is_denied_and_says_nothing_else() {
    let store = Arc::new(MemoryStore::default());
    let host = host_with(store.clone());
    load_with(&host, "it", Grant::none()).await;
    // There would be something to find.
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
    assert_eq!(sized(MOST_VALUE_BYTES).await, Ok(Value::Null));
    assert_eq!(sized(MOST_VALUE_BYTES + 1).await, Err("too-large".to_owned()));
    assert_eq!(sized(1 << 20).await, Err("too-large".to_owned()));
}

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
            let (mut seen, mut cursor) = (Vec::new(), None::<String>);
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
    first.shut_down(Duration::from_secs(5)).await;
    drop((first, second));
    let third = host_with(Arc::new(DiskStore::open(&path).unwrap()));
    load(&third, "it", 1 << 20).await;
    assert_eq!(get(&third, "it", "k").await, Ok(json!("w")));
    // In memory it ends with the host.
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

/// What the host says to those who run it, while a tool uses a store that does not work.
async fn unavailable(host: &Host, tool: &str, arguments: Value) -> String {
    let mut events = host.subscribe();
    let result = call(host, tool, arguments).await;
    let error = result.error().unwrap_or_else(|| panic!("{tool}: {result:?}"));
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::ToolFailed, "\"unavailable\""), "{error:?}");
    let mut said = String::new();
    while let Some(Observed::Event(event)) = events.try_next() {
        if let Event::Log { message, .. } = event {
            said.push_str(&message);
        }
    }
    assert!(said.starts_with("the store of keys and values is unavailable: "), "{said}");
    said
}

fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    assert!(bytes.len() > 3 * 4096, "there is something to damage");
    bytes[4096..].fill(0xa5);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_damaged_or_missing_file_is_unavailable_and_the_host_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tools.db");
    let before = host_with(Arc::new(DiskStore::open(&path).unwrap()));
    load(&before, "it", 1 << 20).await;
    step(&before, "it__set-size", json!({"bytes": 60_000})).await.unwrap();
    drop(before);
    let copy = folder.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    let host = host_with(Arc::new(DiskStore::open(&path).unwrap()));
    load(&host, "it", 1 << 20).await;
    damage(&path);
    let said = unavailable(&host, "it__get", json!({"key": "size"})).await;
    assert!(said.contains("tools.db: the file is damaged"), "{said}");
    std::fs::remove_file(&path).unwrap();
    let said = unavailable(&host, "it__set", json!({"key": "k", "value": "v"})).await;
    assert!(said.contains("tools.db: the file cannot be opened"), "{said}");
    for leftover in ["tools.db-wal", "tools.db-shm"] {
        let _ = std::fs::remove_file(folder.path().join(leftover));
    }
    std::fs::copy(&copy, &path).unwrap();
    assert_eq!(get(&host, "it", "k").await, Ok(Value::Null), "a copy that was put back is found");
    assert_eq!(list(&host, "it", "", None, 0).await.0, ["size"]);
}

#[tokio::test]
async fn a_store_that_another_process_holds_is_unavailable_before_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tools.db");
    let host = host_with(Arc::new(DiskStore::open(&path).unwrap()));
    load(&host, "it", 1 << 20).await;
    assert_eq!(set(&host, "it", "k", "v").await, Ok(Value::Null));
    let held = hold(&path);
    let limits = Limits { deadline: Duration::from_secs(2), ..Limits::default() };
    let started = Instant::now();
    let result = host.call(Call::new("it__set", json!({"key": "k", "value": "w"})).with_limits(limits)).await;
    let error = result.error().unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::ToolFailed, "\"unavailable\""), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(get(&host, "it", "k").await, Ok(json!("v")), "reading goes on");
    drop(held);
    assert_eq!(set(&host, "it", "k", "w").await, Ok(Value::Null));
}

/// Somebody who is in the middle of writing to a file for as long as this lives.
fn hold(path: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

/// A store that hangs or panics, whatever patience it is told.
#[derive(Debug)]
enum Broken {
    Hangs(Duration),
    Panics,
    OnlyReads,
}

impl Broken {
    fn fail<R>(&self) -> Result<R, StoreError> {
        match self {
            Self::Hangs(time) => std::thread::sleep(*time),
            Self::Panics => panic!("a bug in the store"),
            Self::OnlyReads => {}
        }
        Err(StoreError::Unavailable("the file or its folder is read-only".to_owned()))
    }
}

impl KeyValueStore for Broken {
    fn get(&self, _: &Namespace, _: &Key, _: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        if matches!(self, Self::OnlyReads) { Ok(Some(b"v".to_vec())) } else { self.fail() }
    }

    fn set(&self, _: &Namespace, _: &Key, _: &[u8], _: u64, _: Duration) -> Result<(), StoreError> {
        self.fail()
    }

    fn delete(&self, _: &Namespace, _: &Key, _: Duration) -> Result<bool, StoreError> {
        self.fail()
    }

    fn list(&self, _: &Namespace, _: &Query, _: Duration) -> Result<Page, StoreError> {
        self.fail()
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_written_or_panics_is_unavailable() {
    let host = host_with(Arc::new(Broken::OnlyReads));
    load(&host, "it", 1 << 20).await;
    assert_eq!(get(&host, "it", "k").await, Ok(json!("v")));
    let said = unavailable(&host, "it__set", json!({"key": "k", "value": "v"})).await;
    assert!(said.contains("read-only"), "{said}");
    let host = host_with(Arc::new(Broken::Panics));
    load(&host, "it", 1 << 20).await;
    let said = unavailable(&host, "it__delete", json!({"key": "k"})).await;
    assert!(said.contains("the store panicked with `a bug in the store`"), "{said}");
}

#[tokio::test]
async fn a_store_that_hangs_holds_no_call_beyond_its_deadline_and_nobody_else() {
    let host = host_with(Arc::new(Broken::Hangs(Duration::from_secs(3))));
    load(&host, "it", 1 << 20).await;
    host.load(Load::bytes("other", component("env-dump").unwrap())).await.unwrap();
    let limits = Limits { deadline: Duration::from_millis(200), ..Limits::default() };
    let started = Instant::now();
    // More than the host has turns for.
    let hanging = (0..12).map(|_| {
        let host = host.clone();
        tokio::spawn(async move { host.call(Call::new("it__get", json!({"key": "k"})).with_limits(limits)).await })
    });
    for result in Vec::from_iter(hanging) {
        let result = result.await.unwrap();
        assert_eq!(result.error().map(|error| error.kind), Some(ErrorKind::Deadline), "{result:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(step(&host, "other__variables", json!({})).await, Ok(json!([])), "other tools go on");
    let ending = Instant::now();
    host.shut_down(Duration::from_millis(100)).await;
    assert!(ending.elapsed() < Duration::from_secs(2), "{:?}", ending.elapsed());
}

#[test]
fn stores_agree_about_prefixes_and_cursors() {
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskStore::open(folder.path().join("tools.db")).unwrap();
    let stores: [&dyn KeyValueStore; 2] = [&MemoryStore::default(), &disk];
    let (owner, patience) = (Namespace::parse("it").unwrap(), Duration::from_secs(10));
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
