//! The key-value store in PostgreSQL.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood_core::key_value::{Key, KeyValueStore as _};
use fumehood_core::tool::name::Namespace;
use fumehood_storage::key_value::PostgresStore;
use fumehood_tests::key_value_suite::check_store;
use fumehood_tests::postgres::Postgres;

use crate::harness::{TestDatabase, address};

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn store_in_postgresql_passes_the_suite() {
    let Some(database) = TestDatabase::new() else { return };
    check_store(&|| Ok(Arc::new(PostgresStore::open(&database.address())?))).unwrap();
}

/// A call of a tool may come from a thread of any executor.
#[tokio::test]
async fn steps_may_be_taken_inside_an_executor() {
    let Some(database) = TestDatabase::new() else { return };
    let store = PostgresStore::open(&database.address()).unwrap();
    let owner = Namespace::parse("it").unwrap();
    let key = Key::parse("k").unwrap();
    store.set(&owner, &key, b"v", 1000, PATIENCE).unwrap();
    assert_eq!(store.get(&owner, &key, PATIENCE).unwrap(), Some(b"v".to_vec()));
}

#[test]
fn locked_owner_is_unavailable_in_time() {
    let Some(database) = TestDatabase::new() else { return };
    let store = PostgresStore::open(&database.address()).unwrap();
    let owner = Namespace::parse("it").unwrap();
    let key = Key::parse("k").unwrap();
    store.set(&owner, &key, b"v", 1000, PATIENCE).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| database.sql("BEGIN; SELECT * FROM owners FOR UPDATE; SELECT pg_sleep(3); COMMIT"));
        std::thread::sleep(Duration::from_secs(1));
        let began = Instant::now();
        let refused = store.set(&owner, &key, b"w", 1000, Duration::from_millis(300)).unwrap_err().to_string();
        assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
        assert!(refused.contains("has locked the database") || refused.contains("did not answer"), "{refused}");
        assert_eq!(store.get(&owner, &key, PATIENCE).unwrap(), Some(b"v".to_vec()));
    });
    store.set(&owner, &key, b"w", 1000, PATIENCE).unwrap();
}

#[test]
fn store_works_again_when_its_server_is_back() {
    let Some(mut server) = Postgres::start().unwrap() else { return };
    let url = server.create_database("kept").unwrap();
    let store = PostgresStore::open(&address(&url)).unwrap();
    let owner = Namespace::parse("it").unwrap();
    let key = Key::parse("k").unwrap();
    store.set(&owner, &key, b"v", 1000, PATIENCE).unwrap();
    server.shut_down().unwrap();
    let refused = store.get(&owner, &key, PATIENCE).unwrap_err().to_string();
    assert!(
        refused.contains("cannot reach the database server") && refused.contains("postgres://fumehood@127.0.0.1"),
        "{refused}"
    );
    server.run().unwrap();
    assert_eq!(store.get(&owner, &key, PATIENCE).unwrap(), Some(b"v".to_vec()));
}
