//! A host with the program `key-value`, whose functions return what the store returns.

use std::sync::Arc;

use fumehood::key_value::KeyValueStore;
use fumehood::permission::KeyValueQuota;
use fumehood::{Call, CallResult, Grant, Host, Load};
use fumehood_tests::component;
use serde_json::{Value, json};

pub(crate) async fn load(host: &Host, name: &str, quota: u64) {
    let grant = Grant::none().with_key_value(KeyValueQuota::new(quota).unwrap());
    load_with(host, name, grant).await;
}

pub(crate) async fn load_with(host: &Host, name: &str, grant: Grant) {
    host.load(Load::bytes(name, component("key-value").unwrap()).grant(grant)).await.unwrap();
}

pub(crate) fn host_with(store: Arc<dyn KeyValueStore>) -> Host {
    Host::builder().concurrency(16).key_value_store(store).build().unwrap()
}

pub(crate) async fn call(host: &Host, tool: &str, arguments: Value) -> CallResult {
    host.call(Call::new(tool, arguments)).await
}

/// Calls a step. Returns its result, or the name of its error.
pub(crate) async fn step(host: &Host, tool: &str, arguments: Value) -> Result<Value, String> {
    let result = call(host, tool, arguments).await;
    match result.error() {
        None => Ok(result.text().map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())),
        Some(error) => Err(error.message.trim_matches('"').to_owned()),
    }
}

pub(crate) async fn set(host: &Host, name: &str, key: &str, value: &str) -> Result<Value, String> {
    step(host, &format!("{name}__set"), json!({"key": key, "value": value})).await
}

pub(crate) async fn get(host: &Host, name: &str, key: &str) -> Result<Value, String> {
    step(host, &format!("{name}__get"), json!({"key": key})).await
}

pub(crate) async fn list(
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
