//! The sandbox, with any set of features.

use fumehood::permission::http::{HttpGrant, HttpLimits};
use fumehood::{Call, ErrorKind, Grant, Host, Load, LoadError};
use serde_json::json;

const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");

async fn load_with(rule: &str) -> Result<(), LoadError> {
    let rules = vec![rule.parse().unwrap()];
    let grant = Grant::none().with_http(HttpGrant::new(rules, Vec::new(), HttpLimits::default()).unwrap());
    let host = Host::builder().build().unwrap();
    host.load(Load::path(CALCULATOR).grant(grant)).await.map(drop)
}

#[tokio::test]
async fn runs_calls_behind_the_gate() {
    let host = Host::builder().build().unwrap();
    host.load(Load::path(CALCULATOR)).await.unwrap();
    let sum = host.call(Call::new("calculator__add", json!({"a": 3, "b": 5}))).await;
    assert_eq!(sum.text().as_deref(), Some(r#"{"result":8}"#));
    let refused = host.call(Call::new("calculator__add", json!({"a": "3", "b": 5}))).await;
    assert_eq!(refused.error().unwrap().kind, ErrorKind::InvalidArguments);
}

#[tokio::test]
async fn plain_http_needs_no_tls() {
    load_with("GET http://example.com/**").await.unwrap();
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn https_is_granted_with_tls() {
    load_with("GET https://example.com/**").await.unwrap();
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn grant_of_https_is_refused_without_tls() {
    let error = load_with("GET https://example.com/**").await.unwrap_err();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    assert!(text.contains("this build of the host has no TLS; build it with the feature `tls`"), "{text}");
}
