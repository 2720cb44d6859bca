//! Things that most tests need: a component, keys, a client with short limits, and a store.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use fumehood_core::time::Timestamp;
use fumehood_registry::client::{Progress, RegistryClient};
use fumehood_registry::credentials::CredentialSource;
use fumehood_registry::fetch::{FetchError, FetchedComponent, fetch};
use fumehood_registry::http::{HttpConfig, HttpLimits};
use fumehood_registry::policy::Policy;
use fumehood_registry::publish::{Publication, PublishReport};
use fumehood_registry::reference::OciReference;
use fumehood_registry::signature::{Algorithm, Provenance, SigningKey};
use fumehood_registry::store::Store;

pub(crate) const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// The key of a publisher, which operators trust.
pub(crate) static KEY: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::generate(Algorithm::P256).unwrap());
/// The key of somebody else.
pub(crate) static OTHER_KEY: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::generate(Algorithm::Ed25519).unwrap());

/// A component with one export, padded to about this many bytes.
pub(crate) fn component(padding: usize) -> Vec<u8> {
    let padding = "x".repeat(padding);
    let text = format!(
        r#"(component $greeter
            (core module $m (func (export "f") (result i32) i32.const 1))
            (core instance $i (instantiate $m))
            (func (export "f") (result u32) (canon lift (core func $i "f")))
            (@custom "padding" "{padding}"))"#
    );
    wat::parse_str(text).unwrap()
}

pub(crate) fn limits() -> HttpLimits {
    HttpLimits {
        connect: Duration::from_secs(20),
        response: Duration::from_secs(20),
        idle: Duration::from_secs(2),
        min_bytes_per_second: 1000,
        window: Duration::from_millis(500),
        retries: 2,
        retry_delay: Duration::from_millis(5),
        max_retry_delay: Duration::from_millis(50),
    }
}

pub(crate) fn client() -> RegistryClient {
    client_with(HttpConfig::new(), CredentialSource::none())
}

pub(crate) fn client_with(http: HttpConfig, credentials: CredentialSource) -> RegistryClient {
    RegistryClient::builder().http(http.limits(limits())).credentials(credentials).build().unwrap()
}

/// A store in a folder that is removed at the end.
pub(crate) struct TestStore {
    pub(crate) store: Store,
    pub(crate) folder: tempfile::TempDir,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { store: Store::open(folder.path().join("store")).unwrap(), folder }
    }

    /// Returns the names of all files of the store.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut names = Vec::new();
        for folder in ["blobs", "records"] {
            let entries = std::fs::read_dir(self.store.folder().join(folder)).unwrap();
            names.extend(entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()));
        }
        names
    }
}

pub(crate) fn provenance() -> Provenance {
    Provenance {
        source: Some("https://example.com/acme/greeter".into()),
        revision: Some("0123456789abcdef0123456789abcdef01234567".into()),
        builder: Some("https://example.com/workflows/build".into()),
        signed_at: Some("2027-01-01T00:00:00Z".into()),
    }
}

pub(crate) fn reference(host: &str, rest: &str) -> OciReference {
    format!("oci://{host}/{rest}").parse().unwrap()
}

/// Publishes a component of about this size, signed by `key` if there is one.
pub(crate) async fn publish(
    client: &RegistryClient,
    reference: &OciReference,
    padding: usize,
    key: Option<&SigningKey>,
) -> PublishReport {
    let publication = Publication::new(reference.clone(), component(padding), BTreeMap::new()).unwrap();
    let publication = match key {
        Some(key) => publication.sign(key, provenance()).unwrap(),
        None => publication,
    };
    publication.publish(client).await.unwrap()
}

pub(crate) fn policy() -> Policy {
    Policy::new().trusted_keys([KEY.public().clone()])
}

pub(crate) async fn get(
    client: &RegistryClient,
    store: &TestStore,
    policy: &Policy,
    reference: &OciReference,
) -> Result<FetchedComponent, FetchError> {
    fetch(client, &store.store, policy, reference, NOW, &mut |_: Progress| {}).await
}

/// Checks that nothing was stored, not even a part.
pub(crate) fn assert_nothing_stored(store: &TestStore) {
    assert_eq!(store.files(), Vec::<String>::new());
}

/// Writes DER as PEM.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    pkcs8::der::pem::encode_string(label, pkcs8::LineEnding::LF, der).unwrap()
}
