//! The store: integrity, owners and modes, and processes that are killed.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use fumehood_core::digest::Digest;
use fumehood_registry::fetch::{FetchError, fetch_offline};
use fumehood_registry::store::{Store, StoreError, StoreRecord};

use crate::fixture::{KEY, NOW, TestStore, client, get, policy, publish, reference};
use crate::server::TestRegistry;

/// The variable that makes the test [`writes_until_it_is_killed`] a process that writes.
const WRITER: &str = "FUMEHOOD_TEST_STORE_WRITER";
/// The line by which it says that it begins, and the one after its first record.
const BEGUN: &str = "the writer has begun";
const RECORDED: &str = "the writer has recorded";
/// Number of processes that are killed.
const KILLS: u64 = 200;

fn record(host: &str, store: &Store, bytes: &[u8]) -> StoreRecord {
    let component = store.put(bytes).unwrap();
    let manifest = store.put(format!("manifest of {component}").as_bytes()).unwrap();
    let reference = reference(host, "acme/greeter:1").with_digest(manifest);
    let component_bytes = bytes.len() as u64;
    StoreRecord {
        reference,
        manifest,
        component,
        component_bytes,
        signatures: Vec::new(),
        verified: None,
        pulled_at: NOW,
    }
}

#[test]
fn refuses_changed_and_foreign_files() {
    let store = TestStore::new();
    let digest = store.store.put(b"component").unwrap();
    assert_eq!(store.store.blob(&digest, 100).unwrap().unwrap(), b"component");
    assert_eq!(store.store.blob(&Digest::of(b"other"), 100).unwrap(), None);
    assert!(matches!(store.store.blob(&digest, 3), Err(StoreError::TooLarge { .. })));
    let path = store.store.blob_path(&digest);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(store.store.blob(&digest, 100), Err(StoreError::NotPrivate(_))));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&path, b"COMPONENT").unwrap();
    assert!(matches!(store.store.blob(&digest, 100), Err(StoreError::Changed { .. })));
    assert_eq!(store.store.verify().unwrap().len(), 1);
    // A link to a file with the right bytes.
    let elsewhere = store.folder.path().join("elsewhere");
    std::fs::write(&elsewhere, b"component").unwrap();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert!(matches!(store.store.blob(&digest, 100), Err(StoreError::NotPrivate(_))));
    // Storing the bytes again repairs the file.
    store.store.put(b"component").unwrap();
    assert_eq!(store.store.verify().unwrap().len(), 0);
    // A folder that others can read.
    std::fs::set_permissions(store.store.folder(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(Store::open(store.store.folder()), Err(StoreError::NotPrivate(_))));
}

#[test]
fn commits_what_has_the_digest_only() {
    let store = TestStore::new();
    let mut blob = store.store.begin().unwrap();
    blob.write(b"comp").unwrap();
    let error = store.store.commit(blob, &Digest::of(b"component")).unwrap_err();
    assert!(matches!(error, StoreError::Digest { .. }), "{error}");
    let mut blob = store.store.begin().unwrap();
    blob.write(b"wrong").unwrap();
    blob.restart().unwrap();
    blob.write(b"component").unwrap();
    store.store.commit(blob, &Digest::of(b"component")).unwrap();
    assert_eq!(store.files(), [Digest::of(b"component").hex()]);
}

