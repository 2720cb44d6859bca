//! Keys and values of tools in JetStream: what every store promises, and what happens to writers that are lost half way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use fumehood_cell::NatsStore;
use fumehood_core::key_value::{Key, KeyValueStore, MemoryStore, Prefix, Query, StoreError, entry_bytes};
use fumehood_core::tool::name::Namespace;

use super::nats::{Nats, PATIENCE};

const QUOTA: u64 = 1 << 20;

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn owner(name: &str) -> Namespace {
    Namespace::parse(name).unwrap()
}

fn all() -> Query {
    Query { prefix: Prefix::default(), after: None, limit: 1000 }
}

/// Runs a test on a thread that may block, with a server that has JetStream.
fn with_server(test: impl FnOnce(&mut Nats)) {
    let Some(mut nats) = Nats::start_with_jetstream() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _entered = runtime.enter();
    test(&mut nats);
}

fn store(nats: &Nats, node: &str) -> NatsStore {
    NatsStore::new(nats.server(node))
}

/// A generator of numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn two_nodes_see_one_store_that_is_like_one_in_memory() {
    with_server(|nats| {
        let nodes = [store(nats, "w1"), store(nats, "w2")];
        let model = MemoryStore::default();
        let keys = ["a", "a/b", "a.b", "*", ">", "ä\u{2028}", " ", "=20", "catalog", "KV-Operation", &"x".repeat(256)];
        let mut random = Random(16);
        for step in 0..600 {
            let node = &nodes[usize::try_from(random.below(2)).unwrap()];
            let owner = owner(["one", "other"][usize::try_from(random.below(2)).unwrap()]);
            let key = key(keys[usize::try_from(random.below(keys.len() as u64)).unwrap()]);
            match random.below(10) {
                0..4 => {
                    let value = vec![b'v'; usize::try_from(random.below(300)).unwrap()];
                    let expected = model.set(&owner, &key, &value, 1500, PATIENCE);
                    assert_eq!(node.set(&owner, &key, &value, 1500, PATIENCE), expected, "{step}");
                }
                4..6 => {
                    let expected = model.delete(&owner, &key, PATIENCE);
                    assert_eq!(node.delete(&owner, &key, PATIENCE), expected, "{step}");
                }
                6..8 => {
                    assert_eq!(node.get(&owner, &key, PATIENCE), model.get(&owner, &key, PATIENCE), "{step}");
                }
                _ => {
                    let prefix = ["", "a", "a/", "zz"][usize::try_from(random.below(4)).unwrap()];
                    let limit = usize::try_from(1 + random.below(4)).unwrap();
                    let query = Query { prefix: Prefix::parse(prefix).unwrap(), after: Some(key), limit };
                    let expected = model.list(&owner, &query, PATIENCE);
                    assert_eq!(node.list(&owner, &query, PATIENCE), expected, "{step}");
                }
            }
        }
    });
}

