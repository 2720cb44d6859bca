//! A store that fails does not make the host fail.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood::key_value::{DiskStore, Key, KeyValueStore, Page, Query, StoreError};
use fumehood::{Call, ErrorKind, Event, Host, Limits, Load, Namespace, Observed};
use fumehood_tests::component;
use serde_json::{Value, json};

use super::stage::{call, get, host_with, list, load, set, step};

/// Makes a call that fails because the store does, and returns the host's log message about it.
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
    assert!(said.contains("tools.db: cannot open the file"), "{said}");
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
    let limits = Limits::default().deadline(Duration::from_secs(2));
    let started = Instant::now();
    let result = host.call(Call::new("it__set", json!({"key": "k", "value": "w"})).limits(limits)).await;
    let error = result.error().unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::ToolFailed, "\"unavailable\""), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(get(&host, "it", "k").await, Ok(json!("v")), "reading goes on");
    drop(held);
    assert_eq!(set(&host, "it", "k", "w").await, Ok(Value::Null));
}

/// Locks a file, as a process does in the middle of a write, until the connection is dropped.
fn hold(path: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

/// A store that hangs, panics or is read-only, whatever its timeout.
#[derive(Debug)]
enum BrokenStore {
    Hangs(Duration),
    Panics,
    OnlyReads,
}

impl BrokenStore {
    fn fail<R>(&self) -> Result<R, StoreError> {
        match self {
            Self::Hangs(time) => std::thread::sleep(*time),
            Self::Panics => panic!("a bug in the store"),
            Self::OnlyReads => {}
        }
        Err(StoreError::Unavailable("the file or its folder is read-only".to_owned()))
    }
}

impl KeyValueStore for BrokenStore {
    fn get(&self, _: &Namespace, _: &Key, _: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        if matches!(self, Self::OnlyReads) { Ok(Some(b"v".to_vec())) } else { self.fail() }
    }

    fn set(&self, _: &Namespace, _: &Key, _: &[u8], _: u64, _: Duration) -> Result<(), StoreError> {
        self.fail()
    }

    fn compare_and_set(
        &self,
        _: &Namespace,
        _: &Key,
        _: Option<&[u8]>,
        _: &[u8],
        _: u64,
        _: Duration,
    ) -> Result<bool, StoreError> {
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
    let host = host_with(Arc::new(BrokenStore::OnlyReads));
    load(&host, "it", 1 << 20).await;
    assert_eq!(get(&host, "it", "k").await, Ok(json!("v")));
    let said = unavailable(&host, "it__set", json!({"key": "k", "value": "v"})).await;
    assert!(said.contains("read-only"), "{said}");
    let host = host_with(Arc::new(BrokenStore::Panics));
    load(&host, "it", 1 << 20).await;
    let said = unavailable(&host, "it__delete", json!({"key": "k"})).await;
    assert!(said.contains("the store panicked with `a bug in the store`"), "{said}");
}

#[tokio::test]
async fn a_store_that_hangs_holds_no_call_beyond_its_deadline_and_nobody_else() {
    let host = host_with(Arc::new(BrokenStore::Hangs(Duration::from_secs(3))));
    load(&host, "it", 1 << 20).await;
    host.load(Load::bytes("other", component("env-dump").unwrap())).await.unwrap();
    let limits = Limits::default().deadline(Duration::from_millis(200));
    let started = Instant::now();
    // More calls than the host runs on the store at a time.
    let hanging = (0..12).map(|_| {
        let host = host.clone();
        tokio::spawn(async move { host.call(Call::new("it__get", json!({"key": "k"})).limits(limits)).await })
    });
    for result in Vec::from_iter(hanging) {
        let result = result.await.unwrap();
        assert_eq!(result.error().map(|error| error.kind), Some(ErrorKind::Deadline), "{result:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(step(&host, "other__variables", json!({})).await, Ok(json!([])), "other tools go on");
    let ending = Instant::now();
    host.shutdown(Duration::from_millis(100)).await;
    assert!(ending.elapsed() < Duration::from_secs(2), "{:?}", ending.elapsed());
}