#[test]
fn prunes_what_is_not_kept() {
    let store = TestStore::new();
    let keep = record("one.example", &store.store, b"keep");
    let drop = record("two.example", &store.store, b"drop");
    let orphan = store.store.put(b"orphan").unwrap();
    for record in [&keep, &drop] {
        store.store.put_record(record).unwrap();
    }
    let (records, errors) = store.store.list().unwrap();
    assert_eq!((records.len(), errors.len()), (2, 0));
    let pruned = store.store.prune(&BTreeSet::from([keep.manifest])).unwrap();
    assert_eq!(pruned.files, 3);
    assert_eq!(store.store.list().unwrap().0, [keep]);
    // Another process may be about to record it.
    assert!(store.store.blob_path(&orphan).exists());
    assert_eq!(store.store.verify().unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tampering_with_any_file_is_refused() {
    let registry = TestRegistry::start().await;
    let tagged = reference(&registry.host(), "acme/greeter:1.0");
    publish(&client(), &tagged, 100, Some(&KEY)).await;
    let store = TestStore::new();
    let fetched = get(&client(), &store, &policy(), &tagged).await.unwrap();
    let record = store.store.record(&tagged.name(), &fetched.manifest).unwrap().unwrap();
    assert_eq!(record.verified.as_ref().unwrap().key, KEY.public().id());
    for digest in record.blobs() {
        let path = store.store.blob_path(&digest);
        let bytes = std::fs::read(&path).unwrap();
        let mut changed = bytes.clone();
        changed[bytes.len() / 2] ^= 1;
        std::fs::write(&path, &changed).unwrap();
        let offline = fetch_offline(&store.store, &policy(), &tagged, NOW);
        let read = offline.and_then(|fetched| fetched.read(&store.store));
        assert!(matches!(read, Err(FetchError::Store(StoreError::Changed { .. }))), "{read:?}");
        // The registry still has it.
        get(&client(), &store, &policy(), &tagged).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    // A record that names another component does not make it this one.
    let other = store.store.put(b"another component").unwrap();
    store.store.put_record(&StoreRecord { component: other, ..record.clone() }).unwrap();
    assert_eq!(fetch_offline(&store.store, &policy(), &tagged, NOW).unwrap().component, fetched.component);
    // Neither does one that says that it was verified.
    store.store.put_record(&StoreRecord { signatures: Vec::new(), ..record }).unwrap();
    let error = fetch_offline(&store.store, &policy(), &tagged, NOW).unwrap_err();
    assert!(matches!(error, FetchError::Policy(_)), "{error}");
}

/// A process of the next test: it writes components for as long as it lives.
#[test]
fn writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(WRITER) else { return };
    let store = Store::open(folder).unwrap();
    println!("{BEGUN}");
    for number in 0_u64.. {
        let mut blob = store.begin().unwrap();
        let bytes = number.to_le_bytes().repeat(40_000);
        bytes.chunks(8000).for_each(|piece| blob.write(piece).unwrap());
        store.commit(blob, &Digest::of(&bytes)).unwrap();
        let record = record("one.example", &store, &bytes);
        store.put_record(&record).unwrap();
        if number == 0 {
            println!("{RECORDED}");
        }
    }
}

#[test]
fn killed_writers_leave_nothing_partial() {
    let store = TestStore::new();
    let program = std::env::current_exe().unwrap();
    for kill in 0..KILLS {
        let mut writer = Command::new(&program)
            .args(["--exact", "store::writes_until_it_is_killed", "--test-threads=1", "--nocapture"])
            .env(WRITER, store.store.folder())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Some are killed before they begin, one after its first record, and most while they write.
        let mut said = BufReader::new(writer.stdout.take().unwrap()).lines().map(Result::unwrap);
        let awaited = if kill == 0 { RECORDED } else { BEGUN };
        if kill % 10 != 1 {
            assert!(said.any(|line| line.contains(awaited)), "the writer ended");
        }
        std::thread::sleep(Duration::from_micros(kill * 379 % 10_000));
        writer.kill().unwrap();
        writer.wait().unwrap();
    }
    assert!(!store.store.list().unwrap().0.is_empty(), "no writer came as far as a record");
    let damaged = store.store.verify().unwrap();
    assert!(damaged.is_empty(), "{damaged:?}");
    // Files of processes that are gone are removed, once they are old enough to be nobody's.
    std::thread::sleep(Duration::from_millis(1100));
    Store::open(store.store.folder()).unwrap();
    let left: Vec<_> = store.files().into_iter().filter(|name| name.starts_with('.')).collect();
    assert_eq!(left, Vec::<String>::new());
}
