//! One compiled component under several names, each with a grant of its own.

use std::sync::Arc;

use fumehood::approval::Approval;
use fumehood::permission::KeyValueQuota;
use fumehood::{Call, Digest, ErrorKind, Grant, Host, Isolation, Limits, Load, LoadError};

const NOTES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/notes.wasm");
const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");

fn store() -> Grant {
    Grant::none().with_key_value(KeyValueQuota::new(1 << 20).unwrap())
}

fn write(component: &str) -> Call {
    Call::new(format!("{component}__write"), r#"{"title": "milk", "text": "two"}"#)
}

#[tokio::test]
async fn grants_differ_and_stores_are_apart() {
    let host = Host::builder().build().unwrap();
    let first = host.load(Load::path(NOTES)).await.unwrap();
    let again = host.load(Load::again("acme", &first).grant(store())).await.unwrap();
    host.load(Load::again("initech", &again).grant(store())).await.unwrap();
    assert_eq!(again.digest(), first.digest());
    assert_eq!(again.definitions(), first.definitions());

    assert!(!host.call(write("notes")).await.is_ok(), "the first one was granted no store");
    assert!(host.call(write("acme")).await.is_ok());
    let listed = host.call(Call::new("acme__list", "{}")).await;
    assert!(listed.text().unwrap().contains("milk"));
    let listed = host.call(Call::new("initech__list", "{}")).await;
    assert!(listed.is_ok() && !listed.text().unwrap().contains("milk"));
    let powers = |tool: &str| host.tool(tool).unwrap().powers().len();
    assert_eq!((powers("notes__list"), powers("acme__list")), (0, 1));
}

#[tokio::test]
async fn a_component_outlives_the_one_that_it_was_made_of() {
    let host = Host::builder().build().unwrap();
    let first = host.load(Load::path(NOTES)).await.unwrap();
    host.load(Load::again("acme", &first).grant(store())).await.unwrap();
    assert!(host.unload("notes"));
    drop(first);
    assert!(host.call(write("acme")).await.is_ok());
    assert_eq!(host.call(write("notes")).await.error().unwrap().kind, ErrorKind::UnknownTool);
}

#[tokio::test]
async fn what_cannot_be_shared_is_refused() {
    let host = Host::builder().build().unwrap();
    let first = host.load(Load::path(NOTES)).await.unwrap();
    let other = Host::builder().build().unwrap();
    let error = join_causes(other.load(Load::again("acme", &first)).await.unwrap_err());
    assert!(error.contains("loaded in another host"), "{error}");
    let isolated = Load::again("acme", &first).isolation(Isolation::Process);
    let error = join_causes(host.load(isolated).await.unwrap_err());
    assert!(error.contains("worker process"), "{error}");
    let error = join_causes(host.load(Load::again("acme", &first).strict_imports()).await.unwrap_err());
    assert!(error.contains("key-value"), "{error}");
    let error = host.load(Load::again("acme", &first).digest(Digest::of(b"other"))).await.unwrap_err();
    assert!(matches!(error, LoadError::Digest { .. }), "{error}");
    let error = host.load(Load::again("notes", &first)).await.unwrap_err();
    assert!(matches!(error, LoadError::NameTaken(_)), "{error}");
    assert_eq!(host.tools().len(), first.definitions().len());
}

fn join_causes(error: LoadError) -> String {
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn an_approval_covers_the_grant() {
    let host = Host::builder().build().unwrap();
    let first = host.load(Load::path(NOTES)).await.unwrap();
    host.load(Load::again("acme", &first).grant(store()).approval(None)).await.unwrap();
    assert_eq!(host.call(write("acme")).await.error().unwrap().kind, ErrorKind::NeedsApproval);
}

#[tokio::test]
async fn the_same_component_stays() {
    let host = Host::builder().build().unwrap();
    let load = || Load::path(NOTES).grant(store());
    let (one, other) = tokio::join!(host.ensure_loaded(load()), host.ensure_loaded(load()));
    assert_eq!(one.unwrap().digest(), other.unwrap().digest());
    let before = host.tools();
    let bytes = Load::bytes("notes", std::fs::read(NOTES).unwrap()).grant(store());
    let again = host.ensure_loaded(bytes).await.unwrap();
    host.ensure_loaded(Load::again("notes", &again).grant(store())).await.unwrap();
    let is_same = before.iter().zip(&host.tools()).all(|(before, now)| Arc::ptr_eq(before, now));
    assert!(is_same && host.call(write("notes")).await.is_ok());
}

#[tokio::test]
async fn another_component_is_refused_by_what_differs() {
    let host = Host::builder().build().unwrap();
    host.ensure_loaded(Load::path(NOTES)).await.unwrap();
    let limits = Limits::default().fuel(1);
    for (load, expected) in [
        (Load::path(CALCULATOR).named("notes"), "other bytes"),
        (Load::path(NOTES).grant(store()), "another grant"),
        (Load::path(NOTES).limits(limits), "other limits"),
        (Load::path(NOTES).isolation(Isolation::InProcess), "other options"),
    ] {
        let error = host.ensure_loaded(load).await.unwrap_err();
        assert!(matches!(&error, LoadError::Different { difference, .. } if *difference == expected), "{error}");
    }
    host.reload(Load::path(NOTES).grant(store())).await.unwrap();
    assert!(host.ensure_loaded(Load::path(NOTES).grant(store())).await.is_ok());
    assert!(host.call(write("notes")).await.is_ok());
}

#[tokio::test]
async fn an_approval_counts_from_the_next_load_on() {
    let host = Host::builder().build().unwrap();
    host.ensure_loaded(Load::path(NOTES).grant(store()).approval(None)).await.unwrap();
    assert_eq!(host.call(write("notes")).await.error().unwrap().kind, ErrorKind::NeedsApproval);
    let parts = host.component("notes").unwrap().approval().unwrap().parts().clone();
    let approval = Approval::new(parts);
    host.ensure_loaded(Load::path(NOTES).grant(store()).approval(Some(approval))).await.unwrap();
    assert!(host.call(write("notes")).await.is_ok());
}