#[test]
fn a_race_for_the_quota_never_exceeds_it() {
    with_server(|nats| {
        let nodes = [store(nats, "w1"), store(nats, "w2")];
        let quota = 20 * entry_bytes(&key("0-00"), 10);
        let refused = AtomicU64::new(0);
        std::thread::scope(|threads| {
            for (number, node) in nodes.iter().enumerate() {
                let refused = &refused;
                threads.spawn(move || {
                    for index in 0..20 {
                        match node.set(&owner("race"), &key(&format!("{number}-{index:02}")), &[7; 10], quota, PATIENCE)
                        {
                            Ok(()) => {}
                            Err(StoreError::Full { .. }) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        for node in &nodes {
            assert_eq!(node.list(&owner("race"), &all(), PATIENCE).unwrap().keys.len(), 20);
        }
        assert_eq!(refused.into_inner(), 20);
    });
}

#[test]
fn one_of_two_writers_of_a_key_is_the_last() {
    with_server(|nats| {
        let nodes = [store(nats, "w1"), store(nats, "w2")];
        std::thread::scope(|threads| {
            for (number, node) in nodes.iter().enumerate() {
                threads.spawn(move || {
                    for round in 0..50_u8 {
                        let value = vec![u8::try_from(number).unwrap(); usize::from(round) + 1];
                        node.set(&owner("same"), &key("k"), &value, QUOTA, PATIENCE).unwrap();
                    }
                });
            }
        });
        let [one, other] = nodes.each_ref().map(|node| node.get(&owner("same"), &key("k"), PATIENCE).unwrap().unwrap());
        assert_eq!((&one, one.len()), (&other, 50));
        // Exactly that value counts against the quota.
        let size = entry_bytes(&key("k"), 50);
        nodes[0].set(&owner("same"), &key("k2"), b"", size + entry_bytes(&key("k2"), 0), PATIENCE).unwrap();
        let full = nodes[1].set(&owner("same"), &key("k3"), b"", size + 2 * entry_bytes(&key("k2"), 0) - 1, PATIENCE);
        assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
    });
}

/// Writers whose time is over at any moment. Each key has one writer, so that what it was told says which values it may have.
#[test]
fn writers_that_are_lost_half_way_lose_nothing() {
    with_server(|nats| {
        let interrupted = AtomicU64::new(0);
        let expected: Vec<BTreeMap<Key, Vec<Option<u64>>>> = std::thread::scope(|threads| {
            let writers: Vec<_> = (0..4_u64)
                .map(|number| {
                    let node = store(nats, &format!("w{number}"));
                    let interrupted = &interrupted;
                    threads.spawn(move || {
                        let mut random = Random(number);
                        // The values that each key may have: the last one that was acknowledged, and later ones that were not.
                        let mut possible: BTreeMap<Key, Vec<Option<u64>>> = BTreeMap::new();
                        for value in 0..150 {
                            let key = key(&format!("{number}-{}", random.below(4)));
                            let wait = match random.below(3) {
                                0 => PATIENCE,
                                _ => Duration::from_micros(300 + random.below(4000)),
                            };
                            let deletes = random.below(4) == 0;
                            let done = if deletes {
                                node.delete(&owner("lost"), &key, wait).map(drop)
                            } else {
                                node.set(&owner("lost"), &key, &value_of(value), QUOTA, wait)
                            };
                            let written = (!deletes).then_some(value);
                            let values = possible.entry(key).or_insert_with(|| vec![None]);
                            match done {
                                Ok(()) => *values = vec![written],
                                Err(StoreError::Unavailable(_)) => {
                                    interrupted.fetch_add(1, Ordering::Relaxed);
                                    values.push(written);
                                }
                                Err(error) => panic!("{error}"),
                            }
                        }
                        possible
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        println!("{} of 600 writes were interrupted", interrupted.load(Ordering::Relaxed));
        assert!(interrupted.into_inner() > 20, "nothing was interrupted");
        let node = store(nats, "reader");
        let listed = node.list(&owner("lost"), &all(), PATIENCE).unwrap().keys;
        let mut bytes = 0;
        for (key, possible) in expected.into_iter().flatten() {
            let value = node.get(&owner("lost"), &key, PATIENCE).unwrap();
            let number = value.as_ref().map(|value| value.len() as u64);
            assert!(possible.contains(&number), "{key:?} has {number:?} and may have {possible:?}");
            assert_eq!(listed.contains(&key), value.is_some(), "{key:?} {value:?} {listed:?}");
            bytes += value.map_or(0, |value| entry_bytes(&key, value.len() as u64));
        }
        // What counts against the quota is exactly what is there.
        let more = entry_bytes(&key("more"), 0);
        let full = node.set(&owner("lost"), &key("more"), b"", bytes + more - 1, PATIENCE);
        assert!(matches!(full, Err(StoreError::Full { found, .. }) if found == bytes + more), "{full:?} {bytes}");
        node.set(&owner("lost"), &key("more"), b"", bytes + more, PATIENCE).unwrap();
    });
}

/// A value whose length is its number.
fn value_of(number: u64) -> Vec<u8> {
    vec![b'v'; usize::try_from(number).unwrap()]
}

#[test]
fn a_write_that_was_decided_is_carried_out_by_the_next_node() {
    with_server(|nats| {
        let first = store(nats, "w1");
        for _ in 0..2 {
            first.set(&owner("notes"), &key("a"), b"old", QUOTA, PATIENCE).unwrap();
        }
        // What a node leaves that is lost after it decided to set another value: the first write is 1, the second 3.
        let decided = format!(
            "{}\nnew",
            r#"{"version":1,"keys":[[0,"a",3]],"last":{"id":77,"key":"a","before":4,"deletes":false}}"#
        );
        let runtime = tokio::runtime::Handle::current();
        runtime.block_on(async {
            let client = async_nats::connect(nats.url()).await.unwrap();
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Expected-Last-Subject-Sequence", "3");
            let stream = async_nats::jetstream::new(client);
            let sent = stream.publish_with_headers("$KV.test-tools.notes.catalog", headers, decided.into()).await;
            sent.unwrap().await.unwrap();
        });
        let other = store(nats, "w2");
        assert_eq!(other.get(&owner("notes"), &key("a"), PATIENCE).unwrap().unwrap(), b"old");
        other.set(&owner("notes"), &key("b"), b"", QUOTA, PATIENCE).unwrap();
        assert_eq!(other.get(&owner("notes"), &key("a"), PATIENCE).unwrap().unwrap(), b"new");
        assert_eq!(first.list(&owner("notes"), &all(), PATIENCE).unwrap().keys, [key("a"), key("b")]);
    });
}

#[test]
fn values_outlive_the_server_which_is_unavailable_meanwhile() {
    with_server(|nats| {
        let node = store(nats, "w1");
        let wait = Duration::from_millis(300);
        node.set(&owner("notes"), &key("a"), b"1", QUOTA, PATIENCE).unwrap();
        nats.stop();
        let began = Instant::now();
        let refused = node.set(&owner("notes"), &key("a"), b"2", QUOTA, wait).unwrap_err();
        assert!(matches!(&refused, StoreError::Unavailable(_)), "{refused}");
        assert!(!refused.to_string().contains("not known"), "{refused}");
        assert!(began.elapsed() < wait + Duration::from_secs(2));
        assert!(matches!(node.get(&owner("notes"), &key("a"), wait), Err(StoreError::Unavailable(_))));
        let absent = store(nats, "w2").get(&owner("notes"), &key("a"), wait).unwrap_err().to_string();
        assert!(absent.contains("cannot join the cell at"), "{absent}");
        nats.resume();
        assert_eq!(node.get(&owner("notes"), &key("a"), PATIENCE).unwrap().unwrap(), b"1");
        node.set(&owner("notes"), &key("a"), b"3", QUOTA, PATIENCE).unwrap();
        assert_eq!(store(nats, "w2").get(&owner("notes"), &key("a"), PATIENCE).unwrap().unwrap(), b"3");
    });
}

#[test]
fn a_server_without_jetstream_is_named() {
    let Some(nats) = Nats::start() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let refused = store(&nats, "w1").get(&owner("notes"), &key("a"), Duration::from_millis(300)).unwrap_err();
    assert!(refused.to_string().contains("start it with `-js`"), "{refused}");
}

#[test]
fn a_bucket_with_other_settings_or_a_damaged_catalog_is_refused() {
    with_server(|nats| {
        let runtime = tokio::runtime::Handle::current();
        let stream = runtime.block_on(async {
            let stream = async_nats::jetstream::new(async_nats::connect(nats.url()).await.unwrap());
            let config = async_nats::jetstream::stream::Config {
                name: "KV_test-tools".to_owned(),
                subjects: vec!["$KV.test-tools.>".to_owned()],
                ..Default::default()
            };
            stream.create_stream(config).await.unwrap();
            stream
        });
        let refused = store(nats, "w1").get(&owner("notes"), &key("a"), PATIENCE).unwrap_err().to_string();
        assert!(refused.contains("expected a history of 1"), "{refused}");
        let node = runtime.block_on(async {
            stream.delete_stream("KV_test-tools").await.unwrap();
            let node = Arc::new(store(nats, "w1"));
            node.open().await.unwrap();
            stream.publish("$KV.test-tools.notes.catalog", "{}\n".into()).await.unwrap().await.unwrap();
            node
        });
        let refused = node.set(&owner("notes"), &key("a"), b"", QUOTA, PATIENCE).unwrap_err().to_string();
        assert!(refused.contains("damaged"), "{refused}");
        runtime.block_on(async { stream.delete_stream("KV_test-tools").await.unwrap() });
        let refused = node.get(&owner("notes"), &key("a"), PATIENCE).unwrap_err().to_string();
        assert!(refused.contains("the bucket `test-tools` no longer exists"), "{refused}");
    });
}

fn median_of(operation: &dyn Fn(usize)) -> Duration {
    let mut times: Vec<Duration> = (0..200)
        .map(|round| {
            let began = Instant::now();
            operation(round);
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[100]
}

#[test]
fn prints_what_an_operation_costs() {
    with_server(|nats| {
        let node = store(nats, "w1");
        let value = [7; 1000];
        let key = |round: usize| key(&format!("k{}", round % 20));
        let set = median_of(&|round| node.set(&owner("costs"), &key(round), &value, QUOTA, PATIENCE).unwrap());
        let get = median_of(&|round| assert!(node.get(&owner("costs"), &key(round), PATIENCE).unwrap().is_some()));
        println!("median of 1 KB: set {set:?}, get {get:?}");
    });
}
