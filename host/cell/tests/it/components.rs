//! Components in JetStream: pushed whole or in part, fetched, and changed by others.

use std::time::Duration;

use async_nats::jetstream::{Context, stream::Stream};
use fumehood_cell::{ComponentStore, ComponentStoreError};
use fumehood_core::digest::Digest;

use super::nats::Nats;

/// A component of several chunks, the last of which is short.
fn component() -> Vec<u8> {
    (0..700_001_u32).map(|number| number.to_le_bytes()[usize::from(number % 3 == 0)]).collect()
}

async fn context(nats: &Nats) -> Context {
    async_nats::jetstream::new(async_nats::connect(nats.url()).await.unwrap())
}

async fn set(context: &Context, key: &str, value: &[u8]) {
    let subject = format!("$KV.test-components.{key}");
    context.publish(subject, value.to_vec().into()).await.unwrap().await.unwrap();
}

async fn remove(context: &Context, key: &str) {
    let stream: Stream = context.get_stream("KV_test-components").await.unwrap();
    stream.purge().filter(format!("$KV.test-components.{key}")).await.unwrap();
}

#[tokio::test]
async fn a_component_is_fetched_as_it_was_pushed() {
    let Some(nats) = Nats::start_with_jetstream() else { return };
    let gateway = ComponentStore::new(nats.server("g"));
    let worker = ComponentStore::new(nats.server("w"));
    let bytes = component();
    let other = b"another one".to_vec();
    let digest = Digest::of(&bytes);
    assert!(matches!(worker.fetch(digest).await, Err(ComponentStoreError::Missing(missing)) if missing == digest));
    assert!(gateway.push(&bytes).await.unwrap());
    assert!(gateway.push(&other).await.unwrap());
    assert_eq!(worker.fetch(digest).await.unwrap(), bytes);
    assert_eq!(worker.fetch(Digest::of(&other)).await.unwrap(), other);
    for gateway in [&gateway, &ComponentStore::new(nats.server("g2"))] {
        assert!(!gateway.push(&bytes).await.unwrap(), "it is there");
    }
}

#[tokio::test]
async fn gateways_that_push_at_once_push_one_component() {
    let Some(nats) = Nats::start_with_jetstream() else { return };
    let one = ComponentStore::new(nats.server("g1"));
    let other = ComponentStore::new(nats.server("g2"));
    let bytes = component();
    let (first, second) = tokio::join!(one.push(&bytes), other.push(&bytes));
    assert!(first.unwrap() | second.unwrap());
    assert_eq!(one.fetch(Digest::of(&bytes)).await.unwrap(), bytes);
}

#[tokio::test]
async fn what_is_not_whole_or_not_right_is_refused_and_pushed_again() {
    let Some(nats) = Nats::start_with_jetstream() else { return };
    let gateway = ComponentStore::new(nats.server("g"));
    let worker = ComponentStore::new(nats.server("w"));
    let bytes = component();
    let digest = Digest::of(&bytes);
    let key = |part: &str| format!("{}.{part}", digest.hex());
    gateway.push(&bytes).await.unwrap();
    let others = context(&nats).await;

    remove(&others, &key("1")).await;
    assert!(matches!(worker.fetch(digest).await, Err(ComponentStoreError::Partial(_))));
    assert!(gateway.push(&bytes).await.unwrap());
    assert_eq!(worker.fetch(digest).await.unwrap(), bytes);

    let mut changed = bytes[..256 << 10].to_vec();
    changed[7] ^= 1;
    set(&others, &key("0"), &changed).await;
    let refused = worker.fetch(digest).await.unwrap_err();
    assert!(
        matches!(refused, ComponentStoreError::Corrupted { expected, found } if expected == digest && found != digest)
    );
    assert!(refused.to_string().contains("it is not used"), "{refused}");
    assert!(gateway.push(&bytes).await.unwrap());
    assert_eq!(worker.fetch(digest).await.unwrap(), bytes);

    // A manifest that promises more than a worker has room for, or than there is.
    set(&others, &key("manifest"), br#"{"bytes": 99999999999, "chunks": 3}"#).await;
    assert!(matches!(worker.fetch(digest).await, Err(ComponentStoreError::TooLarge { .. })));
    set(&others, &key("manifest"), br#"{"bytes": 1000, "chunks": 4000000000}"#).await;
    let fetched = tokio::time::timeout(Duration::from_secs(30), worker.fetch(digest)).await.unwrap();
    assert!(matches!(fetched, Err(ComponentStoreError::Partial(_))));
    set(&others, &key("manifest"), b"no manifest").await;
    assert!(matches!(worker.fetch(digest).await, Err(ComponentStoreError::Partial(_))));
    assert!(gateway.push(&bytes).await.unwrap());
    assert_eq!(worker.fetch(digest).await.unwrap(), bytes);
}
